"""Aleatoric and epistemic of the default model: how they are made, kept and handed on, and that they behave."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import graphsde as gs
from graphsde.datasets.splits import make_split
from graphsde.graph.graph import Graph
from graphsde.models.base import encode
from graphsde.models.files import load_model
from graphsde.models.lgnsde.last_layer import MOST_FEATURES, last_layer_features
from graphsde.models.neural import Inputs
from graphsde.models.race import listed_candidates
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.state_posterior import StatePosterior

from support import block_graph, needs_real_data

MEMBERS = {one.name: one.settings for one in listed_candidates("lgnsde")}


def fitted(graph: Graph, epochs: int = 4, **settings: Any) -> gs.LGNSDE:
    """Without the calibrator, which has its own part in the split."""
    given = {"preset": "auto", "race": False, "epochs": epochs, "seed": 0, "calibrator": None}
    return gs.LGNSDE(**{**given, **settings}).fit(graph)


def as_shipped(graph: Graph) -> ClassPrediction:
    """What the default predicts, but for the race and the number of epochs."""
    return answer(fitted(graph, epochs=60, calibrator="distance-aware"), graph)


def answer(model: gs.LGNSDE, graph: Graph, samples: int = 8) -> ClassPrediction:
    prediction = model.predict(graph, samples=samples)
    assert isinstance(prediction, ClassPrediction)
    return prediction


def inputs_of(model: gs.LGNSDE, graph: Graph) -> Inputs:
    assert model.encoder is not None
    return Inputs(encode(model.encoder, graph), graph.adjacency.operator)


@pytest.mark.parametrize("member", sorted(MEMBERS))
def test_every_member_splits_its_entropy_and_keeps_its_probabilities(blocks: Graph, member: str) -> None:
    model = fitted(blocks, **MEMBERS[member])
    found = answer(model, blocks)
    assert found.kind == ("samples" if member == "noisy" else "gaussian") and found.known_state is not None
    unsure = found.total > 1e-6  # a node that is certain to rounding has nothing to split
    assert unsure.any() and (found.epistemic[unsure] > 0).all() and (found.aleatoric[unsure] > 0).all()
    np.testing.assert_allclose(found.total, found.aleatoric + found.epistemic)
    model._posterior = None
    before = answer(model, blocks)
    assert np.array_equal(before.probs, found.probs) and np.array_equal(before.total, found.total)
    assert before.kind == ("samples" if member == "noisy" else "deterministic") and before.known_state is None
    if member == "noisy":  # the disagreement of samples stays in, and what labels leave unknown adds to it
        assert (found.epistemic > before.epistemic).all()


@pytest.mark.parametrize("member", ["far", "blocks", "linear", "wide", "rest-normed"])
def test_the_last_layer_is_linear_in_its_features(member: str) -> None:
    """Logits without noise are an affine map of ψ; of blocks that learn, where coefficients agree over classes."""
    graph = block_graph(per_class=120)  # more nodes than columns, or anything would fit
    model = fitted(graph, **MEMBERS[member])
    if model.module.drift.raw is not None and model.settings.state == "logits":
        with torch.no_grad():
            model.module.drift.raw.copy_(
                model.module.drift.raw.view(3, -1).mean(1, keepdim=True).expand(-1, 3).flatten()
            )
    psi = last_layer_features(model.module, inputs_of(model, graph))
    assert psi is not None
    design = np.column_stack([psi.double().numpy(), *_constants(model, graph)])
    logits = answer(model, graph).logits
    assert logits is not None
    rest = logits[0] - design @ np.linalg.lstsq(design, logits[0].astype(np.float64), rcond=None)[0]
    assert np.abs(rest).max() < 1e-4 * np.abs(logits).max()


def _constants(model: gs.LGNSDE, graph: Graph) -> list[np.ndarray]:
    """What a bias becomes under the filters: one column for each block of logits."""
    if model.settings.state == "wide":
        return [np.ones(graph.num_nodes)]
    kappas = model.module.drift.kappa().detach().double().reshape(model.settings.hidden, -1).mean(1)
    columns = []
    for kappa in kappas.tolist():
        column = torch.ones(graph.num_nodes, 1)
        for _ in range(model.settings.steps):
            column = kappa * (graph.adjacency.operator @ column) + (1 - abs(kappa))
        columns.append(column[:, 0].double().numpy())
    return columns


def test_variance_comes_from_the_features_of_training_nodes(blocks: Graph) -> None:
    model = fitted(blocks)
    psi = last_layer_features(model.module, inputs_of(model, blocks))
    assert psi is not None and model._posterior is not None
    found = answer(model, blocks)
    assert found.logits is not None
    rows, val = (torch.from_numpy(np.flatnonzero(blocks.role(name))) for name in ("train", "val"))
    logits = found.logits[0].astype(np.float64)[val.numpy()] / found.temperature
    prior = np.mean((logits - logits.mean(1, keepdims=True)) ** 2)
    p = found.mean[val.numpy()]
    own = StatePosterior.of(psi, rows, prior=float(prior), curvature=float(np.mean(p * (1 - p))))
    variance = model.state_variance(inputs_of(model, blocks))
    torch.testing.assert_close(own.variance(psi), variance, rtol=1e-5, atol=1e-8)


def test_many_features_are_projected_and_sparse_ones_stay_sparse_until_then() -> None:
    graph = block_graph(features=2 * MOST_FEATURES)
    model = fitted(graph, **MEMBERS["linear"])
    psi = last_layer_features(model.module, inputs_of(model, graph))
    assert psi is not None and psi.shape == (30, MOST_FEATURES)
    assert (answer(model, graph).epistemic > 0).all()


def test_saving_keeps_it_and_files_without_it_predict_as_before(blocks: Graph, tmp_path: Path) -> None:
    model = fitted(blocks)
    found = answer(model, blocks)
    again = load_model(model.save(tmp_path / "model"))
    same = again.predict(blocks)
    assert isinstance(again, gs.LGNSDE) and isinstance(same, ClassPrediction)
    assert same.kind == "gaussian" and np.array_equal(same.epistemic, found.epistemic)
    tensors, values = model.state()
    again.restore({name: one for name, one in tensors.items() if not name.startswith("posterior.")}, values)
    former = again.predict(blocks)
    assert isinstance(former, ClassPrediction) and former.kind == "deterministic" and former.known_state is None
    assert np.array_equal(former.probs, found.probs) and np.isnan(former.epistemic).all()


def test_going_on_from_a_model_makes_it_anew_from_the_labels_there_are(blocks: Graph) -> None:
    few = fitted(blocks)
    masks = {name: mask.copy() for name, mask in blocks.masks.items()}
    masks["train"] |= masks["calibration"]
    masks["calibration"][:] = False
    more = fitted_from(few, blocks.with_masks(**masks))
    assert few._posterior is not None and more._posterior is not None
    count = float(more._posterior.gram.trace()), float(few._posterior.gram.trace())
    assert count == (pytest.approx(15), pytest.approx(12))


def fitted_from(previous: gs.LGNSDE, graph: Graph) -> gs.LGNSDE:
    return gs.LGNSDE(preset="auto", race=False, epochs=4, seed=0, calibrator=None).start_from(previous).fit(graph)


def test_new_nodes_and_graphs_without_labels_have_it(blocks: Graph) -> None:
    model = fitted(blocks)
    some = blocks.subgraph(np.arange(5, 25))
    bare = replace(some.without_target(), masks=MappingProxyType({}))
    assert np.array_equal(answer(model, some).epistemic, answer(model, bare).epistemic)
    assert (answer(model, bare).epistemic > 0).all()


@pytest.mark.parametrize("preset", ["universal", "closed-world", "open-world", "paper", "released"])
def test_other_presets_stay_what_they_are(blocks: Graph, preset: str) -> None:
    found = answer(gs.LGNSDE(preset=preset, epochs=2).fit(blocks), blocks)
    assert found.kind == "samples" and found.known_state is None
    quiet = answer(gs.LGNSDE(preset=preset, epochs=2, sigma=0.0, kl_weight=0.0).fit(blocks), blocks)
    assert quiet.kind == "deterministic" and quiet.known_state is None
    twin = gs.GNODE(preset="auto", race=False, epochs=2).fit(blocks).predict(blocks)
    assert twin.kind == "deterministic"


def test_an_ensemble_of_it_has_both_sources(blocks: Graph) -> None:
    base = {"preset": "auto", "race": False, "epochs": 4}
    found = gs.Ensemble(base="lgnsde", members=2, base_settings=base, temperature=True).fit(blocks).predict(blocks)
    assert isinstance(found, ClassPrediction) and found.known_state is not None
    assert (found.epistemic >= replace(found, known_state=None).epistemic).all()


# what it must do on real graphs, with few epochs and the rule's first member


def with_labels(graph: Graph, per_class: int) -> Graph:
    """So many training nodes a class, nested, from nodes that are neither test nor validation nodes."""
    assert graph.labels is not None
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    train = np.zeros(graph.num_nodes, dtype=bool)
    free = ~(graph.role("test") | graph.role("val"))
    for one in range(graph.num_classes):
        train[order[(graph.labels[order] == one) & free[order]][:per_class]] = True
    return graph.with_masks(**{**graph.masks, "train": train})


@needs_real_data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_it_falls_with_more_labels(name: str) -> None:
    graph = gs.load(name)
    test = graph.role("test")
    means, shares = [], []
    for per_class in (5, 20, 60):
        given = with_labels(graph, per_class)
        found = as_shipped(given)
        means.append(found.epistemic[test].mean())
        shares.append(found.epistemic[test].sum() / found.total[test].sum())
    # 0.22, 0.12, 0.05 nats on Cora: what is known grows faster than the entropy falls
    assert means[0] > 1.4 * means[1] > 1.4**2 * means[2]
    assert shares[0] > shares[1] > shares[2]


@cache
def unknown_classes(name: str) -> tuple[Graph, ClassPrediction]:
    graph = gs.load(name)
    graph = make_split(graph, "label-leave-out").apply(graph)
    return graph, as_shipped(graph)


def ranked(values: np.ndarray, known: np.ndarray, unknown: np.ndarray) -> float:
    return float(roc_auc_score(np.repeat([0, 1], [known.sum(), unknown.sum()]), np.r_[values[known], values[unknown]]))


@needs_real_data
@pytest.mark.parametrize(("name", "least"), [("cora", 0.8), ("citeseer", 0.72)])
def test_it_is_higher_for_nodes_of_unknown_classes(name: str, least: float) -> None:
    graph, found = unknown_classes(name)
    known, unknown = graph.role("test"), graph.role("ood")
    assert ranked(found.epistemic, known, unknown) > least
    # not only because they have more entropy: of that, the larger share is epistemic
    assert ranked(found.epistemic / found.total, known, unknown) > 0.6


@needs_real_data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_it_is_not_a_function_of_degree(name: str) -> None:
    graph, found = unknown_classes(name)
    degree = np.diff(graph.adjacency.incoming.indptr)
    assert abs(spearmanr(found.epistemic, degree).statistic) < 0.5
    pairs, won = 0, 0.0
    for one in np.unique(degree):
        known, unknown = (graph.role(role) & (degree == one) for role in ("test", "ood"))
        if known.any() and unknown.any():
            count = int(known.sum() * unknown.sum())
            pairs, won = pairs + count, won + count * ranked(found.epistemic, known, unknown)
    assert won / pairs > 0.7  # among nodes of equal degree
