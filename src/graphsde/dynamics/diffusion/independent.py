"""Noise that is independent over nodes and dimensions, of one size per dimension or overall."""

from __future__ import annotations

from torch import Tensor

from graphsde.dynamics.field import NodeNoise, refuse_infinite_kl


class BoundIndependentNoise(NodeNoise):
    """g is a number, or a vector over dimensions that may hold zeros.

    Where a dimension has no noise, the two drifts of a path KL must agree there to the bit: otherwise the two path laws
    are singular, the KL is infinite, and :meth:`whiten` refuses.

    ``uniform`` is g where it is one number above zero, otherwise ``None``.
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
