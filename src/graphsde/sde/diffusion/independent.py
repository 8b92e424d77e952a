"""Noise that is independent over nodes: of one size, learned, or per dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.arguments import number, whole
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.field import BoundDiffusion, Diffusion, NodeNoise, refuse_infinite_kl, register_diffusion


class ScaledDiffusion(Diffusion):
    """Base of the diffusions here: g is proportional to ``gain``, a buffer that a model may set.

    A model with σ relative to the scale of its hidden state measures that scale in training and sets the gain;
    the gain is saved with the model. A bound diffusion keeps the gain that it was bound with.
    """

    gain: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.ones((), dtype=torch.float64))

    def set_gain(self, value: float) -> None:
        """Multiply g by ``value`` ≥ 0 from the next :meth:`bind` on."""
        self.gain.fill_(number(value, "gain", at_least=0.0))

    @property
    def is_zero(self) -> bool:
        """Whether there is no noise: the equation is an ordinary one and has no path KL."""
        return float(self.gain) == 0.0


class FixedDiffusion(ScaledDiffusion):
    """Base of diffusions whose size is a given number, g = σ · gain; before it the mean variance over nodes is one."""

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.sigma = number(sigma, "sigma", at_least=0.0)

    @property
    def is_zero(self) -> bool:
        return self.sigma == 0.0 or super().is_zero

    @property
    def amount(self) -> float:
        """The current g."""
        return self.sigma * float(self.gain)

    def power(self, nodes: int, width: int) -> float:
        return nodes * width * self.amount**2


class BoundIndependentNoise(NodeNoise):
    """g is a number, or a vector over dimensions that may hold zeros.

    If a dimension has no noise, the two drifts of a path KL must agree there to the bit: otherwise the two path laws
    are singular, the KL is infinite, and :meth:`whiten` refuses.

    ``uniform`` is g if it is one number above zero, otherwise ``None``.
    """

    autonomous = True  # g does not depend on time: solvers may apply it fewer times

    def __init__(self, name: str, amount: float | Tensor) -> None:
        self.name, self.amount = name, amount
        self.tensors: tuple[Tensor, ...] = (amount,) if isinstance(amount, Tensor) and amount.requires_grad else ()
        self.silent: Tensor | None = None
        self.divisor = amount
        if isinstance(amount, Tensor):
            without = amount.detach() == 0
            self.is_zero = bool(without.all())
            if bool(without.any()) and not self.is_zero:
                self.silent = without.nonzero().view(-1)
                self.divisor = amount.masked_fill(without, 1.0)  # 0/1 for what must be 0/0
        else:
            self.is_zero = amount == 0.0
        self.uniform = None if isinstance(amount, Tensor) or self.is_zero else amount

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return noise * self.amount

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        if self.is_zero:
            raise refuse_infinite_kl(self.name)
        if self.silent is not None and bool(difference.detach().index_select(-1, self.silent).any()):
            raise refuse_infinite_kl(self.name)
        return difference / self.divisor


@register_diffusion
class ConstantDiffusion(FixedDiffusion):
    """The same noise everywhere and at all times: g = σ · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020 (the latent SDE).

    Args:
        width: d of the state.
        sigma: σ ≥ 0; zero switches the noise off.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> diffusion = ConstantDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> diffusion.apply(0.0, noise, noise)[0, 0]
        tensor([0.5000, 0.5000])
    """

    name = "constant"
    summary = "independent noise of one fixed size"
    paper, year = "Li et al., Scalable gradients for stochastic differential equations", 2020
    channel = "identity"

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundIndependentNoise(self.name, self.amount)


@register_diffusion
class LearnedDiffusion(ScaledDiffusion):
    """The same noise everywhere, its size learned: g = e^s · gain, s a parameter.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020.

    Without a path KL, σ may shrink to zero in training.

    Args:
        width: d of the state.
        sigma: σ > 0 at the start.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = LearnedDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise).requires_grad
        True
    """

    name = "learned"
    summary = "independent noise of one learned size"
    paper, year = "Li et al., Scalable gradients for stochastic differential equations", 2020

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.log_sigma = nn.Parameter(torch.tensor(math.log(number(sigma, "sigma", above=0.0))))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundIndependentNoise(self.name, self.log_sigma.exp() * float(self.gain))

    def power(self, nodes: int, width: int) -> float:
        return nodes * width * (math.exp(float(self.log_sigma.detach())) * float(self.gain)) ** 2


@register_diffusion
class PerDimensionDiffusion(ScaledDiffusion):
    """Independent noise with its own size in every dimension: g = diag(σ) · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020.

    Dimensions with σ = 0 are free of noise; a path KL is then finite only if the two drifts agree there to the bit.

    Args:
        width: d of the state.
        sigma: a number for all dimensions, or one for each; not negative.
        learn: σ is the softplus of a parameter that starts at ``sigma`` (then positive).

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = PerDimensionDiffusion(2, sigma=[0.5, 2.0]).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise)[0, 0]
        tensor([0.5000, 2.0000])
    """

    name = "per-dimension"
    summary = "independent noise with its own size in every dimension, fixed or learned"
    paper, year = "Li et al., Scalable gradients for stochastic differential equations", 2020
    sigma: Tensor

    def __init__(self, width: int, *, sigma: float | Sequence[float] = 1.0, learn: bool = False) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        sizes = _sizes(sigma, width)
        self.raw: nn.Parameter | None = None
        if learn:
            # the inverse of softplus, written so that a large σ does not overflow
            starts = [s + math.log(-math.expm1(-s)) for s in (number(s, "sigma", above=0.0) for s in sizes)]
            self.raw = nn.Parameter(torch.tensor(starts))
        else:
            self.register_buffer("sigma", torch.tensor(sizes, dtype=torch.float64))

    @property
    def is_zero(self) -> bool:
        return super().is_zero or (self.raw is None and not bool(self.sigma.any()))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        gain = float(self.gain)
        if self.raw is not None:
            return BoundIndependentNoise(self.name, functional.softplus(self.raw) * gain)
        return BoundIndependentNoise(self.name, (self.sigma * gain).to(adjacency.values.dtype))

    def power(self, nodes: int, width: int) -> float:
        sizes = self.sigma if self.raw is None else functional.softplus(self.raw.detach())
        return nodes * float((sizes.cpu().double() * float(self.gain)).square().sum())


def _sizes(sigma: float | Sequence[float], width: int) -> list[float]:
    given: list[float] = list(sigma) if isinstance(sigma, Iterable) else [sigma] * width
    if len(given) != width:
        raise BadUsage(
            f"sigma has {len(given)} values for {width} dimensions",
            code="E-SETTING",
            found=given,
            expected=f"one number, or {width}",
        )
    return [number(value, "sigma", at_least=0.0) for value in given]
