"""The slow modes of a graph: eigenvectors of its Laplacian with the smallest eigenvalues."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphsde.data.adjacency import Adjacency
from graphsde.data.eigenpairs import smallest_eigenpairs
from graphsde.data.sparse import SparseMatrix

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

    The flat mode of component c has the entries of ``flat`` on c and zeros elsewhere; kept like this, a graph of very
    many components costs no more than another.

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
    without neighbours. A multiple eigenvalue is taken whole or not at all, so that the space spanned does not depend on
    the order of the nodes; where that would leave no mode, a part is taken. The last two results are kept.

    Example:
        >>> from graphsde.data.synthetic import synthetic
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
    """Modes of I − Â (of its symmetric part, if edges have a direction), at most ``count``, kept per graph.

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
    parts = _parts(component)
    # one more than wanted tells whether the last eigenvalue goes on beyond them
    modes = _varying(sp.csr_array(operator), parts, flat, count + 1, bounded=laplacian == "normalised")
    return Spectrum(flat, component, _whole_eigenspaces(modes, count))


def _whole_eigenspaces(modes: Modes, count: int) -> Modes:
    if len(modes.values) <= count:
        return modes
    steps = np.flatnonzero(np.diff(modes.values[: count + 1]) > _SAME_VALUE)
    kept = int(steps[-1]) + 1 if steps.size else count
    return Modes(np.ascontiguousarray(modes.vectors[:, :kept]), modes.values[:kept])


def _symmetric_part(adjacency: SparseMatrix) -> sp.csr_array:
    parts = (adjacency.values.double().numpy(), adjacency.col.numpy(), adjacency.crow.numpy())
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
    laplacian = sp.csr_array(sp.eye_array(nodes) - matrix)
    varying = _varying(laplacian, parts[:count], flat, count - kept, bounded=True)
    values = np.concatenate([np.zeros(kept), varying.values])
    return Modes(np.concatenate([vectors, varying.vectors], axis=1), values.clip(0.0, 2.0))


def _varying(
    laplacian: sp.csr_array, parts: list[np.ndarray], flat: np.ndarray | None, wanted: int, *, bounded: bool
) -> Modes:
    """The ``wanted`` smallest eigenvalues of some components, besides those of ``flat``."""
    from threadpoolctl import threadpool_limits

    found: list[tuple[float, np.ndarray, np.ndarray]] = []  # (eigenvalue, component, vector)
    with threadpool_limits(1, "blas"):  # on two threads sums are rounded otherwise
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
    order = np.argsort(component, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(component))[:-1])
    return sorted(parts, key=len, reverse=True)


def _fixed_vector(matrix: sp.csr_array) -> np.ndarray | None:
    """√degree, which Â leaves as it is; ``None`` where the operator is of another kind.  # [N]"""
    loops = matrix.diagonal()
    if not (loops > 0).all():
        return None
    root = 1.0 / np.sqrt(loops)  # Â_ii = 1/d̃_i
    return root if np.allclose(matrix @ root, root, rtol=1e-4) else None


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
