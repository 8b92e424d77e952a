"""Graph attention as drift."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.attention import EdgeSpace, additive_attention, divide, edge_space
from graphsde.nn.layers import glorot
from graphsde.sde.drift.stack import ACTIVATIONS, StackedDrift
from graphsde.sde.field import BoundDrift, check_state, register_drift


@register_drift
class GATDrift(StackedDrift):
    r"""One to three attention layers, heads concatenated:
    :math:`h_i' = \Vert_k \sum_j \alpha^k_{ij} W^k h_j + b`,
    :math:`\alpha^k_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}_{0.2}(a_s^k \cdot W^k h_j + a_r^k \cdot W^k h_i)`.

    Paper: Veličković et al., "Graph attention networks", ICLR 2018.

    Attention is evaluated at every call, along the entries of the operator, self loops included; its values are
    ignored. No finite Lipschitz bound is known.

    Args:
        width, layers, activation, time, dropout, dropout_last, generator: see :class:`StackedDrift`.
        heads: a divisor of ``width``; each head is ``width / heads`` wide.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = GATDrift(8, heads=2, generator=torch.Generator().manual_seed(0))
        >>> state = torch.zeros(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.5, state).shape
        torch.Size([1797, 2, 8])
    """

    name = "gat"
    summary = "stacked graph attention with time as an input"
    paper, year = "Veličković et al., Graph attention networks", 2018

    def __init__(
        self,
        width: int,
        *,
        heads: int = 4,
        layers: int = 2,
        activation: str = "softplus",
        time: bool = True,
        dropout: float = 0.0,
        dropout_last: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__(
            width,
            layers=layers,
            activation=activation,
            time=time,
            dropout=dropout,
            dropout_last=dropout_last,
            generator=generator,
        )
        self.heads, self.head_width = heads, divide(width, heads, "width")
        shape = (heads, self.head_width)
        self.senders = nn.ParameterList([nn.Parameter(glorot(*shape, generator)) for _ in range(layers)])
        self.receivers = nn.ParameterList([nn.Parameter(glorot(*shape, generator)) for _ in range(layers)])

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        space = edge_space(adjacency, initial.shape[1] * self.heads)
        return _BoundGAT(self, space, self.draw_masks(initial, generator))


def _spread(attention: Tensor) -> Tensor:
    """A matrix whose product with all concatenated heads is each head's inner product.  # [heads, c] -> [d, heads]"""
    heads, width = attention.shape
    apart = torch.eye(heads, dtype=attention.dtype, device=attention.device)[:, None, :]
    return (attention[:, :, None] * apart).reshape(heads * width, heads)


class _BoundGAT:
    def __init__(self, drift: GATDrift, space: EdgeSpace, masks: list[Tensor | None]) -> None:
        self.space, self.masks = space, masks
        self.weights, self.biases, self.time_weight = list(drift.weights), list(drift.biases), drift.time_weight
        # both ends' inner products in one matrix product
        pairs = zip(drift.senders, drift.receivers, strict=True)
        self.ends = [torch.cat([_spread(senders), _spread(receivers)], dim=1) for senders, receivers in pairs]
        self.activation, self.head_width = ACTIVATIONS[drift.activation], drift.head_width
        time = () if self.time_weight is None else (self.time_weight,)
        self.tensors: tuple[Tensor, ...] = (*self.weights, *self.biases, *self.ends, *time)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        x = h.reshape(-1, h.shape[2])
        if self.time_weight is None:
            x = self.attend(0, x @ self.weights[0])
        else:
            x = self.attend(0, torch.addmm(self.time_weight * t, x, self.weights[0]))
        for layer in range(1, len(self.weights)):
            x = self.attend(layer, self.masked(layer - 1, self.activation(x)) @ self.weights[layer])
        return self.masked(-1, x).view(h.shape)

    def attend(self, layer: int, sent: Tensor) -> Tensor:
        senders, receivers = (sent @ self.ends[layer]).chunk(2, dim=1)
        weights = additive_attention(self.space, senders.reshape(-1), receivers.reshape(-1))
        heard = self.space.product(weights, sent.view(self.space.size, self.head_width))
        return heard.view(sent.shape) + self.biases[layer]

    def masked(self, layer: int, x: Tensor) -> Tensor:
        mask = self.masks[layer]
        return x if mask is None else x * mask.view(x.shape)
