"""Controls (simple baselines) that take seconds: what a model must beat to be worth its cost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.base.errors import GraphsdeError
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.registry import Rules
from graphsde.datasets.source import as_graph
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.metrics.leaderboard import Contender, Leaderboard, leaderboard
from graphsde.models.base import Model
from graphsde.models.label_propagation import LabelPropagation
from graphsde.models.logistic import Logistic, LogisticHops
from graphsde.nn.encoding import FeatureEncoder
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction

LEAST_SECONDS = 20.0
"""Minimum CPU-time limit of a control."""
WITHOUT_EDGES = ("mlp", "logistic")
"""Models that don't use edges."""
RIDGES = tuple(10.0**power for power in range(-3, 5))


class Deadline(InterruptGuard):
    """Stops a model once it has used its CPU-time limit."""

    def __init__(self, seconds: float) -> None:
        self._until = time.process_time() + seconds
        super().__init__()

    @property
    def received(self) -> int | None:
        return signal.SIGINT if time.process_time() > self._until else None

    @received.setter
    def received(self, number: int | None) -> None:
        """Signals are not handled here: they act at once."""


@dataclass(frozen=True)
class Control:
    """One control: a name, whether it uses edges, and its prediction of all nodes."""

    name: str
    edges: bool
    predict: Callable[[Graph, Deadline], Prediction]


CONTROLS: Rules[tuple[Control, ...]] = Rules("controls")


def _fitted(cls: type[Model]) -> Callable[[Graph, Deadline], Prediction]:
    return lambda graph, deadline: cls().fit(graph, interrupt=deadline).predict(graph)


def majority_class(graph: Graph, deadline: Deadline | None = None) -> ClassPrediction:
    """The classes' shares among training nodes, for every node: uses neither features nor edges."""
    require_trainable(graph, early_stop=False)
    assert graph.labels is not None and graph.train_mask is not None
    share = np.bincount(graph.labels[graph.train_mask], minlength=graph.num_classes) / graph.train_mask.sum()
    probs = np.broadcast_to(share, (1, graph.num_nodes, graph.num_classes)).copy()
    return ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic")


def mean_value(graph: Graph, deadline: Deadline | None = None) -> RegressionPrediction:
    """Mean and variance of the training nodes, for every node: uses neither features nor edges."""
    require_trainable(graph, early_stop=False)
    train = graph.train_mask
    assert graph.values is not None and train is not None
    known = graph.values[train]
    return _gaussians(graph, np.full(graph.num_nodes, known.mean()), float(known.var()))


def neighbour_mean(graph: Graph, deadline: Deadline | None = None) -> RegressionPrediction:
    """The mean of a node's training neighbours, with the mean of all training nodes counted in as one more."""
    require_trainable(graph, early_stop=False)
    train = graph.train_mask
    assert graph.values is not None and train is not None
    middle = graph.values[train].mean()
    matrix = graph.adjacency.incoming.astype(np.float64)
    total, weight = matrix @ np.where(train, graph.values, 0.0), matrix @ train.astype(np.float64)
    means = (np.where(weight > 0, total, 0.0) + middle) / (weight + 1.0)
    return _gaussians(graph, means, _left_over(graph, means))


def ridge(graph: Graph, deadline: Deadline | None = None) -> RegressionPrediction:
    """Linear regression with a ridge on a node's features, its strength chosen by validation nodes."""
    from scipy.sparse.linalg import lsqr

    require_trainable(graph, early_stop=True)
    train = graph.train_mask
    assert graph.values is not None and train is not None
    features: Any = FeatureEncoder.fit(graph).transform(graph)
    rows, middle = features[np.flatnonzero(train)], graph.values[train].mean()
    best: tuple[float, np.ndarray] | None = None
    for strength in RIDGES:
        weights = lsqr(rows, graph.values[train] - middle, damp=np.sqrt(strength))[0]
        means = features @ weights + middle
        means = means + (graph.values[train] - means[train]).mean()  # sparse columns are not centred
        left = _left_over(graph, means)
        if best is None or left < best[0]:
            best = left, means
        if deadline is not None and deadline.received is not None:
            raise Interrupted(deadline.received)
    assert best is not None
    return _gaussians(graph, best[1], best[0])


def _left_over(graph: Graph, means: np.ndarray) -> float:
    """Mean squared error on validation nodes, or on training nodes if there are none."""
    assert graph.values is not None
    nodes = graph.role("val") & graph.labelled
    nodes = nodes if nodes.any() else graph.role("train")
    return float(np.mean(np.square(means - graph.values)[nodes]))


def _gaussians(graph: Graph, means: np.ndarray, variance: float) -> RegressionPrediction:
    variances = np.full((1, graph.num_nodes), max(variance, np.finfo(np.float64).tiny))
    return RegressionPrediction(np.asarray(means)[None], variances, graph.node_ids, "deterministic")


CONTROLS.register("classification")(
    (
        Control("majority-class", False, majority_class),
        Control(LabelPropagation.name, True, _fitted(LabelPropagation)),
        Control(Logistic.name, False, _fitted(Logistic)),
        Control(LogisticHops.name, True, _fitted(LogisticHops)),
    )
)
CONTROLS.register("regression")(
    (
        Control("mean", False, mean_value),
        Control("neighbour-mean", True, neighbour_mean),
        Control("ridge", False, ridge),
    )
)


def controls(
    graph: Any,
    prediction: Prediction | None = None,
    *,
    name: str = "model",
    edges: bool | None = None,
    seconds: float = LEAST_SECONDS,
) -> Leaderboard:
    """Fit simple baselines on ``graph`` and rank them, together with your own prediction, by validation NLL.

    For classes: the majority class, label propagation, logistic regression on a node's features and on features
    averaged over neighbours. For regression: the mean, the neighbours' mean, a ridge regression.

    Args:
        graph: with training, validation and test nodes; graphs of other libraries as of :func:`graphsde.as_graph`.
        prediction: of all nodes of ``graph``, to compare with the controls.
        name: of that prediction.
        edges: whether it uses edges; by default all models but ``mlp`` and ``logistic`` do.
        seconds: CPU-time limit of each control; one that exceeds it is left out, with the reason.

    Returns:
        A board with ``table()``, ``sentence`` and ``notes()``.

    Example:
        >>> import graphsde as gs
        >>> board = gs.controls(gs.load("digits"))
        >>> sorted(one.name for one in board.rows)
        ['label-propagation', 'logistic', 'logistic-hops', 'majority-class']
    """
    graph = as_graph(graph)
    contenders: list[Contender] = []
    left_out: dict[str, str] = {}
    if prediction is not None:
        looks = name not in WITHOUT_EDGES if edges is None else edges
        contenders.append(Contender(name, prediction, control=False, edges=looks))
    for control in CONTROLS.of(graph):
        if prediction is not None and control.name == name:
            continue
        begun = time.process_time()
        try:
            found = control.predict(graph, Deadline(seconds))
        except Interrupted:
            left_out[control.name] = f"it takes more than {seconds:.0f} s of CPU time"
            continue
        except GraphsdeError as error:
            left_out[control.name] = error.message
            continue
        spent = round(time.process_time() - begun, 2)
        contenders.append(Contender(control.name, found, control=True, edges=control.edges, seconds=spent))
    return leaderboard(contenders, graph, left_out=left_out)
