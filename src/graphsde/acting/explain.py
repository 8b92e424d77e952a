"""What moves a node's uncertainty: its neighbours and its own features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.acting.feature_effects import FeatureEffect, feature_effects
from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.uncertainty.held_out import align_labels

NEIGHBOURS = 20
FEATURES = 10
SURE = 0.01
"""Entropy in nats below which all effects are next to nothing."""


@dataclass(frozen=True)
class NeighbourEffect:
    """One neighbour.

    Args:
        id: the neighbour.
        predicted: its most probable class.
        label: its class where it is a training node, else ``None``.
        weight: of the edge.
        adds: entropy with the edge less entropy without it, in nats: above 0 the neighbour makes the node less sure.
        supports: probability of the node's predicted class with the edge less that without it.
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
class Explanation:
    """What moves a node's uncertainty.

    Args:
        id: the node.
        predicted, confidence, entropy, epistemic: what the model says of it; ``epistemic`` is ``None`` where the model
            has no notion of it.
        probabilities: by class, the highest first.
        alone: entropy if the node had no edges.
        alone_predicted: and the class that it would get.
        neighbours: largest effect first.
        degree: how many neighbours the node hears from; more than were tried where it is a hub.
        features: largest effect first.
        how: in words, how the effect of the features was found.
        samples: that every prediction was made with.
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

    @property
    def sentences(self) -> list[str]:
        """The gist in words."""
        lines = [
            f"Node {shorten(str(self.id), 60)} is predicted as {shorten(self.predicted, 60)} "
            f"({self.confidence:.2f}), entropy {self.entropy:.3g} nats."
            + (" It is sure: there is little to explain." if self.entropy < SURE else "")
        ]
        if self.degree:
            less = "less" if self.alone > self.entropy else "more"
            who = f"its {self.degree:,} neighbours together make" if self.degree > 1 else "its one neighbour makes"
            lines.append(
                f"Without any neighbour it would be {shorten(self.alone_predicted, 60)} with entropy {self.alone:.3g}: "
                f"{who} it {less} uncertain."
            )
        else:
            lines.append("It has no neighbours: only its own features speak.")
        against = [one for one in self.neighbours if one.without != self.predicted]
        if against:
            lines.append(
                f"Its class hangs on {shorten(str(against[0].id), 60)}: without that edge it would be "
                f"{shorten(against[0].without, 60)}."
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    model: Model,
    graph: Graph,
    node: Any,
    *,
    neighbours: int = NEIGHBOURS,
    features: int = FEATURES,
    samples: int = 64,
    seed: int | None = None,
) -> Explanation:
    r"""Measure what a node's neighbours and features do to its uncertainty.

    *Neighbours*: the edge to one of them at a time is taken away, and the model predicts again with the same noise. Of
    more than ``neighbours`` those are tried for which :math:`\hat A_{ij} \, TV(p_i, p_j)` is largest: heavy edges to
    nodes of other opinion. Taking two edges away may do more, or less, than the sum of both.

    *Features*: :math:`\partial H_i / \partial x_{ik} \cdot (x_{ik} - \bar x_k)`, the entropy that the node has because
    a feature is not at its average, to first order. Models without a gradient are asked again with single features set
    to their average.

    Args:
        model: fitted.
        graph: that it predicts on.
        node: an id of the graph.
        neighbours: at most so many are tried; each takes one prediction.
        features: at most so many are named.
        samples: per prediction, for models that have any.
        seed: of the samples; default: the model's.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.LabelPropagation().fit(graph)
        >>> found = gs.explain(model, graph, 900, neighbours=3)
        >>> len(found.neighbours), found.how.partition(":")[0]
        (3, 'not at all')
    """
    if graph.target != "class":
        raise BadUsage(
            "this goes by class probabilities, and the target of the graph is numeric",
            code="E-TARGET",
            fix="use graphsde.acting.explain_numbers.explain_numbers",
        )
    if neighbours < 0 or features < 0:
        raise BadUsage("a number of neighbours or features is 0 or more", found=min(neighbours, features))
    row = position_of(graph, node)
    here = model.predict(graph, samples=samples, seed=seed)
    tried = most_telling(graph, row, neighbours, np.abs(here.mean - here.mean[row]).sum(axis=1) / 2)
    effects = [_without(model, graph, here, row, int(other), seed) for other in tried]
    alone = model.predict(without_edges(graph, row, graph.adjacency.neighbours(row)), samples=samples, seed=seed)
    found, how = feature_effects(model, graph, row, float(here.total[row]), features, samples, seed)
    epistemic = float(here.epistemic[row])
    order = np.argsort(-here.mean[row], kind="stable").tolist()
    return Explanation(
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


def position_of(graph: Graph, node: Any) -> int:
    """The row of a node that a user named."""
    row = int(locate([node], graph.node_ids)[0])
    if row < 0:
        raise BadInput(
            f"there is no node {shorten(str(node), 60)} in {graph.name}",
            code="E-NODE-UNKNOWN",
            found=str(node),
            expected=f"one of {graph.num_nodes:,} ids such as {shorten(str(graph.node_ids[0]), 60)}",
        )
    return row


def most_telling(graph: Graph, row: int, most: int, other_opinion: np.ndarray) -> np.ndarray:
    """The neighbours to try: all, or those on heavy edges whose opinion differs most.  # other_opinion [N]"""
    around = graph.adjacency.neighbours(row)
    if len(around) <= most:
        return around
    shares = graph.adjacency.normalized[[row]].toarray()[0, around]
    return around[np.argsort(-shares * other_opinion[around], kind="stable")[:most]]


def _without(model: Model, graph: Graph, here: Prediction, row: int, other: int, seed: int | None) -> NeighbourEffect:
    changed = model.predict(without_edges(graph, row, np.array([other])), samples=here.num_samples, seed=seed)
    own = int(here.index[row])
    labels = align_labels(graph, here.class_names)
    trained = graph.train_mask is not None and bool(graph.train_mask[other]) and labels[other] >= 0
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
    """``graph`` in which ``row`` no longer hears from ``others``."""
    matrix = graph.adjacency.matrix.copy()
    gone = np.zeros(graph.num_nodes, dtype=bool)
    gone[others] = True
    senders = np.repeat(np.arange(graph.num_nodes), np.diff(matrix.indptr))
    drop = gone[senders] & (matrix.indices == row)
    if not graph.adjacency.directed:
        drop |= (senders == row) & gone[matrix.indices]
    matrix.data[drop] = 0.0
    matrix.eliminate_zeros()
    return graph.with_adjacency(Adjacency(matrix, directed=graph.adjacency.directed))


def plain_id(node: Any) -> int | str:
    return node if isinstance(node, str) else int(node)
