"""Graph attention network."""

from __future__ import annotations

from typing import Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import GATOptions
from graphsde.nn.attention import EdgeSpace, additive_attention, edge_space
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import Features, Randomness, dropout, glorot


class GATSettings(NeuralSettings):
    """Settings of :class:`GAT`; the defaults are the paper's for Cora.

    Args:
        heads: of the hidden layer, concatenated.
        head_width: width of one of them.
        output_heads: of the output layer, averaged.
        dropout: on the input and on the hidden layer.
        attention_dropout: on the attention weights, after their softmax.
        weight_decay: on both layers.
    """

    heads: int = Field(8, ge=1, le=256)
    head_width: int = Field(8, ge=1, le=65536)
    output_heads: int = Field(1, ge=1, le=256)
    dropout: float = Field(0.6, ge=0, lt=1)
    attention_dropout: float = Field(0.6, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    lr: float = Field(0.005, gt=0, le=100)
    epochs: int = Field(1000, ge=1, le=1_000_000)
    patience: int = Field(100, ge=1)


class GraphAttention(nn.Module):
    r"""Graph attention without activation (Veličković et al., ICLR 2018): each head's
    :math:`\sum_j \alpha_{ij} W h_j`, :math:`\alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}_{0.2}(s \cdot W h_j +
    r \cdot W h_i)` over the incoming neighbours of i and itself.

    ``rate`` is the dropout on the attention weights; ``average``: heads are averaged instead of concatenated.

    Shapes: ``x`` [N, inputs], ``adjacency`` [N, N] with self loops, of which only the sparsity counts -> [N, heads ·
    head_width], or [N, head_width] averaged. Per edge and head only scalars are kept.
    """

    def __init__(
        self, inputs: int, heads: int, head_width: int, generator: torch.Generator, *, rate: float, average: bool
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.rate, self.average = heads, head_width, rate, average
        self.weight = nn.Parameter(glorot(inputs, heads * head_width, generator))
        self.sender = nn.Parameter(glorot(heads, head_width, generator))
        self.receiver = nn.Parameter(glorot(heads, head_width, generator))
        self.bias = nn.Parameter(torch.zeros(head_width if average else heads * head_width))

    def forward(self, x: Features, adjacency: SparseMatrix, randomness: Randomness = None) -> Tensor:
        space = edge_space(adjacency, self.heads)
        sent = (x @ self.weight).view(-1, self.heads, self.head_width)  # [N, H, c]
        senders, receivers = ((sent * end).sum(-1).reshape(-1) for end in (self.sender, self.receiver))  # [N·H]
        weights = additive_attention(space, senders, receivers)  # [E·H]
        weights = _drop_edges(weights, self.rate, space, adjacency, randomness)
        heard = space.product(weights, sent.reshape(space.size, self.head_width)).view(sent.shape)
        return (heard.mean(1) if self.average else heard.flatten(1)) + self.bias


def _drop_edges(
    weights: Tensor, rate: float, space: EdgeSpace, adjacency: SparseMatrix, randomness: Randomness
) -> Tensor:
    if not isinstance(randomness, KeyedMasks) or rate == 0.0:
        return dropout(weights, rate, randomness)  # type: ignore[return-value]
    uniform = randomness.edges(adjacency, space.copies)  # [E, H]
    # which edge and which head each entry of the edge space belongs to
    head, receiver = space.row % space.copies, space.row // space.copies
    edge = torch.arange(weights.shape[0], device=weights.device) - space.crow[space.row] + adjacency.crow[receiver]
    return weights * (uniform[edge, head] >= rate) / (1.0 - rate)


class GATModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: GATSettings, generator: torch.Generator) -> None:
        super().__init__()
        heads, head_width, rate = settings.heads, settings.head_width, settings.attention_dropout
        self.first = GraphAttention(width, heads, head_width, generator, rate=rate, average=False)
        self.second = GraphAttention(
            heads * head_width, settings.output_heads, classes, generator, rate=rate, average=True
        )
        self.rate = settings.dropout

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        x = dropout(inputs.features, self.rate, randomness)
        hidden = functional.elu(self.first(x, inputs.adjacency, randomness))
        logits = self.second(dropout(hidden, self.rate, randomness), inputs.adjacency, randomness)
        return Outputs(logits, hidden)


@register_model
class GAT(NeuralModel):
    r"""Two layers of attention along edges: :math:`H = \mathrm{elu}(\Vert_k A^k X W^k + b)`,
    :math:`Z = \mathrm{mean}_k A'^k H W'^k + b'`, each :math:`A^k` a softmax over a node's neighbours and itself.

    Paper: Veličković et al., "Graph attention networks", ICLR 2018.

    Deterministic. Edge weights are ignored: attention replaces them.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GAT(heads=2, head_width=4, epochs=3).fit(graph).predict(graph).embedding.shape
        (1797, 8)
    """

    name = "gat"
    summary = "two layers of attention along edges; deterministic"
    paper, year = "Veličković et al., Graph attention networks", 2018
    version = 2
    Settings = GATSettings
    Module = GATModule
    settings: GATSettings

    def __init__(self, **settings: Unpack[GATOptions]) -> None:
        super().__init__(**settings)

    def activations(self, graph: Graph) -> int:
        heads = self.settings.heads + self.settings.output_heads
        widths = self.settings.heads * self.settings.head_width + self.settings.output_heads * graph.num_classes
        # an edge space holds four indices of 8 bytes per edge and head; a step about ten numbers of 4
        per_edge = 18 * heads * (graph.num_edges + graph.num_nodes)
        return 8 * widths + per_edge // graph.num_nodes
