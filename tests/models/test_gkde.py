"""The evidential network with kernel prior: prior and losses against closed forms, training end to end."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import shortest_path
from torch.distributions import Dirichlet, kl_divergence

import graphsde as gs
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.models import gkde
from graphsde.models.gkde import GKDE, kernel_prior, squared_risk
from graphsde.uncertainty.scores.registry import score

from support import block_graph, needs_real_data

QUICK = {"epochs": 6, "hidden": 8}


def test_prior_on_a_path_by_hand() -> None:
    path = gs.from_arrays(np.zeros((5, 1)), np.array([[0, 1, 2], [1, 2, 3]])).adjacency
    prior = kernel_prior(path, np.array([0, 2]), np.array([1, 0]), 3)
    k = [math.exp(-(d**2) / 2) for d in range(4)]
    np.testing.assert_allclose(prior[:, 1], [1 + k[0], 1 + k[1], 1 + k[2], 1 + k[3], 1], rtol=1e-12)
    np.testing.assert_allclose(prior[:, 0], [1 + k[2], 1 + k[1], 1 + k[0], 1 + k[1], 1], rtol=1e-12)
    np.testing.assert_array_equal(prior[:, 2], 1)


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("directed", [False, True])
def test_prior_equals_the_sum_over_all_distances(
    monkeypatch: pytest.MonkeyPatch, bandwidth: float, directed: bool
) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((60, 60), density=0.03, rng=rng, format="csr")
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix = sp.csr_array(matrix if directed else matrix + matrix.T)
    train, labels = rng.permutation(60)[:25], rng.integers(4, size=25)
    hops = shortest_path(matrix, unweighted=True, directed=directed)[train]  # from training node to node
    expected = 1 + np.exp(-(hops**2) / (2 * bandwidth**2)).T @ np.eye(4)[labels]
    monkeypatch.setattr(gkde, "BLOCK_FLOATS", 60 * 7)
    found = kernel_prior(Adjacency(matrix, directed=directed), train, labels, 4, bandwidth)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.isinf(hops).any()


def test_squared_risk_is_the_expected_squared_error() -> None:
    alpha = torch.tensor([[2.0, 5.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([1, 0])
    made = Dirichlet(alpha)
    target = torch.eye(3, dtype=torch.float64)[labels]
    expected = ((target - made.mean).square() + made.variance).sum(-1)
    torch.testing.assert_close(squared_risk(alpha, labels), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_loss_has_its_three_parts(blocks: Graph, reduction: str) -> None:
    model = GKDE(**QUICK, dropout=0.0, prior_weight=0.2, teacher_weight=0.7, teacher_ramp=10, reduction=reduction)
    model._lesson = lesson = torch.softmax(torch.randn(30, 3, generator=torch.Generator().manual_seed(0)).double(), -1)
    learner = model.learner(blocks)
    with torch.no_grad():
        alpha = learner.module(learner.inputs).logits.exp()
        mean = alpha / alpha.sum(-1, keepdim=True)
        parts = [
            squared_risk(alpha[learner.train], learner.train_labels),
            kl_divergence(Dirichlet(alpha), Dirichlet(learner.prior)),
            (mean * (mean / lesson).log()).sum(-1) / 3,  # per class, of which there are three
        ]
        gather = torch.mean if reduction == "mean" else torch.sum
        for epoch, ramp in ((4, 0.4), (10, 1.0), (99, 1.0)):
            expected = gather(parts[0]) + 0.2 * gather(parts[1]) + 0.7 * ramp * gather(parts[2])
            assert float(learner.loss(epoch)) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("classes", [3, 5])
def test_the_teachers_term_is_a_mean_over_nodes_and_classes(classes: int) -> None:
    """By hand, with equal probabilities 1/C and a teacher that gives one class ½ and shares the rest."""
    graph = block_graph(classes=classes)
    lesson = torch.full((graph.num_nodes, classes), 0.5 / (classes - 1), dtype=torch.float64)
    lesson[:, 0] = 0.5
    losses = []
    for weight in (0.0, 1.0):
        model = GKDE(**QUICK, dropout=0.0, prior_weight=0.0, teacher_weight=weight, teacher_ramp=1)
        model._lesson = lesson
        learner = model.learner(graph)
        with torch.no_grad():
            learner.module.second.weight.zero_()
            learner.module.second.bias.zero_()
            losses.append(float(learner.loss(1)))
    p, q = 1 / classes, 0.5 / (classes - 1)
    by_hand = (p * math.log(p / 0.5) + (classes - 1) * p * math.log(p / q)) / classes
    assert losses[1] - losses[0] == pytest.approx(by_hand, rel=1e-6)


def test_concentrations_are_one_plus_the_exponential_and_cannot_overflow(blocks: Graph) -> None:
    module = GKDE(**QUICK).learner(blocks).module.eval()
    inputs = GKDE(**QUICK).learner(blocks).inputs
    with torch.no_grad():
        module.second.weight.zero_()
        module.second.bias.copy_(torch.tensor([0.0, 1.0, 1e30]))
        alpha = module(inputs).logits.exp()
    expected = torch.tensor([2.0, 1 + math.e, 1 + math.exp(30)], dtype=torch.float64)
    torch.testing.assert_close(alpha, expected.expand_as(alpha))


def test_the_teacher_teaches(blocks: Graph) -> None:
    """With nothing but the teacher's term the student becomes the teacher."""
    model = GKDE(hidden=16, dropout=0.0, prior_weight=0.0, teacher_weight=300.0, teacher_ramp=1, epochs=300, lr=0.02)
    student = model.fit(blocks).predict(blocks)
    teacher = model.teacher().fit(blocks).predict(blocks)
    assert np.abs(student.mean - teacher.mean).max() < 0.05
    alone = GKDE(**QUICK, teacher_weight=0.0).fit(blocks)
    assert alone._lesson is None and alone.history
    assert not np.array_equal(alone.predict(blocks).probs, GKDE(**QUICK).fit(blocks).predict(blocks).probs)


def test_a_heavy_prior_holds_the_evidence_to_the_distances() -> None:
    """Nodes of a component without a training node are to have no evidence."""
    one, two = block_graph(seed=0), block_graph(seed=1)
    n = one.num_nodes
    graph = gs.from_arrays(
        np.vstack([one.features, two.features]),
        np.hstack([one.adjacency.edge_index(), two.adjacency.edge_index() + n]),
        labels=np.concatenate([one.labels, two.labels]),
        train_mask=np.concatenate([one.train_mask, np.zeros(n, bool)]),
        val_mask=np.concatenate([one.val_mask, np.zeros(n, bool)]),
        test_mask=np.concatenate([one.test_mask, np.ones(n, bool)]),
    )
    held = GKDE(hidden=16, prior_weight=0.3, epochs=200, seed=0).fit(graph).predict(graph)
    free = GKDE(hidden=16, prior_weight=0.0, epochs=200, seed=0).fit(graph).predict(graph)
    assert score("vacuity", held)[n:].mean() > 1.3 * score("vacuity", held)[:n].mean()
    assert score("vacuity", held)[n:].mean() > score("vacuity", free)[n:].mean()


def test_the_estimate_includes_the_teacher_but_trains_none(blocks: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gkde.GCN, "fit", lambda *args, **options: pytest.fail("an estimate trained the teacher"))
    assert GKDE(**QUICK).estimate(blocks).seconds > 0


@needs_real_data
def test_cora_is_classified_as_well_as_by_its_teacher() -> None:
    graph = gs.make_split(gs.load("cora"), "planetoid").apply(gs.load("cora"))
    prediction = GKDE(seed=0, epochs=200).fit(graph).predict(graph)
    assert gs.evaluate(prediction, graph)["accuracy"] > 0.80
