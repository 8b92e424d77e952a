"""Training-free evidence: does a node resemble the training nodes of some class more than any node of the graph?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadUsage
from graphsde.base.scratch import scratch_array
from graphsde.base.seeds import derive, numpy_stream
from graphsde.graph.graph import Graph
from graphsde.nn.encoding import FeatureEncoder

MOST_AXES = 128
MOST_BACKGROUND = 2_000
MOST_CENTRES = 2_000
"""Maximum training nodes per class: more hardly change the mean of the kernel, and the cost is linear in them."""
POWERS = (0.0, 0.5)
WIDTHS = (0.05, 0.1, 0.2)
STEPS, RETURN = 4, 0.1
# the right singular vectors of this many rows are close enough to those of all rows
_ROWS_FOR_AXES = 50_000
_NODES_TO_SELECT_ON = 5_000
_COLUMNS_AT_ONCE, _MANY_NODES = 32, 50_000
_KERNELS_AT_ONCE = 2_000_000
# of the mean eigenvalue: whitening would blow up an axis that hardly varies
_RIDGE = 1e-3
_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Space:
    """The space in which nodes are compared: features on at most 128 axes, averaged over neighbours, centred.

    Args:
        encoder: of the features.
        axes: right singular vectors of the encoded features; ``None`` if there are few columns.  # [d, r]
        centre: mean over nodes, after averaging.  # [r]
        rotation, variance: eigenvectors and eigenvalues of the covariance.  # [r, r], [r]
    """

    encoder: FeatureEncoder
    axes: np.ndarray | None
    centre: np.ndarray
    rotation: np.ndarray
    variance: np.ndarray

    @classmethod
    def fit(cls, graph: Graph, rows: np.ndarray | None) -> tuple[Space, np.ndarray]:
        """The space, and the points of ``graph`` in it; statistics are of ``rows``, or of all.  # [N, r]"""
        encoder = FeatureEncoder.fit(graph if rows is None else graph.subgraph(rows))
        features = encoder.transform(graph)
        everybody = np.arange(graph.num_nodes) if rows is None else rows
        axes = _singular_vectors(features, _draw(graph, everybody, _ROWS_FOR_AXES, "axes"))
        places = _average(graph, features, axes)
        judged = places if rows is None else places[rows]
        centre = judged.mean(axis=0, dtype=np.float64)
        covariance = np.zeros((len(centre), len(centre)))
        for start in range(0, len(judged), _ROWS_FOR_AXES):
            part = judged[start : start + _ROWS_FOR_AXES] - centre
            covariance += part.T @ part
        variance, rotation = np.linalg.eigh(covariance / len(judged))
        return cls(encoder, axes, centre, rotation, np.maximum(variance, 0.0)), places

    def places(self, graph: Graph) -> np.ndarray:
        """Features on the axes, ``Z ← 0.9 Â Z + 0.1 Z₀`` four times.  # [N, r]"""
        return _average(graph, self.encoder.transform(graph), self.axes)

    def points(self, places: np.ndarray, power: float) -> np.ndarray:
        """Centred, each axis divided by its standard deviation to this power, rows of unit length.  # [n, r]"""
        ridge = max(_RIDGE * float(self.variance.mean()), _SMALLEST)
        whitening = (self.rotation / np.sqrt(self.variance + ridge) ** power).astype(np.float32)
        offset = places - self.centre.astype(np.float32)
        moved = offset @ whitening
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        # what differs from the centre only by rounding has no direction: it is equally similar to all
        rounding = max(1e-6 * float(np.linalg.norm(self.centre)), 1e-9)
        distinct = np.linalg.norm(offset, axis=1, keepdims=True) > rounding
        return np.divide(moved, length, out=np.zeros_like(moved), where=distinct & (length > 0))


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Points that others are compared with.

    Args:
        ids: of their nodes.  # [m]
        rows: their positions in the graph fitted on.  # [m]
        places: in the space.  # [m, r]
    """

    ids: np.ndarray
    rows: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, graph: Graph, rows: np.ndarray, places: np.ndarray) -> Landmarks:
        return cls(graph.node_ids[rows], rows, places[rows])

    def positions_in(self, graph: Graph, fitted_ids: np.ndarray) -> np.ndarray:
        """Positions of the same nodes in ``graph``, -1 if missing.  # [m]"""
        if graph.node_ids is fitted_ids or np.array_equal(graph.node_ids, fitted_ids):
            return self.rows
        return np.array([graph.position.get(node, -1) for node in self.ids.tolist()], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Evidence:
    """How little a node resembles the training nodes of any class: a density ratio, without training.

    With ``q`` the features on at most 128 axes, averaged over neighbours, centred, whitened to a power and of unit
    length, and ``k(i, j) = exp(q_i·q_j / τ)``,

        e_i = −log( max_c mean_{j in training nodes of c} k(i, j)  /  mean_{j in background} k(i, j) ).

    Power and τ are those of the largest KLIEP objective (Sugiyama et al., 2008) on validation nodes: the mean of −e
    there, minus the logarithm of the mean of exp(−e) over the background. A node is never compared with itself. The
    background is at most 2,000 random nodes of the graph, of any class: the evidence is transductive, and knows
    what many unlabelled nodes look like. It uses features, edges, labels of training nodes and which nodes are
    validation nodes of known classes; no label or feature decides which nodes are OOD.

    Args:
        values: e of the graph fitted on, higher = less like the training nodes.  # [N]
        without_nearest: e if the most similar class had no training nodes; ``None`` with one class.  # [N]
        propagated: ``values`` averaged with the neighbours' (:func:`graphsde.uncertainty.scores.propagate`).  # [N]
        reference: ``propagated`` of the validation nodes, ascending.  # [V]
        power, width: p and τ that were selected.
        alone: whether unknown nodes were kept out of the background.
    """

    values: np.ndarray
    without_nearest: np.ndarray | None
    propagated: np.ndarray
    reference: np.ndarray
    power: float
    width: float
    alone: bool
    _space: Space
    _fitted_ids: np.ndarray
    _centres: Landmarks
    _starts: np.ndarray  # where each class starts among the centres
    _background: Landmarks

    @property
    def encoder(self) -> FeatureEncoder:
        return self._space.encoder

    @classmethod
    def fit(cls, graph: Graph, *, alone: bool = False) -> Evidence:
        """Learn what the training nodes of ``graph`` look like; deterministic.

        Args:
            graph: with classes and labelled training nodes. Validation nodes of known classes select (p, τ) and are
                what tail shares refer to; without any, training nodes are used, each compared without itself.
            alone: use axes, centre, whitening and background of training and validation nodes only, so that a
                node is scored one at a time: other unknown nodes matter only through edges. For a single
                OOD node and for future graphs; it detects less if there are many unknown nodes.

        Raises:
            BadUsage: (``E-TARGET``) the graph has no classes; (``E-SCORE``) no labelled training node.

        Example:
            >>> import graphsde as gs
            >>> evidence = gs.Evidence.fit(gs.load("digits"))
            >>> evidence.values.shape, bool((evidence.tail_share() <= 1).all())
            ((1797,), True)
        """
        train, labels = _training_nodes(graph)
        held_out = reference_nodes(graph)
        known = np.sort(np.concatenate([train, held_out[~np.isin(held_out, train)]])) if alone else None
        space, places = Space.fit(graph, known)
        rows, starts = _centre_rows(graph, train, labels)
        centres = Landmarks.of(graph, rows, places)
        everybody = np.arange(graph.num_nodes) if known is None else known
        background = Landmarks.of(graph, _draw(graph, everybody, MOST_BACKGROUND, "background"), places)
        # a sample is enough for selection: all of them are scored once afterwards
        nodes = _draw(graph, held_out, _NODES_TO_SELECT_ON, "selection")
        power, width = _select(space, centres, starts, background, nodes, places)
        ratios = _log_ratios(space, places, power, width, centres, starts, background, (rows, background.rows))
        values, without_nearest = _evidence(ratios)
        propagated = _propagate(values, graph)
        return cls(
            values, without_nearest, propagated, np.sort(propagated[held_out]), power, width, alone, space,
            graph.node_ids, centres, starts, background,
        )  # fmt: skip

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which :meth:`from_state` restores the evidence."""
        space = self._space
        arrays = {
            "values": self.values, "propagated": self.propagated, "reference": self.reference,
            "without_nearest": self.without_nearest, "axes": space.axes, "centre": space.centre,
            "rotation": space.rotation, "variance": space.variance, "starts": self._starts,
            "centres.rows": self._centres.rows, "centres.places": self._centres.places,
            "background.rows": self._background.rows, "background.places": self._background.places,
        }  # fmt: skip
        plain = {"power": self.power, "width": self.width, "alone": self.alone, "encoder": space.encoder.as_dict()}
        return {name: array for name, array in arrays.items() if array is not None}, plain

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any], graph: Graph) -> Evidence:
        """What :meth:`state` gave, for the graph that it was fitted on.

        Raises:
            ValueError, KeyError: they are of another graph, or incomplete.
        """
        landmarks = []
        for name in ("centres", "background"):
            rows, places = arrays[f"{name}.rows"], arrays[f"{name}.places"]
            landmarks.append(Landmarks(graph.node_ids[rows], rows, places))
        nodes = (arrays["values"], arrays["propagated"], arrays.get("without_nearest"))
        if any(one is not None and one.shape != (graph.num_nodes,) for one in nodes):
            raise ValueError("evidence of other nodes")
        encoder = FeatureEncoder.from_dict(dict(values["encoder"]))
        axes, centre = arrays.get("axes"), arrays["centre"]
        width = encoder.width if axes is None else axes.shape[1]
        square = arrays["rotation"].shape == (width, width) and arrays["variance"].shape == centre.shape == (width,)
        fitting = (axes is None or axes.shape[0] == encoder.width) and all(
            one.places.shape == (len(one.rows), width) for one in landmarks
        )
        if not square or not fitting:
            raise ValueError("evidence in a space of another size")
        return cls(
            arrays["values"], arrays.get("without_nearest"), arrays["propagated"], arrays["reference"],
            float(values["power"]), float(values["width"]), bool(values["alone"]),
            Space(encoder, axes, centre, arrays["rotation"], arrays["variance"]),
            graph.node_ids, landmarks[0], arrays["starts"], landmarks[1],
        )  # fmt: skip

    def of(self, graph: Graph) -> np.ndarray:
        """e of the nodes of another graph with the same columns: a shifted copy, or one with new nodes.  # [N]

        Axes, centre, whitening, training and background points are those of the graph fitted on. A node whose id was
        among these points is not compared with itself.
        """
        places = self._space.places(graph)
        own = (
            self._centres.positions_in(graph, self._fitted_ids),
            self._background.positions_in(graph, self._fitted_ids),
        )
        ratios = _log_ratios(
            self._space, places, self.power, self.width, self._centres, self._starts, self._background, own
        )
        return _evidence(ratios)[0]

    def tail_share(self, graph: Graph | None = None) -> np.ndarray:
        """Share of validation nodes that look at least as unusual, neighbours included: near 0 = OOD.  # [N]

        ``p_i = (1 + #{v: ẽ_v ≥ ẽ_i}) / (n_val + 1)``, ẽ the propagated evidence.

        Args:
            graph: whose nodes to score, as for :meth:`of`; default: the one fitted on.
        """
        propagated = self.propagated if graph is None else _propagate(self.of(graph), graph)
        return upper_tail(propagated, self.reference)


_FITTED: WeakKeyDictionary[Graph, dict[bool, Evidence]] = WeakKeyDictionary()


def evidence_of(graph: Graph, *, alone: bool = False) -> Evidence:
    """:meth:`Evidence.fit`, cached per graph: training, scores and decisions share it."""
    kept = _FITTED.setdefault(graph, {})
    if alone not in kept:
        kept[alone] = Evidence.fit(graph, alone=alone)
    return kept[alone]


def remember_evidence(graph: Graph, evidence: Evidence) -> None:
    """Let :func:`evidence_of` find what was fitted on ``graph`` before."""
    _FITTED.setdefault(graph, {})[evidence.alone] = evidence


def upper_tail(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """``(1 + #{v: r_v ≥ x}) / (n + 1)``, the conformal p-value of each x; ``reference`` ascending.

    Example:
        >>> upper_tail(np.array([0.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 0.5, 0.25]
    """
    count = len(reference)
    return (1.0 + count - np.searchsorted(reference, values, side="left")) / (count + 1.0)


def validation_nodes(graph: Graph) -> np.ndarray:
    """Validation nodes of trained classes that are not marked as OOD.  # [V]"""
    return np.flatnonzero(graph.role("val") & graph.familiar & ~graph.role("ood"))


def reference_nodes(graph: Graph) -> np.ndarray:
    """:func:`validation_nodes`; if there are none, the training nodes."""
    found = validation_nodes(graph)
    return found if len(found) else _training_nodes(graph)[0]


def _training_nodes(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Labelled training nodes and their classes.  # [n], [n]"""
    if graph.labels is None and graph.values is not None:
        raise BadUsage(
            f"the evidence compares nodes with classes, but '{graph.name}' has numbers",
            code="E-TARGET",
            fix="use the score total",
        )
    rows = np.flatnonzero(graph.role("train") & graph.labelled)
    if graph.labels is None or len(rows) == 0:
        raise BadUsage(
            f"the graph '{graph.name}' has no labelled training nodes to compare with",
            code="E-SCORE",
            fix="apply a split, or fit on the graph that the model was fitted on",
        )
    return rows, graph.labels[rows]


def _centre_rows(graph: Graph, train: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Training nodes class by class, a limited number of each; and where each class starts.  # [m], [G]"""
    groups = [
        _draw(graph, train[labels == one], MOST_CENTRES, "centres", graph.class_names[one]) for one in np.unique(labels)
    ]
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    return np.concatenate(groups), starts


def in_order_of_ids(graph: Graph, rows: np.ndarray) -> np.ndarray:
    """The same rows, in an order independent of their position, so that draws from them are, too."""
    return rows[np.argsort(graph.node_ids[rows], kind="stable")]


def _draw(graph: Graph, rows: np.ndarray, most: int, *purpose: object) -> np.ndarray:
    if len(rows) <= most:
        return rows
    return np.sort(numpy_stream(0, "evidence", *purpose).choice(in_order_of_ids(graph, rows), most, replace=False))


def _singular_vectors(features: np.ndarray | sp.csr_array, rows: np.ndarray) -> np.ndarray | None:
    if features.shape[1] <= MOST_AXES:
        return None  # all of them span the same space
    # random directions over columns, never over rows: the order of nodes must not matter
    vectors = leading_directions(
        features[rows], min(MOST_AXES, len(rows)), iterations=3, seed=derive(0, "evidence", "svd") >> 31
    )
    return np.ascontiguousarray(vectors.T, dtype=np.float32)


def leading_directions(matrix: np.ndarray | sp.csr_array, count: int, *, iterations: int, seed: int) -> np.ndarray:
    """Right singular vectors of the largest singular values, by random projection.  # [n, d] -> [count, d]

    Halko, Martinsson and Tropp, Finding structure with randomness, 2011: with the same bits as scikit-learn's
    ``randomized_svd``, whose import takes longer than a small fit.
    """
    from scipy import linalg

    # ten directions to spare; the legacy stream is the one that scikit-learn draws from
    basis = np.random.RandomState(seed).normal(size=(matrix.shape[1], count + 10)).astype(matrix.dtype, copy=False)
    for _ in range(iterations):
        basis = linalg.lu(matrix @ basis, permute_l=True, check_finite=False)[0]
        basis = linalg.lu(matrix.T @ basis, permute_l=True, check_finite=False)[0]
    basis = linalg.qr(matrix @ basis, mode="economic", check_finite=False)[0]
    left, _, right = linalg.svd(basis.T @ matrix, full_matrices=False)
    # the sign under which the largest entry of the left vector is positive
    left = basis @ left
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    return (right * signs[:, None])[:count]


def _average(graph: Graph, features: Any, axes: np.ndarray | None) -> np.ndarray:
    """In blocks of axes: they don't mix, and a graph of a million nodes needs one such matrix, not four."""
    width = features.shape[1] if axes is None else axes.shape[1]
    places = scratch_array((graph.num_nodes, width), np.float32)
    # fewer for a large graph; columns of a product stay together, since its bits depend on their number
    few = _COLUMNS_AT_ONCE if graph.num_nodes <= _MANY_NODES else _COLUMNS_AT_ONCE // 4
    for start in range(0, width, _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        own = features[:, part] if axes is None else features @ axes[:, part]
        for first in range(0, own.shape[1], few):
            some = own[:, first : first + few]
            averaged = _averaged(graph, np.ascontiguousarray(some.toarray() if sp.issparse(some) else some, np.float32))
            places[:, start + first : start + first + averaged.shape[1]] = averaged
    return places


def _averaged(graph: Graph, own: np.ndarray) -> np.ndarray:
    now, operator = own, graph.adjacency.normalized
    for _ in range(STEPS):
        now = operator @ now
        now *= np.float32(1.0 - RETURN)
        now += np.float32(RETURN) * own
    return now


def _select(
    space: Space,
    centres: Landmarks,
    starts: np.ndarray,
    background: Landmarks,
    nodes: np.ndarray,
    places: np.ndarray,
) -> tuple[float, float]:
    """Power and width with the largest KLIEP objective."""
    judged = np.concatenate([nodes, background.rows])
    place_of = np.full(len(places), -1, dtype=np.int64)
    best = (-np.inf, POWERS[0], WIDTHS[0])
    for power in POWERS:
        for width in WIDTHS:
            gains = []
            for part in (nodes, background.rows):
                place_of[judged] = -1
                place_of[part] = np.arange(len(part))
                own = (place_of[centres.rows], place_of[background.rows])
                ratios = _log_ratios(space, places[part], power, width, centres, starts, background, own)
                gains.append(-_evidence(ratios)[0])
            highest = gains[1].max()
            objective = gains[0].mean() - highest - np.log(np.exp(gains[1] - highest).mean())
            if objective > best[0]:
                best = (float(objective), power, width)
    return best[1], best[2]


def _log_ratios(
    space: Space,
    places: np.ndarray,
    power: float,
    width: float,
    centres: Landmarks,
    starts: np.ndarray,
    background: Landmarks,
    own: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Logarithms of the two largest density ratios of each row, in blocks of rows.  # [n, 1 or 2]

    ``own`` is the row in which each centre and background point would be compared with itself, -1 for none.
    """
    columns = [space.points(one.places, power) for one in (centres, background)]
    ends = np.append(starts[1:], len(columns[0]))
    of_class = np.repeat(np.arange(len(starts)), ends - starts)
    keep = min(2, len(starts))
    found = np.empty((len(places), keep))
    step = max(1, _KERNELS_AT_ONCE // max(len(columns[0]), len(columns[1])))
    for start in range(0, len(places), step):
        points = space.points(places[start : start + step], power)
        inside, itself = _kernel(points, columns[0], width, own[0] - start)
        total = np.add.reduceat(inside, starts, axis=1, dtype=np.float64)
        counts = np.tile((ends - starts).astype(np.float64), (len(points), 1))
        counts[own[0][itself] - start, of_class[itself]] -= 1.0
        # the only training node of a class says nothing about how well that class is known
        with np.errstate(divide="ignore", invalid="ignore"):
            by_class = np.where(counts > 0, np.log(total) - np.log(counts), -np.inf)
        around, itself = _kernel(points, columns[1], width, own[1] - start)
        others = np.full(len(points), float(len(columns[1])))
        others[own[1][itself] - start] -= 1.0
        density = np.log(np.maximum(around.sum(axis=1, dtype=np.float64), 1e-300)) - np.log(np.maximum(others, 1.0))
        top = -np.partition(-by_class, keep - 1, axis=1)[:, :keep]
        top.sort(axis=1)
        # nothing left to compare with: as similar to the classes as to all nodes
        found[start : start + step] = np.where(np.isfinite(top), top - density[:, None], 0.0)[:, ::-1]
    return found


def _kernel(points: np.ndarray, landmarks: np.ndarray, width: float, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``exp((q·q' − 1) / τ)`` without the entries of a point with itself, and which landmarks these are.

    The 1 cancels in a ratio and bounds the kernel by 1. An own entry is set to 0, not subtracted from the sum: it
    can be 10¹⁶ times all others together.
    """
    kernel = points @ landmarks.T
    kernel -= np.float32(1.0)
    kernel /= np.float32(width)
    np.exp(kernel, out=kernel)
    itself = np.flatnonzero((own >= 0) & (own < len(points)))
    kernel[own[itself], itself] = 0.0
    return kernel, itself


def _evidence(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    return -ratios[:, 0], None if ratios.shape[1] == 1 else -ratios[:, 1]


def _propagate(values: np.ndarray, graph: Graph) -> np.ndarray:
    from graphsde.uncertainty.scores.propagation import propagate  # the scores import this module

    return propagate(values, graph)
