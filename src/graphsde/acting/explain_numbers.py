"""What moves a predicted number and its uncertainty: the node's neighbours and its own features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.acting.explain import FEATURES, NEIGHBOURS, most_telling, plain_id, position_of, without_edges
from graphsde.acting.feature_effects import FeatureEffect, average_node, nothing_found, trials, untried
from graphsde.base.errors import BadUsage, shorten
from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.prediction import NumericPrediction


@dataclass(frozen=True)
class NeighbourShift:
    """One neighbour.

    Args:
        id: the neighbour.
        mean: what is predicted of it.
        value: its value where it is a training node, else ``None``.
        weight: of the edge.
        adds: standard deviation with the edge less that without it: above 0 the neighbour makes the node less sure.
        moves: predicted mean with the edge less that without it.
    """

    id: int | str
    mean: float
    value: float | None
    weight: float
    adds: float
    moves: float


@dataclass(frozen=True)
class NumericExplanation:
    """What moves a predicted number.

    Args:
        id: the node.
        mean, deviation: what the model says of it, in the target's unit.
        epistemic: share of its variance that is epistemic; ``None`` where the model has no notion of it.
        alone_mean, alone_deviation: if the node had no edges.
        neighbours: largest effect on the deviation first.
        degree: how many neighbours the node hears from; more than were tried where it is a hub.
        features: largest effect on the deviation first.
        how: in words, how the effect of the features was found.
        samples: that every prediction was made with.
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

    @property
    def sentences(self) -> list[str]:
        """The gist in words."""
        known = "" if self.epistemic is None else f"; {self.epistemic:.0%} of the variance is epistemic"
        said = f"{self.mean:.4g}, give or take {self.deviation:.3g}"
        lines = [f"Node {shorten(str(self.id), 60)} is predicted as {said}{known}."]
        if not self.degree:
            return [*lines, "It has no neighbours: only its own features speak."]
        less = "less" if self.alone_deviation > self.deviation else "more"
        who = f"its {self.degree:,} neighbours together make" if self.degree > 1 else "its one neighbour makes"
        lines.append(
            f"Without any neighbour it would be {self.alone_mean:.4g}, give or take {self.alone_deviation:.3g}: "
            f"{who} it {less} uncertain."
        )
        return lines

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain_numbers(
    model: Model,
    graph: Graph,
    node: Any,
    *,
    neighbours: int = NEIGHBOURS,
    features: int = FEATURES,
    samples: int = 64,
    seed: int | None = None,
) -> NumericExplanation:
    r"""Measure what a node's neighbours and features do to its predicted number and its standard deviation.

    As :func:`graphsde.explain`, with the same noise in every prediction: one edge at a time is taken away (of a hub
    those with the largest :math:`\hat A_{ij} |m_i - m_j|`), and one numeric feature after another is set to its
    average, the most unusual ones first.

    Args:
        model: fitted on numbers.
        graph: that it predicts on.
        node: an id of the graph.
        neighbours, features: at most so many are tried; each takes one prediction.
        samples: per prediction, for models that have any.
        seed: of the samples; default: the model's.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("diabetes")
        >>> model = gs.GCN(epochs=5).fit(graph)
        >>> found = explain_numbers(model, graph, 0, neighbours=3, features=2)
        >>> len(found.neighbours), len(found.features)
        (3, 2)
    """
    if model.target_scale is None:
        raise BadUsage("this model predicts classes", code="E-TARGET", fix="use graphsde.explain")
    if neighbours < 0 or features < 0:
        raise BadUsage("a number of neighbours or features is 0 or more", found=min(neighbours, features))
    row = position_of(graph, node)

    def said(of: Graph) -> NumericPrediction:
        prediction: Any = model.predict(of, samples=samples, seed=seed)
        return prediction

    here = said(graph)
    mean, deviation = float(here.mean[row]), float(np.sqrt(here.total[row]))
    around = graph.adjacency.neighbours(row)
    alone = said(without_edges(graph, row, around))
    effects = []
    for other in most_telling(graph, row, neighbours, np.abs(here.mean - mean)).tolist():
        changed = said(without_edges(graph, row, np.array([other])))
        trained = graph.train_mask is not None and bool(graph.train_mask[other]) and graph.values is not None
        effects.append(
            NeighbourShift(
                id=plain_id(graph.node_ids[other]),
                mean=float(here.mean[other]),
                value=float(graph.values[other]) if trained and graph.values is not None else None,
                weight=float(graph.adjacency.incoming[row, other]),
                adds=deviation - float(np.sqrt(changed.total[row])),
                moves=mean - float(changed.mean[row]),
            )
        )
    found, how = _features(said, graph, row, mean, deviation, features)
    epistemic = float(here.epistemic[row] / here.total[row])
    return NumericExplanation(
        id=plain_id(graph.node_ids[row]),
        mean=mean,
        deviation=deviation,
        epistemic=None if np.isnan(epistemic) else epistemic,
        alone_mean=float(alone.mean[row]),
        alone_deviation=float(np.sqrt(alone.total[row])),
        neighbours=tuple(sorted(effects, key=lambda one: -abs(one.adds))),
        degree=int(graph.adjacency.degree[row]),
        features=tuple(found),
        how=how,
        samples=here.num_samples,
    )


def _features(
    said: Any, graph: Graph, row: int, mean: float, deviation: float, most: int
) -> tuple[list[FeatureEffect], str]:
    usual = said(average_node(graph, row))
    if float(usual.mean[row]) == mean and float(np.sqrt(usual.total[row])) == deviation:
        return [], nothing_found(graph)
    found = [
        FeatureEffect(
            one.name,
            one.value,
            one.average,
            deviation - float(np.sqrt((without := said(one.graph)).total[row])),
            mean - float(without.mean[row]),
        )
        for one in trials(graph, row, most)
    ]
    words = (
        f"by trial: the {len(found)} that are farthest from their average were set to it one at a time{untried(graph)}"
    )
    return sorted(found, key=lambda one: -abs(one.adds)), words
