"""Labels from a visitor, and the results of a run from round to round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.acting.ask import Questions, ask
from graphsde.base import storage
from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.runs.label_book import LabelBook
from graphsde.runs.learn import Learned
from graphsde.runs.state import HISTORY
from graphsde.view.app.library import OpenRun
from graphsde.view.app.node_view import guess_of
from graphsde.view.app.words import plain
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, ORANGE
from graphsde.view.report.content import judge

BATCH = 10
"""Questions asked at a time."""

NodeId = int | str
Answer = str | float
"""The name of a class, or a number."""


@dataclass
class LabelQueue:
    """Answers in order of arrival.

    Args:
        path: the file they are kept in.
        given: class names or numbers by node id.
        skipped: nodes that the visitor did not want to judge.
    """

    path: Path
    given: dict[NodeId, Answer] = field(default_factory=dict)
    skipped: list[NodeId] = field(default_factory=list)

    @classmethod
    def of_run(cls, run: Path) -> LabelQueue:
        """The queue of a run; an unreadable file is moved aside, and the queue starts over."""
        path = run.parent / ".labels" / f"{run.name}.json"
        if not path.exists():
            return cls(path)
        try:
            values = storage.read_json(path)
            given = {_node_id(node): _answer(said) for node, said in values["given"]}
            return cls(path, given, [_node_id(node) for node in values["skipped"]])
        except (GraphsdeError, ValueError, KeyError, TypeError):
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".damaged.json"))
            return cls(path)

    def give(self, node: NodeId, answer: Answer, classes: Sequence[str]) -> None:
        """An answer: one of ``classes`` or, where there are none, a finite number."""
        if classes and answer not in classes:
            raise BadInput(f"'{answer}' is no class of this run", code="E-LABEL-UNKNOWN", found=answer)
        if not classes and (isinstance(answer, str) or not np.isfinite(answer)):
            raise BadInput(f"'{answer}' is no number", code="E-VALUE-TYPE", found=answer, expected="a finite number")
        self.given[node] = answer
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
        storage.write_json(self.path, {"given": [list(pair) for pair in self.given.items()], "skipped": self.skipped})


def next_questions(prediction: Prediction, graph: Graph, by: str, queue: LabelQueue, budget: int = BATCH) -> Questions:
    """What to label next; nodes that were answered or skipped are not asked for again."""
    known = [node for node in [*queue.given, *queue.skipped] if node in graph.position]
    return ask(prediction, graph, budget=budget, by=by, skip=known)


@dataclass(frozen=True)
class Answered:
    """An answer next to what the model had said: shown only now, so that it influenced no one."""

    node: str
    answer: str
    guess: str
    agrees: bool


def answered(prediction: Prediction, graph: Graph, queue: LabelQueue) -> list[Answered]:
    """All answers that wait, the newest first; of a node that has left the graph there is no guess."""
    found = []
    for node, answer in reversed(queue.given.items()):
        row = graph.position.get(node)
        guess = None if row is None else guess_of(graph, prediction, row)
        name = plain(node if row is None else graph.called(row))
        said = plain(answer if isinstance(answer, str) else f"{answer:.6g}")
        found.append(
            Answered(name, said, "" if guess is None else guess.short, guess is not None and guess.agrees(answer))
        )
    return found


def label_columns(run: Path, queue: LabelQueue) -> dict[str, Any]:
    """All labels given to this run since its first fit, learned or not, as a table."""
    learned = LabelBook.of_run(run).labels
    pairs: list[tuple[NodeId, Answer]] = [(node, said) for node, said, _ in learned] + list(queue.given.items())
    rounds: list[int | None] = [number for _, _, number in learned]
    ids = [node for node, _ in pairs]
    text = any(isinstance(node, str) for node in ids)
    return {
        "id": np.array(ids, dtype=object) if text else np.array(ids, dtype=np.int64),
        "label": np.array([said for _, said in pairs], dtype=object),
        "round": [*rounds, *[None] * len(queue.given)],
    }


def _node_id(value: Any) -> NodeId:
    return value if isinstance(value, str) else int(value)


def _answer(value: Any) -> Answer:
    return value if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class Round:
    """The state after a round; ``quality`` is ``None`` where there are no test nodes."""

    labels: int
    quality: float | None
    doubt: float


@dataclass(frozen=True)
class Measure:
    """How the rounds of a kind of prediction are measured.

    Args:
        columns: of a table of predictions: what is predicted, and the uncertainty.
        judge: test nodes, and how good what is predicted of them is.
        quality, doubt: what both figures are called.
        unit, factor: of the quality, as it is shown.
        spread: the uncertainty that is shown, made from the column.
    """

    columns: tuple[str, str]
    judge: Callable[[Graph, Any], tuple[np.ndarray, Callable[[np.ndarray], float]]]
    quality: str
    doubt: str
    unit: str = ""
    factor: float = 1.0
    spread: Callable[[np.ndarray], np.ndarray] = lambda values: values

    def words(self, quality: float) -> str:
        return f"{self.factor * quality:.4g}{self.unit}"


MEASURES: Rules[Measure] = Rules("measuring rounds of labels")


def _judge_classes(graph: Graph, prediction: ClassPrediction) -> tuple[np.ndarray, Callable[[np.ndarray], float]]:
    judged = judge(graph, prediction)
    truth = np.array(prediction.class_names, dtype=object)[judged.truth]
    return judged.rows, lambda predicted: float((predicted == truth).mean())


def _judge_numbers(graph: Graph, prediction: RegressionPrediction) -> tuple[np.ndarray, Callable[[np.ndarray], float]]:
    rows = np.flatnonzero(graph.role("test") & graph.labelled)
    truth = np.zeros(0) if graph.values is None else graph.values[rows]
    return rows, lambda predicted: float(np.sqrt(np.square(predicted.astype(np.float64) - truth).mean()))


MEASURES.register("classification")(
    Measure(("label", "total"), _judge_classes, "right on test nodes", "mean uncertainty", " %", 100.0)
)
MEASURES.register("regression")(
    Measure(("mean", "total"), _judge_numbers, "RMSE on test nodes", "mean standard deviation", spread=np.sqrt)
)


@dataclass(frozen=True, eq=False)
class RoundCurve(Picture):
    """Quality on test nodes and mean uncertainty of nodes that are not for training, over labels."""

    rounds: tuple[Round, ...]
    measure: Measure

    def chart(self) -> Chart:
        told, labels = self.measure, np.array([one.labels for one in self.rounds], dtype=np.float64)
        good = np.array([np.nan if one.quality is None else told.factor * one.quality for one in self.rounds])
        doubt = np.array([one.doubt for one in self.rounds])
        x = Axis("training labels", grid=False)
        panels = []
        if np.isfinite(good).any():
            hover = f"%{{x}} labels: %{{y:.4g}}{told.unit}"
            marks = (Line(told.quality, labels, good, BLUE, dots=True, hover=hover),)
            panels.append(Panel(x, Axis(told.quality, told.unit), marks))
        marks = (Line(told.doubt, labels, doubt, ORANGE, dots=True, hover="%{x} labels: %{y:.4g}"),)
        panels.append(Panel(x, Axis(told.doubt), marks))
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
    folder, measure = run.folder.path, MEASURES.of(prediction)
    learned = learned_rounds(folder)
    rest = ~graph.role("train")
    tested, quality = measure.judge(graph, prediction)

    def measured(labels: int, predicted: np.ndarray, total: np.ndarray) -> Round:
        shown = rest & np.isfinite(total)
        doubt = float(measure.spread(total[shown]).mean()) if shown.any() else float("nan")
        return Round(labels, quality(predicted[tested]) if len(tested) else None, doubt)

    labels = [one.training_nodes for one in learned] or [int((~rest).sum())]
    if learned:
        labels = [labels[0] - learned[0].added, *labels]
    rounds = [measured(labels[-1], getattr(prediction, measure.columns[0]), prediction.total)]
    for number in range(len(labels) - 2, -1, -1):
        before = _table(folder / HISTORY / str(number) / "predictions.parquet", graph, measure.columns)
        if before is None:
            break
        rounds.append(measured(labels[number], *before))
    return RoundCurve(tuple(reversed(rounds)), measure)


def _table(path: Path, graph: Graph, columns: tuple[str, str]) -> tuple[np.ndarray, np.ndarray] | None:
    """What an earlier round said of the nodes of today; ``None`` where it can't be read any more."""
    import pyarrow.parquet as pa_parquet

    try:
        table = pa_parquet.read_table(path, columns=["id", *columns]).to_pydict()
        said, doubt = (table[name] for name in columns)
    except (OSError, ValueError, KeyError):
        return None
    positions = locate(table["id"], graph.node_ids)
    here = positions >= 0
    predicted, total = np.full(graph.num_nodes, None, dtype=object), np.full(graph.num_nodes, np.nan)
    predicted[positions[here]] = np.array(said, dtype=object)[here]
    total[positions[here]] = np.array(doubt, dtype=np.float64)[here]
    return predicted, total
