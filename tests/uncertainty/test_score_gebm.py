"""GEBM against the formulas written out with dense matrices and loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.scores import score

from support import block_graph


class Fixed:
    """Answers with one prediction where there are edges and with another where there are none."""

    def __init__(self, joined: Prediction, alone: Prediction) -> None:
        self.joined, self.alone = joined, alone

    def predict(self, graph: Graph, **asked: Any) -> Prediction:
        return self.joined if graph.num_edges else self.alone


def answer(graph: Graph, seed: int, samples: int = 1, width: int = 4) -> Prediction:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(samples, graph.num_nodes, graph.num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    embedding = rng.normal(size=(graph.num_nodes, width)) + graph.labels[:, None]
    kind = "samples" if samples > 1 else "deterministic"
    return ClassPrediction(probs, graph.node_ids, graph.class_names, kind, logits=logits, embedding=embedding)


def by_the_book(
    graph: Graph,
    joined: Prediction,
    alone: Prediction,
    classes: list[int],
    gamma: float,
    t: float,
    alpha: float,
    k: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent, local and group energies, class by class and node by node."""
    n = graph.num_nodes
    evidence = np.zeros((n, len(classes)))
    for column, c in enumerate(classes):
        members = joined.embedding[graph.train_mask & (graph.labels == c)]
        mean, variance = members.mean(0), members.var(0, ddof=1)
        far = lambda h, m=mean, v=variance: np.sum((h - m) ** 2 / v, axis=1)  # noqa: E731
        low, high = np.quantile(far(joined.embedding), [0.025, 0.975])
        bottom, top = np.quantile(joined.logits.mean(0)[:, c], [0.025, 0.975])
        scaled = (far(alone.embedding) - low) / (high - low) * (top - bottom) + bottom
        evidence[:, column] = alone.logits.mean(0)[:, c] - gamma * scaled
    a = graph.adjacency.matrix.toarray() + np.eye(n)
    walk = a / a.sum(1, keepdims=True)
    smooth = np.linalg.matrix_power(alpha * np.eye(n) + (1 - alpha) * walk, k)
    energy = lambda e: -t * logsumexp(e / t, axis=1)  # noqa: E731
    return energy(evidence), energy(smooth @ evidence), smooth @ energy(evidence)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 3), st.floats(0.3, 5), st.floats(0, 1), st.integers(0, 12), st.integers(1, 3))
def test_against_dense_formulas(seed: int, gamma: float, t: float, alpha: float, steps: int, samples: int) -> None:
    graph = block_graph(seed)
    joined, alone = answer(graph, seed, samples), answer(graph, seed + 1, samples)
    terms = by_the_book(graph, joined, alone, [0, 1, 2], gamma, t, alpha, steps)
    options = {"gamma": gamma, "temperature": t, "alpha": alpha, "steps": steps}
    model = Fixed(joined, alone)
    got = score("gebm", joined, graph, model, **options)
    np.testing.assert_allclose(got, sum(terms), rtol=1e-9, atol=1e-9)
    got = score("gebm", joined, graph, model, independent=2.0, local=0.0, group=0.5, **options)
    np.testing.assert_allclose(got, 2 * terms[0] + 0.5 * terms[2], rtol=1e-9, atol=1e-9)


def test_the_defaults_are_the_papers(blocks: Graph) -> None:
    joined, alone = answer(blocks, 0), answer(blocks, 1)
    expected = sum(by_the_book(blocks, joined, alone, [0, 1, 2], 1.0, 1.0, 0.5, 10))
    np.testing.assert_allclose(score("gebm", joined, blocks, Fixed(joined, alone)), expected, rtol=1e-9)


def test_a_class_without_training_nodes_gives_no_evidence(blocks: Graph) -> None:
    graph = replace(blocks, masks={**blocks.masks, "train": blocks.train_mask & (blocks.labels != 1)})
    joined, alone = answer(graph, 0), answer(graph, 1)
    expected = sum(by_the_book(graph, joined, alone, [0, 2], 1.0, 1.0, 0.5, 10))
    np.testing.assert_allclose(score("gebm", joined, graph, Fixed(joined, alone)), expected, rtol=1e-9)


def test_classes_are_matched_by_name(blocks: Graph) -> None:
    joined, alone = answer(blocks, 0), answer(blocks, 1)
    expected = score("gebm", joined, blocks, Fixed(joined, alone))
    order = np.array([2, 0, 1])

    def reordered(p: Prediction) -> Prediction:
        names = tuple(np.array(p.class_names)[order])
        return replace(p, probs=p.probs[..., order], logits=p.logits[..., order], class_names=names)

    got = score("gebm", reordered(joined), blocks, Fixed(reordered(joined), reordered(alone)))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_constant_columns_and_single_nodes_stay_finite(blocks: Graph) -> None:
    first = np.array([np.flatnonzero(blocks.labels == c)[0] for c in range(3)])
    for train in (np.isin(np.arange(30), first), blocks.train_mask):
        graph = replace(blocks, masks={"train": train})
        for kept in ([1, 1, 0, 0], [0, 0, 0, 0]):
            joined, alone = (replace(p, embedding=p.embedding * kept) for p in (answer(graph, 0), answer(graph, 1)))
            assert np.isfinite(score("gebm", joined, graph, Fixed(joined, alone))).all()


def test_far_from_the_data_the_correction_wins(blocks: Graph) -> None:
    joined = answer(blocks, 0)
    values = {}
    for distance in (0.0, 10.0, 100.0):
        # a node far out with ever larger logits: plain energy calls it ever surer
        far = replace(joined, embedding=joined.embedding + distance, logits=joined.logits + distance)
        corrected = score("gebm", joined, blocks, Fixed(joined, far))
        plain = score("gebm", joined, blocks, Fixed(joined, far), gamma=0.0)
        values[distance] = corrected.mean(), plain.mean()
    assert values[0.0][0] < values[10.0][0] < values[100.0][0]
    assert values[0.0][1] > values[10.0][1] > values[100.0][1]


def test_statistics_of_a_reference_judge_another_graph(blocks: Graph) -> None:
    joined, alone, elsewhere = answer(blocks, 0), answer(blocks, 1), answer(blocks, 2)
    bare = replace(blocks.without_target(), masks={})
    got = score("gebm", elsewhere, bare, Fixed(elsewhere, alone), reference=(joined, blocks))
    np.testing.assert_allclose(got, score("gebm", joined, blocks, Fixed(joined, alone)), rtol=1e-12)


def test_a_trained_model_gives_noise_high_energy(blocks: Graph) -> None:
    model = gs.GCN(epochs=60, hidden=16).fit(blocks)
    noise = blocks.with_features(10 * np.random.default_rng(1).normal(size=blocks.features.shape).astype(np.float32))
    clean = model.predict(blocks)
    familiar = score("gebm", clean, blocks, model)[~blocks.train_mask]
    ood = score("gebm", model.predict(noise), noise, model, reference=(clean, blocks))
    assert np.median(ood) > np.quantile(familiar, 0.95)


def test_wrong_arguments_are_named(blocks: Graph) -> None:
    joined = answer(blocks, 0)
    for wrong in ({"temperature": 0.0}, {"alpha": 1.5}, {"alpha": float("nan")}, {"steps": -1}):
        with pytest.raises(BadUsage):
            score("gebm", joined, blocks, Fixed(joined, joined), **wrong)
