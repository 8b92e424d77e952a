"""Multilayer perceptron: a baseline without neighbours."""

from __future__ import annotations

from typing import Unpack

import torch
from pydantic import Field
from torch import nn

from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import MLPOptions
from graphsde.nn.layers import Linear, dropout


class MLPSettings(NeuralSettings):
    """Settings of :class:`MLP`.

    Args:
        hidden: width of the hidden layer.
        dropout: on the input and on the hidden layer.
        weight_decay: on both layers.
    """

    hidden: int = Field(64, ge=1, le=65536)
    dropout: float = Field(0.5, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)


class MLPModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: MLPSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(width, settings.hidden, generator)
        self.second = Linear(settings.hidden, classes, generator)
        self.rate = settings.dropout

    def forward(self, inputs: Inputs, generator: torch.Generator | None = None) -> Outputs:
        hidden = torch.relu(self.first(dropout(inputs.features, self.rate, generator)))
        return Outputs(self.second(dropout(hidden, self.rate, generator)), hidden)


@register_model
class MLP(NeuralModel):
    """Two linear layers on the node's own features: the control that shows what the edges are worth.

    Paper: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors", Nature 1986.
    Formula: z = relu(x W₀ + b₀) W₁ + b₁.

    Example:
        >>> import graphsde as gs
        >>> model = gs.MLP(hidden=8, epochs=5).fit(gs.load("digits"))
        >>> bool(model.predict(gs.load("digits")).confidence.max() <= 1)
        True
    """

    name = "mlp"
    summary = "features only, no edges; deterministic"
    paper, year = "Rumelhart, Hinton and Williams, Learning representations by back-propagating errors", 1986
    Settings = MLPSettings
    Module = MLPModule
    settings: MLPSettings

    def __init__(self, **settings: Unpack[MLPOptions]) -> None:
        super().__init__(**settings)
