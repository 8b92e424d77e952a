"""Graph convolutional network."""

from __future__ import annotations

from typing import Unpack

import torch
from pydantic import Field
from torch import nn

from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import GCNOptions
from graphsde.nn.layers import Features, GraphConv, Randomness, drop_nodes, dropout


class GCNSettings(NeuralSettings):
    """Settings of :class:`GCN`; the defaults are Kipf and Welling's for the citation graphs.

    Args:
        hidden: width of the hidden layer.
        dropout: on the input and on the hidden layer.
        node_dropout: on whole rows of both, before they are sent to the neighbours (DropNode).
        weight_decay: on the first layer only.
        decay_all: weight decay on every parameter instead.
        activation: ``none`` makes it linear, which is what some published comparisons ran under this name.
        batch_norm: normalise each hidden column over the nodes, before the activation; prediction uses the running
            statistics of training.
    """

    hidden: int = Field(16, ge=1, le=65536)
    dropout: float = Field(0.5, ge=0, lt=1)
    node_dropout: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    decay_all: bool = False
    activation: str = Field("relu", pattern="^(relu|none)$")
    batch_norm: bool = False


class GCNModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: GCNSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = GraphConv(width, settings.hidden, generator)
        self.norm = nn.BatchNorm1d(settings.hidden) if settings.batch_norm else None
        self.second = GraphConv(settings.hidden, classes, generator)
        self.rate, self.node_rate = settings.dropout, settings.node_dropout
        self.linear = settings.activation == "none"

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        hidden = self.first(self.dropped(inputs.features, randomness), inputs.adjacency)
        if self.norm is not None:
            hidden = self.norm(hidden)
        if not self.linear:
            hidden = torch.relu(hidden)
        return Outputs(self.second(self.dropped(hidden, randomness), inputs.adjacency), hidden)

    def dropped(self, x: Features, randomness: Randomness) -> Features:
        return drop_nodes(dropout(x, self.rate, randomness), self.node_rate, randomness)


@register_model
class GCN(NeuralModel):
    r"""Two graph convolutions: :math:`Z = \hat A\,\mathrm{relu}(\hat A X W_0 + b_0) W_1 + b_1`.

    Paper: Kipf and Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017.

    Deterministic: its uncertainty is only that of its class probabilities; there is no epistemic part. For
    regression Z has two columns, mean and variance of a Gaussian.

    Example:
        >>> import graphsde as gs
        >>> model = gs.GCN(hidden=8, epochs=5).fit(gs.load("digits"))
        >>> model.predict(gs.load("digits")).probs.shape
        (1, 1797, 10)
    """

    name = "gcn"
    summary = "two graph convolutions; deterministic"
    paper, year = "Kipf and Welling, Semi-supervised classification with graph convolutional networks", 2017
    Settings = GCNSettings
    Module = GCNModule
    decayed = ("first.",)
    targets = ("classification", "regression")
    settings: GCNSettings

    def __init__(self, **settings: Unpack[GCNOptions]) -> None:
        super().__init__(**settings)
