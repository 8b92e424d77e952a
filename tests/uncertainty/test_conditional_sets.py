"""Sets per degree band: covered in each band where marginal sets are not, and the table that shows it."""

from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.conformal.conditional import DegreeBands, conformal_by_degree, coverage_table


def two_kinds(seed: int, nodes: int = 2000) -> tuple[Graph, ClassPrediction]:
    """Leaves (one neighbour) whose class is told badly, and nodes of a ring of four neighbours that are told well."""
    rng, half = np.random.default_rng(seed), nodes // 2
    ring, leaf = np.arange(half), np.arange(half, nodes)
    edges = np.concatenate([np.stack([ring, (ring + 1) % half]), np.stack([leaf, ring])], axis=1)
    labels = rng.integers(0, 3, nodes)
    sharp = np.where(np.arange(nodes) < half, 4.0, 0.5)[:, None]
    logits = sharp * np.eye(3)[labels] + rng.normal(size=(nodes, 3))
    probs = np.exp(2.0 * logits) / np.exp(2.0 * logits).sum(axis=1, keepdims=True)
    graph = from_arrays(np.ones((nodes, 1)), edges, labels=labels, train_mask=np.arange(nodes) < 3)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_bands_are_of_degrees() -> None:
    graph, _ = two_kinds(0)
    bands = DegreeBands.of(graph)
    assert bands.names == ("degree 1", "degree 2 to 3") or bands.names == ("degree 1", "degree 3")
    assert np.array_equal(bands(graph), (graph.adjacency.degree > 1).astype(int))
    digits = gs.load("digits")
    found = DegreeBands.of(digits, 5)
    counts = np.bincount(found(digits))
    assert len(found.names) == 5 and counts.min() > 0.1 * digits.num_nodes
    own = [int(name.split()[1]) for name in found.names]
    assert all(digits.adjacency.degree[found(digits) == band].min() == low for band, low in enumerate(own))


def test_each_band_is_covered_where_marginal_sets_cover_one_too_little() -> None:
    rng, marginal, conditional = np.random.default_rng(1), [], []
    graph, prediction = two_kinds(2)
    assert graph.labels is not None
    leaves = graph.adjacency.degree == 1
    for seed in range(100):
        chosen = rng.permutation(np.arange(3, 2000))
        calibration, judged = chosen[:400], chosen[400:]
        for sets, into in (
            (gs.conformalize(prediction, graph, by="thr", calibration=calibration, seed=seed), marginal),
            (conformal_by_degree(prediction, graph, by="thr", calibration=calibration, seed=seed), conditional),
        ):
            covered = sets.predict_set(prediction)[judged, graph.labels[judged]]  # type: ignore[attr-defined]
            into.append((covered[leaves[judged]].mean(), covered[~leaves[judged]].mean()))
    low, high = np.mean(conditional, axis=0)
    assert low == pytest.approx(0.9, abs=0.01) and high == pytest.approx(0.9, abs=0.01)
    assert np.mean(marginal, axis=0)[0] < 0.87


@pytest.mark.parametrize("kind", ["marginal", "class", "degree"])
def test_sets_of_each_kind_cover_what_they_name_over_a_thousand_draws(kind: str) -> None:
    """Share not covered, over draws of calibration nodes, in the worst group that the kind speaks of, beside 10 %."""
    rng = np.random.default_rng(5)
    graph, prediction = two_kinds(6, nodes=600)
    assert graph.labels is not None
    labels, degree = graph.labels, graph.adjacency.degree
    one_each = np.unique(labels, return_index=True)[1]  # every class is trained on
    graph = graph.with_masks(split=None, train=np.isin(np.arange(600), one_each))
    groups = {"marginal": [labels >= 0], "class": [labels == c for c in range(3)], "degree": [degree == 1, degree > 1]}
    missed = []
    for _ in range(1000):
        chosen = rng.permutation(np.setdiff1d(np.arange(600), one_each))
        calibration, judged = chosen[:200], chosen[200:]
        options = {"by": "thr", "calibration": calibration}
        if kind == "degree":
            sets = conformal_by_degree(prediction, graph, **options).predict_set(prediction)  # type: ignore[arg-type]
        else:
            found = gs.conformalize(prediction, graph, class_conditional=kind == "class", **options)  # type: ignore[arg-type]
            sets = found.predict_set(prediction)
        covered = sets[judged, labels[judged]]
        missed.append([1 - covered[group[judged]].mean() for group in groups[kind]])
    rates = np.mean(missed, axis=0)
    errors = 3.29 * np.std(missed, axis=0) / np.sqrt(1000)
    assert np.all(rates - errors <= 0.1), f"{rates} ± {errors} beside 0.1"
    assert np.all(rates + errors > 0.07)


def test_a_band_with_few_nodes_takes_the_quantile_of_all() -> None:
    graph, prediction = two_kinds(3)
    calibration = np.concatenate([np.arange(3, 100), np.arange(1990, 1995)])  # five leaves
    found = conformal_by_degree(prediction, graph, calibration=calibration)
    assert found.own.tolist() == [False, True] and found.quantiles[0] == found.base.quantiles[0]
    assert "degree 1" not in found.guarantee and found.predict_set(prediction, never_empty=True).any(axis=1).all()
    other = ClassPrediction(prediction.probs, prediction.ids, ("x", "y", "z"), "deterministic")
    with pytest.raises(BadInput, match="E-CLASS-MAP"):
        found.predict_set(other)


def test_the_table_counts_who_is_covered() -> None:
    graph, prediction = two_kinds(4)
    assert graph.labels is not None
    sets = gs.conformalize(prediction, graph, calibration=np.arange(3, 400)).predict_set(prediction)
    judged = np.arange(2000) >= 400
    rows = coverage_table(sets, prediction, graph, judged)
    assert [row["kind"] for row in rows] == ["all", "class", "class", "class", "degree", "degree"]
    covered = sets[np.arange(2000), graph.labels]
    assert rows[0]["coverage"] == covered[judged].mean() and rows[0]["nodes"] == 1600
    inside = judged & (graph.labels == 1)
    assert (rows[2]["nodes"], rows[2]["coverage"]) == (inside.sum(), covered[inside].mean())
    leaves = judged & (graph.adjacency.degree == 1)
    assert rows[4]["coverage"] == covered[leaves].mean() and rows[4]["mean_size"] == sets[leaves].sum(axis=1).mean()
    assert all(row["low"] <= row["coverage"] <= row["high"] for row in rows)
    with pytest.raises(BadInput, match="no nodes to evaluate"):
        coverage_table(sets, prediction, graph, np.zeros(2000, dtype=bool))
