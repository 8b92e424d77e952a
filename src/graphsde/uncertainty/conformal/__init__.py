"""Conformal sets of classes, or intervals of numbers, that contain the true one with a chosen frequency."""

from __future__ import annotations

from typing import Any, overload

from graphsde.base.errors import BadUsage
from graphsde.base.suggestions import called_here, what_was_meant
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.uncertainty.conformal.intervals import CONFORMAL, ConformalIntervals
from graphsde.uncertainty.conformal.scores import CONFORMAL_SCORES, Case
from graphsde.uncertainty.conformal.sets import Conformal, summarise_sets

__all__ = ["CONFORMAL_SCORES", "Case", "Conformal", "ConformalIntervals", "conformalize", "summarise_sets"]

OPTIONS = ("confidence_level", "seed")


@overload
def conformalize(
    prediction: ClassPrediction, graph: Graph, *, confidence_level: float = ..., by: str | None = ..., **options: Any
) -> Conformal: ...
@overload
def conformalize(
    prediction: RegressionPrediction,
    graph: Graph,
    *,
    confidence_level: float = ...,
    by: str | None = ...,
    **options: Any,
) -> ConformalIntervals: ...
@overload
def conformalize(
    prediction: Prediction, graph: Graph, *, confidence_level: float = ..., by: str | None = ..., **options: Any
) -> Conformal | ConformalIntervals: ...
def conformalize(
    prediction: Prediction, graph: Graph, *, confidence_level: float = 0.9, by: str | None = None, **options: Any
) -> Conformal | ConformalIntervals:
    r"""Sets of classes, or intervals, that contain the truth for at least a share ``confidence_level`` of the nodes.

    Assumption: calibration and test nodes are **exchangeable**. For a model that sees the whole graph in
    training, this holds if their labels were unused and they were drawn alike (Zargarbashi et al., 2023; Huang et al.,
    2023). The guarantee is marginal: over all nodes together, not for a single node, a group of nodes, nodes added
    later, another graph or OOD classes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        confidence_level: 1 − α.
        by: for classes ``aps`` (default), ``thr`` (also ``lac``), ``raps`` or ``daps``; see ``graphsde list
            conformal``. For regression ``deviations`` (default) or ``quantiles``.
        options: ``seed``, ``calibration``, ``size``, and for classes ``class_conditional`` and those of the score: see
            :func:`~graphsde.uncertainty.conformal.sets.conformal_sets` and
            :func:`~graphsde.uncertainty.conformal.intervals.conformal_intervals`.

    Raises:
        BadInput: (``E-CAL-SMALL``) fewer than ``1/α − 1`` calibration nodes, or of a class; the message says how many
            are needed.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.LabelPropagation().fit(graph).predict(graph)
        >>> sets = gs.conformalize(prediction, graph, confidence_level=0.9).predict_set(prediction)
        >>> sets.shape, sets.dtype
        ((1797, 10), dtype('bool'))
    """
    for name in options:
        if called_here(name, OPTIONS):
            raise BadUsage(f"unknown option '{name}'", found=name, fix=what_was_meant(name, OPTIONS))
    chosen = {} if by is None else {"by": by}
    return CONFORMAL.of(prediction)(prediction, graph, confidence_level=confidence_level, **chosen, **options)
