"""Conformal sets per group of nodes (Mondrian), and a table of coverage by class and degree band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.html import card, counted, note, table
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.binomial import clopper_pearson_interval
from graphsde.uncertainty.conformal.intervals import conformal_quantile, nodes_for_level
from graphsde.uncertainty.conformal.sets import Conformal, conformal_sets, strangeness
from graphsde.uncertainty.held_out import align_labels, held_out, require_share

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

BANDS = 4


@dataclass(frozen=True, eq=False)
class DegreeBands:
    """Nodes in groups of about equal size, by their number of neighbours.

    Args:
        edges: the largest degree of every band but the last.  # [B − 1]
        names: of the bands, such as ``degree 3 to 5``.
    """

    edges: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, bands: int = BANDS) -> DegreeBands:
        """Bands with about as many nodes of ``graph`` each; fewer if many nodes share a degree. No label is used."""
        degrees = graph.adjacency.degree
        cuts = np.unique(np.quantile(degrees, np.arange(1, bands) / bands, method="inverted_cdf"))
        edges = cuts[cuts < degrees.max()]
        lows, highs = [degrees.min(), *(edges + 1)], [*edges, degrees.max()]
        names = [f"degree {low:g}" if low >= high else f"degree {low:g} to {high:g}"
                 for low, high in zip(lows, highs, strict=True)]  # fmt: skip
        return cls(edges, tuple(names))

    def __call__(self, graph: Graph) -> np.ndarray:
        """The band of every node.  # [N] int"""
        return np.searchsorted(self.edges, graph.adjacency.degree, side="left")


@dataclass(frozen=True, eq=False, repr=False)
class GroupConformal:
    """Sets with one quantile per degree band; made by :func:`conformal_by_degree`.

    Args:
        base: the marginal sets, which a band with too few calibration nodes falls back to.
        bands: which nodes belong to which.
        quantiles: a class belongs to a node's set if its score is at most that of the node's band.  # [B]
        own: whether a band has its own quantile.  # [B] bool
    """

    base: Conformal
    bands: DegreeBands
    quantiles: np.ndarray
    own: np.ndarray

    def predict_set(
        self, prediction: ClassPrediction, graph: Graph | None = None, *, never_empty: bool = False
    ) -> np.ndarray:
        """Possible classes of each node, see :meth:`Conformal.predict_set`.  # [N, C] bool"""
        graph = self.base.graph if graph is None else graph
        if prediction.class_names != self.base.class_names:
            raise BadInput(
                "the prediction has other classes than the calibrated one",
                code="E-CLASS-MAP",
                expected=", ".join(self.base.class_names),
            )
        scores = strangeness(self.base.by, prediction, graph, self.base.seed, self.base.options)
        sets = scores <= self.quantiles[self.bands(graph)][:, None]
        if never_empty:
            empty = ~sets.any(axis=1)
            sets[empty, prediction.index[empty]] = True
        return sets

    def __repr__(self) -> str:
        bands = counted(len(self.bands.names), "degree band")
        return f"GroupConformal({bands} at {self.base.confidence_level:g} by {self.base.by})"

    def _repr_html_(self) -> str:
        rows: list[dict[str, object]] = [
            {"band": name, "quantile": float(at), "of its own": bool(own)}
            for name, at, own in zip(self.bands.names, self.quantiles, self.own, strict=True)
        ]
        return card("Conformal sets by degree", self.base._facts(), table(rows), note(self.guarantee))

    @property
    def guarantee(self) -> str:
        """What is guaranteed, in words."""
        named = ", ".join(name for name, own in zip(self.bands.names, self.own, strict=True) if own) or "no band"
        return (
            f"in each of these bands ({named}), on average over draws of the calibration nodes, at least "
            f"{self.base.confidence_level:.1%} of the nodes have their true class in the set, provided that nodes of a "
            "band are drawn like the calibration nodes of that band. A band not listed is covered only together "
            "with the others."
        )


def conformal_by_degree(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    confidence_level: float = 0.9,
    by: str = "aps",
    bands: int = BANDS,
    seed: int = 0,
    calibration: np.ndarray | None = None,
    size: int | None = CALIBRATION_SIZE,
    **options: Any,
) -> GroupConformal:
    """Sets that cover each degree band at the level (Mondrian conformal prediction, Vovk et al., 2005).

    Hubs and leaves are covered equally, which marginal sets don't guarantee. A band with fewer than ``1/α − 1``
    calibration nodes gets the quantile of all nodes; ``own`` marks those with their own.

    Args:
        prediction, graph, confidence_level, by, seed, calibration, size, options: as of :func:`graphsde.conformalize`.
        bands: how many.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.LabelPropagation().fit(graph).predict(graph)
        >>> found = conformal_by_degree(prediction, graph)
        >>> found.predict_set(prediction).shape, bool(found.own.all())
        ((1797, 10), True)
    """
    require_share("confidence_level", confidence_level)
    shared: dict[str, Any] = {"seed": seed, "calibration": calibration, "size": size}
    base = conformal_sets(prediction, graph, confidence_level=confidence_level, by=by, **shared, **options)
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    scores = strangeness(by, prediction, graph, seed, options)[held.nodes, held.labels]
    grouping = DegreeBands.of(graph, bands)
    band = grouping(graph)[held.nodes]
    enough = np.bincount(band, minlength=len(grouping.names)) >= nodes_for_level(confidence_level)
    quantiles = np.array(
        [
            conformal_quantile(scores[band == position], confidence_level) if own else base.quantiles[0]
            for position, own in enumerate(enough)
        ]
    )
    return GroupConformal(base, grouping, quantiles, enough)


def coverage_table(
    sets: np.ndarray, prediction: ClassPrediction, graph: Graph, nodes: np.ndarray, *, bands: int = BANDS
) -> list[dict[str, Any]]:
    """Coverage and size of sets over all nodes, per class and per degree band, with exact 95 % intervals.

    Args:
        sets: of all nodes.  # [N, C] bool
        prediction, graph: what they are of.
        nodes: to evaluate: labelled, and not calibrated on.  # [N] bool
        bands: degree bands.

    Returns:
        Rows with ``kind`` (``all``, ``class`` or ``degree``), ``group``, ``nodes``, ``coverage``, ``low``, ``high`` and
        ``mean_size``; groups without nodes are left out.
    """
    labels = align_labels(graph, prediction.class_names)
    judged = np.flatnonzero(np.asarray(nodes, dtype=bool) & (labels >= 0))
    if not len(judged):
        raise BadInput("there are no nodes to evaluate", code="E-EMPTY", expected="labelled nodes")
    covered, size = sets[judged, labels[judged]], sets[judged].sum(axis=1)
    grouping = DegreeBands.of(graph, bands)
    groups: list[tuple[str, tuple[str, ...], np.ndarray]] = [
        ("all", ("all nodes",), np.zeros(len(judged), dtype=np.int64)),
        ("class", prediction.class_names, labels[judged]),
        ("degree", grouping.names, grouping(graph)[judged]),
    ]
    rows = []
    for kind, names, group in groups:
        for position, name in enumerate(names):
            inside = group == position
            if inside.any():
                count, hits = int(inside.sum()), int(covered[inside].sum())
                low, high = clopper_pearson_interval(hits, count)
                rows.append(
                    {"kind": kind, "group": name, "nodes": count, "coverage": hits / count, "low": low, "high": high}
                    | {"mean_size": float(size[inside].mean())}
                )
    return rows
