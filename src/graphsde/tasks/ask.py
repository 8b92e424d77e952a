"""Which nodes to have labelled next, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.data.graph import Graph
from graphsde.data.ids import locate
from graphsde.errors import BadInput, BadUsage, shorten
from graphsde.prediction import NumericPrediction, Prediction
from graphsde.scores import score
from graphsde.scores.training_nodes import require_same_nodes
from graphsde.tasks.acquisition import ACQUISITIONS, Candidates, acquire
from graphsde.tasks.reasons import Reasons
from graphsde.tasks.spreading import spread_out

LONGLIST = 5
"""Nodes looked at for each one asked for, where a ranking is made diverse."""


@dataclass(frozen=True)
class Question:
    """One node to label.

    Args:
        rank: from 1, the most useful first.
        id: the node, in the graph's own naming.
        predicted: what the model says now.
        confidence: probability of that class; ``None`` for a number.
        score: the figure that the node was chosen by, see :attr:`Questions.score`.
        reason: why, in words.
        position: row of the node in the graph.
    """

    rank: int
    id: int | str
    predicted: str
    confidence: float | None
    score: float
    reason: str
    position: int


@dataclass(frozen=True)
class Questions:
    """What to label next.

    Args:
        by: the acquisition that chose.
        score: the name of the figure in :attr:`Question.score`: the acquisition's own where it has one per node,
            otherwise the predictive entropy.
        classes: the possible answers.
        items: most useful first.
        candidates: how many nodes could have been chosen.
        from_test: whether they are test nodes, because no other node is free; a labelled one leaves the test.
    """

    by: str
    score: str
    classes: tuple[str, ...]
    items: tuple[Question, ...]
    candidates: int
    from_test: bool

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.items)

    @property
    def note(self) -> str | None:
        """What the reader must know about the choice as a whole."""
        if not self.from_test:
            return None
        return "Every node has a role already, so these are test nodes: one that gets a label leaves the test."

    def columns(self) -> dict[str, Any]:
        """A table to be filled in: ``label`` is empty."""
        ids = [one.id for one in self.items]
        return {
            "id": np.array(ids, dtype=object) if any(isinstance(one, str) for one in ids) else np.array(ids),
            "label": np.array([""] * len(ids), dtype=object),
            "rank": [one.rank for one in self.items],
            "predicted": np.array([one.predicted for one in self.items], dtype=object),
            "confidence": [one.confidence for one in self.items],
            "score": [one.score for one in self.items],
            "reason": np.array([one.reason for one in self.items], dtype=object),
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "score": self.score,
            "candidates": self.candidates,
            "from_test": self.from_test,
            "classes": list(self.classes),
            "questions": [asdict(one) for one in self.items],
        }


def ask(
    pred: Prediction | NumericPrediction,
    graph: Graph,
    budget: int = 20,
    by: str = "entropy",
    seed: int = 0,
    *,
    diverse: bool = True,
    skip: Collection[Any] = (),
) -> Questions:
    """Choose the nodes whose labels would help the model most.

    Candidates are the nodes without a role in the split, and test nodes whose label nobody knows; where there are none
    left, test nodes. No label outside the training nodes is looked at.

    An acquisition that ranks node by node would ask for one ambiguous spot many times over. Of its first
    ``5 × budget`` nodes those are taken, one after another, that are high in the ranking and unlike the ones taken
    before, by the model's embedding and by edges (:func:`~graphsde.tasks.spreading.spread_out`). Acquisitions that
    choose a batch as a whole, such as ``coreset``, are left as they are.

    Args:
        pred: of all nodes of ``graph``.
        graph: with the split that the model was fitted on.
        budget: how many nodes; fewer where there are fewer candidates.
        by: who chooses, see ``graphsde list acquisitions``. For a numeric target ``entropy`` goes by the variance and
            ``bald`` by its epistemic part.
        seed: for acquisitions that draw.
        diverse: ``False`` keeps the plain ranking.
        skip: ids not to ask for, such as those asked before.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> pred = gs.LabelPropagation().fit(graph).predict(graph)
        >>> questions = gs.ask(pred, graph, budget=3)
        >>> [one.rank for one in questions]
        [1, 2, 3]
    """
    entry = ACQUISITIONS.entry(by)
    require_same_nodes(pred, graph)
    if budget < 1:
        raise BadUsage(f"a budget of {budget} labels", found=budget, expected="at least 1")
    pool, from_test = _pool(graph, skip)
    known = np.flatnonzero(_role(graph, "train"))
    candidates = Candidates(graph, pred, pool, known, seed=seed)  # type: ignore[arg-type]
    figure, values = _figure(pred, entry.facts.get("score", "entropy"))
    wanted = min(budget, len(pool))
    spread = diverse and not entry.facts.get("whole_batch", False) and wanted < len(pool)
    longer = min(LONGLIST * wanted, len(pool)) if spread else wanted
    if isinstance(pred, NumericPrediction) and "score" in entry.facts:
        chosen = candidates.top(values, longer)  # the scores of classes have their counterparts in variances
    else:
        chosen = acquire(by, candidates, longer)
    if spread:
        points = candidates.propagated if pred.embedding is None else pred.embedding
        chosen = spread_out(chosen, points, graph, wanted)
    reasons = Reasons(pred, graph, by)
    numeric = isinstance(pred, NumericPrediction)
    items = [
        Question(
            rank=rank,
            id=_plain(graph.node_ids[node]),
            predicted=f"{pred.mean[node]:.4g}" if numeric else str(pred.label[node]),
            confidence=None if numeric else float(pred.confidence[node]),
            score=float(values[node]),
            reason=reasons.of(node),
            position=node,
        )
        for rank, node in enumerate(chosen.tolist(), start=1)
    ]
    return Questions(by, figure, () if numeric else pred.class_names, tuple(items), len(pool), from_test)


def _figure(pred: Prediction | NumericPrediction, name: str) -> tuple[str, np.ndarray]:
    """What nodes are ranked by, for every node; of a number, its variance or the epistemic part of that.  # [N]"""
    if not isinstance(pred, NumericPrediction):
        return name, score(name, pred)
    if name != "mutual-information":
        return "variance", pred.total
    if pred.kind == "deterministic":
        raise BadUsage(
            "a deterministic model has no epistemic variance to ask by", code="E-SCORE", fix="choose --by entropy"
        )
    return "epistemic variance", pred.epistemic


def _pool(graph: Graph, skip: Collection[Any]) -> tuple[np.ndarray, bool]:
    """Positions that may be asked for, and whether they are test nodes whose label is known."""
    foreign = _role(graph, "ood") | _role(graph, "exposure")
    measured = (_role(graph, "val") | _role(graph, "calibration") | _role(graph, "test")) & graph.labelled
    barred = _role(graph, "train") | foreign | _skipped(graph, skip)
    free = np.flatnonzero(~(barred | measured))
    if len(free):
        return free, False
    tested = np.flatnonzero(_role(graph, "test") & ~barred)
    if not len(tested):
        raise BadUsage(
            "there is no node left to label",
            code="E-EMPTY",
            found=f"{graph.num_nodes:,} nodes, {int(_role(graph, 'train').sum()):,} of them for training",
            fix="every node has a label in use, or is to be skipped",
        )
    return tested, True


def _skipped(graph: Graph, skip: Collection[Any]) -> np.ndarray:
    mask = np.zeros(graph.num_nodes, dtype=bool)
    wanted = list(skip)
    positions = locate(wanted, graph.node_ids)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise BadInput(
            f"{len(unknown):,} ids to skip are no nodes of this graph: "
            + ", ".join(shorten(str(wanted[row]), 60) for row in unknown[:5]),
            code="E-NODE-UNKNOWN",
            expected="ids of nodes of this graph",
        )
    mask[positions] = True
    return mask


def _role(graph: Graph, name: str) -> np.ndarray:
    mask = graph.masks.get(name)
    return np.zeros(graph.num_nodes, dtype=bool) if mask is None else mask


def _plain(node: Any) -> int | str:
    return node if isinstance(node, str) else int(node)
