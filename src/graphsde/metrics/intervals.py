"""How much a metric would vary over draws of nodes: an interval for every metric, with the model fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphsde.base.registry import Rules
from graphsde.base.seeds import check_seed, numpy_stream
from graphsde.graph.graph import Graph
from graphsde.metrics.arrays import METRICS
from graphsde.metrics.evaluation import judged_nodes
from graphsde.metrics.resampled import DetectionFigures, Figures, figures_of, resample
from graphsde.metrics.resampling import DRAWS, number_of_draws
from graphsde.metrics.summary import BY_DEFAULT, OF_THE_DEFAULT, familiar_and_ood
from graphsde.prediction import ClassPrediction, Prediction, Predictor, RegressionPrediction
from graphsde.uncertainty.binomial import clopper_pearson_interval
from graphsde.uncertainty.held_out import align_labels, require_share
from graphsde.uncertainty.scores.propagation import propagate
from graphsde.uncertainty.scores.registry import default_score, score, spreads

CONFIDENCE = 0.95
NEVER_ZERO = ("ece", "adaptive_ece", "calibration_error", "miscalibration_area", "ence")
"""Metrics biased upwards on finite samples: chance alone keeps them above 0, and a bootstrap adds as much again."""
_CALIBRATED_DRAWS = 200
Interval = tuple[float, float]
Verdict = Literal["within noise", "better", "worse", "changed"]


def intervals(
    prediction: Prediction,
    graph: Graph,
    *,
    confidence_level: float = CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
    model: Predictor | None = None,
) -> dict[str, Interval]:
    """An interval for every metric of :func:`graphsde.evaluate`, over draws of test nodes with the model fixed.

    Another fit or another split would add to it. Shares of nodes have the interval of Clopper and Pearson, the
    micro-averaged AUROC that of Obuchowski (1997); the others that of the bootstrap's percentiles. Calibration errors
    are biased upwards by chance, and a bootstrap's even more: theirs is reflected at the value to correct that, so
    that it may lie below the value; and it starts at 0 if a calibrated model would get as much.

    Args:
        prediction, graph, model: as of :func:`graphsde.evaluate`.
        confidence_level: how often such intervals contain the true value.
        draws: how many; fewer above 20,000 nodes.
        seed: of the draws.

    Returns:
        Low and high end by the names of :func:`graphsde.evaluate`; undefined metrics have none.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.LabelPropagation().fit(graph).predict(graph)
        >>> low, high = gs.intervals(prediction, graph)["accuracy"]
        >>> low < gs.evaluate(prediction, graph)["accuracy"] < high
        True
    """
    require_share("confidence_level", confidence_level)
    known = judged_nodes(prediction, graph)
    found: dict[str, Interval] = {}
    if known.any():
        figures = figures_of(prediction, graph, known)
        found = _of(figures, 1.0 - confidence_level, draws, seed)
        found |= CLOSED_FORMS.of(prediction)(prediction, graph, known, 1.0 - confidence_level)
    return found | _detection(prediction, graph, 1.0 - confidence_level, draws, seed, model)


def _of(figures: Figures, delta: float, draws: int, seed: int) -> dict[str, Interval]:
    nodes = sum(figures.groups)
    many = number_of_draws(nodes, draws)
    drawn = resample(figures, draws=many, seed=seed)
    observed = {name: float(value()[0]) for name, value in figures.table(np.ones((1, nodes))).items()}
    chance = figures.calibrated(numpy_stream(check_seed(seed), "metrics", "calibrated"), min(many, _CALIBRATED_DRAWS))
    found = {}
    for name, values in drawn.items():
        if math.isnan(observed[name]):
            continue
        low, high = (float(end) for end in np.nanquantile(values, [delta / 2, 1 - delta / 2]))
        if name in NEVER_ZERO:
            low, high = 2 * observed[name] - high, 2 * observed[name] - low
            if observed[name] <= np.quantile(chance[name], 1 - delta / 2):
                low, high = 0.0, max(high, observed[name])
        found[name] = _within(name, low, high)
    return found


def _within(name: str, low: float, high: float) -> Interval:
    lowest, highest = METRICS.entry(name).facts["range"] if name in METRICS and name != "nll" else (None, None)
    low, high = (max(one, -math.inf if lowest is None else lowest) for one in (low, high))
    return min(low, math.inf if highest is None else highest), min(high, math.inf if highest is None else highest)


@dataclass(frozen=True)
class Difference:
    """Of a figure between two predictions of the same nodes: the second's less the first's.

    Args:
        value: the difference.
        low, high: ends of its interval.
        verdict: ``within noise`` where the interval holds 0; ``changed`` of a figure of which more is not better.
    """

    value: float
    low: float
    high: float
    verdict: Verdict


def paired_intervals(
    before: Prediction,
    after: Prediction,
    graph: Graph,
    names: Iterable[str] | None = None,
    *,
    confidence_level: float = CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Difference]:
    """What ``after`` changed on the test nodes of ``graph``, and how much of that other nodes of the kind would change.

    Both are judged on the same nodes, so that the interval is that of the difference. Shares of nodes have the exact
    one of McNemar's test: given how many nodes changed sides, the share of them that were gained has the interval of
    Clopper and Pearson. The others have that of the paired bootstrap.

    Args:
        before, after: of the same nodes.
        graph: with a test mask.
        names: which figures; all that both have if not given.
        confidence_level, draws, seed: as of :func:`graphsde.intervals`.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> one, other = (gs.LabelPropagation(steps=n).fit(graph).predict(graph) for n in (1, 10))
        >>> paired_intervals(one, other, graph)["accuracy"].verdict
        'better'
        >>> paired_intervals(one, one, graph)["nll"].verdict
        'within noise'
    """
    require_share("confidence_level", confidence_level)
    both = judged_nodes(before, graph) & judged_nodes(after, graph)
    if not both.any():
        return {}
    delta, nodes = 1.0 - confidence_level, int(both.sum())
    old, new = figures_of(before, graph, both), figures_of(after, graph, both)
    once = np.ones((1, nodes))
    first, second = old.table(once), new.table(once)
    asked = [name for name in (first if names is None else names) if name in first and name in second]
    many = number_of_draws(nodes, draws)
    drawn = [resample(one, [n for n in asked if n not in old.hits], draws=many, seed=seed) for one in (old, new)]
    found = {}
    for name in asked:
        value = float(second[name]()[0] - first[name]()[0])
        if math.isnan(value):
            continue
        if name in old.hits:
            low, high = difference_of_shares(old.hits[name], new.hits[name], delta)
        else:
            apart = drawn[1][name] - drawn[0][name]
            low, high = (float(end) for end in np.nanquantile(apart, [delta / 2, 1 - delta / 2]))
        found[name] = Difference(value, low, high, _verdict(name, low, high))
    return found


def difference_of_shares(before: np.ndarray, after: np.ndarray, delta: float) -> Interval:
    """Exact ends for the change of a share of nodes; they hold 0 where McNemar's exact test rejects nothing.

    Args:
        before, after: which nodes count.  # [n] bool, of the same nodes
        delta: how often the interval may miss.

    Example:
        >>> low, high = difference_of_shares(np.array([0, 0, 0, 1], bool), np.array([1, 1, 1, 1], bool), 0.05)
        >>> low < 0 < high == 0.75
        True
    """
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    moved = gained + lost
    if not moved:
        return 0.0, 0.0
    low, high = clopper_pearson_interval(gained, moved, delta)
    return (2 * low - 1) * moved / len(before), (2 * high - 1) * moved / len(before)


def _verdict(name: str, low: float, high: float) -> Verdict:
    if low <= 0 <= high:
        return "within noise"
    towards = METRICS.entry(name).facts["better"] if name in METRICS else ""
    if towards not in ("higher", "lower"):
        return "changed"
    return "better" if (low > 0) == (towards == "higher") else "worse"


CLOSED_FORMS: Rules[Callable[[Any, Graph, np.ndarray, float], dict[str, Interval]]] = Rules("intervals in closed form")


@CLOSED_FORMS.register("classification")
def _of_classes(prediction: ClassPrediction, graph: Graph, known: np.ndarray, delta: float) -> dict[str, Interval]:
    truth = align_labels(graph, prediction.class_names)[known]
    right = int((prediction.index[known] == truth).sum())
    found = {"accuracy": clopper_pearson_interval(right, len(truth), delta)}
    micro = micro_auroc_interval(prediction.mean[known], truth, delta)
    return found if micro is None else found | {"micro_auroc": micro}


@CLOSED_FORMS.register("regression")
def _of_numbers(prediction: RegressionPrediction, graph: Graph, known: np.ndarray, delta: float) -> dict[str, Interval]:
    assert graph.values is not None
    judged, truth = prediction.subset(known), graph.values[known]
    low, high = judged.interval(0.9)
    inside = int(((low <= truth) & (truth <= high)).sum())
    return {"coverage90": clopper_pearson_interval(inside, len(truth), delta)}


def micro_auroc_interval(probs: np.ndarray, truth: np.ndarray, delta: float) -> Interval | None:
    """For one ROC over all (node, class) pairs, where the pairs of a node are drawn together (Obuchowski, 1997).

    The chance of each pair to be ranked rightly, averaged over a node's pairs, varies between nodes; from this follows
    a standard error, and from that an interval of the logit, which stays between 0 and 1. ``None`` with one class.
    """
    from scipy.special import expit, logit, ndtri

    nodes, classes = probs.shape
    if classes < 2:
        return None
    true = np.zeros(probs.shape, dtype=bool)
    true[np.arange(nodes), truth] = True
    positive, negative = np.sort(probs[true]), np.sort(probs[~true])
    beaten = _share_below(negative, probs[true])  # [n]
    beats = (1.0 - _share_below(positive, probs[~true])).reshape(nodes, classes - 1)  # [n, C - 1]
    area = float(beaten.mean())
    spread = float(np.sqrt(np.mean(np.square(beaten - area + beats.mean(axis=1) - area)) / nodes))
    if not 0.0 < area < 1.0:
        return area, area
    reach = -ndtri(delta / 2) * spread / (area * (1.0 - area))
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


def _share_below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Share of ``ordered`` below each value, equal ones by half."""
    left, right = np.searchsorted(ordered, values, side="left"), np.searchsorted(ordered, values, side="right")
    return (left + right) / (2 * len(ordered))


def _detection(
    prediction: Prediction, graph: Graph, delta: float, draws: int, seed: int, model: Predictor | None
) -> dict[str, Interval]:
    """For the metrics by entropy, by entropy spread over edges, and by the default score."""
    if graph.ood_nodes is None or not graph.ood_nodes.any() or graph.test_mask is None:
        return {}
    if prediction.target_kind not in DETECTION or not familiar_and_ood(graph)[0].any():
        return {}
    found = score_intervals(prediction, graph, ("entropy",), delta=delta, draws=draws, seed=seed, model=model)[
        "entropy"
    ]
    if default_score(prediction.for_detection(), graph, model) == BY_DEFAULT:
        by_default = score_intervals(prediction, graph, (BY_DEFAULT,), delta=delta, draws=draws, seed=seed, model=model)
        found |= {name: by_default[BY_DEFAULT][base] for name, base in OF_THE_DEFAULT.items()}
    return found


DETECTION = ("classification",)
"""Kinds whose OOD metrics :func:`graphsde.evaluate` includes by default."""


def score_intervals(
    prediction: Prediction,
    graph: Graph,
    scores: Sequence[str],
    *,
    delta: float = 1.0 - CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
    model: Predictor | None = None,
) -> dict[str, dict[str, Interval]]:
    """For the metrics of :func:`graphsde.metrics.compare_scores`; both groups of nodes are drawn separately."""
    familiar, ood = familiar_and_ood(graph)
    found: dict[str, dict[str, Interval]] = {}
    for name in dict.fromkeys(scores):
        plain = score(name, prediction.for_detection(), graph, model)
        spread = plain if spreads(name) else propagate(plain, graph)
        found[name] = _of(DetectionFigures(plain[familiar], plain[ood]), delta, draws, seed)
        propagated = _of(DetectionFigures(spread[familiar], spread[ood]), delta, draws, seed)
        found[name] |= {f"{figure}_propagated": ends for figure, ends in propagated.items()}
    return found
