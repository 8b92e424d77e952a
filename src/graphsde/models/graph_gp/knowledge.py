"""What a fit leaves behind: the kernel, and q at the inducing nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.models.graph_gp.kernel import NodeKernel


class Knowledge(nn.Module):
    """The kernel's parameters and q(u) at M inducing nodes, whitened: u = F v, v ~ N(mean, R Rᵀ).

    Args:
        kernel: its parameters.
        classes: C.
        inducing: M.
    """

    mean: Tensor
    root: Tensor
    factor: Tensor

    def __init__(self, kernel: NodeKernel, classes: int, inducing: int) -> None:
        super().__init__()
        self.kernel = kernel
        zeros = torch.zeros(classes, inducing, dtype=torch.float64)
        self.register_buffer("mean", zeros)  # [C, M]
        self.register_buffer("root", zeros[..., None].repeat(1, 1, inducing))  # [C, M, M], R
        self.register_buffer("factor", torch.eye(inducing, dtype=torch.float64))  # [M, M], F

    def among(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Whitened mean and root of q at some of the inducing nodes, in their own whitening.

        Args:
            present: positions among the M.  # [p] int64

        Returns:
            ``[C, p]`` and lower triangular ``[C, p, p]``
        """
        if present.numel() == self.factor.shape[0]:
            return self.mean, self.root
        rows = self.factor[present]  # u at these nodes is rows · v
        own = torch.linalg.cholesky(rows @ rows.T)
        turn = torch.linalg.solve_triangular(own, rows, upper=False)  # [p, M]
        upper = torch.linalg.qr((turn @ self.root).mT).R  # R'ᵀ = Q T, so R' R'ᵀ = Tᵀ T
        return self.mean @ turn.T, upper.mT
