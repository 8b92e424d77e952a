"""The variational posterior over latent values, built on gpytorch, and its evidence lower bound."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.utils.memoize import clear_cache_hook
from gpytorch.variational import CholeskyVariationalDistribution, MeanFieldVariationalDistribution, VariationalStrategy
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from graphsde.base.errors import Diverged
from graphsde.models.graph_gp.kernel import Knowledge, NodeKernel

JITTER = 1e-6
_FLOOR = 1e-10


class _OfNodes(gpytorch.kernels.Kernel):
    """A :class:`NodeKernel` as gpytorch wants it: inputs are node positions in one column."""

    def __init__(self, nodes: NodeKernel) -> None:
        super().__init__()
        self.nodes = nodes

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Tensor:
        rows = x1[..., 0].long()
        if diag:  # gpytorch repeats the nodes for every class
            return self.nodes.variance(rows.reshape(-1, rows.shape[-1])[0]).expand(rows.shape)
        return self.nodes.between(rows, x2[..., 0].long())


class Posterior(gpytorch.models.ApproximateGP):
    """One latent Gaussian process per class, all with one kernel, each with its own q(u) at the inducing points.

    Paper: Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process classification", AISTATS 2015; q is
    over whitened values v, u = L v with L Lᵀ = K at the inducing points.

    It never leaves training mode: there gpytorch caches no factor between calls, which the training loop,
    which restores the best epoch, would make stale; and it never computes the covariance of the predicted
    nodes.

    Args:
        kernel: bound to a graph.
        inducing: positions of the inducing nodes.  # [M] int64
        classes: C.
        diagonal: q(v) with a diagonal covariance.
    """

    def __init__(self, kernel: NodeKernel, inducing: Tensor, classes: int, *, diagonal: bool = False) -> None:
        kind = MeanFieldVariationalDistribution if diagonal else CholeskyVariationalDistribution
        distribution = kind(inducing.numel(), batch_shape=torch.Size([classes]))
        points = inducing.double()[:, None]
        super().__init__(
            VariationalStrategy(self, points, distribution, learn_inducing_locations=False, jitter_val=JITTER)
        )
        self.inducing = inducing
        self.kernel = _OfNodes(kernel)
        self.double()
        # keep q = prior: gpytorch's own start would add noise from the global generator
        self.variational_strategy.variational_params_initialized.fill_(1)

    @property
    def _q(self) -> Any:
        return self.variational_strategy._variational_distribution

    def forward(self, x: Tensor) -> MultivariateNormal:
        return MultivariateNormal(x.new_zeros(x.shape[:-1]), self.kernel(x))

    def marginals(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of every class's latent value at some nodes.  # [n] int64 -> [C, n], [C, n]"""
        try:
            q = self(rows.double()[:, None])
        except (NanError, NotPSDError):
            raise Diverged("the kernel matrix of the inducing nodes is not positive", fix="lower kernel_lr") from None
        return q.mean, q.variance.clamp_min(_FLOOR)

    def divergence(self) -> Tensor:
        """KL(q ‖ prior), all classes together."""
        clear_cache_hook(self.variational_strategy)  # q may have changed since the last call
        return self.variational_strategy.kl_divergence().sum()

    @classmethod
    def known(cls, kernel: NodeKernel, inducing: Tensor, mean: Tensor, root: Tensor) -> Posterior:
        """A posterior whose q(v) is given.  # [M] int64, [C, M], lower triangular [C, M, M]"""
        posterior = cls(kernel, inducing, mean.shape[0])
        posterior.begin_at(mean, root)
        return posterior

    def begin_at(self, mean: Tensor, root: Tensor) -> None:
        """Set q(v), or the nearest diagonal one, which has its precisions.  # [C, M], lower triangular [C, M, M]"""
        q = self._q
        with torch.no_grad():
            q.variational_mean.copy_(mean)
            if isinstance(q, MeanFieldVariationalDistribution):
                q._variational_stddev.copy_(torch.cholesky_inverse(root).diagonal(dim1=-2, dim2=-1).rsqrt())
            else:
                q.chol_variational_covar.copy_(root)

    def knowledge(self, labels: Tensor) -> Knowledge:
        """What must be saved to predict, here or on another graph.  # [M] int64"""
        q, nodes = self._q, self.kernel.nodes
        kept = Knowledge(NodeKernel(1.0, 1.0, 1.0, nodes.kind), q.variational_mean.shape[0], len(self.inducing))
        diagonal = isinstance(q, MeanFieldVariationalDistribution)
        with torch.no_grad():
            kept.kernel.load_state_dict(nodes.state_dict())
            kept.mean.copy_(q.variational_mean)
            kept.root.copy_(torch.diag_embed(q.variational_stddev) if diagonal else q.chol_variational_covar.tril())
            kept.prior.copy_(nodes.between(self.inducing, self.inducing))
            kept.labels.copy_(labels)
        return kept
