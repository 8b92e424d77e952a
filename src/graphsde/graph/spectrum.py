"""The slow modes of a graph: eigenvectors of its Laplacian with the smallest eigenvalues."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphsde.base.errors import Diverged
from graphsde.base.memory import require_memory
from graphsde.base.seeds import numpy_stream
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.sparse import SparseMatrix

_DENSE_UP_TO = 512
_TOLERANCE = 1e-6
_FILTER_POWER = 16
_CHECKED_AT_ONCE = 8
_INNER_TOLERANCE = 1e-9

Filter = Callable[[np.ndarray], np.ndarray]


def smallest_eigenpairs(
    laplacian: sp.csr_array, flat: np.ndarray | None, wanted: int, *, bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The ``wanted`` smallest eigenvalues besides the known zero, ascending, and orthonormal vectors.

    Small matrices are decomposed in full; large ones are never made dense.

    Args:
        laplacian: symmetric, no eigenvalue below zero, of one connected component, float64.  # [n, n]
        flat: the known unit vector of eigenvalue zero, to leave out; ``None`` if there is none.  # [n]
        wanted: at most n, or n − 1 with a flat vector.
        bounded: no eigenvalue exceeds 2, as for the normalised Laplacian. One that is not bounded needs ``flat``.

    Returns:
        values ``[wanted]`` and vectors ``[n, wanted]``
    """
    nodes = int(laplacian.shape[0])
    if nodes > _DENSE_UP_TO and wanted < nodes // 4:
        return _lanczos(laplacian, flat, wanted, bounded)
    require_memory(4 * 8 * nodes**2, f"all modes of {nodes} nodes", "use fewer modes")
    dense = laplacian.toarray()
    if flat is not None:  # shifted to the upper end: Gershgorin bounds the spectrum
        dense += (1.0 + np.abs(dense).sum(axis=1).max()) * np.outer(flat, flat)
    values, vectors = np.linalg.eigh(dense)
    return values[:wanted], vectors[:, :wanted]


def _lanczos(
    laplacian: sp.csr_array, flat: np.ndarray | None, wanted: int, bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Lanczos on a filter of the Laplacian: same vectors, but the wanted end of the spectrum is pulled apart, so that
    far fewer of its costly orthogonalisations are needed.

    A multiple eigenvalue appears only once in a run, so runs are repeated on the complement, until nothing new
    would be among the wanted.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    nodes = int(laplacian.shape[0])
    basis_of = lambda number: min(nodes - 1, max(40, min(2 * number + 1, number + 200)))  # noqa: E731
    require_memory(8 * nodes * (basis_of(wanted) + 4 * wanted), f"{wanted} modes of {nodes} nodes", "use fewer modes")
    filtered = _power(laplacian, flat) if bounded or flat is None else _inverse(laplacian, flat)
    start = numpy_stream(0, "laplacian modes").normal(size=nodes)
    vectors, gains = np.zeros((nodes, 0)), np.zeros(0)  # found so far, and their filtered values

    def beside_the_found(x: np.ndarray) -> np.ndarray:
        return filtered(x) - vectors @ (gains * (vectors.T @ x))

    number = wanted
    while True:
        operator = LinearOperator(laplacian.shape, matvec=beside_the_found, dtype=np.float64)
        try:
            more, directions = eigsh(operator, k=number, which="LA", v0=start, ncv=basis_of(number), tol=_TOLERANCE)
        except ArpackNoConvergence:
            raise Diverged(f"the {wanted} slow modes of this graph did not converge", fix="use fewer modes") from None
        lowest = np.sort(gains)[-wanted] if len(gains) >= wanted else -np.inf
        if more.max() <= lowest * (1 + _TOLERANCE):
            break
        vectors, gains = np.concatenate([vectors, directions], 1), np.concatenate([gains, more])
        number = min(wanted, _CHECKED_AT_ONCE)
    return _rayleigh_ritz(laplacian, vectors[:, np.argsort(-gains, kind="stable")[:wanted]])


def _power(laplacian: sp.csr_array, flat: np.ndarray | None) -> Filter:
    """(I − L/2)^16, for eigenvalues in [0, 2]: a third of the time of I − L/2 itself on 20,000 nodes."""
    lazy = sp.csr_array(sp.eye_array(laplacian.shape[0]) - laplacian / 2)

    def apply(x: np.ndarray) -> np.ndarray:
        y = _without(flat, x)
        for _ in range(_FILTER_POWER):
            y = lazy @ y
        return y

    return apply


def _inverse(laplacian: sp.csr_array, flat: np.ndarray) -> Filter:
    """L⁻¹ without ``flat`` by conjugate gradients: hubs stretch the spectrum far beyond what a power can filter, and a
    factorisation could fill in."""
    from scipy.sparse.linalg import cg

    jacobi = sp.dia_array(sp.diags_array(1.0 / laplacian.diagonal()))

    def apply(x: np.ndarray) -> np.ndarray:
        solution, steps_missing = cg(laplacian, _without(flat, x), rtol=_INNER_TOLERANCE, M=jacobi)
        if steps_missing:
            raise Diverged("conjugate gradients on this graph's Laplacian did not converge", fix="use fewer modes")
        return _without(flat, solution)

    return apply


def _without(flat: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    return x if flat is None else x - flat * (flat @ x)


def _rayleigh_ritz(laplacian: sp.csr_array, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best eigenpairs within the span of ``vectors``, ascending."""
    basis = np.linalg.qr(vectors)[0]
    inner = basis.T @ (laplacian @ basis)
    values, rotation = np.linalg.eigh((inner + inner.T) / 2)
    return values, basis @ rotation


Laplacian = Literal["normalised", "unnormalised"]

_SPECTRA_KEPT = 2
_SAME_VALUE = 1e-7


@dataclass(frozen=True)
class Modes:
    """Orthonormal columns and their Laplacian eigenvalues, ascending.

    Args:
        vectors: float64.  # [N, r]
        values: not below 0, float64.  # [r]
    """

    vectors: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """The lower end of a Laplacian's spectrum: one mode of eigenvalue zero per component, and those that vary inside.

    The flat mode of component c has the entries of ``flat`` on c and zeros elsewhere; stored like this, a graph of very
    many components costs no more than any other.

    Args:
        flat: of unit length on each component.  # [N]
        component: which one a node is in.  # [N]
        varying: the smallest eigenvalues above zero.
    """

    flat: np.ndarray
    component: np.ndarray
    varying: Modes

    @property
    def num_components(self) -> int:
        return int(self.component.max()) + 1


_MODES: WeakKeyDictionary[SparseMatrix, dict[int, Modes]] = WeakKeyDictionary()
_SPECTRA: OrderedDict[tuple[str, str, int], Spectrum] = OrderedDict()


def graph_spectrum(adjacency: Adjacency, laplacian: Laplacian, count: int) -> Spectrum:
    r"""The ``count`` smallest varying modes of a graph (of its symmetric part, if edges have a direction).

    ``unnormalised``: :math:`L = D - A`; ``normalised``: :math:`L = I - D^{-1/2} A D^{-1/2}`, with zeros for a node
    without neighbours. A multiple eigenvalue is used completely or not at all, so that the span does not depend on
    the order of the nodes; if that would leave no mode, a part is used. The last two results are cached.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> spectrum = graph_spectrum(synthetic(100, classes=2).adjacency, "normalised", 10)
        >>> spectrum.varying.vectors.shape[0], bool((spectrum.varying.values > 0).all())
        (100, True)
    """
    key = (adjacency.fingerprint, laplacian, count)
    if key not in _SPECTRA:
        _SPECTRA[key] = _spectrum(adjacency, laplacian, count)
    _SPECTRA.move_to_end(key)
    while len(_SPECTRA) > _SPECTRA_KEPT:
        _SPECTRA.popitem(last=False)
    return _SPECTRA[key]


def laplacian_modes(adjacency: SparseMatrix, count: int) -> Modes:
    """Modes of I − Â (of its symmetric part, if edges have a direction), at most ``count``, cached per graph.

    Every connected component has one mode of eigenvalue zero, known in closed form (proportional to √degree). On a
    graph of many components these alone could fill the list and nothing would vary inside a component; so at most half
    of the modes are of this kind, those of the largest components. The others are the smallest eigenvalues of the
    ``count`` largest components.
    """
    kept = _MODES.setdefault(adjacency, {})
    count = min(count, adjacency.shape[0])
    if count not in kept:
        kept[count] = _solve(_symmetric_part(adjacency), count)
    return kept[count]


def _spectrum(adjacency: Adjacency, laplacian: Laplacian, count: int) -> Spectrum:
    matrix = sp.csr_array(adjacency.matrix, dtype=np.float64)
    if adjacency.directed:
        matrix = sp.csr_array((matrix + matrix.T) / 2)
    component = adjacency.components
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    if laplacian == "normalised":
        scale = sp.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
        operator = sp.diags_array((degree > 0).astype(np.float64)) - scale @ matrix @ scale
        flat = np.where(degree > 0, np.sqrt(degree), 1.0)
    else:
        operator = sp.diags_array(degree) - matrix
        flat = np.ones_like(degree)
    flat = flat / np.sqrt(np.bincount(component, flat**2))[component]
    # one more than wanted shows whether the last eigenvalue continues beyond them
    modes = _varying(sp.csr_array(operator), _parts(component), flat, count + 1, bounded=laplacian == "normalised")
    return Spectrum(flat, component, _whole_eigenspaces(modes, count))


def _whole_eigenspaces(modes: Modes, count: int) -> Modes:
    if len(modes.values) <= count:
        return modes
    steps = np.flatnonzero(np.diff(modes.values[: count + 1]) > _SAME_VALUE)
    kept = int(steps[-1]) + 1 if steps.size else count
    return Modes(np.ascontiguousarray(modes.vectors[:, :kept]), modes.values[:kept])


def _symmetric_part(adjacency: SparseMatrix) -> sp.csr_array:
    parts = (adjacency.values.cpu().double().numpy(), adjacency.col.cpu().numpy(), adjacency.crow.cpu().numpy())
    matrix = sp.csr_array(parts, shape=adjacency.shape)
    return sp.csr_array((matrix + matrix.T) / 2)


def _solve(matrix: sp.csr_array, count: int) -> Modes:
    nodes = int(matrix.shape[0])
    parts = _parts(connected_components(matrix, directed=False)[1])
    flat = _fixed_vector(matrix)
    known = len(parts) if flat is not None else 0
    kept = min(known, max(1, count // 2, count - (nodes - known)))
    vectors = np.zeros((nodes, kept))
    for place in range(kept):
        vectors[parts[place], place] = _unit(flat[parts[place]])  # type: ignore[index]
    varying = _varying(sp.csr_array(sp.eye_array(nodes) - matrix), parts[:count], flat, count - kept, bounded=True)
    values = np.concatenate([np.zeros(kept), varying.values])
    return Modes(np.concatenate([vectors, varying.vectors], axis=1), values.clip(0.0, 2.0))


def _varying(
    laplacian: sp.csr_array, parts: list[np.ndarray], flat: np.ndarray | None, wanted: int, *, bounded: bool
) -> Modes:
    """The ``wanted`` smallest eigenvalues of some components, besides those of ``flat``."""
    from threadpoolctl import threadpool_limits

    found: list[tuple[float, np.ndarray, np.ndarray]] = []  # (eigenvalue, component, vector)
    with threadpool_limits(1, "blas"):  # sums round differently on two threads
        for part in parts if wanted else []:
            own = None if flat is None else _unit(flat[part])
            number = min(wanted, len(part) - (own is not None))
            if number > 0:
                values, vectors = smallest_eigenpairs(laplacian[part][:, part], own, number, bounded=bounded)
                found += [(float(value), part, vector) for value, vector in zip(values, vectors.T, strict=True)]
    found.sort(key=lambda mode: mode[0])
    chosen = found[:wanted]
    vectors = np.zeros((laplacian.shape[0], len(chosen)))
    for place, (_, part, vector) in enumerate(chosen):
        vectors[part, place] = vector
    return Modes(vectors, np.array([value for value, _, _ in chosen]).clip(0.0))


def _parts(component: np.ndarray) -> list[np.ndarray]:
    """Nodes of each component, the largest first."""
    parts = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    return sorted(parts, key=len, reverse=True)


def _fixed_vector(matrix: sp.csr_array) -> np.ndarray | None:
    """√degree, a fixed point of Â; ``None`` for other operators.  # [N]"""
    loops = matrix.diagonal()
    if not (loops > 0).all():
        return None
    root = 1.0 / np.sqrt(loops)  # Â_ii = 1/d̃_i
    return root if np.allclose(matrix @ root, root, rtol=1e-4) else None


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
