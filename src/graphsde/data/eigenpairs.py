"""The smallest eigenvalues of a connected graph's Laplacian, with their vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from graphsde.errors import Diverged
from graphsde.memory import require_memory
from graphsde.seeds import numpy_stream

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

    Small matrices are decomposed as a whole; of large ones no dense matrix is ever made.

    Args:
        laplacian: symmetric, no eigenvalue below zero, of one connected component, float64.  # [n, n]
        flat: the unit vector whose eigenvalue zero is known, to be left out; ``None`` if there is none.  # [n]
        wanted: at most n, or n − 1 beside a flat vector.
        bounded: no eigenvalue exceeds 2, as for the normalised Laplacian. One that is not bounded needs ``flat``.

    Returns:
        values ``[wanted]`` and vectors ``[n, wanted]``
    """
    nodes = int(laplacian.shape[0])
    if nodes > _DENSE_UP_TO and wanted < nodes // 4:
        return _lanczos(laplacian, flat, wanted, bounded)
    require_memory(4 * 8 * nodes**2, f"all modes of {nodes} nodes", "ask for fewer modes")
    dense = laplacian.toarray()
    if flat is not None:  # moved up, out of the way: Gershgorin bounds what is there
        dense += (1.0 + np.abs(dense).sum(axis=1).max()) * np.outer(flat, flat)
    values, vectors = np.linalg.eigh(dense)
    return values[:wanted], vectors[:, :wanted]


def _lanczos(
    laplacian: sp.csr_array, flat: np.ndarray | None, wanted: int, bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Lanczos on a filter of the Laplacian: same vectors, but the wanted end of the spectrum is pulled apart, so that
    far fewer of its costly orthogonalisations are needed.

    A multiple eigenvalue shows only once in a run; so the run is repeated beside what was found, until nothing new
    would be among the wanted.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    nodes = int(laplacian.shape[0])
    basis_of = lambda number: min(nodes - 1, max(40, min(2 * number + 1, number + 200)))  # noqa: E731
    require_memory(8 * nodes * (basis_of(wanted) + 4 * wanted), f"{wanted} modes of {nodes} nodes", "ask for fewer")
    filtered = _power(laplacian, flat) if bounded or flat is None else _inverse(laplacian, flat)
    start = numpy_stream(0, "laplacian modes").normal(size=nodes)
    vectors, gains = np.zeros((nodes, 0)), np.zeros(0)  # what is found so far, and what the filter makes of it

    def beside_the_found(x: np.ndarray) -> np.ndarray:
        return filtered(x) - vectors @ (gains * (vectors.T @ x))

    number = wanted
    while True:
        operator = LinearOperator(laplacian.shape, matvec=beside_the_found, dtype=np.float64)
        try:
            more, directions = eigsh(operator, k=number, which="LA", v0=start, ncv=basis_of(number), tol=_TOLERANCE)
        except ArpackNoConvergence:
            raise Diverged(
                f"the {wanted} slow modes of this graph did not converge", fix="ask for fewer modes"
            ) from None
        lowest = np.sort(gains)[-wanted] if len(gains) >= wanted else -np.inf
        if more.max() <= lowest * (1 + _TOLERANCE):
            break
        vectors, gains = np.concatenate([vectors, directions], 1), np.concatenate([gains, more])
        number = min(wanted, _CHECKED_AT_ONCE)
    best = np.argsort(-gains, kind="stable")[:wanted]
    return _rayleigh_ritz(laplacian, vectors[:, best])


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
    """L⁻¹ beside ``flat`` by conjugate gradients: hubs stretch the spectrum far beyond what a power can filter, and a
    factorisation could fill in."""
    from scipy.sparse.linalg import cg

    jacobi = sp.dia_array(sp.diags_array(1.0 / laplacian.diagonal()))

    def apply(x: np.ndarray) -> np.ndarray:
        solution, steps_missing = cg(laplacian, _without(flat, x), rtol=_INNER_TOLERANCE, M=jacobi)
        if steps_missing:
            raise Diverged("conjugate gradients on this graph's Laplacian did not converge", fix="ask for fewer modes")
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
