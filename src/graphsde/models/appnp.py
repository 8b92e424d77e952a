"""Predict then propagate: a perceptron's predictions spread by personalised PageRank."""

from __future__ import annotations

from typing import Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import APPNPOptions
from graphsde.nn.layers import Linear, Randomness, dropout


class APPNPSettings(NeuralSettings):
    """Settings of :class:`APPNP`; the defaults are the paper's for Cora and CiteSeer.

    Args:
        hidden: width of the hidden layer.
        dropout: on the input and on the hidden layer.
        teleport: share of its own prediction that a node keeps in every step.
        steps: of the propagation.
        weight_decay: on the first layer only.
    """

    hidden: int = Field(64, ge=1, le=65536)
    dropout: float = Field(0.5, ge=0, lt=1)
    teleport: float = Field(0.1, ge=0, le=1)
    steps: int = Field(10, ge=0, le=10_000)
    weight_decay: float = Field(5e-3, ge=0)


def personalised_pagerank(start: Tensor, adjacency: SparseMatrix, teleport: float, steps: int) -> Tensor:
    r""":math:`Z^{k+1} = (1 - a) \hat A Z^k + a Z^0`, ``steps`` times from ``start``.  # [N, C] -> [N, C]"""
    state = start
    for _ in range(steps):
        state = torch.lerp(adjacency @ state, start, teleport)
    return state


class APPNPModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: APPNPSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(width, settings.hidden, generator)
        self.second = Linear(settings.hidden, classes, generator)
        self.rate, self.teleport, self.steps = settings.dropout, settings.teleport, settings.steps

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        hidden = torch.relu(self.first(dropout(inputs.features, self.rate, randomness)))
        own = self.second(dropout(hidden, self.rate, randomness))
        return Outputs(personalised_pagerank(own, inputs.adjacency, self.teleport, self.steps), hidden)


@register_model
class APPNP(NeuralModel):
    r"""A perceptron's predictions, spread over the graph: :math:`Z^0 = \mathrm{relu}(X W_0 + b_0) W_1 + b_1`,
    :math:`Z^{k+1} = (1 - a) \hat A Z^k + a Z^0`.

    Paper: Gasteiger, Bojchevski and Günnemann, "Predict then propagate: graph neural networks meet personalized
    PageRank", ICLR 2019.

    Deterministic. Its embedding is the perceptron's hidden layer, before any propagation.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.APPNP(epochs=3).fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "appnp"
    summary = "a perceptron's predictions spread by personalised PageRank; deterministic"
    paper, year = "Gasteiger et al., Predict then propagate: graph neural networks meet personalized PageRank", 2019
    Settings = APPNPSettings
    Module = APPNPModule
    decayed = ("first.",)
    settings: APPNPSettings

    def __init__(self, **settings: Unpack[APPNPOptions]) -> None:
        super().__init__(**settings)

    def linear_filter(self) -> tuple[float, int] | None:
        return (1.0 - self.settings.teleport, self.settings.steps) if self.settings.steps else None

    def activations(self, graph: Graph) -> int:
        return 6 * self.settings.hidden + (6 + 2 * self.settings.steps) * graph.num_classes
