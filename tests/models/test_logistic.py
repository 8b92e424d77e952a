"""Logistic regression against scikit-learn's, and what is chosen on validation nodes."""

from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.graph.graph import Graph
from graphsde.models import logistic
from graphsde.models.files import load_model
from graphsde.models.logistic import C_GRID, AveragedRows, Logistic, LogisticHops, regularised_loss
from graphsde.prediction import Perturb

from support import block_graph


def averaged(graph: Graph, hops: int) -> np.ndarray:
    dense = graph.features.toarray() if graph.is_sparse else graph.features  # type: ignore[union-attr]
    return np.linalg.matrix_power(graph.adjacency.normalized.toarray().astype(np.float64), hops) @ dense


def oracle(x: np.ndarray, graph: Graph, c: float) -> LogisticRegression:
    assert graph.train_mask is not None and graph.labels is not None
    model = LogisticRegression(C=c, tol=1e-10, max_iter=20_000)
    return model.fit(x[graph.train_mask], graph.labels[graph.train_mask])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("hops", "c"), [(0, 0.01), (0, 10.0), (1, 1.0), (2, 100.0), (3, 1.0)])
def test_it_is_scikit_learns_optimum_on_averaged_features(
    blocks: Graph, hops: int, c: float, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic, "GRADIENT_TOLERANCE", 1e-9)
    monkeypatch.setattr(logistic, "MOST_STEPS", 10_000)
    graph = blocks.with_features(sp.csr_array(np.maximum(blocks.features - 1, 0))) if sparse else blocks
    model = LogisticHops(scaling="none", hops=hops, c=c, temperature=False).fit(graph)
    expected = oracle(averaged(graph, hops), graph, c)
    prediction = model.predict(graph)
    np.testing.assert_allclose(prediction.probs[0], expected.predict_proba(averaged(graph, hops)), atol=1e-6)
    np.testing.assert_allclose(prediction.logits[0], expected.decision_function(averaged(graph, hops)), atol=1e-4)
    np.testing.assert_allclose(model.weights, expected.coef_.T, atol=1e-4)


def test_two_classes_have_two_logits() -> None:
    """With weights w/2 and -w/2 the ridge is half of that on w: our C is half of scikit-learn's."""
    graph = block_graph(classes=2)
    prediction = Logistic(scaling="none", c=0.5, temperature=False).fit(graph).predict(graph)
    expected = oracle(graph.features, graph, 1.0).predict_proba(graph.features)
    assert prediction.logits.shape == (1, graph.num_nodes, 2)
    np.testing.assert_allclose(prediction.probs[0], expected, atol=1e-4)
    np.testing.assert_allclose(prediction.logits.sum(-1), 0, atol=1e-10)


@pytest.mark.parametrize("hops", [0, 1, 3])
@pytest.mark.parametrize("rows", [2, 30])
def test_the_map_is_the_product_formed_or_not(blocks: Graph, hops: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    features = sp.csr_array(sp.random(30, 40, density=0.05, rng=rng, format="csr"))
    operator = blocks.adjacency.normalized.astype(np.float64)
    chosen = np.sort(rng.permutation(30)[:rows])
    linear = AveragedRows(features, operator, hops, chosen)
    assert len(linear.factors) == (1 if rows == 2 or hops == 0 else hops + 1)  # few rows are worth forming
    dense = (np.linalg.matrix_power(operator.toarray(), hops) @ features.toarray())[chosen]
    weights, values = rng.normal(size=(40, 3)), rng.normal(size=(rows, 3))
    np.testing.assert_allclose(linear.times(weights), dense @ weights, atol=1e-12)
    np.testing.assert_allclose(linear.transposed_times(values), dense.T @ values, atol=1e-12)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_rows_some_at_a_time_are_the_same_bits(blocks: Graph, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features = sp.csr_array(sp.random(30, 6, density=0.3, rng=rng, format="csr"))
    features = features if kind == "sparse" else features.toarray()
    operator, weights = blocks.adjacency.normalized.astype(np.float64), rng.normal(size=(6, 3))
    whole = AveragedRows(features, operator, 3, np.arange(3, 20))
    monkeypatch.setattr(logistic, "REACHED_AT_ONCE", 4 * 30)
    assert np.array_equal(AveragedRows(features, operator, 3, np.arange(3, 20)).times(weights), whole.times(weights))
    monkeypatch.setattr(logistic, "MOST_REACHED", 0)  # by columns: the same up to rounding
    by_columns = AveragedRows(features, operator, 3, np.arange(3, 20))
    assert len(by_columns.factors) == len(whole.factors) == 1
    np.testing.assert_allclose(by_columns.times(weights), whole.times(weights), atol=1e-12)


def test_a_large_graph_is_predicted_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gs.split(gs.synthetic(500, classes=3))
    model = Logistic(c=1.0).fit(graph)
    whole = model.predict(graph).mean
    monkeypatch.setattr(logistic, "NUMBERS_AT_ONCE", 64 * 7)
    np.testing.assert_allclose(model.predict(graph).mean, whole, rtol=1e-12)
    with gs.within_memory("2G"):  # and with less memory the estimate is of some rows too
        small = Logistic(c=1.0)._bytes(graph)
        assert small < 2**26 + 500 * 64 * 8 + 500 * 3 * 8 * 6


def test_memory_of_many_hops_grows_with_nodes_alone() -> None:
    """Rows of Â³ are nearly full where there are hubs: 12,000 of 20,000 nodes once took a gigabyte."""
    graph = gs.synthetic(20_000, features=8)
    operator = graph.adjacency.normalized.astype(np.float64)
    features = graph.features.astype(np.float64)
    tracemalloc.start()
    AveragedRows(features, operator, 3, np.arange(12_000))
    AveragedRows(features, operator, 3, np.arange(3_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def test_the_gradient_is_that_of_the_loss(blocks: Graph) -> None:
    inputs = AveragedRows(blocks.features.astype(float), blocks.adjacency.normalized.astype(float), 2, np.arange(9))
    width, start = blocks.features.shape[1], np.random.default_rng(0).normal(size=blocks.features.shape[1] * 3 + 3)

    def part(point: np.ndarray, which: int) -> np.ndarray:
        found = regularised_loss(point[:-3].reshape(width, 3), point[-3:], inputs, blocks.labels[:9], 2.0)
        return np.asarray(found[0]) if which == 0 else np.concatenate([found[1].ravel(), found[2]])

    assert check_grad(lambda p: float(part(p, 0)), lambda p: part(p, 1), start) < 1e-5


def test_c_and_hops_have_the_lowest_validation_nll(blocks: Graph) -> None:
    """Chosen among all, each with its own temperature; the choice is then what a fit with it alone gives."""
    rng = np.random.default_rng(1)
    graph = block_graph(per_class=40)
    graph = graph.with_features((graph.features + rng.normal(0, 3, graph.features.shape)).astype(np.float32))
    model = LogisticHops().fit(graph)
    rows = np.flatnonzero(graph.val_mask)

    def nll(one: Logistic) -> float:
        return -float(np.log(one.predict(graph).probs[0][rows, graph.labels[rows]]).mean())

    trials = {(c, hops): nll(LogisticHops(c=c, hops=hops).fit(graph)) for c in C_GRID for hops in range(4)}
    # a warm start ends within the tolerance of the solver, not at the same bits
    assert nll(model) == pytest.approx(min(trials.values()), abs=1e-3)
    assert trials[model.c, model.hops] == pytest.approx(nll(model), abs=1e-3)
    assert model.hops > 0 and nll(model) < nll(Logistic().fit(graph))


def test_neighbours_that_mislead_are_left_out() -> None:
    labels = np.arange(120) % 2
    rng = np.random.default_rng(0)
    edges = np.stack([rng.integers(0, 120, 600), rng.integers(0, 120, 600)])
    edges = edges[:, edges[0] != edges[1]]
    role = np.arange(120) // 2 % 3
    features = rng.normal(size=(120, 4)) + 2 * np.eye(2, 4)[labels]
    masks = {"train_mask": role == 0, "val_mask": role == 1, "test_mask": role == 2}
    graph = gs.from_arrays(features, edges, labels=labels, duplicates="first", **masks)
    assert LogisticHops().fit(graph).hops == 0


def test_a_class_without_training_nodes_gets_nothing(blocks: Graph) -> None:
    train = blocks.train_mask & (blocks.labels != 1)
    graph = blocks.with_masks(train=train, val=blocks.val_mask, test=blocks.test_mask)
    prediction = Logistic().fit(graph).predict(graph)
    assert prediction.probs[..., 1].max() < 1e-20 and np.isfinite(prediction.logits).all()
    kept = prediction.logits[0][:, [0, 2]] / prediction.temperature
    np.testing.assert_allclose(prediction.probs[0][:, [0, 2]], np.exp(log_softmax(kept, axis=1)), atol=1e-12)


def test_without_validation_nodes_both_choices_must_be_made(blocks: Graph) -> None:
    graph = blocks.with_masks(train=blocks.train_mask)
    with pytest.raises(BadInput, match="E-SPLIT-EMPTY"):
        LogisticHops(c=1.0).fit(graph)
    assert LogisticHops(c=1.0, hops=1).fit(graph).predict(graph).temperature == 1.0
    assert Logistic(c=1.0).fit(graph).hops == 0


def test_files_have_coefficients_as_tensors(blocks: Graph, tmp_path: Path) -> None:
    model = LogisticHops().fit(blocks)
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert isinstance(loaded, LogisticHops) and (loaded.c, loaded.hops) == (model.c, model.hops)
    np.testing.assert_array_equal(loaded.predict(blocks).probs, model.predict(blocks).probs)
    tensors, values = model.state()
    loaded.class_names = blocks.class_names
    with pytest.raises(ValueError, match="coefficients"):
        loaded.restore({**tensors, "weights": tensors["weights"][:-1]}, values)


def test_words_get_rows_of_norm_one_on_every_graph(blocks: Graph) -> None:
    words = (np.random.default_rng(0).random((30, 40)) < 0.1).astype(np.float32)
    for graph in (blocks.with_features(words), dataclasses.replace(blocks.with_features(words), benchmark="cora")):
        for model in (Logistic(), LogisticHops()):
            assert model.fit(graph).settings.scaling == model.encoder.scaling == "l2"


def test_it_can_be_interrupted_and_has_no_gradient(blocks: Graph) -> None:
    guard = InterruptGuard()
    guard.received = 15
    with pytest.raises(Interrupted):
        Logistic().fit(blocks, interrupt=guard)
    with pytest.raises(BadUsage, match="no gradient"):
        Logistic().fit(blocks).predict(blocks, perturb=Perturb(0.1))
    assert gs.score("energy", Logistic().fit(blocks).predict(blocks), blocks).shape == (30,)
