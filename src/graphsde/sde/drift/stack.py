"""Common parts of stacked drifts (graph convolution, attention): settings, activations, time as an input column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.arguments import choice, number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import bernoulli_like, glorot
from graphsde.sde.field import Drift

_SOFTPLUS_LINEAR = 20  # above it softplus is the identity, as in torch


@dataclass(frozen=True)
class Activation:
    """A function φ of one number, applied entry by entry.

    Args:
        value: z -> φ(z), in the memory of ``out`` if given.
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
    if z.dtype != torch.float32:
        return torch.ops.aten.softplus.out(z, out=out)
    # exponential and logarithm in turns are a little faster than torch's own softplus, on any make of CPU
    torch.exp(z, out=out).log1p_()
    if z.numel() and float(z.max()) > _SOFTPLUS_LINEAR:
        torch.where(z > _SOFTPLUS_LINEAR, z, out, out=out)
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


class StackedDrift(Drift):
    """Layers of equal width with an activation between them, none after the last.

    Args:
        width: d of the state and of every layer.
        layers: one to three.
        activation: ``softplus``, ``tanh`` or ``relu``.
        time: pass t to the first layer as one more input column.
        dropout: rate between layers; one mask per path and solve.
        dropout_last: also after the last layer, as some published code does.
        generator: for the weights.
    """

    def __init__(
        self,
        width: int,
        *,
        layers: int = 2,
        activation: str = "softplus",
        time: bool = True,
        dropout: float = 0.0,
        dropout_last: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.layers = whole(layers, "layers", at_least=1, at_most=3)
        self.activation = choice(activation, "activation", list(ACTIVATIONS))
        self.rate = number(dropout, "dropout", at_least=0.0, below=1.0)
        self.dropout_last = dropout_last
        # the time column is a row of the first weight matrix, kept apart: Â[H, t1]W = Â(H W_h + t·w_t)
        first = glorot(width + time, width, generator)
        self.time_weight = nn.Parameter(first[width].clone()) if time else None
        rest = [glorot(width, width, generator) for _ in range(layers - 1)]
        self.weights = nn.ParameterList([nn.Parameter(weight) for weight in (first[:width].clone(), *rest)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(layers)])

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        return 0.0  # it sees the state alone

    def draw_masks(self, initial: Tensor, generator: torch.Generator | None) -> list[Tensor | None]:
        """What the output of each layer is multiplied by: zeros and 1/(1 − rate), or nothing.  # [N, S, d] each"""
        if generator is None or self.rate == 0.0:
            return [None] * self.layers
        dropped = self.layers if self.dropout_last else self.layers - 1
        keep = 1.0 - self.rate
        masks: list[Tensor | None] = [bernoulli_like(initial, keep, generator).div_(keep) for _ in range(dropped)]
        return masks + [None] * (self.layers - dropped)
