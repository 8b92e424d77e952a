"""Graph convolutional network."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import nn

from graphsde.dynamics.layers import GraphConv, dropout
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs


class GCNSettings(NeuralSettings):
    """Settings of :class:`GCN`; the defaults are Kipf and Welling's for the citation graphs.

    Args:
        hidden: width of the hidden layer.
        dropout: on the input and on the hidden layer.
        weight_decay: on the first layer only.
        activation: ``none`` makes it linear, which is what some published comparisons ran under this name.
    """

    hidden: int = Field(16, ge=1, le=65536)
    dropout: float = Field(0.5, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    activation: str = Field("relu", pattern="^(relu|none)$")


class GCNModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: GCNSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = GraphConv(width, settings.hidden, generator)
        self.second = GraphConv(settings.hidden, classes, generator)
        self.rate = settings.dropout
        self.linear = settings.activation == "none"

    def forward(self, inputs: Inputs, generator: torch.Generator | None = None) -> Outputs:
        hidden = self.first(dropout(inputs.features, self.rate, generator), inputs.adjacency)
        if not self.linear:
            hidden = torch.relu(hidden)
        return Outputs(self.second(dropout(hidden, self.rate, generator), inputs.adjacency), hidden)


@register_model
class GCN(NeuralModel):
    r"""Two graph convolutions: :math:`Z = \hat A\,\mathrm{relu}(\hat A X W_0 + b_0) W_1 + b_1`.

    Paper: Kipf and Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017.

    Deterministic: its uncertainty is that of its class probabilities alone; there is no epistemic part.

    Example:
        >>> import graphsde as gs
        >>> model = gs.GCN(hidden=8, epochs=5).fit(gs.load("digits"))
        >>> model.predict(gs.load("digits")).probs.shape
        (1, 1797, 10)
    """

    name = "gcn"
    summary = "two graph convolutions; deterministic"
    paper = "Kipf and Welling, Semi-supervised classification with graph convolutional networks"
    year = 2017
    Settings = GCNSettings
    settings: GCNSettings

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        return GCNModule(width, classes, self.settings, generator)

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        assert isinstance(module, GCNModule)
        return [
            {"params": list(module.first.parameters()), "weight_decay": self.settings.weight_decay},
            {"params": list(module.second.parameters()), "weight_decay": 0.0},
        ]
