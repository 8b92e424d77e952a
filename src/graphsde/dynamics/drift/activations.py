"""Activations with their derivatives, for gradients that are written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Activation:
    """A function φ of one number, applied entry by entry.

    Args:
        value: z -> φ(z).
        pullback: grad, kept -> grad · φ'(z).
        keeps_input: whether ``kept`` is z; otherwise it is φ(z).
    """

    value: Callable[[Tensor], Tensor]
    pullback: Callable[[Tensor, Tensor], Tensor]
    keeps_input: bool = False

    def __call__(self, z: Tensor) -> Tensor:
        return self.value(z)


def _softplus_pullback(grad: Tensor, z: Tensor) -> Tensor:
    return torch.ops.aten.softplus_backward(grad, z, 1, 20)  # torch's own scale and threshold


def _relu_pullback(grad: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(grad, y, 0)


ACTIVATIONS: dict[str, Activation] = {
    "softplus": Activation(functional.softplus, _softplus_pullback, keeps_input=True),
    "tanh": Activation(torch.tanh, torch.ops.aten.tanh_backward),
    "relu": Activation(torch.relu, _relu_pullback),
}
