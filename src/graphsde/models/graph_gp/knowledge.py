"""What a fit leaves behind: the kernel, the labels, and q at the inducing nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.models.graph_gp.kernel import NodeKernel

_SAME_PRIOR = 1e-6
_STEPS = 0.4 * 0.05 ** np.linspace(0.0, 1.0, 80)  # large to get there, small to settle where the prior is wide


class Knowledge(nn.Module):
    """The kernel's parameters, the labels of M inducing nodes, and q of their latent values, whitened.

    Args:
        kernel: its parameters.
        classes: C.
        inducing: M.
    """

    mean: Tensor
    root: Tensor
    prior: Tensor
    labels: Tensor

    def __init__(self, kernel: NodeKernel, classes: int, inducing: int) -> None:
        super().__init__()
        self.kernel = kernel
        zeros = torch.zeros(classes, inducing, dtype=torch.float64)
        self.register_buffer("mean", zeros)  # [C, M]
        self.register_buffer("root", zeros[..., None].repeat(1, 1, inducing))  # [C, M, M], lower triangular
        self.register_buffer("prior", zeros[0, :, None].repeat(1, inducing))  # [M, M], covariance without jitter
        self.register_buffer("labels", torch.zeros(inducing, dtype=torch.int64))  # [M]

    def covers(self, prior: Tensor) -> bool:
        """Whether the inducing nodes have the prior that q was learnt under; else q would mean something else."""
        return same_prior(prior, self.prior)


def same_prior(prior: Tensor, known: Tensor) -> bool:
    """Whether two covariances are the same but for rounding."""
    size = float(known.diagonal().max())
    return prior.shape == known.shape and torch.allclose(prior, known, atol=_SAME_PRIOR * size, rtol=0.0)


def infer(prior: Tensor, labels: Tensor, noise: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    r"""The best q of latent values with given labels under a fixed prior, whitened, by a damped fixed point.

    Paper: Opper and Archambeau, "The variational Gaussian approximation revisited", Neural Computation 2009. At the
    optimum q is the prior times a Gaussian factor per node and class, of precision
    :math:`\lambda = E_q[p_c (1 - p_c)]` and natural mean :math:`\lambda m + E_q[1_{y=c} - p_c]`, p = softmax(f).

    Args:
        prior: covariance of the nodes.  # [n, n]
        labels: their classes.  # [n] int64
        noise: standard normals for the expectations.  # [S, n, C]
        jitter: added to the prior's diagonal.

    Returns:
        whitened mean ``[C, n]`` and lower triangular root ``[C, n, n]``

    Example:
        >>> mean, root = infer(torch.eye(2).double(), torch.tensor([0, 1]), torch.zeros(1, 2, 2).double(), 0.0)
        >>> bool(mean[0, 0] > 0 > mean[0, 1])
        True
    """
    identity = torch.eye(len(prior), dtype=prior.dtype)
    factor = torch.linalg.cholesky(prior + jitter * identity)
    truth = functional.one_hot(labels, noise.shape[-1]).T  # [C, n]
    precision, natural = torch.zeros(2, *truth.shape, dtype=prior.dtype)
    for step in _STEPS:
        inner = torch.linalg.cholesky(factor.T @ (precision[..., None] * factor) + identity)
        half = torch.linalg.solve_triangular(inner, factor.T.expand_as(inner), upper=False)  # var f = halfᵀ half
        mean = (half.mT @ (half @ natural[..., None]))[..., 0]
        variance = half.square().sum(-2)
        probs = torch.softmax(mean.T + variance.T.sqrt() * noise, -1)  # [S, n, C]
        now = (probs * (1 - probs)).mean(0).T
        natural = natural + step * (now * mean + truth - probs.mean(0).T - natural)
        precision = precision + step * (now - precision)
    inner = torch.linalg.cholesky(factor.T @ (precision[..., None] * factor) + identity)
    whitened = torch.cholesky_solve((natural @ factor)[..., None], inner)[..., 0]
    return whitened, torch.linalg.cholesky(torch.cholesky_inverse(inner))
