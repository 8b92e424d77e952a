"""The figures of a report, each with a caption that says how to read it, or why it is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.prediction import Trajectories
from graphsde.view.figures.entropy_histogram import entropy_histogram
from graphsde.view.figures.reliability import reliability_diagram
from graphsde.view.figures.risk_coverage import risk_coverage_curve
from graphsde.view.figures.sample_paths import sample_paths
from graphsde.view.figures.training_curve import best_epoch, training_curve
from graphsde.view.figures.uncertainty_scatter import MAX_DOTS, uncertainty_scatter
from graphsde.view.report.content import ReportContent
from graphsde.view.report.formatting import count, name
from graphsde.view.report.judged_nodes import JudgedNodes

if TYPE_CHECKING:
    import plotly.graph_objects as go

NOT_JUDGED = "Not drawn: it needs test nodes with known labels."


@dataclass(frozen=True)
class FigureBlock:
    """A figure's place on the page; ``data`` is ``None`` where there is nothing to draw."""

    key: str
    title: str
    caption: str
    data: str | None = None
    height: int = 0


def script_json(value: Any) -> str:
    """JSON that no name in it can use to end the script element around it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 can't occur
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure_blocks(content: ReportContent, judged: JudgedNodes) -> list[FigureBlock]:
    blocks = [_entropy(content, judged), _risk_coverage(content, judged), _reliability(content, judged)]
    if content.prediction.kind != "deterministic":
        blocks.append(_scatter(content, judged))
    if content.trajectories is not None:
        blocks.append(_paths(content.trajectories))
    blocks.append(_training(content))
    return blocks


def _block(key: str, title: str, caption: str, figure: go.Figure | None) -> FigureBlock:
    if figure is None:
        return FigureBlock(key, title, caption)
    plain = figure.to_plotly_json()
    return FigureBlock(key, title, caption, script_json(plain), int(plain["layout"]["height"]))


def _entropy(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    total, classes = content.prediction.total, content.prediction.num_classes
    if len(judged):
        title = "Uncertainty of right and wrong predictions"
        caption = (
            "The further the wrong ones lie to the right of the right ones, the better uncertainty finds mistakes."
        )
        return _block("entropy", title, caption, entropy_histogram(total[judged.rows], judged.right, classes))
    kind = "test node" if judged.has_test else "node"
    caption = f"Over {count(len(judged.shown), kind)}; without known test labels, right and wrong can't be told apart."
    figure = entropy_histogram(total[judged.shown], None, classes)
    return _block("entropy", "Uncertainty of the predictions", caption, figure)


def _risk_coverage(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Error rate when only the surest nodes are kept"
    if not len(judged):
        return _block("risk-coverage", title, NOT_JUDGED, None)
    caption = (
        "Read from right to left: the more of the nodes with the lowest confidence are set aside for review, the "
        "fewer mistakes should remain. Random order is what a confidence without meaning gives; the oracle knows all "
        "mistakes."
    )
    figure = risk_coverage_curve(1.0 - content.prediction.confidence[judged.rows], ~judged.right)
    return _block("risk-coverage", title, caption, figure)


def _reliability(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    title = "Does stated confidence come true?"
    if not len(judged):
        return _block("reliability", title, NOT_JUDGED, None)
    caption = (
        "Bars that end at the dashed line are honest; shorter ones mean overconfidence, longer ones caution. The lower "
        "part counts the nodes in each bin: a bar that few nodes support says little."
    )
    figure = reliability_diagram(content.prediction.mean[judged.rows], judged.truth)
    return _block("reliability", title, caption, figure)


def _scatter(content: ReportContent, judged: JudgedNodes) -> FigureBlock:
    prediction = content.prediction
    rows, right = (judged.rows, judged.right) if len(judged) else (judged.shown, None)
    figure = uncertainty_scatter(
        prediction.aleatoric[rows], prediction.epistemic[rows], right, np.asarray(prediction.node_ids)[rows]
    )
    caption = "Far to the right: the node resembles several classes. High up: the model has not settled on an answer."
    if len(rows) > MAX_DOTS:
        caption += f" A fixed random choice of {MAX_DOTS:,} out of {count(len(rows), 'node')}."
    return _block("scatter", "Two kinds of uncertainty", caption, figure)


def _paths(trajectories: Trajectories) -> FigureBlock:
    caption = (
        "What the decoder would say at each moment: thin lines are single paths, the band holds 90 % of them, the "
        "thick line is their mean. Where the bands of two classes overlap at the end, the model has not decided."
    )
    title = f"How node {name(trajectories.node_ids[0])} came to be uncertain"
    return _block("paths", title, caption, sample_paths(trajectories, 0))


def _training(content: ReportContent) -> FigureBlock:
    if not content.history:
        return _block("training", "Training", "Not drawn: no training history was recorded.", None)
    best = best_epoch(content.history)
    caption = f"{count(len(content.history), 'row')} of history."
    if best is not None:
        caption = f"The dotted line marks epoch {best:,}, where validation NLL was lowest."
    return _block("training", "Training", caption, training_curve(content.history))
