"""The figures of a report, each with a caption that says how to read it, or why it is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.prediction import Trajectories
from graphsde.scores.metrics.summary import familiar_and_foreign
from graphsde.view.figures.detection_curves import DetectionCurves
from graphsde.view.figures.entropy_histogram import EntropyHistogram
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.reliability import ReliabilityDiagram
from graphsde.view.figures.risk_coverage import RiskCoverageCurves
from graphsde.view.figures.sample_paths import SamplePaths
from graphsde.view.figures.training_curve import TrainingCurve, best_epoch
from graphsde.view.figures.uncertainty_scatter import MAX_DOTS, UncertaintyScatter
from graphsde.view.report.content import ReportContent
from graphsde.view.report.formatting import count, name
from graphsde.view.report.judged_nodes import JudgedNodes

if TYPE_CHECKING:
    import plotly.graph_objects as go

NOT_JUDGED = "Not drawn: it needs test nodes with known labels."


@dataclass(frozen=True)
class FigureBlock:
    """A figure's place on the page; ``data`` is ``None`` where nothing can be drawn; ``picture`` has other faces."""

    key: str
    title: str
    caption: str
    data: str | None = None
    height: int = 0
    picture: Picture | None = None


def script_json(value: Any) -> str:
    """JSON that no name in it can use to end the script element around it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 can't occur
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure_blocks(content: ReportContent, judged: JudgedNodes) -> list[FigureBlock]:
    blocks = [_entropy(content, judged), _risk_coverage(content, judged), _reliability(content, judged)]
    if content.graph.foreign is not None and content.graph.foreign.any() and judged.has_test:
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
    return FigureBlock(key, title, caption, script_json(plain), int(plain["layout"]["height"]), picture)


def _entropy(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    total, classes = content.prediction.total, content.prediction.num_classes
    if len(judged):
        title = "Uncertainty of right and wrong predictions"
        caption = (
            "The further the wrong ones lie to the right of the right ones, the better uncertainty finds mistakes."
        )
        return block("entropy", title, caption, EntropyHistogram.of(total[judged.rows], judged.right, classes))
    kind = "test node" if judged.has_test else "node"
    caption = f"Over {count(len(judged.shown), kind)}; without known test labels, right and wrong can't be told apart."
    figure = EntropyHistogram.of(total[judged.shown], None, classes)
    return block("entropy", "Uncertainty of the predictions", caption, figure)


def _risk_coverage(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Error rate when only the surest nodes are kept"
    if not len(judged):
        return block("risk-coverage", title, NOT_JUDGED, None)
    caption = (
        "Read from right to left: the more of the nodes with the lowest confidence are set aside for review, the "
        "fewer mistakes should remain. Random order is what a confidence without meaning gives; the oracle knows all "
        "mistakes."
    )
    doubt = 1.0 - content.prediction.confidence[judged.rows]
    figure = RiskCoverageCurves.of({"this model": (doubt, ~judged.right)})
    return block("risk-coverage", title, caption, figure)


def _reliability(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Does stated confidence come true?"
    if not len(judged):
        return block("reliability", title, NOT_JUDGED, None)
    caption = (
        "Bars that end at the dashed line are honest; shorter ones mean overconfidence, longer ones caution. The lower "
        "part counts the nodes in each bin: a bar that few nodes support says little."
    )
    figure = ReliabilityDiagram.of(content.prediction.mean[judged.rows], judged.truth)
    return block("reliability", title, caption, figure)


def _detection(content: ReportContent) -> FigureBlock:
    caption = (
        "By predictive entropy, any temperature undone. On the left every threshold, the diamond where 95 % of the "
        "familiar nodes are accepted; on the right how many of the nodes called foreign are."
    )
    doubt = content.prediction.untempered().total
    familiar, foreign = familiar_and_foreign(content.graph)
    title = "Are foreign nodes told?"
    if not familiar.any():
        return block("detection", title, "Not drawn: there are no familiar test nodes to compare with.", None)
    return block("detection", title, caption, DetectionCurves.of({"entropy": (doubt[familiar], doubt[foreign])}))


def _scatter(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    prediction = content.prediction
    rows, right = (judged.rows, judged.right) if len(judged) else (judged.shown, None)
    figure = UncertaintyScatter(
        prediction.aleatoric[rows], prediction.epistemic[rows], right, np.asarray(prediction.node_ids)[rows]
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
    title = f"How node {name(trajectories.node_ids[0])} came to be uncertain"
    return block("paths", title, caption, SamplePaths(trajectories, 0))


def _training(content: ReportContent) -> FigureBlock:
    if not content.history:
        return block("training", "Training", "Not drawn: no training history was recorded.", None)
    best = best_epoch(content.history)
    caption = f"{count(len(content.history), 'row')} of history."
    if best is not None:
        caption = f"The dotted line marks epoch {best:,}, where validation NLL was lowest."
    return block("training", "Training", caption, TrainingCurve.of(content.history))
