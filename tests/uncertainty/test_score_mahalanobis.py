"""Distances of embeddings: against scikit-learn, against the shrinkage formula written out, and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.scores import score


def graph_of(labels: np.ndarray, train: np.ndarray, classes: int) -> Graph:
    nodes = len(labels)
    return from_arrays(
        np.zeros((nodes, 1), np.float32), np.array([[0], [1]]), labels=labels, train_mask=train,
        class_names=[f"class {c}" for c in range(classes)],
    )  # fmt: skip


def prediction_of(embedding: np.ndarray, classes: int) -> Prediction:
    nodes = len(embedding)
    probs = np.full((1, nodes, classes), 1 / classes)
    names = tuple(f"class {c}" for c in range(classes))
    return ClassPrediction(probs, np.arange(nodes), names, "deterministic", embedding=embedding)


def world(seed: int, nodes: int = 60, width: int = 5, classes: int = 3) -> tuple[Prediction, Graph]:
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % classes
    embedding = rng.normal(size=(classes, width))[labels] * 3 + rng.normal(size=(nodes, width)) @ rng.normal(
        size=(width, width)
    )
    return prediction_of(embedding, classes), graph_of(labels, np.arange(nodes) < nodes // 2, classes)


def shrunk(centred: np.ndarray) -> np.ndarray:
    """Ledoit and Wolf (2004): S(1 − δ) + δ tr(S)/p I, written out."""
    n, p = centred.shape
    s = centred.T @ centred / n
    m = np.trace(s) / p
    d = np.sum((s - m * np.eye(p)) ** 2)
    b = sum(np.sum((np.outer(row, row) - s) ** 2) for row in centred) / n**2
    share = min(b, d) / d
    return (1 - share) * s + share * m * np.eye(p)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_against_the_formula_and_scikit_learn(seed: int, relative: bool) -> None:
    prediction, graph = world(seed)
    h, labels, train = prediction.embedding, graph.labels, graph.train_mask
    means = [h[train & (labels == c)].mean(0) for c in range(3)]
    residuals = np.concatenate([h[train & (labels == c)] - means[c] for c in range(3)])
    theirs = LedoitWolf(assume_centered=True).fit(residuals)
    expected = np.min([theirs.mahalanobis(h - mean) for mean in means], axis=0)
    inverse = np.linalg.inv(shrunk(residuals))
    by_hand = np.min([((h - mean) @ inverse * (h - mean)).sum(1) for mean in means], axis=0)
    np.testing.assert_allclose(expected, by_hand, rtol=1e-9)
    if relative:
        everyone = h[train]
        expected = expected - LedoitWolf().fit(everyone).mahalanobis(h)
    np.testing.assert_allclose(score("mahalanobis", prediction, graph, relative=relative), expected, rtol=1e-8)


def test_a_mean_is_the_nearest_and_distance_grows_from_it() -> None:
    prediction, graph = world(3)
    train, labels = graph.train_mask, graph.labels
    mean = prediction.embedding[train & (labels == 1)].mean(0)
    far = np.stack([mean, mean + 10, mean + 20, mean - 40])
    # nodes without a label: they are only scored
    more = graph_of(np.append(labels, [-1] * 4), np.append(train, [False] * 4), 3)
    values = score("mahalanobis", prediction_of(np.concatenate([prediction.embedding, far]), 3), more)[-4:]
    assert values[0] == pytest.approx(0, abs=1e-9) and (np.diff(values) > 0).all()


def test_only_training_nodes_are_learned_from() -> None:
    prediction, graph = world(5)
    moved = prediction.embedding.copy()
    moved[~graph.train_mask] += 100 * np.random.default_rng(0).normal(size=moved[~graph.train_mask].shape)
    before = score("mahalanobis", prediction, graph)[graph.train_mask]
    after = score("mahalanobis", replace(prediction, embedding=moved), graph)
    np.testing.assert_allclose(after[graph.train_mask], before, rtol=1e-12)
    assert after[~graph.train_mask].min() > before.max()
    relabelled = graph.with_labels(np.where(graph.train_mask, graph.labels, 0))
    assert np.array_equal(score("mahalanobis", prediction, relabelled), score("mahalanobis", prediction, graph))


def test_a_class_without_training_nodes_is_skipped() -> None:
    prediction, graph = world(7)
    fewer = replace(graph, masks={"train": graph.train_mask & (graph.labels != 2)})
    two = graph.with_labels(np.where(graph.labels == 2, -1, graph.labels))
    np.testing.assert_allclose(
        score("mahalanobis", prediction, fewer), score("mahalanobis", prediction, two), rtol=1e-12
    )
    assert not np.allclose(score("mahalanobis", prediction, fewer), score("mahalanobis", prediction, graph))


def test_statistics_of_a_reference_judge_another_graph() -> None:
    prediction, graph = world(9)
    other = replace(prediction, embedding=prediction.embedding + 20.0)
    unlabelled = replace(graph.without_target(), masks={})
    got = score("mahalanobis", other, unlabelled, reference=(prediction, graph))
    both = prediction_of(np.concatenate([prediction.embedding, other.embedding]), 3)
    together = graph_of(np.append(graph.labels, [-1] * 60), np.append(graph.train_mask, [False] * 60), 3)
    np.testing.assert_allclose(got, score("mahalanobis", both, together)[60:], rtol=1e-9)
    # its own shifted training nodes would hide the shift
    assert np.median(got) > 2 * np.median(score("mahalanobis", other, graph))


def test_no_spread_is_told() -> None:
    labels = np.arange(6) % 3
    one_each = graph_of(labels, np.arange(6) < 3, 3)
    with pytest.raises(BadInput, match="no spread") as caught:
        score("mahalanobis", prediction_of(np.random.default_rng(0).normal(size=(6, 2)), 3), one_each)
    assert caught.value.code == "E-CLASS-SMALL"


def test_a_trained_model_puts_noise_far_away(blocks: Graph) -> None:
    model = gs.GCN(epochs=60, hidden=16).fit(blocks)
    noise = blocks.with_features(10 * np.random.default_rng(1).normal(size=blocks.features.shape).astype(np.float32))
    clean = model.predict(blocks)
    familiar = score("mahalanobis", clean, blocks)[~blocks.train_mask]
    ood = score("mahalanobis", model.predict(noise), noise, reference=(clean, blocks))
    assert np.median(ood) > np.quantile(familiar, 0.95)
