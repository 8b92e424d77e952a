"""Labels from a visitor, and the results of a run from round to round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.acting.ask import Questions, ask
from graphsde.base import storage
from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.prediction import ClassPrediction
from graphsde.runs.label_book import LabelBook
from graphsde.runs.learn import Learned
from graphsde.runs.state import HISTORY
from graphsde.view.app.library import OpenRun
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, ORANGE
from graphsde.view.report.content import judge

BATCH = 10
"""Questions asked at a time."""

NodeId = int | str


@dataclass
class LabelQueue:
    """Answers in order of arrival.

    Args:
        path: the file they are kept in.
        given: class names by node id.
        skipped: nodes that the visitor skipped.
    """

    path: Path
    given: dict[NodeId, str] = field(default_factory=dict)
    skipped: list[NodeId] = field(default_factory=list)

    @classmethod
    def of_run(cls, run: Path) -> LabelQueue:
        """The queue of a run; an unreadable file is moved aside, and the queue starts over."""
        path = run.parent / ".labels" / f"{run.name}.json"
        if not path.exists():
            return cls(path)
        try:
            values = storage.read_json(path)
            given = {_node_id(node): str(name) for node, name in values["given"]}
            return cls(path, given, [_node_id(node) for node in values["skipped"]])
        except (GraphsdeError, ValueError, KeyError, TypeError):
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".damaged.json"))
            return cls(path)

    def give(self, node: NodeId, name: str, classes: Sequence[str]) -> None:
        if name not in classes:
            raise BadInput(f"'{name}' is not a class of this run", code="E-LABEL-UNKNOWN", found=name)
        self.given[node] = name
        self._save()

    def take_back(self, node: NodeId) -> None:
        self.given.pop(node, None)
        self._save()

    def skip(self, node: NodeId) -> None:
        self.skipped.append(node)
        self._save()

    def learned(self, nodes: Iterable[NodeId]) -> None:
        """Mark these as learned; labels that came in meanwhile wait for the next round."""
        for node in nodes:
            self.given.pop(node, None)
        self._save()

    def _save(self) -> None:
        storage.write_json(self.path, {"given": [[n, name] for n, name in self.given.items()], "skipped": self.skipped})


def next_questions(
    prediction: ClassPrediction, graph: Graph, by: str, queue: LabelQueue, budget: int = BATCH
) -> Questions:
    """What to label next; answered or skipped nodes are not asked again."""
    known = [node for node in [*queue.given, *queue.skipped] if node in graph.position]
    return ask(prediction, graph, budget=budget, by=by, skip=known)


def label_columns(run: Path, queue: LabelQueue) -> dict[str, Any]:
    """All labels given to this run since its first fit, learned or not, as a table."""
    learned = LabelBook.of_run(run).labels
    pairs = [(node, name) for node, name, _ in learned] + list(queue.given.items())
    rounds: list[int | None] = [number for _, _, number in learned]
    ids = [node for node, _ in pairs]
    text = any(isinstance(node, str) for node in ids)
    return {
        "id": np.array(ids, dtype=object) if text else np.array(ids, dtype=np.int64),
        "label": np.array([name for _, name in pairs], dtype=object),
        "round": [*rounds, *[None] * len(queue.given)],
    }


def _node_id(value: Any) -> NodeId:
    return value if isinstance(value, str) else int(value)


@dataclass(frozen=True)
class Round:
    """The state after a round; ``accuracy`` is ``None`` if there are no test nodes."""

    labels: int
    accuracy: float | None
    entropy: float


@dataclass(frozen=True, eq=False)
class RoundCurve(Picture):
    """Accuracy on test nodes and mean uncertainty of nodes outside training, over labels."""

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
    """The record of every round, in order."""
    folders = [path for path in (run / HISTORY).glob("*") if path.name.isdecimal()]
    found = []
    for folder in [*sorted(folders, key=lambda path: int(path.name)), run]:
        try:
            found.append(Learned.of_run(folder))
        except (GraphsdeError, ValueError, KeyError, TypeError):
            continue  # the first round has none
    return found


def round_curve(run: OpenRun) -> RoundCurve:
    """One point per round, starting with the first fit.

    Every point is measured on the same nodes, the current test nodes (or nodes outside training): a node that gets
    a label leaves the test set, and such nodes are hard ones, so a curve over each round's test nodes would rise by
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
    """The prediction of an earlier round for the current nodes; ``None`` if it can no longer be read."""
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
