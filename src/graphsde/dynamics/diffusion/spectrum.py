"""The slow modes of a graph: eigenvectors of its normalised Laplacian with the smallest eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphsde.data.sparse import SparseMatrix
from graphsde.errors import Diverged
from graphsde.memory import require_memory
from graphsde.seeds import numpy_stream

_DENSE_UP_TO = 512
_TOLERANCE = 1e-6
_FILTER_POWER = 16
_BELOW_ALL = 3.0
"""Â's eigenvalues lie in [−1, 1]: moving the known ones down by this puts them out of the way."""


@dataclass(frozen=True)
class Modes:
    """Orthonormal columns and their Laplacian eigenvalues, ascending.

    Args:
        vectors: float64.  # [N, r]
        values: in [0, 2], float64.  # [r]
    """

    vectors: np.ndarray
    values: np.ndarray


_KEPT: WeakKeyDictionary[SparseMatrix, dict[int, Modes]] = WeakKeyDictionary()


def laplacian_modes(adjacency: SparseMatrix, count: int) -> Modes:
    """Modes of I − Â (of its symmetric part, if edges have a direction), at most ``count``, kept per graph.

    Every connected component has one mode of eigenvalue zero, known in closed form (proportional to √degree). On a
    graph of many components these alone could fill the list and nothing would vary inside a component; so at most half
    of the modes are of this kind, those of the largest components. Otherwise these are the smallest eigenvalues.
    """
    kept = _KEPT.setdefault(adjacency, {})
    count = min(count, adjacency.shape[0])
    if count not in kept:
        kept[count] = _solve(_symmetric_part(adjacency), count)
    return kept[count]


def _symmetric_part(adjacency: SparseMatrix) -> sp.csr_array:
    parts = (adjacency.values.double().numpy(), adjacency.col.numpy(), adjacency.crow.numpy())
    matrix = sp.csr_array(parts, shape=adjacency.shape)
    return sp.csr_array((matrix + matrix.T) / 2)


def _solve(matrix: sp.csr_array, count: int) -> Modes:
    flat = _component_modes(matrix)  # [N, components], largest first
    nodes, components = flat.shape
    kept = min(components, max(1, count // 2, count - (nodes - components)))
    wanted = min(count - kept, nodes - components)
    if wanted == 0:
        values, vectors = np.zeros(0), np.zeros((nodes, 0))
    elif nodes <= _DENSE_UP_TO or wanted >= nodes // 2:
        require_memory(4 * 8 * nodes**2, f"all modes of {nodes} nodes", "ask for fewer modes")
        values, vectors = np.linalg.eigh(matrix.toarray() - _BELOW_ALL * (flat @ flat.T).toarray())
    else:
        values, vectors = _lanczos(matrix, flat, wanted)
    order = np.argsort(-values, kind="stable")[:wanted]
    laplacian = np.concatenate([np.zeros(kept), np.clip(1.0 - values[order], 0.0, 2.0)])
    return Modes(np.concatenate([flat[:, :kept].toarray(), vectors[:, order]], axis=1), laplacian)


def _component_modes(matrix: sp.csr_array) -> sp.csc_array:
    """One column per component, proportional to √degree there; none where the operator has no such fixed vector."""
    number = int(matrix.shape[0])
    loops = matrix.diagonal()
    if not (loops > 0).all():
        return sp.csc_array((number, 0))
    root = 1.0 / np.sqrt(loops)  # Â_ii = 1/d̃_i
    if not np.allclose(matrix @ root, root, rtol=1e-4):
        return sp.csc_array((number, 0))
    label = connected_components(matrix, directed=False)[1]
    size = np.bincount(label)
    place = np.empty_like(size)
    place[np.argsort(-size, kind="stable")] = np.arange(len(size))
    length = np.sqrt(np.bincount(label, weights=root**2))
    entries = (root / length[label], (np.arange(number), place[label]))
    return sp.csc_array(entries, shape=(number, len(size)))


def _lanczos(matrix: sp.csr_array, flat: sp.csc_array, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of ``matrix`` besides those of ``flat``.

    Lanczos runs on ((I + Â)/2)^16: same vectors, same order, but the crowd near one is pulled apart, so that far fewer
    of its costly orthogonalisations are needed (a third of the time on 20,000 nodes).
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    nodes = int(matrix.shape[0])
    lazy = sp.csr_array((matrix + sp.eye_array(nodes)) / 2)
    flat_turned = sp.csr_array(flat.T)

    def filtered(x: np.ndarray) -> np.ndarray:
        y = x
        for _ in range(_FILTER_POWER):
            y = lazy @ y
        return y - flat @ (flat_turned @ x)  # the flat ones, known, move from one to zero

    operator = LinearOperator(matrix.shape, matvec=filtered, dtype=np.float64)
    start = numpy_stream(0, "laplacian modes").normal(size=nodes)
    basis = min(nodes - 1, max(2 * wanted + 1, 40))
    try:
        vectors = eigsh(operator, k=wanted, which="LA", v0=start, ncv=basis, tol=_TOLERANCE)[1]
    except ArpackNoConvergence:
        raise Diverged(
            f"the {wanted} slow modes of this graph did not converge",
            fix="ask for fewer modes, or use the diffusion 'smoothed'",
        ) from None
    return np.einsum("nr,nr->r", vectors, matrix @ vectors), vectors
