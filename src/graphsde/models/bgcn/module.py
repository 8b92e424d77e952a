"""Graph convolutions whose edges are dropped at random, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.keyed_masks import KeyedMasks
from graphsde.dynamics.layers import Features, Randomness, dropout
from graphsde.models.bgcn.edge_masks import EdgeMasks, edge_masks
from graphsde.models.bgcn.rates import KeepRate, log_odds, relaxed_bernoulli
from graphsde.models.neural import Inputs, Outputs

if TYPE_CHECKING:
    from graphsde.models.bgcn.model import BGCNSettings


class DropConnectConv(nn.Module):
    r"""Masked graph convolution :math:`\sum_b (Z^b \circ \hat A) H_b W_b + c`, whose masks have a learned rate.

    Args:
        inputs, outputs: widths.
        blocks: groups of input columns that have masks of their own; a divisor of ``inputs``.
        settings: of the model.
        generator: for the weights and the rate.
    """

    def __init__(
        self, inputs: int, outputs: int, blocks: int, settings: BGCNSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(_normal(inputs, outputs, generator))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.rate = KeepRate(settings.alpha, generator)
        self.blocks, self.temperature = blocks, settings.temperature

    def forward(self, x: Features, adjacency: SparseMatrix, randomness: Randomness) -> tuple[Tensor, Tensor]:
        """The next state and the keep probability that was drawn for it; its mean without randomness.

        # [N, inputs] -> [N, outputs], []
        """
        if randomness is None:
            keep = self.rate.log_mean().exp()
            return keep * (adjacency @ (x @ self.weight)) + self.bias, keep
        one = randomness.scalars(1) if isinstance(randomness, KeyedMasks) else torch.rand(1, generator=randomness)
        log_keep = self.rate.log_keep(one[0])
        edges = edge_masks(adjacency, self.blocks)
        masks = relaxed_bernoulli(log_odds(log_keep), edges.uniforms(randomness), self.temperature)
        return self.convolve(x, edges, masks), log_keep.exp()

    def convolve(self, x: Features, edges: EdgeMasks, masks: Tensor) -> Tensor:
        """The convolution under given masks.  # [N, inputs], [P, blocks] -> [N, outputs]"""
        outputs = self.weight.shape[1]
        if isinstance(x, SparseMatrix):  # a single block
            return edges.product(masks, (x @ self.weight)[:, None, :])[:, 0] + self.bias
        width = x.shape[1] // self.blocks
        parts = x.view(len(x), self.blocks, width)
        if width < outputs:  # the narrower side is propagated
            return edges.product(masks, parts).view_as(x) @ self.weight + self.bias
        sent = torch.einsum("nbd,bdo->nbo", parts, self.weight.view(self.blocks, width, outputs))
        return edges.product(masks, sent).sum(1) + self.bias

    def size(self) -> Tensor:
        """Squared norm of weights and bias."""
        return self.weight.square().sum() + self.bias.square().sum()


class BGCNModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: BGCNSettings, generator: torch.Generator) -> None:
        super().__init__()
        widths = [width] + [settings.hidden] * (settings.layers - 1) + [classes]
        # the input is one block, as in the authors' code: its columns may be sparse
        blocks = [1] + [settings.blocks] * (settings.layers - 1)
        self.convolutions = nn.ModuleList(
            DropConnectConv(widths[layer], widths[layer + 1], parts, settings, generator)
            for layer, parts in enumerate(blocks)
        )
        self.dropout = settings.dropout

    def layers(self) -> Iterator[DropConnectConv]:
        return (cast(DropConnectConv, convolution) for convolution in self.convolutions)

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        return self.heard(inputs, randomness)[0]

    def heard(self, inputs: Inputs, randomness: Randomness = None) -> tuple[Outputs, Tensor]:
        """The answer, and the keep probability of every layer that it was given with.  # [L]"""
        training = randomness if isinstance(randomness, torch.Generator) else None
        first, *rest = self.layers()
        state, keep = first(dropout(inputs.features, self.dropout, training), inputs.adjacency, randomness)
        keeps = [keep]
        for convolution in rest:
            hidden = torch.relu(state)
            state, keep = convolution(dropout(hidden, self.dropout, training), inputs.adjacency, randomness)
            keeps.append(keep)
        return Outputs(state, hidden), torch.stack(keeps)

    def kl(self) -> Tensor:
        return torch.stack([convolution.rate.kl() for convolution in self.layers()]).sum()

    def penalty(self, keeps: Tensor) -> Tensor:
        r""":math:`\sum_l (1 - \pi_l) \|W_l\|^2`, for the keep probabilities of a pass.  # [L] -> []"""
        return ((1.0 - keeps) * torch.stack([convolution.size() for convolution in self.layers()])).sum()


def _normal(inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
    """The authors' start, wider than Glorot's: a smaller one is decayed to nothing before four layers have learned."""
    if torch.get_default_device().type == "meta":
        return torch.empty(inputs, outputs)  # only the size is wanted
    return torch.randn(inputs, outputs, generator=generator) / math.sqrt(outputs)
