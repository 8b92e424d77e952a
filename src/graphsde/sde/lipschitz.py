"""Certified upper bounds: spectral norms of weights and of graph operators."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.base.device import widened
from graphsde.graph.sparse import SparseMatrix

ACTIVATION_SLOPES = {"softplus": 1.0, "tanh": 1.0, "relu": 1.0}
"""Lipschitz constants of the activations that drifts may use."""

_POWER_STEPS = 30


def spectral_norm_bound(weight: Tensor) -> float:
    """Largest singular value of a dense matrix, in float64.

    Example:
        >>> spectral_norm_bound(torch.diag(torch.tensor([1.0, -3.0])))
        3.0
    """
    return float(torch.linalg.matrix_norm(weight.detach().cpu().double(), ord=2)) if weight.numel() else 0.0


def operator_norm_bound(matrix: SparseMatrix) -> float:
    r"""A certified upper bound of a sparse matrix's spectral norm, tight for graph operators.

    For every positive y, ‖A‖² ≤ max_j (|A|ᵀ|A| y)_j / y_j (Schur's test; Collatz and Wielandt). With y = 1 this is at
    most ‖A‖₁‖A‖_∞; with y = D̃^{1/2}, read from the diagonal of Â, it is one; power steps tighten the rest.
    """
    from graphsde.nn.operators import diagonal

    if not matrix.nnz:
        return 0.0
    matrix = matrix.on(torch.device("cpu"))
    size = SparseMatrix(matrix.crow, matrix.col, matrix.values.double().abs(), matrix.shape, symmetric=matrix.symmetric)
    if not bool(torch.isfinite(size.values).all()):
        return float("inf")
    forward, back = size.csr(), size.csr_transposed()
    starts = [torch.ones(matrix.shape[1], 1, dtype=torch.float64)]
    if matrix.shape[0] == matrix.shape[1] and bool((loops := diagonal(size)).min() > 0):
        starts.append(loops.rsqrt()[:, None])
    # an empty column, or one of explicit zeros, adds nothing to the norm
    used = (back @ torch.ones(matrix.shape[0], 1, dtype=torch.float64)) > 0
    best = float("inf")
    for y in starts:
        for _ in range(_POWER_STEPS):
            image = back @ (forward @ y)
            best = min(best, float(torch.where(used, image / y, 0.0).max()))
            # squares of tiny entries may underflow; a floor keeps y positive, which is all the bound needs
            y = torch.where(used, image / image.max().clamp_min(1e-300), 1.0).clamp_min(1e-150)
    return best**0.5


def stochastic_norm_bound(structure: SparseMatrix) -> float:
    """Bound for *every* matrix on this structure whose entries are not negative and whose rows sum to one.

    ‖A‖ ≤ √(‖A‖₁‖A‖_∞), where ‖A‖_∞ = 1 and a column's sum is at most its number of entries.
    """
    entries = torch.bincount(structure.col, minlength=structure.shape[1])
    return float(entries.max()) ** 0.5 if structure.nnz else 0.0


def limit_spectral_norm(weight: Tensor, bound: float) -> Tensor:
    """``weight``, shrunk so that its spectral norm is at most ``bound``; differentiable.  # [a, b] -> [a, b]"""
    norm = torch.linalg.matrix_norm(widened(weight), ord=2)
    return weight * (bound / norm.clamp_min(bound)).to(weight.dtype)
