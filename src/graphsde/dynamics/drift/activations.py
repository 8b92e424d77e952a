"""Activations with their derivatives, for gradients that are written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from graphsde.dynamics.threads import in_shares

_SOFTPLUS_LINEAR = 20  # above it softplus is the identity, as in torch
_WORTH_A_THREAD = 1 << 18


@dataclass(frozen=True)
class Activation:
    """A function φ of one number, applied entry by entry.

    Args:
        value: z -> φ(z), in the memory of ``out`` where that is given.
        pullback: grad, kept -> grad · φ'(z), in the memory of grad.
        keeps_input: whether ``kept`` is z; otherwise it is φ(z).
    """

    value: Callable[..., Tensor]
    pullback: Callable[[Tensor, Tensor], Tensor]
    keeps_input: bool = False

    def __call__(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        return self.value(z, out=out)


def _softplus(z: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return functional.softplus(z)
    if z.dtype != torch.float32 or z.device.type != "cpu":
        return torch.ops.aten.softplus.out(z, out=out)
    # numpy's loops for these two functions take half the time of torch's one
    given, found = z.numpy(), out.numpy()

    def fill(share: int, shares: int) -> None:
        part = slice(len(given) * share // shares, len(given) * (share + 1) // shares)
        x, y = given[part], found[part]
        with np.errstate(over="ignore"):
            np.exp(x, out=y)
        np.log1p(y, out=y)
        if x.size and x.max() > _SOFTPLUS_LINEAR:
            np.copyto(y, x, where=x > _SOFTPLUS_LINEAR)

    in_shares(fill, given.size, _WORTH_A_THREAD)
    return out


def _softplus_pullback(grad: Tensor, z: Tensor) -> Tensor:
    return torch.ops.aten.softplus_backward.grad_input(grad, z, 1, _SOFTPLUS_LINEAR, grad_input=grad)


def _tanh_pullback(grad: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward.grad_input(grad, y, grad_input=grad)


def _relu(z: Tensor, out: Tensor | None) -> Tensor:
    return torch.relu(z) if out is None else torch.clamp_min(z, 0.0, out=out)


def _relu_pullback(grad: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward.grad_input(grad, y, 0, grad_input=grad)


ACTIVATIONS: dict[str, Activation] = {
    "softplus": Activation(_softplus, _softplus_pullback, keeps_input=True),
    "tanh": Activation(torch.tanh, _tanh_pullback),
    "relu": Activation(_relu, _relu_pullback),
}
