"""What a fit leaves behind: the kernel, q at the inducing nodes, and what each of their labels said."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.models.graph_gp.kernel import NodeKernel

_SAME_PRIOR = 1e-6


class Knowledge(nn.Module):
    r"""The kernel's parameters and q(u) at M inducing nodes.

    Where the prior of the inducing nodes is what it was in training, q is used as it stands. On a graph with other
    edges, or without some of these nodes, it would mean something else; there each label's own contribution is joined
    with the new prior instead. At the optimum q is the prior times one Gaussian factor per node and class, of precision
    :math:`\lambda = E_q[p_c (1 - p_c)]` and natural mean :math:`\lambda m + E_q[1_{y=c} - p_c]`, p = softmax(f).

    Paper: Opper and Archambeau, "The variational Gaussian approximation revisited", Neural Computation 2009.

    Args:
        kernel: its parameters.
        classes: C.
        inducing: M.
    """

    mean: Tensor
    root: Tensor
    prior: Tensor
    precision: Tensor
    natural: Tensor

    def __init__(self, kernel: NodeKernel, classes: int, inducing: int) -> None:
        super().__init__()
        self.kernel = kernel
        zeros = torch.zeros(classes, inducing, dtype=torch.float64)
        self.register_buffer("mean", zeros)  # [C, M], whitened
        self.register_buffer("root", zeros[..., None].repeat(1, 1, inducing))  # [C, M, M], whitened, lower triangular
        self.register_buffer("prior", zeros[0, :, None].repeat(1, inducing))  # [M, M], covariance without jitter
        self.register_buffer("precision", zeros.clone())  # [C, M], λ
        self.register_buffer("natural", zeros.clone())  # [C, M]

    def under(self, prior: Tensor, present: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
        """Whitened mean and root of q at the inducing nodes of a graph.

        Args:
            prior: their covariance there.  # [p, p]
            present: which of the M they are.  # [p] int64

        Returns:
            ``[C, p]`` and lower triangular ``[C, p, p]``
        """
        size = float(self.prior.diagonal().max())
        if prior.shape == self.prior.shape and torch.allclose(prior, self.prior, atol=_SAME_PRIOR * size, rtol=0.0):
            return self.mean, self.root
        factor = torch.linalg.cholesky(prior + jitter * torch.eye(len(prior), dtype=prior.dtype))
        held = factor.T @ (self.precision[:, present, None] * factor)
        inner = torch.linalg.cholesky(held + torch.eye(len(prior), dtype=prior.dtype))
        mean = torch.cholesky_solve((self.natural[:, present] @ factor)[..., None], inner)[..., 0]
        return mean, torch.linalg.cholesky(torch.cholesky_inverse(inner))
