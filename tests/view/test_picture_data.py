"""What pictures show is right: known answers by hand, or another library's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_gallery import bench_records, record

from graphsde.bench.compare import compare
from graphsde.bench.reproduce import Beside
from graphsde.bench.tasks.dynamics import averaged, between_share, main_plane
from graphsde.metrics.evaluation import count_entropies, entropy_edges
from graphsde.metrics.selective import optimal_aurc
from graphsde.view.figures.bench import (
    BesidePaper,
    CriticalDifference,
    Curves,
    MetricIntervals,
    bar_levels,
    beside_picture,
    gather,
    groups,
)
from graphsde.view.figures.chart import Dots
from graphsde.view.figures.dynamics import EntropyByModel
from graphsde.view.figures.evaluation import Detection, RiskCoverageCurves
from graphsde.view.figures.nodes import nearest, spring_layout


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), nodes=st.integers(2, 200))
def test_the_oracle_has_the_best_possible_area_and_bounds_every_order(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.random(nodes) < 0.3
    curves = RiskCoverageCurves.of({"a": (rng.random(nodes), errors)})
    assert curves.oracle["a"].mean() == pytest.approx(optimal_aurc(nodes, int(errors.sum())))
    assert (curves.oracle["a"] <= curves.risk["a"] + 1e-12).all()
    assert curves.risk["a"][-1] == pytest.approx(curves.error["a"])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_detection_curves_agree_with_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    inside, outside = rng.integers(0, 9, 40) / 9, rng.integers(2, 12, 25) / 9  # many ties
    found = Detection.of(inside, outside)
    truth, values = np.repeat([0, 1], [40, 25]), np.concatenate([inside, outside])
    # accepted shares are the complement of sklearn's "called OOD"
    fpr, tpr, _ = metrics.roc_curve(truth, values, drop_intermediate=False)
    np.testing.assert_allclose(found.accepted_familiar, 1 - fpr[::-1], atol=1e-12)
    np.testing.assert_allclose(found.accepted_ood, 1 - tpr[::-1], atol=1e-12)
    precision, recall, _ = metrics.precision_recall_curve(truth, values)
    np.testing.assert_allclose(found.precision[::-1], precision[:-1], atol=1e-12)
    np.testing.assert_allclose(found.recall[::-1], recall[:-1], atol=1e-12)
    # the curve passes above the point of FPR95
    at = np.searchsorted(found.accepted_familiar, 0.95 - 1e-12)
    assert found.accepted_ood[at] == pytest.approx(found.fpr95)


def test_entropy_counts_by_hand() -> None:
    edges = entropy_edges(2)
    assert len(edges) == 31 and edges[-1] == pytest.approx(np.log(2))
    counts = count_entropies(np.array([-1e-12, 0.0, np.log(2), np.log(2) + 1e-9]), edges)
    assert counts[0] == 2 and counts[-1] == 2 and counts.sum() == 4


def test_entropies_of_seeds_are_added_up() -> None:
    curves = {"sure": [1.0] * 30, "unsure": [2.0] * 30}
    records = [
        record("entropies", "gcn", s, {"num_classes": 3.0, "entropy_gap": g}, curves) for s, g in ((0, 0.2), (1, 0.4))
    ]
    (part,) = EntropyByModel.of(records).parts
    assert part.gap == pytest.approx(0.3)
    assert part.histogram.counts["right"].sum() == 60 and part.histogram.counts["wrong"].sum() == 120
    assert part.histogram.edges[-1] == pytest.approx(np.log(3))


def test_curves_are_means_with_intervals_that_hold_them() -> None:
    records = [
        record(
            "noise", "gcn", seed, curves={"severity": [0.0, 1.0], "accuracy": [0.8 + 0.01 * seed, 0.5 + 0.02 * seed]}
        )
        for seed in range(5)
    ]
    (curve,) = gather(records, "severity", "accuracy", "")
    np.testing.assert_allclose(curve.mean, [0.82, 0.54])
    assert curve.low is not None and curve.high is not None and curve.n == 5
    assert (curve.low < curve.mean).all() and (curve.mean < curve.high).all()
    (single,) = gather(records[:1], "severity", "accuracy", "")
    assert single.low is None and single.mean.tolist() == [0.8, 0.5]


def test_runs_of_another_length_are_not_averaged() -> None:
    records = [
        record("active", "gcn", 0, curves={"labels": [10.0, 15.0], "accuracy": [0.5, 0.6]}),
        record("active", "gcn", 1, curves={"labels": [10.0], "accuracy": [0.9]}),
    ]
    (curve,) = gather(records, "labels", "accuracy", "")
    assert curve.n == 1 and curve.mean.tolist() == [0.5, 0.6]


def test_metric_intervals_show_every_run_best_on_top() -> None:
    records = bench_records()
    picture = MetricIntervals.of(records, compare(records), "digits", "accuracy")
    panel = picture.chart().panels[0]
    assert panel.y.names[-1] == "gcn" and "mlp" not in panel.y.names  # mlp has no result
    assert len(panel.marks[0].x) == 60  # type: ignore[union-attr]
    columns = picture.columns()
    means = {
        t: x
        for k, s, t, x in zip(columns["kind"], columns["series"], columns["text"], columns["x"], strict=True)
        if "mean" in s
    }
    assert means["gcn"] == pytest.approx(np.mean([r["metrics"]["accuracy"] for r in records[:6]]))


def test_groups_of_ranks_by_hand() -> None:
    assert groups(np.array([1.0, 1.5, 3.0, 3.2]), 1.0) == [(0, 1), (2, 3)]
    assert groups(np.array([1.0, 1.6, 2.2]), 0.7) == [(0, 1), (1, 2)]
    assert groups(np.array([1.0, 3.0]), 1.0) == []
    table = CriticalDifference(("b", "a"), np.array([2.0, 1.0]), 0.5).columns()
    assert table["model"] == ["a", "b"] and table["mean_rank"] == [1.0, 2.0]


def test_the_main_plane_is_where_points_were_put() -> None:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(200, 2)) * [5.0, 2.0]
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :2]
    plane, explained = main_plane(flat @ basis.T + 3.0)
    assert explained == pytest.approx(1.0)
    # it spans the same plane, and the first direction is the longer one
    np.testing.assert_allclose(plane @ plane.T, basis @ basis.T, atol=1e-10)
    spread = ((flat @ basis.T) @ plane).std(axis=0)
    assert spread[0] > spread[1]


def test_drift_is_averaged_where_nodes_are() -> None:
    rng = np.random.default_rng(1)
    position = rng.uniform(-1, 1, size=(4000, 2))
    found = averaged(position, -position, np.linalg.norm(position, axis=1), 5)
    centres = np.column_stack([found["cell_x"], found["cell_y"]])
    means = np.column_stack([found["cell_dx"], found["cell_dy"]])
    assert len(centres) == 25
    np.testing.assert_allclose(means, -centres, atol=0.06)  # a linear field has the value of its middle
    lonely = averaged(np.zeros((3, 2)), np.ones((3, 2)), np.ones(3), 4)
    assert np.isfinite(lonely["cell_x"]).all()


def test_share_of_variance_between_classes() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 3000)
    assert between_share(rng.normal(size=(3000, 4)), labels) < 0.01
    means = 3.0 * np.eye(3)[labels]
    whole = means + rng.normal(size=(3000, 3))
    expected = means.var(axis=0).sum() / (means.var(axis=0).sum() + 3.0)
    assert between_share(whole, labels) == pytest.approx(expected, abs=0.02)


def test_layout_keeps_neighbours_together_and_repeats() -> None:
    blocks = sp.block_diag([np.ones((15, 15)) - np.eye(15)] * 3).tolil()
    blocks[0, 15] = blocks[15, 0] = blocks[16, 30] = blocks[30, 16] = 1
    graph = sp.csr_array(blocks)
    place = spring_layout(graph, seed=3)
    assert place.shape == (45, 2) and np.isfinite(place).all()
    apart = np.linalg.norm(place[:, None] - place[None], axis=-1)
    same = np.kron(np.eye(3), np.ones((15, 15))).astype(bool)
    assert apart[same].mean() < 0.5 * apart[~same].mean()
    np.testing.assert_array_equal(place, spring_layout(graph, seed=3))


def test_nearest_nodes_of_a_chain() -> None:
    chain = sp.csr_array(sp.diags([np.ones(99), np.ones(99)], [1, -1]))
    assert nearest(chain, 50, 5).tolist() == [48, 49, 50, 51, 52]
    assert len(nearest(chain, 50, 1000)) == 100


def test_bars_that_share_a_model_never_share_a_height() -> None:
    ranks = np.array([1.8, 2.0, 2.7, 4.1, 4.8, 6.0, 7.2, 7.4, 9.0])
    found = groups(ranks, 5.37)
    levels = bar_levels(found)
    for one, (first, _) in enumerate(found):
        for other in range(one):
            assert levels[one] != levels[other] or found[other][1] < first, (found, levels)
    assert len(found) == 4 and len(set(levels)) == 4


def _compared(system: str, mean: float, agreement: str = "agrees") -> Beside:
    return Beside(
        "prior-drift", "cora", system, f"ours, {system}", "accuracy-percent",
        80.0, None, "80", mean, 1.0, 5, mean - 1, mean + 1, 0, agreement, "",
    )  # fmt: skip


def test_as_many_systems_as_the_extended_benchmark_has_look_different() -> None:
    picture = beside_picture([replace(_compared("gcn", 70.0), model=f"system {place}") for place in range(18)])
    assert picture is not None
    keys = [mark for mark in picture.chart().panels[0].marks if isinstance(mark, Dots) and np.isnan(mark.x).all()]
    assert len(keys) == len({(mark.colour, mark.filled) for mark in keys}) == 18


def test_a_number_that_was_changed_is_drawn_as_curves_and_systems_as_dots() -> None:
    picture = beside_picture([_compared("10.0", 70.0), _compared("-10.0", 78.0), _compared("0.0", 79.0)])
    assert isinstance(picture, Curves)
    ours, published = picture.curves
    assert ours.x.tolist() == published.x.tolist() == [-10.0, 0.0, 10.0]
    assert ours.mean.tolist() == [78.0, 79.0, 70.0] and published.mean.tolist() == [80.0] * 3
    dots = beside_picture([_compared("gcn", 70.0), _compared("gat", 78.0, "")])
    assert isinstance(dots, BesidePaper) and [row.system for row in dots.rows] == [
        "gcn"
    ]  # what can't be compared is out
    assert beside_picture([_compared("gcn", 70.0, "")]) is None
