"""Intervals of metrics: exact on every draw, closed forms, and how often they hold what they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import graphsde as gs
from graphsde import metrics
from graphsde.base.errors import BadUsage
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.target import ClassTarget
from graphsde.metrics import detection, regression, spread
from graphsde.metrics.intervals import NEVER_ZERO, _of, difference_of_shares, micro_auroc_interval, paired_intervals
from graphsde.metrics.resampled import ClassFigures, DetectionFigures, NumberFigures, resample
from graphsde.metrics.resampling import drawn_counts, number_of_draws
from graphsde.metrics.summary import summarise
from graphsde.prediction import ClassPrediction, RegressionPrediction


def class_figures(probs: np.ndarray, truth: np.ndarray) -> ClassFigures:
    prediction = ClassPrediction(probs[None], np.arange(len(truth)), tuple(map(str, range(probs.shape[1]))), "samples")
    doubt = 1.0 - prediction.confidence
    return ClassFigures(prediction.mean, prediction.index, truth, doubt, prediction.total)


def some_classes(seed: int, nodes: int = 40, classes: int = 3, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(classes), size=nodes)
    if ties:
        probs = np.round(probs * 4) + 0.1
        probs /= probs.sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(classes, p=row) for row in probs])
    return probs, truth


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.integers(2, 45))
def test_every_figure_of_a_draw_is_the_metric_of_the_nodes_drawn(seed: int, ties: bool, nodes: int) -> None:
    probs, truth = some_classes(seed, nodes, ties=ties)
    figures = class_figures(probs, truth)
    counts = np.concatenate(list(drawn_counts(nodes, draws=3, seed=seed)))
    table = figures.table(counts)
    for draw, row in enumerate(counts):
        drawn = np.repeat(np.arange(nodes), row.astype(int))
        again = ClassPrediction(probs[None, drawn], np.arange(nodes), ("a", "b", "c"), "samples")
        expected = summarise(again, truth[drawn], np.ones(nodes, dtype=bool))
        for name, value in table.items():
            np.testing.assert_allclose(value()[draw], expected[name], atol=1e-10, err_msg=name)
    assert set(table) == set(expected) - {"micro_auroc", "n_test", "n_errors"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.integers(3, 45))
@example(seed=2133, ties=False, nodes=3)  # one node three times, whose mean differs from it by rounding
def test_every_figure_of_numbers_on_a_draw(seed: int, ties: bool, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.2, 3.0, size=(2, nodes))
    if ties:
        variances = np.broadcast_to(np.round(variances[:1] * 2) + 1, (2, nodes)).copy()
    means, truth = rng.normal(size=(2, nodes)), rng.normal(size=nodes)
    means[1] = means[0] + 0.5 if ties else means[1]
    figures = NumberFigures(RegressionPrediction(means, variances, np.arange(nodes), "samples"), truth)
    counts = np.concatenate(list(drawn_counts(nodes, draws=3, seed=seed)))
    table = figures.table(counts)
    for draw, row in enumerate(counts):
        drawn = np.repeat(np.arange(nodes), row.astype(int))
        again = RegressionPrediction(means[:, drawn], variances[:, drawn], np.arange(nodes), "samples")
        everyone = np.ones(nodes, dtype=bool)
        expected = regression.summarise_regression(again, truth[drawn], everyone)
        expected |= spread.summarise_spread(again, truth[drawn], everyone)
        for name, value in table.items():
            np.testing.assert_allclose(value()[draw], expected[name], atol=1e-9, err_msg=name)
    assert set(table) == set(expected) - {"n_test"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_every_detection_figure_on_a_draw(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    inside, outside = rng.normal(size=30), rng.normal(1.0, size=17)
    if ties:
        inside, outside = np.round(inside), np.round(outside)
    counts = np.concatenate(list(drawn_counts(30, 17, draws=3, seed=seed)))
    table = DetectionFigures(inside, outside).table(counts)
    judges = {
        "ood_auroc": detection.ood_auroc,
        "ood_aupr_in": detection.aupr_in,
        "ood_aupr_out": detection.aupr_out,
        "ood_fpr95": detection.fpr95,
        "ood_detection_accuracy": detection.detection_accuracy,
        "ood_detection_accuracy_grid": detection.detection_accuracy_grid,
    }
    for draw, row in enumerate(counts.astype(int)):
        drawn = np.repeat(inside, row[:30]), np.repeat(outside, row[30:])
        for name, judge in judges.items():
            np.testing.assert_allclose(table[name]()[draw], judge(*drawn), atol=1e-12, err_msg=name)
    assert set(table) == set(judges)


def test_means_have_the_interval_of_the_central_limit_theorem() -> None:
    probs, truth = some_classes(1, 3000)
    surprise = -np.log(probs[np.arange(3000), truth])
    low, high = _of(class_figures(probs, truth), 0.05, 1000, 0)["nll"]
    reach = 1.96 * surprise.std() / np.sqrt(3000)
    assert low == pytest.approx(surprise.mean() - reach, abs=0.15 * reach)
    assert high == pytest.approx(surprise.mean() + reach, abs=0.15 * reach)


def test_micro_auroc_has_the_interval_of_its_bootstrap() -> None:
    probs, truth = some_classes(2, 800, 4)
    low, high = micro_auroc_interval(probs, truth, 0.05) or (0.0, 0.0)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(400):
        rows = rng.integers(800, size=800)
        drawn.append(metrics.micro_auroc(probs[rows], truth[rows]))
    centre, deviation = metrics.micro_auroc(probs, truth), np.std(drawn)
    assert low < centre < high
    assert (high - low) / (2 * 1.96) == pytest.approx(deviation, rel=0.12)
    assert micro_auroc_interval(probs[:, :1], truth * 0, 0.05) is None


def test_the_same_nodes_get_the_same_draws_and_large_graphs_fewer() -> None:
    first, second = (np.concatenate(list(drawn_counts(700, draws=5, seed=3))) for _ in range(2))
    assert (first == second).all() and (first.sum(axis=1) == 700).all()
    assert not (first == np.concatenate(list(drawn_counts(700, draws=5, seed=4)))).all()
    assert [number_of_draws(n) for n in (10, 20_000, 100_000, 10**7)] == [1000, 1000, 200, 100]


@pytest.mark.parametrize("stretch", [1.0, 0.6])
def test_intervals_of_calibration_errors_hold_what_a_plain_bootstrap_misses(stretch: float) -> None:
    """Confidence c, right with chance ``stretch c + (1 − stretch) / 2``: the true gap of every bin is known."""
    rng = np.random.default_rng(5)

    def chance(confidence: np.ndarray) -> np.ndarray:
        return stretch * confidence + (1 - stretch) / 2

    many = rng.uniform(0.5, 1.0, size=400_000)
    edges = np.linspace(0, 1, 16)
    bin_of = np.searchsorted(edges, many, side="left") - 1
    true = sum(abs((chance(many) - many)[bin_of == b].sum()) for b in range(15)) / len(many)
    held = plain = 0
    repeats = 120
    for _ in range(repeats):
        confidence = rng.uniform(0.5, 1.0, size=400)
        truth = (rng.random(400) > chance(confidence)).astype(np.int64)
        figures = class_figures(np.stack([confidence, 1 - confidence], axis=1), truth)
        low, high = _of(figures, 0.05, 200, 0)["ece"]
        held += low <= true + 1e-9 and true <= high + 1e-9
        drawn = np.quantile(resample(figures, ["ece"], draws=200)["ece"], [0.025, 0.975])
        plain += drawn[0] <= true <= drawn[1]
    assert stats.binom.cdf(held, repeats, 0.95) > 0.001, held
    if stretch == 1.0:
        assert plain < repeats / 2  # what the reflection is for


@pytest.mark.parametrize(("share", "from_zero"), [(0.95, True), (0.985, False)])
def test_a_calibration_error_that_chance_gives_has_an_interval_from_zero(
    monkeypatch: pytest.MonkeyPatch, share: float, from_zero: bool
) -> None:
    """Chance gives as much or more in 5 % of draws, or in 1.5 %: the line is at 2.5 %."""
    probs, truth = some_classes(3, nodes=300)
    figures = class_figures(probs, (truth + 1) % 3)
    observed = float(figures.table(np.ones((1, 300)))["ece"]()[0])
    chance = observed + np.where(np.arange(1000) < 1000 * share, -0.001, 0.001)
    monkeypatch.setattr(ClassFigures, "calibrated", lambda *_: dict.fromkeys(NEVER_ZERO, chance))
    assert (_of(figures, 0.05, 200, 0)["ece"][0] == 0.0) is from_zero


def test_an_area_of_zero_or_one_has_no_width() -> None:
    probs = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert micro_auroc_interval(probs, np.array([0, 0]), 0.05) == (1.0, 1.0)
    assert micro_auroc_interval(probs, np.array([1, 1]), 0.05) == (0.0, 0.0)


def test_intervals_of_a_run_hold_its_figures() -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    found, figures = gs.intervals(prediction, graph), gs.evaluate(prediction, graph)
    assert set(found) == set(figures) - {"n_test", "n_errors"}
    for name, (low, high) in found.items():
        assert name in NEVER_ZERO or low <= figures[name] <= high, name
    n, right = figures["n_test"], figures["n_test"] - figures["n_errors"]
    exact = stats.binomtest(int(right), int(n)).proportion_ci(0.95, method="exact")
    assert found["accuracy"] == pytest.approx((exact.low, exact.high), abs=1e-9)
    wide = gs.intervals(prediction, graph, confidence_level=0.5)
    assert all(wide[name][1] - wide[name][0] <= high - low for name, (low, high) in found.items())
    with pytest.raises(BadUsage):
        gs.intervals(prediction, graph, confidence_level=95)


def test_intervals_of_ood_figures() -> None:
    graph = gs.split(gs.load("digits"), "leave-class-out", leave="last")
    prediction = gs.Logistic(c=1.0).fit(graph).predict(graph)
    found, figures = gs.intervals(prediction, graph), gs.evaluate(prediction, graph)
    ood = {name for name in figures if name.startswith("ood_") and not name.endswith("_chance")}
    assert len(ood) >= 12 and ood <= set(found)
    assert all(found[name][0] <= figures[name] <= found[name][1] for name in ood)


def test_a_graph_without_test_nodes_has_no_intervals() -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    assert graph.train_mask is not None and graph.val_mask is not None
    unjudged = graph.with_masks(train=graph.train_mask, val=graph.val_mask)
    assert gs.intervals(prediction, unjudged) == {}


def test_the_exact_interval_of_a_paired_share_agrees_with_mcnemars_test() -> None:
    for gained in range(9):
        for lost in range(9):
            nodes = 40
            before, after = np.zeros(nodes, bool), np.zeros(nodes, bool)
            after[:gained], before[gained : gained + lost] = True, True
            low, high = difference_of_shares(before, after, 0.05)
            assert low <= (gained - lost) / nodes <= high
            if gained + lost:
                rejected = stats.binomtest(gained, gained + lost, 0.5).pvalue < 0.05
                assert rejected == (not low <= 0 <= high), (gained, lost)


def test_paired_intervals_hold_as_often_as_they_say() -> None:
    """Two predictors with a known difference in NLL and accuracy, on 200 draws of nodes."""
    rng, nodes, names, held = np.random.default_rng(0), 150, ("a", "b"), {"nll": 0, "accuracy": 0}
    empty = Adjacency(np.zeros((nodes, nodes)))
    for _ in range(200):
        truth, hard = rng.integers(0, 2, nodes), rng.random(nodes) < 0.3
        right = [np.where(hard, rng.random(nodes) < chance, True) for chance in (0.5, 0.8)]
        said = []
        for hit in right:  # 0.9 on what each believes
            column = np.where(hit, truth, 1 - truth)
            probs = np.full((nodes, 2), 0.1)
            probs[np.arange(nodes), column] = 0.9
            said.append(ClassPrediction(probs[None], np.arange(nodes), names, "deterministic"))
        graph = Graph(empty, np.zeros((nodes, 1)), np.arange(nodes), ClassTarget(truth, names),
                      masks={"test": np.ones(nodes, bool)})  # fmt: skip
        found = paired_intervals(*said, graph, ("accuracy", "nll"), draws=200)
        true = {"accuracy": 0.3 * 0.3, "nll": -0.3 * 0.3 * np.log(9)}
        for name, value in true.items():
            held[name] += found[name].low <= value <= found[name].high
    # the exact one is conditional on how many nodes moved, so that it holds the share of them, and nearly this too
    assert held["nll"] >= 0.9 * 200 and held["accuracy"] >= 0.9 * 200


def test_the_same_prediction_twice_is_within_noise_and_a_worse_one_is_not() -> None:
    graph = gs.load("digits")
    good = gs.LabelPropagation().fit(graph).predict(graph)
    poor = gs.Prediction.from_probabilities(np.full((graph.num_nodes, 10), 0.1), graph)
    assert all(one.verdict == "within noise" and one.value == 0 for one in paired_intervals(good, good, graph).values())
    found = paired_intervals(good, poor, graph)
    assert found["accuracy"].verdict == found["nll"].verdict == "worse"
    back = paired_intervals(poor, good, graph)
    assert back["nll"].verdict == "better" and back["nll"].low == pytest.approx(-found["nll"].high)
