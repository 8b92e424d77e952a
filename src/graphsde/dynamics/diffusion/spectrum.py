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
_CHECKED_AT_ONCE = 8
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
    of the modes are of this kind, those of the largest components. The others are the smallest eigenvalues of the
    ``count`` largest components.
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
    nodes = int(matrix.shape[0])
    parts = _components(matrix)
    flat = _fixed_vector(matrix)
    known = len(parts) if flat is not None else 0
    kept = min(known, max(1, count // 2, count - (nodes - known)))
    wanted = count - kept
    vectors = np.zeros((nodes, count))
    values = np.zeros(count)
    for place in range(kept):
        vectors[parts[place], place] = _unit(flat[parts[place]])  # type: ignore[index]

    varying = []  # (Laplacian eigenvalue, component, vector)
    for part in parts[:count] if wanted else []:
        own = None if flat is None else _unit(flat[part])
        number = min(wanted, len(part) - (own is not None))
        if number > 0:
            operator_values, own_vectors = _largest(matrix[part][:, part], own, number)
            varying += [(1.0 - v, part, u) for v, u in zip(operator_values, own_vectors.T, strict=True)]
    varying.sort(key=lambda mode: mode[0])
    for place, (value, part, vector) in enumerate(varying[:wanted], start=kept):
        values[place], vectors[part, place] = value, vector
    found = kept + min(wanted, len(varying))
    return Modes(vectors[:, :found], values[:found].clip(0.0, 2.0))


def _components(matrix: sp.csr_array) -> list[np.ndarray]:
    """Nodes of each component, the largest first."""
    count, label = connected_components(matrix, directed=False)
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
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


def _largest(matrix: sp.csr_array, flat: np.ndarray | None, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a component's operator, besides that of ``flat``, with their vectors."""
    nodes = int(matrix.shape[0])
    if nodes > _DENSE_UP_TO and wanted < nodes // 4:
        return _lanczos(matrix, flat, wanted)
    require_memory(4 * 8 * nodes**2, f"all modes of {nodes} nodes", "ask for fewer modes")
    dense = matrix.toarray()
    if flat is not None:
        dense -= _BELOW_ALL * np.outer(flat, flat)
    values, vectors = np.linalg.eigh(dense)
    return values[::-1][:wanted], vectors[:, ::-1][:, :wanted]


def _lanczos(matrix: sp.csr_array, flat: np.ndarray | None, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """:func:`_largest` for large components.

    Lanczos runs on ((I + Â)/2)^16: same vectors, same order, but the crowd near one is pulled apart, so that far fewer
    of its costly orthogonalisations are needed (a third of the time on 20,000 nodes). A multiple eigenvalue shows only
    once in a run; so the run is repeated beside what was found, until nothing new would be among the wanted.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    nodes = int(matrix.shape[0])
    lazy = sp.csr_array((matrix + sp.eye_array(nodes)) / 2)
    start = numpy_stream(0, "laplacian modes").normal(size=nodes)
    vectors = np.zeros((nodes, 0)) if flat is None else flat[:, None]
    powers = np.ones(vectors.shape[1])  # what the filter makes of them: flat is fixed
    known = vectors.shape[1]

    def beside_the_found(x: np.ndarray) -> np.ndarray:
        y = x
        for _ in range(_FILTER_POWER):
            y = lazy @ y
        return y - vectors @ (powers * (vectors.T @ x))

    number = wanted
    while True:
        operator = LinearOperator(matrix.shape, matvec=beside_the_found, dtype=np.float64)
        basis = min(nodes - 1, max(2 * number + 1, 40))
        try:
            more, directions = eigsh(operator, k=number, which="LA", v0=start, ncv=basis, tol=_TOLERANCE)
        except ArpackNoConvergence:
            raise Diverged(
                f"the {wanted} slow modes of this graph did not converge",
                fix="ask for fewer modes, or use the diffusion 'smoothed'",
            ) from None
        lowest = np.sort(powers[known:])[-wanted] if len(powers) - known >= wanted else -np.inf
        if more.max() <= lowest * (1 + _TOLERANCE):
            break
        vectors, powers = np.concatenate([vectors, directions], 1), np.concatenate([powers, more])
        number = min(wanted, _CHECKED_AT_ONCE)
    best = known + np.argsort(-powers[known:], kind="stable")[:wanted]
    chosen = np.linalg.qr(vectors[:, best])[0]
    return np.einsum("nr,nr->r", chosen, matrix @ chosen), chosen
