"""How a run has fared from round to round of labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphsde import storage
from graphsde.data.graph import Graph
from graphsde.data.ids import locate
from graphsde.errors import GraphsdeError
from graphsde.runs.learn import SUMMARY, Learned
from graphsde.runs.rounds import HISTORY
from graphsde.view.app.library import OpenRun
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.palette import BLUE, ORANGE
from graphsde.view.figures.picture import Picture
from graphsde.view.report.judged_nodes import judge


@dataclass(frozen=True)
class Round:
    """The state after a round; ``accuracy`` is ``None`` where there are no test nodes."""

    labels: int
    accuracy: float | None
    entropy: float


@dataclass(frozen=True, eq=False)
class RoundCurve(Picture):
    """Accuracy on test nodes and mean uncertainty of nodes that are not for training, over labels."""

    rounds: tuple[Round, ...]

    def chart(self) -> Chart:
        labels = np.array([one.labels for one in self.rounds], dtype=np.float64)
        right = np.array([np.nan if one.accuracy is None else 100 * one.accuracy for one in self.rounds])
        doubt = np.array([one.entropy for one in self.rounds])
        x = Axis("training labels", grid=False)
        panels = []
        if np.isfinite(right).any():
            marks = (Line("accuracy", labels, right, BLUE, dots=True, hover="%{x} labels: %{y:.2f} % right"),)
            panels.append(Panel(x, Axis("right on test nodes", " %"), marks))
        marks = (Line("mean uncertainty", labels, doubt, ORANGE, dots=True, hover="%{x} labels: %{y:.4f} nats"),)
        panels.append(Panel(x, Axis("mean uncertainty"), marks))
        return Chart(tuple(panels), page_height=230, legend=False)


def learned_rounds(run: Path) -> list[Learned]:
    """What every round said of itself, the first one first."""
    folders = [path for path in (run / HISTORY).glob("*") if path.name.isdecimal()]
    found = []
    for folder in [*sorted(folders, key=lambda path: int(path.name)), run]:
        try:
            found.append(Learned.from_dict(json.loads(storage.read_text(folder / SUMMARY))))
        except (GraphsdeError, ValueError, KeyError, TypeError):
            continue  # the first round has none
    return found


def round_curve(run: OpenRun) -> RoundCurve:
    """One point per round, beginning with the first fit.

    Every point is measured on the same nodes, those that are for testing (or not for training) today: a node that gets
    a label leaves the test, and such nodes are hard ones, so that a curve over the test nodes of each day would rise by
    itself.
    """
    graph, prediction = run.graph, run.prediction
    folder = run.folder.path
    learned = learned_rounds(folder)
    train = np.zeros(graph.num_nodes, dtype=bool) if graph.train_mask is None else graph.train_mask
    judged = judge(graph, prediction)
    truth = np.array(prediction.class_names, dtype=object)[judged.truth]
    labels = [one.training_nodes for one in learned] or [int(train.sum())]
    if learned:
        labels = [labels[0] - learned[0].added, *labels]
    rounds = [_measured(labels[-1], prediction.label, prediction.total, judged.rows, truth, ~train)]
    for number in range(len(labels) - 2, -1, -1):
        before = _table(folder / HISTORY / str(number) / "predictions.parquet", graph)
        if before is None:
            break
        rounds.append(_measured(labels[number], *before, judged.rows, truth, ~train))
    return RoundCurve(tuple(reversed(rounds)))


def _measured(
    labels: int, predicted: np.ndarray, total: np.ndarray, tested: np.ndarray, truth: np.ndarray, rest: np.ndarray
) -> Round:
    right = float((predicted[tested] == truth).mean()) if len(tested) else None
    return Round(labels, right, float(total[rest & np.isfinite(total)].mean()))


def _table(path: Path, graph: Graph) -> tuple[np.ndarray, np.ndarray] | None:
    """What an earlier round said of the nodes of today; ``None`` where it can't be read any more."""
    import pyarrow.parquet as pa_parquet

    try:
        table = pa_parquet.read_table(path, columns=["id", "label", "total"]).to_pydict()
    except (OSError, ValueError, KeyError):
        return None
    positions = locate(table["id"], graph.node_ids)
    here = positions >= 0
    predicted, total = np.full(graph.num_nodes, None, dtype=object), np.full(graph.num_nodes, np.nan)
    predicted[positions[here]] = np.array(table["label"], dtype=object)[here]
    total[positions[here]] = np.array(table["total"], dtype=np.float64)[here]
    return predicted, total
