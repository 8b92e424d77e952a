"""What stacked drifts (graph convolution, attention) share: settings, time as an input column, dropout masks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.dynamics.arguments import choice, number, whole
from graphsde.dynamics.drift.activations import ACTIVATIONS
from graphsde.dynamics.field import Drift
from graphsde.dynamics.layers import glorot


class StackedDrift(Drift):
    """Layers of equal width with an activation between them, none after the last.

    Args:
        width: d of the state and of every layer.
        layers: one to three.
        activation: ``softplus``, ``tanh`` or ``relu``.
        time: give t to the first layer as one more input column.
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

    def draw_masks(self, initial: Tensor, generator: torch.Generator | None) -> list[Tensor | None]:
        """What the output of each layer is multiplied by: zeros and 1/(1 − rate), or nothing.  # [N, S, d] each"""
        dropped = self.layers if self.dropout_last else self.layers - 1
        if generator is None or self.rate == 0.0:
            dropped = 0
        keep = 1.0 - self.rate
        masks: list[Tensor | None] = [
            torch.empty_like(initial, requires_grad=False).bernoulli_(keep, generator=generator).div_(keep)
            for _ in range(dropped)
        ]
        return masks + [None] * (self.layers - dropped)
