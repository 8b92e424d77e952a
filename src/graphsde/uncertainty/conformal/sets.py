"""Split conformal prediction: calibrate once, then sets of classes for every node; and their evaluation."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.html import card, counted, note, table
from graphsde.base.registry import refuse_unknown_options
from graphsde.base.seeds import check_seed
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.conformal.intervals import CONFORMAL, conformal_quantile
from graphsde.uncertainty.conformal.scores import CONFORMAL_SCORES, Case
from graphsde.uncertainty.held_out import align_labels, held_out, require_same_nodes, require_share

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class Conformal:
    """Calibrated sets of classes; made by :func:`graphsde.conformalize`.

    Args:
        by: name of the score.
        confidence_level: 1 − α.
        quantiles: a class belongs to a node's set if its score is at most this.  # [C], all equal unless per class
        class_conditional: whether each class has its own quantile.
        class_names: the classes.
        calibration: which nodes were used.  # [N] bool
        calibration_source: in words.
        seed: of the uniforms, one per node id.
        options: of the score.
        graph: calibrated on.
    """

    by: str
    confidence_level: float
    quantiles: np.ndarray
    class_conditional: bool
    class_names: tuple[str, ...]
    calibration: np.ndarray
    calibration_source: str
    seed: int
    options: dict[str, Any]
    graph: Graph

    def predict_set(
        self, prediction: ClassPrediction, graph: Graph | None = None, *, never_empty: bool = False
    ) -> np.ndarray:
        """Possible classes of each node.  # [N, C] bool

        Args:
            prediction: of all nodes of ``graph``, by the model that was calibrated.
            graph: default: the one calibrated on. On another graph coverage is guaranteed only if its nodes
                are exchangeable with the calibration nodes, which can't be checked.
            never_empty: add the most probable class to empty sets, which can only increase coverage. An empty set means
                that no class fits, which is worth checking.
        """
        graph = self.graph if graph is None else graph
        if prediction.class_names != self.class_names:
            raise BadInput(
                "the prediction has other classes than the calibrated one",
                code="E-CLASS-MAP",
                expected=", ".join(self.class_names),
            )
        sets = strangeness(self.by, prediction, graph, self.seed, self.options) <= self.quantiles[None, :]
        if never_empty:
            empty = ~sets.any(axis=1)
            sets[empty, prediction.index[empty]] = True
        return sets

    def __repr__(self) -> str:
        kind = "class-conditional sets" if self.class_conditional else "sets"
        return f"Conformal({kind} at {self.confidence_level:g} by {self.by}, {self._calibrated_on()})"

    def _calibrated_on(self) -> str:
        return counted(int(self.calibration.sum()), "calibration node")

    def _facts(self) -> dict[str, object]:
        return {
            "level": f"{self.confidence_level:.1%}",
            "score": self.by,
            "calibration nodes": int(self.calibration.sum()),
            "taken from": self.calibration_source,
        }

    def _repr_html_(self) -> str:
        rows: list[dict[str, object]] = [
            {"class": name, "in the set where its score is at most": float(at)}
            for name, at in zip(self.class_names, self.quantiles, strict=True)
        ]
        own = {} if self.class_conditional else {"quantile": float(self.quantiles[0])}
        parts = [table(rows)] if self.class_conditional else []
        return card("Conformal sets", self._facts() | own, *parts, note(self.guarantee))

    @property
    def guarantee(self) -> str:
        """The guarantee and its assumptions, in words."""
        per_class = " of every class that was trained on" if self.class_conditional else ""
        return (
            f"on average over draws of the {int(self.calibration.sum())} calibration nodes, at least "
            f"{self.confidence_level:.1%} of the nodes{per_class} have their true class in the set. It assumes "
            "exchangeability: future nodes are drawn like the calibration nodes, from the same graph and the same "
            "classes. It holds over all nodes together, not for each node or neighbourhood, and not for OOD nodes "
            "or a graph that has changed."
        )


@CONFORMAL.register("classification")
def conformal_sets(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    confidence_level: float = 0.9,
    by: str = "aps",
    class_conditional: bool = False,
    seed: int = 0,
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    **options: Any,
) -> Conformal:
    r"""Sets of classes that contain the true one for at least a share ``confidence_level`` of the nodes.

    Split conformal prediction (Vovk, Gammerman and Shafer, 2005): with scores :math:`s_{ic}` and calibration nodes
    :math:`i = 1..n`, :math:`\hat q` is the :math:`\lceil (n+1)(1-\alpha) \rceil`-th smallest :math:`s_{i y_i}` and the
    set of a node is :math:`\{c : s_c \le \hat q\}`. Then
    :math:`1 - \alpha \le P(y \in \text{set}) \le 1 - \alpha + 1/(n+1)` (the second for scores without ties).

    See :func:`graphsde.conformalize` for its assumptions.

    Args:
        prediction, graph, confidence_level, by: as there.
        class_conditional: one quantile per class, so that every class is covered at the level. Each needs enough
            calibration nodes of its own.
        seed: of the uniforms of randomised scores and of the draw of calibration nodes, if the graph has none.
        calibration: mask or positions; the graph's calibration mask, or ``size`` spare labelled nodes, if not given.
        options: of the score, such as ``share=0.3`` of ``daps``.
    """
    require_share("confidence_level", confidence_level)
    CONFORMAL_SCORES.entry(by)
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    own = strangeness(by, prediction, graph, seed, options)[held.nodes, held.labels]
    if class_conditional:
        # a class without training nodes has no calibration nodes either: it uses those of all classes
        known = np.unique(align_labels(graph, prediction.class_names)[graph.familiar])
        quantiles = np.array(
            [
                conformal_quantile(
                    own[held.labels == position] if position in known else own,
                    confidence_level,
                    of=f"calibration nodes of class '{name}'",
                )
                for position, name in enumerate(prediction.class_names)
            ]
        )
    else:
        quantiles = np.full(prediction.num_classes, conformal_quantile(own, confidence_level))
    return Conformal(
        by=by,
        confidence_level=float(confidence_level),
        quantiles=quantiles,
        class_conditional=class_conditional,
        class_names=prediction.class_names,
        calibration=held.mask,
        calibration_source=held.source.words,
        seed=seed,
        options=dict(options),
        graph=graph,
    )


def strangeness(by: str, prediction: ClassPrediction, graph: Graph, seed: int, options: dict[str, Any]) -> np.ndarray:
    """The conformal score of every class at every node; the uniform depends on the node's id alone.

    # [N, C]
    """
    from graphsde.base.keyed_normals import node_keys
    from graphsde.nn.keyed_masks import KeyedMasks

    require_same_nodes(prediction, graph)
    entry = CONFORMAL_SCORES.entry(by)
    refuse_unknown_options(f"conformal score '{by}'", list(inspect.signature(entry.item).parameters)[1:], options)
    uniform = KeyedMasks(check_seed(seed), 0, node_keys(prediction.ids)).rows(1).numpy()[:, 0]
    return entry.item(Case(prediction.mean, uniform.astype(np.float64), graph), **options)


def summarise_sets(sets: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Coverage and size of sets on nodes of known class.

    Args:
        sets: of the nodes to evaluate.  # [n, C] bool
        labels: their classes.  # [n]

    Returns:
        ``coverage``; ``mean_size``; ``singletons`` and ``empty``, the shares of sets with one class and none;
        ``worst_size_coverage`` and ``worst_class_coverage``, the lowest coverage among sets of one size and nodes of
        one class (of groups with at least 10 nodes; NaN if there is none); ``n``.

    Example:
        >>> summarise_sets(np.array([[True, False], [True, True]]), np.array([0, 1]))["coverage"]
        1.0
    """
    sets, labels = np.asarray(sets, dtype=bool), np.asarray(labels)
    if sets.ndim != 2 or labels.shape != sets.shape[:1]:
        raise BadInput(f"{labels.shape} labels don't match sets of shape {sets.shape}", code="E-LEN")
    if not len(labels):
        raise BadInput("there are no nodes to evaluate", code="E-EMPTY")
    covered = sets[np.arange(len(labels)), labels]
    size = sets.sum(axis=1)
    return {
        "coverage": float(covered.mean()),
        "mean_size": float(size.mean()),
        "singletons": float((size == 1).mean()),
        "empty": float((size == 0).mean()),
        "worst_size_coverage": _worst(covered, size),
        "worst_class_coverage": _worst(covered, labels),
        "n": len(labels),
    }


def _worst(covered: np.ndarray, group: np.ndarray, least: int = 10) -> float:
    nodes = np.bincount(group)
    large = nodes >= least
    return float((np.bincount(group, weights=covered)[large] / nodes[large]).min()) if large.any() else float("nan")
