"""What drives a prediction and its uncertainty: the node's neighbours and its own features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from graphsde.acting.feature_effects import FeatureEffect, feature_effects, tried_effects
from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.memory import memory_limit
from graphsde.base.registry import Rules
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate, plain_id
from graphsde.models import Model
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction, require
from graphsde.uncertainty.held_out import align_labels, require_same_nodes

NEIGHBOURS = 20
FEATURES = 10
SURE = 0.01
"""Entropy in nats below which all effects are negligible."""


@dataclass(frozen=True)
class Words:
    """Words for effects: their unit, an axis label, a column head, and a line below the table."""

    unit: str
    axis: str
    column: str
    note: str


class Explanation(ABC):
    """What drives a node's prediction and its uncertainty; one subclass for each kind of target."""

    words: ClassVar[Words]
    id: int | str
    neighbours: tuple[Any, ...]
    degree: int
    features: tuple[FeatureEffect, ...]
    how: str

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The gist in words."""

    def _made_by_neighbours(self, alone: str, less: bool) -> str:
        if not self.degree:
            return "It has no neighbours: only its own features matter."
        who = f"its {self.degree:,} neighbours together make" if self.degree > 1 else "its one neighbour makes"
        return f"Without any neighbour it would be {alone}: {who} it {'less' if less else 'more'} uncertain."

    @property
    @abstractmethod
    def title(self) -> str:
        """The node and its prediction."""

    @abstractmethod
    def neighbour_names(self) -> list[str]: ...

    @abstractmethod
    def neighbour_rows(self) -> list[dict[str, Any]]:
        """As rows of a table."""

    def feature_rows(self) -> list[dict[str, Any]]:
        return [
            {"feature": one.name, "value": one.value, "average": one.average, self.words.column: signed(one.adds)}
            | ({"moves the mean": signed(one.moves)} if one.moves is not None else {})
            for one in self.features
        ]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


def signed(value: float) -> str:
    """With its sign, and with enough digits to show something."""
    return f"{value:+.4f}" if value == 0 or abs(value) >= 5e-5 else f"{value:+.0e}"


@dataclass(frozen=True)
class NeighbourEffect:
    """One neighbour.

    Args:
        id: the neighbour.
        predicted: its most probable class.
        label: its class where it is a training node, else ``None``.
        weight: of the edge.
        adds: entropy with the edge minus that without it, in nats: above 0 the neighbour makes the node less certain.
        supports: probability of the node's predicted class with the edge minus that without it.
        without: what the node would be predicted as without the edge.
    """

    id: int | str
    predicted: str
    label: str | None
    weight: float
    adds: float
    supports: float
    without: str


@dataclass(frozen=True)
class ClassExplanation(Explanation):
    """What drives a node's uncertainty.

    Args:
        id: the node.
        predicted, confidence, entropy, epistemic: its prediction; ``epistemic`` is ``None`` if the model
            does not have it.
        probabilities: by class, the highest first.
        alone: entropy if the node had no edges.
        alone_predicted: the class that it would then get.
        neighbours: largest effect first.
        degree: the node's number of neighbours; for a hub, more than were tried.
        features: largest effect first.
        how: in words, how the feature effects were computed.
        samples: per prediction.
    """

    id: int | str
    predicted: str
    confidence: float
    entropy: float
    epistemic: float | None
    probabilities: dict[str, float]
    alone: float
    alone_predicted: str
    neighbours: tuple[NeighbourEffect, ...]
    degree: int
    features: tuple[FeatureEffect, ...]
    how: str
    samples: int
    words = Words(
        "nats", "entropy added (nats)", "adds entropy", "A class with ? is predicted, the others are training labels."
    )

    @property
    def sentences(self) -> list[str]:
        """The gist in words."""
        lines = [
            f"Node {shorten(str(self.id), 60)} is predicted as {shorten(self.predicted, 60)} "
            f"({self.confidence:.2f}), entropy {self.entropy:.3g} nats."
            + ("  It is certain: there is little to explain." if self.entropy < SURE else ""),
            self._made_by_neighbours(
                f"{shorten(self.alone_predicted, 60)} with entropy {self.alone:.3g}", less=self.alone > self.entropy
            ),
        ]
        against = [one for one in self.neighbours if one.without != self.predicted]
        if against:
            lines.append(
                f"Its class depends on {shorten(str(against[0].id), 60)}: without that edge it would be "
                f"{shorten(against[0].without, 60)}."
            )
        return lines

    @property
    def title(self) -> str:
        return f"node {self.id}, predicted {self.predicted} ({self.confidence:.2f}), entropy {self.entropy:.2f} nats"

    def neighbour_names(self) -> list[str]:
        return [f"{one.id} ({one.label or one.predicted})" for one in self.neighbours]

    def neighbour_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "neighbour": str(one.id),
                "class": one.label or f"{one.predicted}?",
                "adds entropy": signed(one.adds),
                "adds to p": signed(one.supports),
                "without it": one.without,
            }
            for one in self.neighbours
        ]


@dataclass(frozen=True)
class NeighbourShift:
    """One neighbour.

    Args:
        id: the neighbour.
        mean: its prediction.
        value: its value where it is a training node, else ``None``.
        weight: of the edge.
        adds: standard deviation with the edge minus that without it: above 0 the neighbour makes the node less certain.
        moves: predicted mean with the edge minus that without it.
    """

    id: int | str
    mean: float
    value: float | None
    weight: float
    adds: float
    moves: float


@dataclass(frozen=True)
class RegressionExplanation(Explanation):
    """What drives a predicted number.

    Args:
        id: the node.
        mean, deviation: its prediction, in the target's unit.
        epistemic: share of its variance that is epistemic; ``None`` if the model does not have it.
        alone_mean, alone_deviation: if the node had no edges.
        neighbours: largest effect on the deviation first.
        degree: the node's number of neighbours; for a hub, more than were tried.
        features: largest effect on the deviation first.
        how: in words, how the feature effects were computed.
        samples: per prediction.
    """

    id: int | str
    mean: float
    deviation: float
    epistemic: float | None
    alone_mean: float
    alone_deviation: float
    neighbours: tuple[NeighbourShift, ...]
    degree: int
    features: tuple[FeatureEffect, ...]
    how: str
    samples: int
    words = Words(
        "standard deviation",
        "standard deviation added",
        "adds deviation",
        "A value with ? is predicted, the others are training values.",
    )

    @property
    def sentences(self) -> list[str]:
        """The gist in words."""
        known = "" if self.epistemic is None else f"; {self.epistemic:.0%} of the variance is epistemic"
        said = f"{self.mean:.4g} ± {self.deviation:.3g}"
        alone = f"{self.alone_mean:.4g} ± {self.alone_deviation:.3g}"
        return [
            f"Node {shorten(str(self.id), 60)} is predicted as {said}{known}.",
            self._made_by_neighbours(alone, less=self.alone_deviation > self.deviation),
        ]

    @property
    def title(self) -> str:
        return f"node {self.id}, predicted {self.mean:.4g} ± {self.deviation:.3g}"

    def neighbour_names(self) -> list[str]:
        return [f"{one.id} ({one.mean if one.value is None else one.value:.4g})" for one in self.neighbours]

    def neighbour_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "neighbour": str(one.id),
                "value": f"{one.mean:.4g}?" if one.value is None else f"{one.value:.4g}",
                "adds deviation": signed(one.adds),
                "moves the mean": signed(one.moves),
            }
            for one in self.neighbours
        ]


def explain(
    model: Model,
    graph: Graph,
    node: Any,
    *,
    neighbours: int = NEIGHBOURS,
    features: int = FEATURES,
    samples: int = 64,
    seed: int | None = None,
    prediction: Prediction | None = None,
) -> Explanation:
    r"""Measure how a node's neighbours and features change its uncertainty.

    **Neighbours*: one edge at a time is removed, and the model predicts again with the same noise. Of
    more than ``neighbours``, those with the largest :math:`\hat A_{ij} \, TV(p_i, p_j)` are tried: heavy edges to
    nodes with a different prediction. Removing two edges may change more, or less, than the sum of both.

    *Features*: :math:`\partial H_i / \partial x_{ik} \cdot (x_{ik} - \bar x_k)`, the entropy that the node has because
    a feature is not at its average, to first order. Models without a gradient predict again with single features set
    to their average.

    For regression the standard deviation is explained, along with changes of the mean; the most
    informative neighbours are those with the largest :math:`\hat A_{ij} |m_i - m_j|`, and features are tried one after
    another, the most unusual ones first.

    Args:
        model: fitted.
        graph: that it predicts on.
        node: an id of the graph.
        neighbours: how many to try at most; each takes one prediction.
        features: how many to name at most.
        samples: per prediction, for models that draw samples.
        seed: of the samples; default: the model's.
        prediction: of ``graph`` by ``model`` with these samples, if available.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.LabelPropagation().fit(graph)
        >>> found = gs.explain(model, graph, 900, neighbours=3)
        >>> len(found.neighbours), found.how.partition(":")[0]
        (3, 'none')
    """
    if neighbours < 0 or features < 0:
        raise BadUsage("the number of neighbours or features can't be negative", found=min(neighbours, features))
    row = position_of(graph, node)
    here = model.predict(graph, samples=samples, seed=seed) if prediction is None else prediction
    require_same_nodes(here, graph)
    if model.calibrator is not None:
        model = copy.copy(model)
        assert model.calibrator is not None
        model.calibrator = model.calibrator.for_changes_at(graph, row)
    return EXPLAINING.of(model)(model, graph, here, row, neighbours, features, samples, seed)


EXPLAINING: Rules[Callable[[Model, Graph, Prediction, int, int, int, int, int | None], Explanation]] = Rules(
    "explaining"
)


@EXPLAINING.register("classification")
def _explain_classes(
    model: Model,
    graph: Graph,
    given: Prediction,
    row: int,
    neighbours: int,
    features: int,
    samples: int,
    seed: int | None,
) -> ClassExplanation:
    def said(of: Graph, drawn: int = samples) -> ClassPrediction:
        return require(model.predict_total(of, samples=drawn, seed=seed), ClassPrediction, "this explanation")

    here = require(given, ClassPrediction, "this explanation")
    tried = most_telling(graph, row, neighbours, np.abs(here.mean - here.mean[row]).sum(axis=1) / 2)
    effects = [_without(said, graph, here, row, int(other)) for other in tried]
    alone = said(without_edges(graph, row, graph.adjacency.neighbours(row)))
    found, how = feature_effects(model, graph, row, float(here.total[row]), features, samples, seed)
    epistemic = float(here.epistemic[row])
    order = np.argsort(-here.mean[row], kind="stable").tolist()
    return ClassExplanation(
        id=plain_id(graph.node_ids[row]),
        predicted=str(here.label[row]),
        confidence=float(here.confidence[row]),
        entropy=float(here.total[row]),
        epistemic=None if np.isnan(epistemic) else epistemic,
        probabilities={here.class_names[c]: float(here.mean[row, c]) for c in order},
        alone=float(alone.total[row]),
        alone_predicted=str(alone.label[row]),
        neighbours=tuple(sorted(effects, key=lambda one: -abs(one.adds))),
        degree=int(graph.adjacency.degree[row]),
        features=tuple(found),
        how=how,
        samples=here.num_samples,
    )


@EXPLAINING.register("regression")
def _explain_numbers(
    model: Model,
    graph: Graph,
    given: Prediction,
    row: int,
    neighbours: int,
    features: int,
    samples: int,
    seed: int | None,
) -> RegressionExplanation:
    def said(of: Graph) -> RegressionPrediction:
        return require(model.predict_total(of, samples=samples, seed=seed), RegressionPrediction, "this explanation")

    def measured(of: Graph) -> tuple[float, float]:
        found = said(of)
        return float(np.sqrt(found.total[row])), float(found.mean[row])

    here = require(given, RegressionPrediction, "this explanation")
    mean, deviation = float(here.mean[row]), float(np.sqrt(here.total[row]))
    alone_deviation, alone_mean = measured(without_edges(graph, row, graph.adjacency.neighbours(row)))
    effects = []
    for other in most_telling(graph, row, neighbours, np.abs(here.mean - mean)).tolist():
        other_deviation, other_mean = measured(without_edges(graph, row, np.array([other])))
        effects.append(
            NeighbourShift(
                id=plain_id(graph.node_ids[other]),
                mean=float(here.mean[other]),
                value=float(graph.values[other]) if graph.role("train")[other] and graph.values is not None else None,
                weight=float(graph.adjacency.incoming[row, other]),
                adds=deviation - other_deviation,
                moves=mean - other_mean,
            )
        )
    words = "by trial: the {} that are farthest from their average were set to it one at a time"
    found, how = tried_effects(measured, (deviation, mean), graph, row, features, words)
    epistemic = float(here.epistemic[row] / here.total[row])
    return RegressionExplanation(
        id=plain_id(graph.node_ids[row]),
        mean=mean,
        deviation=deviation,
        epistemic=None if np.isnan(epistemic) else epistemic,
        alone_mean=alone_mean,
        alone_deviation=alone_deviation,
        neighbours=tuple(sorted(effects, key=lambda one: -abs(one.adds))),
        degree=int(graph.adjacency.degree[row]),
        features=tuple(found),
        how=how,
        samples=here.num_samples,
    )


def position_of(graph: Graph, node: Any) -> int:
    """The row of a node that a user named."""
    row = int(locate([node], graph.node_ids)[0])
    if row < 0:
        raise BadInput(
            f"no node {shorten(str(node), 60)} in {graph.name}",
            code="E-NODE-UNKNOWN",
            found=str(node),
            expected=f"one of {graph.num_nodes:,} ids such as {shorten(str(graph.node_ids[0]), 60)}",
        )
    return row


def most_telling(graph: Graph, row: int, most: int, other_opinion: np.ndarray) -> np.ndarray:
    """The neighbours to try: all, or those on heavy edges whose prediction differs most.  # other_opinion [N]"""
    around = graph.adjacency.neighbours(row)
    if len(around) <= most:
        return around
    shares = graph.adjacency.normalized[[row]].toarray()[0, around]
    return around[np.argsort(-shares * other_opinion[around], kind="stable")[:most]]


def _without(
    said: Callable[[Graph, int], ClassPrediction], graph: Graph, here: ClassPrediction, row: int, other: int
) -> NeighbourEffect:
    changed = said(without_edges(graph, row, np.array([other])), here.num_samples)
    own = int(here.index[row])
    labels = align_labels(graph, here.class_names)
    trained = graph.role("train")[other] and labels[other] >= 0
    return NeighbourEffect(
        id=plain_id(graph.node_ids[other]),
        predicted=str(here.label[other]),
        label=here.class_names[int(labels[other])] if trained else None,
        weight=float(graph.adjacency.incoming[row, other]),
        adds=float(here.total[row] - changed.total[row]),
        supports=float(here.mean[row, own] - changed.mean[row, own]),
        without=str(changed.label[row]),
    )


def without_edges(graph: Graph, row: int, others: np.ndarray) -> Graph:
    """``graph`` without the edges from ``others`` to ``row``."""
    matrix = graph.adjacency.matrix
    start, indices = matrix.indptr, matrix.indices
    gone = [np.flatnonzero(indices[start[one] : start[one + 1]] == row) + start[one] for one in others]
    if not graph.adjacency.directed:
        gone.append(np.flatnonzero(np.isin(indices[start[row] : start[row + 1]], others)) + start[row])
    places = np.unique(np.concatenate([np.zeros(0, np.int64), *gone]))  # looks at the rows of these nodes alone
    kept = start - np.searchsorted(places, start).astype(start.dtype)
    entries = (np.delete(matrix.data, places), np.delete(indices, places), kept)
    matrix = sp.csr_array(entries, shape=matrix.shape)
    changed = graph.with_adjacency(Adjacency(matrix, directed=graph.adjacency.directed))
    if memory_limit() is None:
        return changed
    from graphsde.graph.settled import settled_within_limit

    return settled_within_limit(changed)
