"""Which nodes to label next, and why, in words; a diverse list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphsde.acting.acquisition import ACQUISITIONS, Candidates, acquire
from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.html import card, counted, note, table
from graphsde.base.registry import Rules
from graphsde.base.seeds import derive, numpy_stream
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate, plain_id
from graphsde.graph.masks import mask_of
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.uncertainty.evidence import in_order_of_ids
from graphsde.uncertainty.held_out import align_labels, require_same_nodes
from graphsde.uncertainty.scores import score

if TYPE_CHECKING:
    import pandas as pd

Purpose = Literal["training", "calibration"]
CONNECTED = 0.5
"""Minimum similarity of two connected nodes: labels propagate along edges anyway."""
LAST = 0.5
"""The weight of the last node of the ranking; the first has weight 1."""


def spread_out(ranked: np.ndarray, points: np.ndarray, graph: Graph, budget: int) -> np.ndarray:
    r"""A diverse part of ``ranked``, chosen greedily: high in the ranking and unlike earlier choices.

    The next node maximises :math:`u_i (1 - \max_{j\,\text{chosen}} s_{ij})`, where u falls evenly from 1 for the first
    of the ranking to 0.5 for its last. The similarity :math:`s_{ij} = \exp(-d_{ij}^2 / 2h^2)`, with h half the median
    distance between ranked nodes, is 1 for twins and at least 0.5 for two nodes that share an edge.

    Args:
        ranked: positions, best first.  # [n]
        points: one per node.  # [N, k]
        graph: for the edges.
        budget: how many to choose.

    Returns:
        Positions in the order of the choice; the first of ``ranked`` is always among them.
    """
    worth = np.linspace(1.0, LAST, len(ranked))
    own = np.asarray(points[ranked], dtype=np.float64)
    among = graph.adjacency.matrix[ranked][:, ranked]
    links = (among + among.T).tocsr() > 0
    width = _typical_distance(own) / 2
    likeness = np.zeros(len(ranked))
    left = np.ones(len(ranked), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(budget, len(ranked)):
        # if every node left has a twin among the chosen, the ranking decides
        best = int(np.where(left, worth * (1.0 - likeness) + 1e-9 * worth, -1.0).argmax())
        chosen.append(best)
        left[best] = False
        distance = np.square(own - own[best]).sum(axis=1)
        near = np.exp(-distance / (2 * width**2)) if width > 0 else (distance == 0).astype(float)
        near[links[[best]].indices] = np.maximum(near[links[[best]].indices], CONNECTED)
        np.maximum(likeness, near, out=likeness)
    return ranked[chosen]


def _typical_distance(points: np.ndarray, most: int = 500) -> float:
    """Median distance between the points; of the first ``most`` if there are more."""
    some = points[:most]
    square = np.square(some).sum(axis=1)
    apart = np.maximum(square[:, None] + square[None] - 2 * some @ some.T, 0.0)[np.triu_indices(len(some), k=1)]
    return float(np.sqrt(np.median(apart))) if len(apart) else 0.0


MOST_PAIRS, FEWEST_COMPARED = 200_000_000, 1_000
AGREED = 0.6
"""If no class has this share of the samples, they disagree."""
CLOSE = 0.15
"""The two most probable classes are close if their gap is below this."""
FAR = 0.95
"""A node farther from all training nodes than this share of the nodes is unlike them."""
SURE = 0.8
"""From this probability on, uncertainty is not worth mentioning."""
UNSETTLED = 0.3
"""From this epistemic share of the variance on, the samples disagree."""
MOST = 2

OF_THE_ACQUISITION = {
    "random": "drawn at random",
    "stratified-random": "drawn at random among nodes predicted as this class",
    "pagerank": "central in the graph",
    "density": "many similar nodes around it",
    "coreset": "farthest from the nodes labelled so far",
    "featprop": "represents a group of similar nodes",
    "graphpart": "represents a part of the graph with few labels",
    "age": "a mixture of uncertainty, density and centrality",
}


class Reasons(ABC):
    """Gives the reasons for asking about a node; uses no label outside the training nodes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with its training mask.
        by: the acquisition that chose.
    """

    prediction: Prediction

    def __init__(self, prediction: Prediction, graph: Graph, by: str) -> None:
        self.prediction, self.graph, self.by = prediction, graph, by

    @property
    def class_names(self) -> tuple[str, ...]:
        """The possible answers, if there are only a few."""
        return ()

    @abstractmethod
    def answer(self, node: int) -> dict[str, Any]:
        """The prediction for a node: ``predicted`` and, if there is one, ``confidence``."""

    @abstractmethod
    def told(self, node: int) -> list[str | None]:
        """Possible reasons, strongest first; ``None`` where one does not apply."""

    @abstractmethod
    def otherwise(self, node: int) -> str:
        """The reason if no other applies."""

    def of(self, node: int) -> str:
        """At most two reasons, the strongest first."""
        words = [reason for reason in (OF_THE_ACQUISITION.get(self.by), *self.told(node)) if reason is not None]
        return "; ".join(words[:MOST]) or self.otherwise(node)

    def _strangeness(self, node: int) -> str | None:
        distance = self._distance
        if distance is None:
            return None
        nearer = float((distance < distance[node]).mean())
        if nearer < FAR:
            return None
        return f"unlike any training node: farther from them than {int(100 * nearer)} % of the nodes"

    @cached_property
    def _distance(self) -> np.ndarray | None:
        """Squared distance of every node from the nearest training node, in the embedding; from a random subset of them
        if there are more than :data:`MOST_PAIRS` pairs.  # [N]"""
        train = self.graph.train_mask
        if self.prediction.embedding is None or train is None or not train.any():
            return None
        points, chosen = self.prediction.embedding, np.flatnonzero(train)
        if len(points) * len(chosen) > MOST_PAIRS:  # with many nodes and labels, a subset of the labels is enough
            most = max(FEWEST_COMPARED, MOST_PAIRS // len(points))
            if most < len(chosen):
                ranked = in_order_of_ids(self.graph, chosen)  # so that the order of nodes does not matter
                chosen = np.sort(numpy_stream(0, "ask", "distance").choice(ranked, most, replace=False))
        known = points[chosen].astype(np.float64)
        square = np.square(known).sum(axis=1)
        result = np.empty(len(points))
        rows = max(1, 4_000_000 // len(known))  # a few tens of megabytes at a time
        for first in range(0, len(points), rows):
            block = points[first : first + rows].astype(np.float64)
            gaps = np.square(block).sum(axis=1)[:, None] + square - 2 * block @ known.T
            result[first : first + rows] = gaps.min(axis=1)
        return np.maximum(result, 0.0)


class RegressionReasons(Reasons):
    """Reasons to ask for a node's number."""

    prediction: RegressionPrediction

    def answer(self, node: int) -> dict[str, Any]:
        return {"predicted": f"{self.prediction.mean[node]:.4g}", "confidence": None}

    def told(self, node: int) -> list[str | None]:
        return [self._unsettled(node), self._strangeness(node), self._width(node)]

    def otherwise(self, node: int) -> str:
        return self._width(node)

    def _unsettled(self, node: int) -> str | None:
        share = float(self.prediction.epistemic[node] / self.prediction.total[node])
        return f"the samples disagree: {100 * share:.0f} % of the variance" if share > UNSETTLED else None

    def _width(self, node: int) -> str:
        spread = float(np.sqrt(self.prediction.total[node]))
        return f"high variance: {self.prediction.mean[node]:.4g} ± {spread:.3g}"


class ClassReasons(Reasons):
    """Reasons to ask for a node's class."""

    prediction: ClassPrediction

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.prediction.class_names

    def answer(self, node: int) -> dict[str, Any]:
        return {"predicted": str(self.prediction.label[node]), "confidence": float(self.prediction.confidence[node])}

    def told(self, node: int) -> list[str | None]:
        kinds = (self._disagreement, self._evidence, self._strangeness, self._doubt, self._surroundings)
        return [reason(node) for reason in kinds]

    def otherwise(self, node: int) -> str:
        return f"the least certain node left: {self._shares(node, 1)}"

    @cached_property
    def _votes(self) -> np.ndarray:
        return self.prediction.votes

    def _disagreement(self, node: int) -> str | None:
        if self.prediction.kind != "samples" or self.prediction.num_samples < 2:
            return None
        votes = self._votes[node]
        if votes.max() >= AGREED * votes.sum():
            return None
        first, second = np.argsort(-votes.astype(np.int64), kind="stable")[:2]
        return (
            f"the samples disagree: {int(votes[first])} of {int(votes.sum())} say {self._name(first)}, "
            f"{int(votes[second])} say {self._name(second)}"
        )

    def _evidence(self, node: int) -> str | None:
        if self.prediction.kind != "dirichlet" or self.prediction.alpha is None:
            return None
        vacuity = self.prediction.num_classes / float(self.prediction.alpha[node].sum())
        return f"little evidence: vacuity {_share(vacuity)}" if vacuity > 0.5 else None

    def _doubt(self, node: int) -> str | None:
        ranked = np.sort(self.prediction.mean[node])[::-1]
        if ranked[0] >= SURE:
            return None
        if len(ranked) > 2 and ranked[0] - ranked[2] < CLOSE:
            return f"several classes are close: {self._shares(node, 3)}"
        if ranked[0] - ranked[1] < CLOSE:
            return f"two classes are close: {self._shares(node, 2)}"
        return f"no class is clear: {self._shares(node, 2)}"

    def _surroundings(self, node: int) -> str | None:
        around = self.graph.adjacency.neighbours(node)
        if not len(around):
            return "it has no neighbours"
        counts = np.bincount(self._seen[around], minlength=self.prediction.num_classes)
        if counts.max() > AGREED * len(around) or np.count_nonzero(counts) < 2:
            return None
        shown = ", ".join(f"{self._name(c)} ({int(counts[c])})" for c in np.argsort(-counts, kind="stable")[:2])
        return f"its {len(around)} neighbours have different classes: {shown}"

    def _shares(self, node: int, most: int) -> str:
        probs = self.prediction.mean[node]
        return ", ".join(f"{self._name(c)} {_share(probs[c])}" for c in np.argsort(-probs, kind="stable")[:most])

    def _name(self, position: int) -> str:
        return shorten(self.prediction.class_names[int(position)], 40)

    @cached_property
    def _seen(self) -> np.ndarray:
        """The class of every node as the model knows it: its training label, otherwise the prediction.  # [N]"""
        seen = self.prediction.index.copy()
        if self.graph.train_mask is not None:
            labels = align_labels(self.graph, self.prediction.class_names)
            known = self.graph.train_mask & (labels >= 0)
            seen[known] = labels[known]
        return seen


def _share(value: float) -> str:
    """``.46``: shorter than 0.46 in a long list."""
    text = f"{float(value):.2f}"
    return text[1:] if text.startswith("0") else text


LONGLIST = 5
"""Candidates considered per node asked for, to make a ranking diverse."""


@dataclass(frozen=True)
class Question:
    """One node to label.

    Args:
        rank: from 1, the most useful first.
        id: the node, in the graph's own naming.
        predicted: what the model says now.
        confidence: probability of that class; ``None`` for a number.
        score: the value that the node was chosen by, see :attr:`Questions.score`.
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


@dataclass(frozen=True, repr=False)
class Questions:
    """What to label next.

    Args:
        by: the acquisition that chose.
        score: the name of the value in :attr:`Question.score`: the acquisition's own if it has one per node,
            otherwise the predictive entropy.
        classes: the possible answers.
        items: most useful first.
        candidates: how many nodes could have been chosen.
        from_test: whether they are test nodes, because no other node is free; a labelled one leaves the test set.
        purpose: what the labels are for.
    """

    by: str
    score: str
    classes: tuple[str, ...]
    items: tuple[Question, ...]
    candidates: int
    from_test: bool
    purpose: Purpose = "training"

    def __repr__(self) -> str:
        return f"Questions({len(self):,} of {counted(self.candidates, 'node')} by {self.by}, for {self.purpose})"

    def _repr_html_(self) -> str:
        about = {"nodes": len(self), "of": self.candidates, "chosen by": self.by, "for": self.purpose}
        rows: list[dict[str, object]] = [
            {
                "rank": one.rank,
                "id": str(one.id),
                "predicted": one.predicted,
                "confidence": one.confidence,
                self.score: one.score,
                "why": one.reason,
            }
            for one in self.items
        ]
        return card("Questions", about, table(rows, limit=200), *map(note, filter(None, [self.note])))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.items)

    @property
    def note(self) -> str | None:
        """What the reader must know about the whole choice."""
        if self.purpose == "calibration":
            return (
                "Drawn at random, for calibration; never used for training. Label all of them, easy or hard: "
                "the guarantee does not hold if you skip the hard ones."
            )
        if not self.from_test:
            return None
        return "Every node already has a role, so these are test nodes: a node you label leaves the test set."

    def columns(self) -> dict[str, Any]:
        """A table to be filled in: ``label`` is empty."""
        ids = [one.id for one in self.items]
        role = {"role": np.array([self.purpose] * len(ids), dtype=object)} if self.purpose == "calibration" else {}
        return {
            "id": np.array(ids, dtype=object) if any(isinstance(one, str) for one in ids) else np.array(ids),
            "label": np.array([""] * len(ids), dtype=object),
            **role,
            "rank": [one.rank for one in self.items],
            "predicted": np.array([one.predicted for one in self.items], dtype=object),
            "confidence": [one.confidence for one in self.items],
            "score": [one.score for one in self.items],
            "reason": np.array([one.reason for one in self.items], dtype=object),
        }

    def to_pandas(self, graph: Graph | None = None) -> pd.DataFrame:
        """One row per node, with the columns of ``questions.csv``: fill in ``label``.

        Args:
            graph: that was asked about; adds the names of its nodes.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from graphsde.io.pandas_frames import require_pandas
        from graphsde.prediction.columns import with_node_names

        return require_pandas().DataFrame(with_node_names(self.columns(), graph))

    def as_dict(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "purpose": self.purpose,
            "score": self.score,
            "candidates": self.candidates,
            "from_test": self.from_test,
            "classes": list(self.classes),
            "questions": [asdict(one) for one in self.items],
        }


def ask(
    pred: Prediction,
    graph: Graph,
    budget: int = 20,
    by: str = "entropy",
    seed: int = 0,
    *,
    diverse: bool = True,
    skip: Collection[Any] = (),
    purpose: Purpose = "training",
) -> Questions:
    """Choose the nodes whose labels would help the model most, or draw nodes for calibration.

    Candidates are the nodes without a role in the split, and test nodes without a label; if there are none
    left, all test nodes. No label outside the training nodes is used.

    An acquisition that ranks node by node would ask about one ambiguous region many times. Of its first
    ``5 × budget`` nodes, those are chosen one by one that are high in the ranking and unlike the ones chosen
    before, by the model's embedding and by edges (:func:`~graphsde.acting.ask.spread_out`). Acquisitions that
    choose a batch as a whole, such as ``coreset``, are not changed.

    Args:
        pred: of all nodes of ``graph``.
        graph: with the split that the model was fitted on.
        budget: how many nodes; fewer if there are fewer candidates.
        by: the acquisition, see ``graphsde list acquisitions``. For regression, ``entropy`` ranks by the variance and
            ``bald`` by its epistemic part.
        seed: for acquisitions that draw at random.
        diverse: ``False`` keeps the plain ranking.
        skip: ids not to ask about, such as those asked before.
        purpose: ``calibration`` draws uniformly among the nodes without a role and ignores ``by``: the guarantee
            requires that. A larger budget with the same seed starts with the same nodes.

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
        raise BadUsage(f"the budget is {budget} labels", found=budget, expected="at least 1")
    if purpose == "calibration":
        by, entry, diverse = "random", ACQUISITIONS.entry("random"), False
    pool, from_test = _pool(graph, skip) if purpose == "training" else (_without_a_role(graph, skip), False)
    known = np.flatnonzero(graph.role("train"))
    rule = ASKING.of(pred)
    candidates = Candidates(graph, pred, pool, known, seed=seed)
    figure, values = rule.figure(pred, entry.facts.get("score", "entropy"))
    wanted = min(budget, len(pool))
    spread = diverse and not entry.facts.get("whole_batch", False) and wanted < len(pool)
    longer = min(LONGLIST * wanted, len(pool)) if spread else wanted
    if "score" in entry.facts and not rule.scored:
        chosen = candidates.top(values, longer)  # each score of classes has a counterpart among variances
    else:
        chosen = acquire(by, candidates, longer)
    if purpose == "calibration":
        chosen = _in_stable_order(graph, pool, seed)[:wanted]
    if spread:
        points = candidates.propagated if pred.embedding is None else pred.embedding
        chosen = spread_out(chosen, points, graph, wanted)
    reasons = rule.reasons(pred, graph, by)
    items = [
        Question(
            rank=rank,
            id=plain_id(graph.node_ids[node]),
            **reasons.answer(node),
            score=float(values[node]),
            reason=reasons.of(node),
            position=node,
        )
        for rank, node in enumerate(chosen.tolist(), start=1)
    ]
    return Questions(by, figure, reasons.class_names, tuple(items), len(pool), from_test, purpose)


@dataclass(frozen=True)
class AskingRule:
    """How to ask about a kind of prediction.

    Args:
        figure: what nodes are ranked by, for an acquisition's score: its name and its values.
        reasons: why a node is worth a label.
        scored: whether acquisitions can read their scores from it themselves.
    """

    figure: Callable[[Any, str], tuple[str, np.ndarray]]
    reasons: type[Reasons]
    scored: bool


ASKING: Rules[AskingRule] = Rules("asking for labels")


def _regression_figure(pred: RegressionPrediction, name: str) -> tuple[str, np.ndarray]:
    """The variance, or the epistemic part of it.  # [N]"""
    if name != "mutual-information":
        return "variance", pred.total
    if pred.kind == "deterministic":
        raise BadUsage(
            "a deterministic model has no epistemic variance to ask by", code="E-SCORE", fix="choose --by entropy"
        )
    return "epistemic variance", pred.epistemic


ASKING.register("classification")(AskingRule(lambda pred, name: (name, score(name, pred)), ClassReasons, scored=True))
ASKING.register("regression")(AskingRule(_regression_figure, RegressionReasons, scored=False))


def _pool(graph: Graph, skip: Collection[Any]) -> tuple[np.ndarray, bool]:
    """Positions that may be asked about, and whether they are test nodes whose label is known."""
    held = graph.role("val") | graph.role("calibration") | graph.role("further") | graph.role("test")
    measured = held & graph.labelled
    barred = graph.role("train") | graph.role("ood") | graph.role("exposure") | _skipped(graph, skip)
    free = np.flatnonzero(~(barred | measured))
    if len(free):
        return free, False
    tested = np.flatnonzero(graph.role("test") & ~barred)
    if not len(tested):
        raise BadUsage(
            "no node is left to label",
            code="E-EMPTY",
            found=f"{graph.num_nodes:,} nodes, {int(graph.role('train').sum()):,} of them for training",
            fix="every node is skipped or already has a label in use",
        )
    return tested, True


def _in_stable_order(graph: Graph, pool: np.ndarray, seed: int) -> np.ndarray:
    """The pool at random, each node with a rank of its own: of nodes asked about once, those left open come first.

    With another order each time, hard nodes could be passed over: asked once, left open, and never drawn again.
    """
    return pool[np.argsort([derive(seed, "calibration", plain_id(one)) for one in graph.node_ids[pool]], kind="stable")]


def _without_a_role(graph: Graph, skip: Collection[Any]) -> np.ndarray:
    """Positions of the nodes without a role and without a label."""
    barred = graph.labelled | _skipped(graph, skip)
    for mask in graph.masks.values():
        barred = barred | mask
    free = np.flatnonzero(~barred)
    if not len(free):
        raise BadUsage(
            "every node has a role or a label: there is none to draw calibration labels from",
            code="E-EMPTY",
            found=f"{graph.num_nodes:,} nodes, {int(graph.labelled.sum()):,} of them labelled",
            fix="decide already calibrates on the test nodes; fit with a split that has more test nodes",
        )
    return free


def _skipped(graph: Graph, skip: Collection[Any]) -> np.ndarray:
    wanted = list(skip)
    positions = locate(wanted, graph.node_ids)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise BadInput(
            f"{len(unknown):,} ids to skip are not in this graph: "
            + ", ".join(shorten(str(wanted[row]), 60) for row in unknown[:5]),
            code="E-NODE-UNKNOWN",
            expected="ids of nodes of this graph",
        )
    return mask_of(positions, graph.num_nodes)
