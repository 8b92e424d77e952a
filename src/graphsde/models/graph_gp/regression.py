"""The graph Gaussian process for regression: everything in closed form but the kernel's parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphsde.base.errors import Diverged
from graphsde.graph.graph import Graph
from graphsde.models.graph_gp.kernel import NodeKernel, same_prior
from graphsde.models.graph_gp.settings import GraphGPSettings
from graphsde.nn.likelihood import TargetScale
from graphsde.nn.training import Validation, rows_of_masks

JITTER = 1e-6
_FLOOR = 1e-10
_FIRST_NOISE = 0.5  # standard deviation of the noise at the start; the standardised target has 1


@dataclass(frozen=True)
class Whitened:
    """q(v) at M inducing nodes, u = L v with L Lᵀ = K + jitter: N(mean, (B Bᵀ)⁻¹)."""

    mean: Tensor  # [M]
    factor: Tensor  # B, lower triangular  [M, M]


def collapsed(
    kernel: NodeKernel, inducing: Tensor, rows: Tensor, values: Tensor, noise: Tensor
) -> tuple[Tensor, Whitened]:
    r"""Evidence lower bound of Gaussian observations, maximised over q in closed form, and that q.

    Titsias, "Variational learning of inducing variables in sparse Gaussian processes", 2009:
    :math:`\log N(y; 0, Q + \sigma^2 I) - \tfrac1{2\sigma^2} \mathrm{tr}(K - Q)`, Q the part of K that the inducing
    nodes explain. If they are all the observed nodes, Q = K: this is the exact log marginal likelihood.

    Args:
        kernel: bound to a graph.
        inducing: positions.  # [M] int64
        rows: positions of the observed nodes.  # [n] int64
        values: observed there.  # [n] float64
        noise: σ².  # []
    """
    cross = _half(kernel, inducing, rows)  # [M, n]
    identity = torch.eye(len(inducing), dtype=values.dtype)
    factor = _cholesky(identity + cross @ cross.T / noise)
    seen = torch.linalg.solve_triangular(factor, (cross @ values)[:, None], upper=False)[:, 0] / noise
    count = len(rows)
    left = kernel.variance(rows).sum() - cross.square().sum()
    bound = -0.5 * (count * (math.log(2 * math.pi) + noise.log()) + values.square().sum() / noise + left / noise)
    bound = bound - factor.diagonal().log().sum() + 0.5 * seen.square().sum()
    mean = torch.linalg.solve_triangular(factor.T, seen[:, None], upper=True)[:, 0]
    return bound, Whitened(mean, factor)


def marginals(kernel: NodeKernel, inducing: Tensor, q: Whitened, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean and variance of the latent value at some nodes.  # [n] int64 -> [n], [n]"""
    cross = _half(kernel, inducing, rows)
    explained = torch.linalg.solve_triangular(q.factor, cross, upper=False)
    variance = kernel.variance(rows) - cross.square().sum(0) + explained.square().sum(0)
    return cross.T @ q.mean, variance.clamp_min(_FLOOR)


def _half(kernel: NodeKernel, inducing: Tensor, rows: Tensor) -> Tensor:
    """L⁻¹ K between inducing and other nodes.  # [M, n]"""
    prior = kernel.between(inducing, inducing)
    lower = _cholesky(prior + JITTER * torch.eye(len(inducing), dtype=prior.dtype))
    return torch.linalg.solve_triangular(lower, kernel.between(inducing, rows), upper=False)


def _cholesky(matrix: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed) or not bool(torch.isfinite(factor).all()):
        raise Diverged("the kernel matrix of the inducing nodes is not positive", fix="lower kernel_lr")
    return factor


class RegressionKnowledge(nn.Module):
    """The result of a regression fit: kernel and noise, the values of M ``inducing`` nodes, and q there."""

    mean: Tensor
    factor: Tensor
    prior: Tensor
    values: Tensor

    def __init__(self, kernel: NodeKernel, inducing: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.log_noise = nn.Parameter(torch.tensor(2 * math.log(_FIRST_NOISE), dtype=torch.float64))
        square = torch.zeros(inducing, inducing, dtype=torch.float64)
        self.register_buffer("mean", square[0].clone())  # [M], whitened
        self.register_buffer("factor", square.clone())  # [M, M]
        self.register_buffer("prior", square.clone())  # [M, M], covariance without jitter
        self.register_buffer("values", square[0].clone())  # [M], standardised

    def check(self) -> None:
        """Refuse invalid values: here there are none."""

    @property
    def noise(self) -> Tensor:
        """Variance of an observation around the latent value, of the standardised target.  # []"""
        return self.log_noise.exp()

    def latent(self, kernel: NodeKernel, present: list[int], rows: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance at all nodes of the graph that ``kernel`` is bound to.  # [N], [N]

        Args:
            kernel: with these parameters.
            present: which of the inducing nodes the graph has.
            rows: their positions there.
        """
        prior = kernel.between(rows, rows)
        if same_prior(prior, self.prior):
            q = Whitened(self.mean, self.factor)
        else:  # another graph: only the values of its inducing nodes are known
            q = collapsed(kernel, rows, rows, self.values[present], self.noise)[1]
        pieces = [marginals(kernel, rows, q, piece) for piece in torch.arange(num_nodes).split(2048)]
        mean, variance = (torch.cat(part) for part in zip(*pieces, strict=True))
        return mean, variance


class RegressionLearner:
    """Negative bound per training node, over the kernel's parameters and the noise; q follows from them."""

    def __init__(self, kernel: NodeKernel, inducing: Tensor, settings: GraphGPSettings, graph: Graph) -> None:
        assert graph.values is not None
        self.scale = TargetScale.of(graph)
        self.settings, self.inducing = settings, inducing
        self.module = RegressionKnowledge(kernel, len(inducing))
        values = torch.from_numpy(self.scale.standardise(graph.values))
        self.train, self.val = rows_of_masks(graph)
        self.train_values, self.val_values = values[self.train], values[self.val]
        self.inducing_values = values[inducing]

    def parameter_groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = [{"params": [self.module.log_noise], "lr": self.settings.kernel_lr}]
        if self.settings.learn_kernel:
            groups.append({"params": list(self.module.kernel.parameters()), "lr": self.settings.kernel_lr})
        return groups

    def bound(self) -> tuple[Tensor, Whitened]:
        return collapsed(self.module.kernel, self.inducing, self.train, self.train_values, self.module.noise)

    def loss(self, epoch: int) -> Tensor:
        return -self.bound()[0] / len(self.train)

    def validate(self, epoch: int) -> Validation | None:
        if not self.val.numel():
            return None
        with torch.no_grad():
            mean, variance = marginals(self.module.kernel, self.inducing, self.bound()[1], self.val)
            variance = variance + self.module.noise
            squares = (self.val_values - mean).square() / variance
            nll = 0.5 * (math.log(2 * math.pi) + variance.log() + squares).mean()
        return Validation(float(nll), None)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.module.state_dict(keep_vars=True))

    def generators(self) -> dict[str, torch.Generator]:
        return {}

    def knowledge(self) -> RegressionKnowledge:
        """What must be saved, with q at the current parameters; not bound to the graph."""
        kernel = self.module.kernel
        kept = RegressionKnowledge(NodeKernel(1.0, 1.0, 1.0, kernel.kind), len(self.inducing))
        with torch.no_grad():
            q = self.bound()[1]
            kept.load_state_dict(self.module.state_dict())
            kept.mean.copy_(q.mean)
            kept.factor.copy_(q.factor)
            kept.prior.copy_(kernel.between(self.inducing, self.inducing))
            kept.values.copy_(self.inducing_values)
        return kept
