"""Bayesian GCN by Beta–Bernoulli graph DropConnect: learned rates at which edges are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Unpack, cast

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn
from torch.nn import functional

from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NetworkSettings, Outputs
from graphsde.models.options import BGCNOptions
from graphsde.models.sampled import SampledLearner, SampledModel
from graphsde.nn.attention import edge_space
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import Features, Randomness, dropout, normal, uniform
from graphsde.nn.operators import Kept, rows_of


class EdgeMasks:
    """The edges of a graph, self loops included, with a mask for each of some blocks of features.

    With ``shared`` both directions of an undirected edge have the same. Memory is O(E · blocks): no array of nodes ×
    nodes exists.
    """

    def __init__(self, adjacency: SparseMatrix, blocks: int, *, shared: bool) -> None:
        self.adjacency, self.blocks, self.shared = adjacency, blocks, shared and adjacency.symmetric
        self.space = edge_space(adjacency, blocks)
        rows, copies = self.space.row // blocks, self.space.row % blocks
        entry = torch.arange(len(rows), device=rows.device) - self.space.crow[self.space.row] + adjacency.crow[rows]
        self.first, mask_of_entry = _masks_of_entries(adjacency, self.shared)
        self._take = mask_of_entry[entry] * blocks + copies  # from masks [P, B] to the edge space's order [E·B]
        self._values = adjacency.values[entry]

    def uniforms(self, randomness: torch.Generator | KeyedMasks) -> Tensor:
        """P is the number of masks: one per entry of the operator, or per edge if directions share.  # [P, blocks]"""
        if isinstance(randomness, KeyedMasks):
            drawn = randomness.edges(self.adjacency, self.blocks, symmetric=self.shared)
            return drawn[self.first]
        return torch.rand(len(self.first), self.blocks, generator=randomness).to(self.first.device)

    def product(self, masks: Tensor, state: Tensor) -> Tensor:
        """(Z_b ∘ Â) H_b for every block b.  # [P, blocks], [N, blocks, c] -> [N, blocks, c]"""
        weights = masks.reshape(-1).index_select(0, self._take) * self._values
        flat = state.reshape(self.space.size, state.shape[-1])
        return self.space.product(weights, flat).view_as(state)


_KEPT: Kept[EdgeMasks] = Kept(4)


def edge_masks(adjacency: SparseMatrix, blocks: int, *, shared: bool) -> EdgeMasks:
    """The masks of a graph, cached for as long as its operator lives."""
    return _KEPT.once(adjacency, (blocks, shared), lambda: EdgeMasks(adjacency, blocks, shared=shared))


def _masks_of_entries(adjacency: SparseMatrix, shared: bool) -> tuple[Tensor, Tensor]:
    """The entry that represents each mask, and the mask of each entry.  # [P], [E]"""
    entries = torch.arange(adjacency.nnz, device=adjacency.device)
    if not shared:
        return entries, entries
    rows = rows_of(adjacency)
    upper = adjacency.col >= rows
    first = entries[upper]
    # CSR order is sorted by (row, column), and so the entries on and above the diagonal are by their pair
    pair = torch.minimum(rows, adjacency.col) * adjacency.shape[0] + torch.maximum(rows, adjacency.col)
    return first, torch.searchsorted(pair[upper], pair)


EULER = 0.577215664901532
EDGE = 1e-6  # uniforms stay this far from 0 and 1, where logarithms end


def kumaraswamy_kl(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    r"""KL(Kumaraswamy(a, b) ‖ Beta(α, 1)), elementwise, in nats:

    .. math:: (1 - \alpha/a)(-\gamma - \psi(b) - 1/b) + \ln(ab/\alpha) - (b - 1)/b
    """
    first = (1.0 - alpha / a) * (-EULER - torch.digamma(b) - 1.0 / b)
    return first + a.log() + b.log() - math.log(alpha) - (b - 1.0) / b


def relaxed_bernoulli(log_odds: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Maddison, Mnih and Teh's relaxation (ICLR 2017): a draw in (0, 1) that is differentiable in its log-odds."""
    return torch.sigmoid((log_odds + torch.logit(uniform.clamp(EDGE, 1.0 - EDGE))) / temperature)


class KeepRate(nn.Module):
    r"""The keep probability of a layer, :math:`\pi = (1 - u^{1/b})^{1/a}`, u uniform: Kumaraswamy(a, b) against a prior
    Beta(α, 1).

    Both parameters are softplus of free ones; they start as in the authors' code, at a mean keep probability of 0.6.
    """

    def __init__(self, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.alpha = alpha
        self.raw_a = nn.Parameter(1.0 + 0.5 * uniform((), generator))
        self.raw_b = nn.Parameter(0.49 + (0.51 - 0.49) * uniform((), generator))

    def parameters_of_rate(self) -> tuple[Tensor, Tensor]:
        return functional.softplus(self.raw_a), functional.softplus(self.raw_b)

    def log_keep(self, uniform: Tensor) -> Tensor:
        """ln π of a draw."""
        a, b = self.parameters_of_rate()
        # in logarithms all the way: neither π near 0 nor π near 1 is rounded off
        return torch.log(-torch.expm1(uniform.clamp(EDGE, 1.0 - EDGE).log() / b)) / a

    def log_mean(self) -> Tensor:
        """ln E π = ln(b B(1 + 1/a, b))."""
        a, b = self.parameters_of_rate()
        return b.log() + torch.lgamma(1.0 + 1.0 / a) + torch.lgamma(b) - torch.lgamma(1.0 + 1.0 / a + b)

    def kl(self) -> Tensor:
        return kumaraswamy_kl(*self.parameters_of_rate(), self.alpha)


def log_odds(log_keep: Tensor) -> Tensor:
    """ln(π / (1 − π)) from ln π."""
    return log_keep - torch.log(-torch.expm1(log_keep.clamp_max(-1e-12)))


class DropConnectConv(nn.Module):
    r"""Masked graph convolution :math:`\sum_b (Z^b \circ \hat A) H_b W_b + c`, whose masks have a learned rate.

    ``blocks``, a divisor of ``inputs``, is the number of groups of input columns with their own masks.
    """

    def __init__(
        self, inputs: int, outputs: int, blocks: int, settings: BGCNSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        # the authors' start, wider than Glorot's: a smaller one is decayed to nothing before four layers have learned
        self.weight = nn.Parameter(normal((inputs, outputs), generator) / math.sqrt(outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.rate = KeepRate(settings.alpha, generator)
        self.blocks, self.temperature = blocks, settings.temperature
        self.shared = settings.masks == "edges"

    def forward(self, x: Features, adjacency: SparseMatrix, randomness: Randomness) -> tuple[Tensor, Tensor]:
        """The next state and the keep probability that was drawn for it; its mean without randomness.

        # [N, inputs] -> [N, outputs], []
        """
        if randomness is None:
            keep = self.rate.log_mean().exp()
            return keep * (adjacency @ (x @ self.weight)) + self.bias, keep
        one = randomness.scalars(1) if isinstance(randomness, KeyedMasks) else torch.rand(1, generator=randomness)
        log_keep = self.rate.log_keep(one[0].to(self.weight.device))
        edges = edge_masks(adjacency, self.blocks, shared=self.shared)
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
        """The output, and the keep probability of every layer behind it.  # [L]"""
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


class BGCNSettings(NetworkSettings):
    """Settings of :class:`BGCN`; the defaults are the authors' for Cora, with a penalty that suits scaled features.

    Args:
        layers: number of graph convolutions.
        hidden: width between them.
        blocks: groups of hidden columns with their own masks; a divisor of ``hidden``.
        masks: ``directions``: each direction of an edge has its own masks, as in the authors' code for Cora;
            ``edges``: both directions share masks, as in their code for CiteSeer.
        dropout: of features, before every layer, in training only.
        alpha: of the prior Beta(α, 1) over keep probabilities.
        temperature: of the relaxed masks, in training and at prediction; for one of the probabilities call
            ``calibrate``.
        penalty: λ, the weight of Σ (1 − π) ‖W‖².
        kl_weight: the weight of the KL divergence of the keep probabilities after warm-up.
        kl_warmup: epochs over which that weight rises.
        validation_samples: draws whose mean is used for validation.
    """

    layers: int = Field(4, ge=2, le=64)
    hidden: int = Field(128, ge=1, le=65536)
    blocks: int = Field(2, ge=1, le=1024)
    masks: Literal["directions", "edges"] = "directions"
    dropout: float = Field(0.0, ge=0, lt=1)
    alpha: float = Field(0.8, gt=0, le=1000)
    temperature: float = Field(0.67, gt=0, le=100)
    penalty: float = Field(5e-4, ge=0)
    kl_weight: float = Field(1.0, ge=0)
    kl_warmup: int = Field(20, ge=1)
    validation_samples: int = Field(5, ge=1, le=10_000)
    lr: float = Field(0.005, gt=0, le=100)
    epochs: int = Field(2000, ge=1, le=1_000_000)
    patience: int = Field(150, ge=1)
    evaluate_every: int = Field(5, ge=1)

    @field_validator("blocks")
    @classmethod
    def _divides_hidden(cls, blocks: int, info: ValidationInfo) -> int:
        hidden = info.data.get("hidden", blocks)
        if hidden % blocks:
            raise ValueError(f"a divisor of hidden={hidden}")
        return blocks


class BGCNLearner(SampledLearner):
    """One draw of masks a step, the KL divergence of the rates, and the decay that goes with them."""

    module: BGCNModule
    settings: BGCNSettings

    def loss(self, epoch: int) -> Tensor:
        settings, module = self.settings, self.module
        module.train()
        outputs, keeps = module.heard(self.inputs, self.dropout)
        likelihood = functional.cross_entropy(outputs.logits[self.train], self.train_labels)
        warm = settings.kl_weight * min(1.0, epoch / settings.kl_warmup)
        return likelihood + warm * module.kl() + settings.penalty * module.penalty(keeps)


@register_model
class BGCN(SampledModel):
    r"""A GCN that drops every edge at random, per block of features; the rates are learned.

    Paper: Hasanzadeh et al., "Bayesian graph neural networks with adaptive connection sampling", ICML 2020 (BB-GDC).
    Layer l with blocks b of features: :math:`H^{l+1} = \mathrm{relu}(\sum_b (Z^{l,b} \circ \hat A) H^l_b W^l_b)`, where
    :math:`z_e \sim \mathrm{RelaxedBernoulli}_{0.67}(\pi_l)` for every edge and :math:`\pi_l` is Kumaraswamy(a, b)
    against a prior Beta(α, 1). With w rising over the first epochs,

    .. math:: L = \mathrm{CE} + w \sum_l \mathrm{KL}_l + \lambda \sum_l (1 - \pi_l) \|W_l\|^2 .

    Masks stay random and relaxed at prediction; every sample has its own rates and masks. There is one value per
    direction of an edge and block: the entries of the authors' dense N × N mask that matter.
    π multiplies the adjacency, so it is the probability of *keeping* an edge, though that code logs it as a drop rate.
    The ARM gradient that the authors used for CiteSeer is not implemented: the relaxation works for all graphs.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.BGCN(layers=2, hidden=8, epochs=5).fit(graph).predict(graph, samples=4).probs.shape
        (4, 1797, 10)
    """

    name = "bgcn"
    version = 2  # masks of directions, no dropout: as its authors have it
    summary = "Bayesian GCN by learned dropping of edges (BB-GDC); draws of masks are samples"
    paper, year = "Hasanzadeh et al., Bayesian graph neural networks with adaptive connection sampling", 2020
    Settings = BGCNSettings
    Module, Learner = BGCNModule, BGCNLearner  # the decay is part of the loss, since it depends on the rates
    settings: BGCNSettings

    def __init__(self, **settings: Unpack[BGCNOptions]) -> None:
        super().__init__(**settings)

    def memory(self, graph: Graph) -> int:
        """Like every model, plus masks, their weights and gradients per edge, block and layer."""
        edges = graph.num_edges + graph.num_nodes
        blocks = 1 + (self.settings.layers - 1) * self.settings.blocks
        return super().memory(graph) + 4 * edges * (6 * blocks + 12 * (1 + self.settings.blocks))

    def activations(self, graph: Graph) -> int:
        return 4 * self.settings.layers * self.settings.hidden + 6 * graph.num_classes
