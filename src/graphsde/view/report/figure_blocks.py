"""The figures and metrics of a report, each with the line that says how to read it, or why it is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from graphsde.metrics import METRICS
from graphsde.metrics.summary import familiar_and_ood
from graphsde.prediction import Trajectories
from graphsde.view.figures.dynamics import SamplePaths
from graphsde.view.figures.evaluation import (
    MAX_DOTS,
    DetectionCurves,
    EntropyHistogram,
    ReliabilityDiagram,
    RiskCoverageCurves,
    UncertaintyScatter,
)
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.training_curve import TrainingCurve, best_epoch
from graphsde.view.report.content import NOTHING, JudgedNodes, ReportContent, count, is_number, name, number, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go


HIGHER, LOWER = "higher is better", "lower is better"


@dataclass(frozen=True)
class Meaning:
    title: str
    explanation: str
    direction: str
    form: Callable[[Any], str] = number


MEANINGS: dict[str, Meaning] = {
    "accuracy": Meaning("Accuracy", "Share of nodes whose most probable class is the true one.", HIGHER, percent),
    "misclassification_auroc": Meaning(
        "Misclassification AUROC",
        "Chance that a wrong prediction is more uncertain than a right one; 0.5 is a coin toss.",
        HIGHER,
    ),
    "aurc": Meaning(
        "AURC", "Error rate among the nodes kept, averaged over keeping from the most certain few to all.", LOWER
    ),
    "nll": Meaning("NLL", "Mean surprise at the true class, in nats; confident mistakes cost most.", LOWER),
    "ece": Meaning(
        "Calibration error (ECE)", "Mean gap between stated confidence and how often it comes true.", LOWER, percent
    ),
    "adaptive_ece": Meaning("Adaptive ECE", "The same gap, with bins that hold equally many nodes.", LOWER, percent),
    "brier": Meaning(
        "Brier score", "Squared distance from the probabilities to the truth, summed over classes.", LOWER
    ),
    "micro_auroc": Meaning(
        "Micro-AUROC", "How well probabilities rank true classes above others; ranks classes, not mistakes.", HIGHER
    ),
    "macro_f1": Meaning(
        "Macro-F1", "F1 averaged over classes, so that rare classes count as much as common ones.", HIGHER
    ),
    "balanced_accuracy": Meaning("Balanced accuracy", "Accuracy averaged over classes.", HIGHER, percent),
    "ood_auroc": Meaning("OOD AUROC", "Chance that an OOD node is more uncertain than an in-distribution one.", HIGHER),
    "ood_auroc_propagated": Meaning(
        "OOD AUROC, propagated", "The same, with uncertainty smoothed over neighbours first.", HIGHER
    ),
    "ood_fpr95": Meaning(
        "OOD FPR95", "Share of OOD nodes accepted when 95 % of in-distribution nodes are.", LOWER, percent
    ),
}


Ends = Mapping[str, tuple[float, float]]


def metric_cards(
    metrics: Mapping[str, float | None], ends: Ends, meanings: Mapping[str, Meaning] = MEANINGS
) -> list[dict[str, str | None]]:
    """Cards for the figures given whose meaning is known, in the order of ``meanings``; ``exact`` is unrounded."""
    return [_card(key, meaning, metrics, ends) for key, meaning in meanings.items() if key in metrics]


def other_metrics(metrics: Mapping[str, float | None], ends: Ends) -> list[tuple[str, str, str, str]]:
    """Figures given that have no card: name, value, interval, and what the registry of metrics says of it."""
    return [
        (
            name(key),
            number(value, 4),
            interval(ends.get(key), lambda one: number(one, 4)),
            METRICS.entry(key).summary if key in METRICS else "",
        )
        for key, value in metrics.items()
        if key not in MEANINGS
    ]


def interval(ends: tuple[float, float] | None, form: Callable[[Any], str]) -> str:
    """ "0.91 to 0.95"; nothing where there are no ends."""
    return "" if ends is None else f"{form(ends[0])} to {form(ends[1])}"


def _card(key: str, meaning: Meaning, metrics: Mapping[str, float | None], ends: Ends) -> dict[str, str | None]:
    value = metrics[key]
    known = is_number(value)
    return {
        "key": key,
        "title": meaning.title,
        "value": meaning.form(value) if known else NOTHING,
        "interval": interval(ends.get(key) if known else None, meaning.form),
        "exact": repr(float(value)) if known and value is not None else None,
        "explanation": meaning.explanation,
        "direction": meaning.direction if known else "not defined for this run",
        "basis": _basis(key, metrics),
    }


def _basis(key: str, metrics: Mapping[str, float | None]) -> str:
    familiar, ood = metrics.get("n_id"), metrics.get("n_ood")
    tested, wrong = metrics.get("n_test"), metrics.get("n_errors")
    if key.startswith("ood_"):
        if is_number(familiar) and is_number(ood):
            return f"n = {familiar:,.0f} in-distribution + {ood:,.0f} OOD"
        return ""
    if key == "misclassification_auroc" and is_number(tested) and is_number(wrong):
        return f"n = {wrong:,.0f} wrong of {tested:,.0f}"
    return f"n = {tested:,.0f}" if is_number(tested) else ""


NOT_JUDGED = "Not drawn: it needs test nodes with known labels."


@dataclass(frozen=True)
class FigureBlock:
    """A figure's place on the page; ``data`` (escaped) is ``None`` where none is drawn; ``picture`` has other faces."""

    key: str
    title: str
    caption: str
    data: Markup | None = None
    height: int = 0
    picture: Picture | None = None


def script_json(value: Any) -> str:
    """JSON that no name in it can use to end the script element around it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 can't occur
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure_blocks(content: ReportContent, judged: JudgedNodes) -> list[FigureBlock]:
    blocks = [_entropy(content, judged), _risk_coverage(content, judged), _reliability(content, judged)]
    if content.graph.ood_nodes is not None and content.graph.ood_nodes.any() and judged.has_test:
        blocks.append(_detection(content))
    if content.prediction.kind != "deterministic":
        blocks.append(_scatter(content, judged))
    if content.trajectories is not None:
        blocks.append(_paths(content.trajectories))
    blocks.append(_training(content))
    return blocks


def block(key: str, title: str, caption: str, figure: Picture | go.Figure | None) -> FigureBlock:
    if figure is None:
        return FigureBlock(key, title, caption)
    picture = figure if isinstance(figure, Picture) else None
    plain = (figure.plotly() if isinstance(figure, Picture) else figure).to_plotly_json()
    return FigureBlock(key, title, caption, Markup(script_json(plain)), int(plain["layout"]["height"]), picture)


def _entropy(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    total, classes = content.prediction.total, content.classes.num_classes
    if len(judged):
        title = "Uncertainty of right and wrong predictions"
        caption = (
            "The further the wrong ones lie to the right of the right ones, the better uncertainty finds mistakes."
        )
        return block("entropy", title, caption, EntropyHistogram.of(total[judged.rows], judged.right, classes))
    kind = "test node" if judged.has_test else "node"
    caption = f"Over {count(len(judged.shown), kind)}; without known test labels, right and wrong are unknown."
    figure = EntropyHistogram.of(total[judged.shown], None, classes)
    return block("entropy", "Uncertainty of the predictions", caption, figure)


def _risk_coverage(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Error rate when only the most certain nodes are kept"
    if not len(judged):
        return block("risk-coverage", title, NOT_JUDGED, None)
    caption = (
        "Read from right to left: the more of the nodes with the lowest confidence are set aside for review, the "
        "fewer mistakes should remain. Random order is what a confidence without meaning gives; the oracle knows all "
        "mistakes."
    )
    doubt = 1.0 - content.classes.confidence[judged.rows]
    return block("risk-coverage", title, caption, RiskCoverageCurves.of({"this model": (doubt, ~judged.right)}))


def _reliability(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Does stated confidence come true?"
    if not len(judged):
        return block("reliability", title, NOT_JUDGED, None)
    caption = (
        "Bars that end at the dashed line are calibrated; shorter ones mean overconfidence, longer ones caution. The "
        "lower part counts the nodes in each bin: a bar that few nodes support says little."
    )
    probs = content.prediction.mean[judged.rows]
    return block("reliability", title, caption, ReliabilityDiagram.of(probs, judged.truth))


def _detection(content: ReportContent) -> FigureBlock:
    caption = (
        "By predictive entropy, a common temperature undone. On the left every threshold, the diamond where 95 % of "
        "the in-distribution nodes are accepted; on the right how many of the nodes called OOD are."
    )
    doubt = content.prediction.for_detection().total
    familiar, ood = familiar_and_ood(content.graph)
    title = "Are OOD nodes detected?"
    if not familiar.any():
        return block("detection", title, "Not drawn: there are no in-distribution test nodes to compare with.", None)
    return block("detection", title, caption, DetectionCurves.of({"entropy": (doubt[familiar], doubt[ood])}))


def _scatter(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    prediction = content.prediction
    rows, right = (judged.rows, judged.right) if len(judged) else (judged.shown, None)
    figure = UncertaintyScatter(
        prediction.aleatoric[rows], prediction.epistemic[rows], right, np.asarray(prediction.ids)[rows]
    )
    caption = "Far to the right: the node resembles several classes. High up: the model has not settled on an answer."
    if len(rows) > MAX_DOTS:
        caption += f" A fixed random choice of {MAX_DOTS:,} out of {count(len(rows), 'node')}."
    return block("scatter", "Two kinds of uncertainty", caption, figure)


def _paths(trajectories: Trajectories) -> FigureBlock:
    caption = (
        "What the decoder would say at each moment: thin lines are single paths, the band holds 90 % of them, the "
        "thick line is their mean. Where the bands of two classes overlap at the end, the model has not decided."
    )
    title = f"How node {name(trajectories.ids[0])} came to be uncertain"
    return block("paths", title, caption, SamplePaths(trajectories, 0))


def _training(content: ReportContent) -> FigureBlock:
    if not content.history:
        return block("training", "Training", "Not drawn: no training history was recorded.", None)
    best = best_epoch(content.history)
    caption = f"{count(len(content.history), 'row')} of history."
    if best is not None:
        caption = f"The dotted line marks epoch {best:,}, the one kept."
    return block("training", "Training", caption, TrainingCurve.of(content.history))
