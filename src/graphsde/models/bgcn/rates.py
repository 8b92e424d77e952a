r"""How often an edge is heard: a learned distribution over the keep probability, and relaxed draws from it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

EULER = 0.577215664901532
EDGE = 1e-6  # uniforms stay this far from 0 and 1, where logarithms end


def kumaraswamy_kl(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    r"""KL(Kumaraswamy(a, b) ‖ Beta(α, 1)), elementwise, in nats:

    .. math:: (1 - \alpha/a)(-\gamma - \psi(b) - 1/b) + \ln(ab/\alpha) - (b - 1)/b
    """
    first = (1.0 - alpha / a) * (-EULER - torch.digamma(b) - 1.0 / b)
    return first + a.log() + b.log() - math.log(alpha) - (b - 1.0) / b


def relaxed_bernoulli(log_odds: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Maddison, Mnih and Teh's relaxation (ICLR 2017): a draw in (0, 1) that is differentiable in its log-odds."""
    return torch.sigmoid((log_odds + torch.logit(uniform.clamp(EDGE, 1.0 - EDGE))) / temperature)


class KeepRate(nn.Module):
    r"""The keep probability of a layer, :math:`\pi = (1 - u^{1/b})^{1/a}`, u uniform: Kumaraswamy(a, b).

    Both parameters are softplus of free ones; they start as in the authors' code, at a mean keep probability of 0.6.

    Args:
        alpha: of the prior Beta(α, 1).
        generator: for the start.
    """

    def __init__(self, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.alpha = alpha
        self.raw_a = nn.Parameter(_between(1.0, 1.5, generator))
        self.raw_b = nn.Parameter(_between(0.49, 0.51, generator))

    def parameters_of_rate(self) -> tuple[Tensor, Tensor]:
        return functional.softplus(self.raw_a), functional.softplus(self.raw_b)

    def log_keep(self, uniform: Tensor) -> Tensor:
        """ln π of a draw."""
        a, b = self.parameters_of_rate()
        # in logarithms all the way: neither π near 0 nor π near 1 is rounded off
        return torch.log(-torch.expm1(uniform.clamp(EDGE, 1.0 - EDGE).log() / b)) / a

    def log_mean(self) -> Tensor:
        """ln E π = ln(b B(1 + 1/a, b))."""
        a, b = self.parameters_of_rate()
        return b.log() + torch.lgamma(1.0 + 1.0 / a) + torch.lgamma(b) - torch.lgamma(1.0 + 1.0 / a + b)

    def kl(self) -> Tensor:
        return kumaraswamy_kl(*self.parameters_of_rate(), self.alpha)


def log_odds(log_keep: Tensor) -> Tensor:
    """ln(π / (1 − π)) from ln π."""
    return log_keep - torch.log(-torch.expm1(log_keep.clamp_max(-1e-12)))


def _between(low: float, high: float, generator: torch.Generator) -> Tensor:
    if torch.get_default_device().type == "meta":
        return torch.empty(())  # only the size is wanted
    return low + (high - low) * torch.rand((), generator=generator)
