"""Labels that a visitor has given and the model has not learned yet; they survive a reload of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphsde import storage
from graphsde.data.graph import Graph
from graphsde.errors import BadInput
from graphsde.prediction import Prediction
from graphsde.runs.label_book import LabelBook
from graphsde.tasks.ask import Questions, ask

BATCH = 10
"""Questions asked at a time."""

NodeId = int | str


@dataclass
class LabelQueue:
    """Answers in the order in which they came.

    Args:
        path: the file they are kept in.
        given: class names by node id.
        skipped: nodes that the visitor did not want to judge.
    """

    path: Path
    given: dict[NodeId, str] = field(default_factory=dict)
    skipped: list[NodeId] = field(default_factory=list)

    @classmethod
    def of_run(cls, run: Path) -> LabelQueue:
        """The queue of a run; a file that can't be read counts as none, for it holds a few clicks."""
        path = run.parent / ".labels" / f"{run.name}.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            given = {_node_id(node): str(name) for node, name in values["given"]}
            return cls(path, given, [_node_id(node) for node in values["skipped"]])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path)

    def give(self, node: NodeId, name: str, classes: Sequence[str]) -> None:
        if name not in classes:
            raise BadInput(f"'{name}' is no class of this run", code="E-LABEL-UNKNOWN", found=name)
        self.given[node] = name
        self._save()

    def take_back(self, node: NodeId) -> None:
        self.given.pop(node, None)
        self._save()

    def skip(self, node: NodeId) -> None:
        self.skipped.append(node)
        self._save()

    def learned(self, nodes: Iterable[NodeId]) -> None:
        """The model knows these now; labels that came while it learned wait for the next round."""
        for node in nodes:
            self.given.pop(node, None)
        self._save()

    def _save(self) -> None:
        storage.write_json(self.path, {"given": [[n, name] for n, name in self.given.items()], "skipped": self.skipped})


def next_questions(prediction: Prediction, graph: Graph, by: str, queue: LabelQueue, budget: int = BATCH) -> Questions:
    """What to label next; nodes that were answered or skipped are not asked for again."""
    known = [node for node in [*queue.given, *queue.skipped] if node in graph.position]
    return ask(prediction, graph, budget=budget, by=by, skip=known)


def label_columns(run: Path, queue: LabelQueue) -> dict[str, Any]:
    """All labels that were given to this run since its first fit, learned or not: a table to be kept."""
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
