"""What a report shows of predicted numbers, instead of the parts about classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.prediction import RegressionPrediction, require
from graphsde.uncertainty.conformal.intervals import conformal_intervals
from graphsde.view.figures.regression import (
    DeviationScatter,
    ErrorWhenKeeping,
    LossCurve,
    PredictedAndTrue,
    QuantileReliability,
)
from graphsde.view.figures.training_curve import best_epoch
from graphsde.view.report.content import (
    HOW_MANY,
    NOTHING,
    PICTURES,
    SECTIONS,
    SHORT,
    ReportContent,
    Sections,
    count,
    name,
    nodes_title,
    percent,
    uncertainty_note,
)
from graphsde.view.report.figure_blocks import HIGHER, LOWER, NOT_JUDGED, FigureBlock, Meaning, block, metric_cards

LEVEL = 0.9
MEANINGS: dict[str, Meaning] = {
    "rmse": Meaning("RMSE", "Root of the mean squared error, in the target's unit.", LOWER),
    "mae": Meaning("MAE", "Mean absolute error, in the target's unit.", LOWER),
    "r2": Meaning("R²", "Share of the target's variance that is explained; 0 is what the mean alone gives.", HIGHER),
    "crps": Meaning("CRPS", "Distance of the predicted distribution from the true value; of a point, the MAE.", LOWER),
    "nll": Meaning("NLL", "Mean surprise at the true value, in nats; it depends on the target's unit.", LOWER),
    "coverage90": Meaning("Coverage", "Share of true values inside the 90 % intervals.", "best at 90 %", percent),
    "interval_width90": Meaning(
        "Interval width", "Mean of 90 % intervals; narrow is good where coverage holds.", LOWER
    ),
    "calibration_error": Meaning(
        "Calibration error",
        "Mean gap between the level of a quantile and the share of values below it.",
        LOWER,
        percent,
    ),
    "miscalibration_area": Meaning(
        "Miscalibration area",
        "Area between the shares of values inside central intervals and their levels.",
        LOWER,
    ),
    "ence": Meaning(
        "ENCE",
        "Mean gap between predicted and actual errors, relative to the predicted, in bins of the deviation.",
        LOWER,
        percent,
    ),
    "spread_spearman": Meaning(
        "Error and deviation (Spearman)",
        "Rank correlation: whether larger deviations come with larger errors.",
        HIGHER,
    ),
}


def _asked(graph: Graph) -> tuple[str, str]:
    return "Features and target", f"{graph.num_features:,} and a number"


def _pictures(content: ReportContent, model: Model) -> dict[str, Any]:
    blocks = _parts(content)["figures"]
    return {one.key: one.picture for one in blocks if one.picture is not None}


def _parts(content: ReportContent) -> dict[str, Any]:
    """The parts of the page that differ from a report about classes, by their names in the template."""
    prediction, graph = require(content.prediction, RegressionPrediction, "this page"), content.graph
    test = np.zeros(0, dtype=np.int64) if graph.test_mask is None else np.flatnonzero(graph.test_mask)
    has_test = len(test) > 0
    shown = test if has_test else np.arange(graph.num_nodes)
    judged = shown[graph.labelled[shown]] if has_test else shown[:0]
    rows = most_uncertain(graph, prediction, shown)
    return {
        "verdict": _verdict(content.metrics, len(judged), prediction)
        + (_guaranteed(prediction, graph) if content.decisions is None else ""),
        "cards": metric_cards(content.metrics, content.intervals, MEANINGS),
        "classes": None,
        "figures": _figures(content, prediction, shown, judged),
        "nodes_title": nodes_title(len(rows), has_test=has_test),
        "nodes_note": uncertainty_note(
            prediction,
            "The square of total is that of aleatoric (noise of the node) plus that of epistemic (not settled).",
        ),
        "nodes": rows,
        "others": [],
        "neighbours_note": "",
    }


SECTIONS.register("regression")(Sections("regression.html", _parts, _asked))
PICTURES.register("regression")(_pictures)


def most_uncertain(graph: Graph, prediction: RegressionPrediction, shown: np.ndarray) -> list[dict[str, str]]:
    """Rows for the nodes with the largest variance, the first of equals first, every entry ready to be printed."""
    order = shown[np.argsort(-prediction.total[shown], kind="stable")[:HOW_MANY]]
    low, high = prediction.interval(0.9)
    return [_row(graph, prediction, int(node), float(low[node]), float(high[node])) for node in order]


def _row(graph: Graph, prediction: RegressionPrediction, node: int, low: float, high: float) -> dict[str, str]:
    truth = float("nan") if graph.values is None else float(graph.values[node])
    known = np.isfinite(truth)
    epistemic = prediction.epistemic[node]
    return {
        "node": name(graph.called(node), SHORT),
        "predicted": _short(prediction.mean[node]),
        "interval": f"{_short(low)} to {_short(high)}",
        "truth": _short(truth) if known else NOTHING,
        "verdict": ("inside" if low <= truth <= high else "outside") if known else "",
        "total": _short(np.sqrt(prediction.total[node])),
        "aleatoric": _short(np.sqrt(prediction.aleatoric[node])),
        "epistemic": NOTHING if np.isnan(epistemic) else _short(np.sqrt(epistemic)),
        "degree": f"{int(graph.adjacency.degree[node]):,}",
    }


def _short(value: float | np.floating) -> str:
    return f"{float(value):.4g}"


def _verdict(metrics: Mapping[str, float | None], judged: int, prediction: RegressionPrediction) -> str:
    error, held = metrics.get("rmse"), metrics.get("coverage90")
    if not judged or error is None or held is None:
        nodes = count(prediction.num_items, "node")
        return f"The model put a number on {nodes}; no test node has a known value, so this page can't say how far off."
    return (
        f"On {count(judged, 'test node')} the prediction is off by {_short(error)} (RMSE); "
        f"{percent(held)} of the true values lie inside the intervals that should hold 90 %."
    )


def _guaranteed(prediction: RegressionPrediction, graph: Graph) -> str:
    """What is guaranteed of the values, in one sentence; empty where there are too few labels for it."""
    try:
        intervals = conformal_intervals(prediction, graph, confidence_level=LEVEL)
    except (BadInput, BadUsage):
        return ""
    low, high = intervals.predict_interval(prediction)
    nodes = count(int(intervals.calibration.sum()), "calibration node")
    reach = _short((high - low).mean() / 2)
    return (
        f" Conformal intervals, {reach} to either side on average, hold the value of at least {100 * LEVEL:g} % of all "
        f"nodes: guaranteed on average over draws of the {nodes}."
    )


def _figures(
    content: ReportContent, prediction: RegressionPrediction, shown: np.ndarray, judged: np.ndarray
) -> list[FigureBlock]:
    judging: dict[str, tuple[str, str, type[PredictedAndTrue | QuantileReliability | ErrorWhenKeeping]]] = {
        "fit": (
            "Predicted and true values",
            "Whiskers are 90 % intervals: about one in ten should miss the dashed line, all over the range.",
            PredictedAndTrue,
        ),
        "quantiles": (
            "Do the quantiles hold?",
            "On the dashed line the stated probabilities come true; a flatter curve means intervals that are "
            "too narrow, a steeper one too wide.",
            QuantileReliability,
        ),
        "keeping": (
            "Error when only the surest nodes are kept",
            "Read from right to left: the more of the nodes with the largest variance are set aside, the smaller the "
            "error should be. Random order is what a variance without meaning gives; the oracle knows all.",
            ErrorWhenKeeping,
        ),
    }
    if len(judged) and content.graph.values is not None:
        of_judged, truth = prediction.subset(judged), content.graph.values[judged]
        blocks = [
            block(key, title, caption, picture.of(of_judged, truth))
            for key, (title, caption, picture) in judging.items()
        ]
    else:
        blocks = [block(key, title, NOT_JUDGED, None) for key, (title, _, _) in judging.items()]
    if prediction.kind != "deterministic":
        deviations = np.sqrt(prediction.aleatoric[shown]), np.sqrt(prediction.epistemic[shown])
        scatter = DeviationScatter(*deviations, np.asarray(prediction.ids)[shown])
        caption = "Far to the right: the node is noisy. High up: the model has not settled, more labels would help."
        blocks.append(block("scatter", "Two kinds of uncertainty", caption, scatter))
    if content.history:
        best = best_epoch(content.history)
        caption = "" if best is None else f"The dotted line marks epoch {best:,}, the one kept. "
        caption += "Losses are those of the standardised target."
        blocks.append(block("training", "Training", caption, LossCurve.of(content.history)))
    return blocks
