"""Graph posterior network: densities per class, diffusion of evidence."""

from __future__ import annotations

import math
from typing import Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.evidential import LARGEST_LOG_EVIDENCE, EvidentialModel, dirichlet_entropy, uncertain_cross_entropy
from graphsde.models.neural import GraphLearner, Inputs, NetworkSettings, Outputs
from graphsde.models.options import GPNOptions
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.layers import Linear, Randomness, dropout, uniform


class GPNSettings(NetworkSettings):
    """Settings of :class:`GPN`; the defaults are the paper's for latent width 10, on Cora and PubMed those for 16.

    Args:
        hidden: width of the encoder's hidden layer.
        latent: width of the space in which densities are estimated.
        flow_layers: radial layers of each class's flow.
        feature_dropout: on the features; the paper has none. On Cora 0.5 gains two points of accuracy and loses four
            of AUROC for shifted features.
        dropout: on the encoder's hidden layer.
        teleport: share of its own evidence that a node keeps in every step of the diffusion; 1 leaves out the diffusion
            and so gives the evidence of the features alone.
        steps: of the diffusion.
        budget: how much evidence there is to distribute: ``latent`` scales densities by (4π)^(latent/2),
            ``latent-plus-classes`` also by the number of classes.
        entropy_weight: of the Dirichlet entropy that the loss rewards.
        weight_decay: on the encoder; the flows have none.
        warmup: first epochs, in which only the flows are trained.
    """

    hidden: int = Field(64, ge=1, le=65536)
    latent: int = Field(10, ge=1, le=4096)
    flow_layers: int = Field(10, ge=1, le=1000)
    feature_dropout: float = Field(0.0, ge=0, lt=1)
    dropout: float = Field(0.5, ge=0, lt=1)
    teleport: float = Field(0.2, gt=0, le=1)
    steps: int = Field(10, ge=0, le=10_000)
    budget: Literal["latent", "latent-plus-classes"] = "latent-plus-classes"
    entropy_weight: float = Field(1e-5, ge=0)
    weight_decay: float = Field(5e-4, ge=0)
    warmup: int = Field(5, ge=0)
    epochs: int = Field(1000, ge=1, le=1_000_000)


# floats of one layer processed at once: more exceed the processor's cache and take twice the time
CHUNK_FLOATS = 2**19
# floats of all layers that may be kept for the backward pass; beyond, they are recomputed
KEPT_FLOATS = 2**28


class RadialFlows(nn.Module):
    r"""A density per class: radial layers from the latent space to a standard normal.

    Paper: Rezende and Mohamed, "Variational inference with normalizing flows", ICML 2015. One layer is

    .. math:: y = x + b\,h(r)\,(x - x_0), \quad r = \|x - x_0\|, \quad h(r) = 1 / (a + r)
        \ln|\det| = (d - 1) \ln(1 + b h) + \ln(1 + b h - b h^2 r)

    with :math:`a = \mathrm{softplus}(a')` and :math:`b = -a + s`, :math:`s = \mathrm{softplus}(b')`, which makes it
    invertible. Both factors are computed as :math:`(r + s)/(r + a)` and :math:`(r^2 + 2ar + as)/(r + a)^2`: no
    difference of near-equal numbers.

    The parameters start uniform in ±1/√d.

    Example:
        >>> import torch
        >>> flows = RadialFlows(3, 2, 4, torch.Generator().manual_seed(0))
        >>> flows(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(self, classes: int, width: int, layers: int, generator: torch.Generator) -> None:
        super().__init__()
        shapes = (layers, classes, width), (layers, classes), (layers, classes)
        starts = [(uniform(shape, generator) * 2 - 1) * (1 / math.sqrt(width)) for shape in shapes]
        self.centre, self.scale, self.slope = (nn.Parameter(start) for start in starts)  # x₀, a', b'

    def forward(self, latent: Tensor) -> Tensor:
        """Log-densities of every node under every class, nodes in chunks.  # [N, d] -> [N, C]"""
        _, classes, width = self.centre.shape
        chunks = latent.split(max(1, CHUNK_FLOATS // (classes * width)))
        if torch.is_grad_enabled() and kept_floats(*self.centre.shape) * len(latent) > KEPT_FLOATS:
            again = [checkpoint(self.density, part, use_reentrant=False, preserve_rng_state=False) for part in chunks]
            return torch.cat(again)
        return torch.cat([self.density(part) for part in chunks])

    def density(self, latent: Tensor) -> Tensor:
        """:meth:`forward` in one piece."""
        away, volume = self.transform(latent)
        normal = -0.5 * (away.square().sum(1) + away.shape[1] * math.log(2 * math.pi))
        return (normal + volume).T

    def transform(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """The image of each node under the flows, and the logarithm of the change of volume.  # [C, d, N], [C, N]"""
        layers, classes, width = self.centre.shape
        volume = latent.new_zeros(classes, len(latent))
        a, s = softplus(self.scale)[..., None], softplus(self.slope)[..., None]  # [L, C, 1]
        following = torch.cat([self.centre[1:], self.centre.new_zeros(1, classes, width)])
        step = (self.centre - following)[..., None]  # [L, C, d, 1]
        # what is kept is the way from the next layer's centre, so that a layer is one product and one sum; nodes come
        # last, so that sums over the latent space run along contiguous rows
        away = latent.T - self.centre[0][..., None]
        for layer in range(layers):
            r = torch.linalg.vector_norm(away, dim=1)  # [C, N]
            reach = r + a[layer]
            growth = (r + s[layer]) / reach
            radial = (r * (r + 2 * a[layer]) + a[layer] * s[layer]).log() - 2 * reach.log()
            volume = volume + (width - 1) * growth.log() + radial
            away = torch.addcmul(step[layer], away, growth[:, None])
        return away, volume


def kept_floats(layers: int, classes: int, width: int) -> int:
    """Floats per node that the backward pass through the flows reads."""
    return layers * classes * (2 * width + 6)


class GPNModule(nn.Module):
    """What :class:`GPN` trains; its logits are ln α in float64 and its hidden state is the latent one.

    ``class_share`` holds the class frequencies p(c) of the training nodes. A class without any has no evidence: its
    concentration stays at 1.
    """

    class_share: Tensor

    def __init__(self, width: int, classes: int, settings: GPNSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(width, settings.hidden, generator)
        self.second = Linear(settings.hidden, settings.latent, generator)
        self.flows = RadialFlows(classes, settings.latent, settings.flow_layers, generator)
        self.register_buffer("class_share", torch.full((classes,), 1.0 / classes))
        self.feature_rate, self.rate = settings.feature_dropout, settings.dropout
        self.teleport, self.steps = settings.teleport, settings.steps
        self.budget = 0.5 * settings.latent * math.log(4 * math.pi)
        if settings.budget == "latent-plus-classes":
            self.budget += math.log(classes)

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        latent = self.encode(inputs, randomness)
        return Outputs(self.log_concentrations(inputs, latent), latent)

    def encode(self, inputs: Inputs, randomness: Randomness = None) -> Tensor:
        """The node's own features in the latent space.  # [N, latent]"""
        hidden = torch.relu(self.first(dropout(inputs.features, self.feature_rate, randomness)))
        return self.second(dropout(hidden, self.rate, randomness))

    def log_concentrations(self, inputs: Inputs, latent: Tensor) -> Tensor:
        """ln α = ln(1 + diffused evidence), in float64.  # [N, C]"""
        evidence = spread_evidence(self.log_evidence(latent).exp(), inputs.adjacency, self.teleport, self.steps)
        # evidence is accurate to float32's relative precision; only next to the 1 would it get lost
        return torch.log1p(evidence.double())

    def log_evidence(self, latent: Tensor) -> Tensor:
        """ln β of the features alone, between ±30.  # [N, C]"""
        log_evidence = self.flows(latent) + self.class_share.log() + self.budget
        if not self.training:
            # a node so far out that its density is not a number has no evidence; in training this must raise an error
            log_evidence = log_evidence.masked_fill(log_evidence.isnan(), -math.inf)
        return log_evidence.clamp(-LARGEST_LOG_EVIDENCE, LARGEST_LOG_EVIDENCE)


def spread_evidence(evidence: Tensor, adjacency: SparseMatrix, teleport: float, steps: int) -> Tensor:
    r"""Personalised PageRank by power iteration: :math:`\beta \leftarrow (1-\tau)\hat A\beta + \tau\beta^{ft}`.

    Paper: Gasteiger, Bojchevski and Günnemann, "Predict then propagate", ICLR 2019.

    Shapes: ``evidence`` [N, C], ``adjacency`` [N, N] -> [N, C].
    """
    if teleport == 1.0:
        return evidence
    own, spread = teleport * evidence, evidence
    for _ in range(steps):
        spread = torch.add(own, adjacency @ spread, alpha=1 - teleport)
    return spread


class GPNLearner(GraphLearner):
    """Expected cross-entropy minus entropy, summed over the training nodes; at first only the flows learn."""

    module: GPNModule
    settings: GPNSettings

    def __init__(self, model: GPN, module: GPNModule, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        counts = torch.bincount(self.train_labels, minlength=graph.num_classes)
        module.class_share.copy_(counts / counts.sum())

    def loss(self, epoch: int) -> Tensor:
        self.module.train()
        # during warm-up the encoder gets no gradient, so that neither a step nor decay nor moments change it
        with torch.set_grad_enabled(epoch > self.settings.warmup):
            latent = self.module.encode(self.inputs, self.dropout)
        alpha = self.module.log_concentrations(self.inputs, latent)[self.train].exp()
        risk = uncertain_cross_entropy(alpha, self.train_labels).sum()
        return risk - self.settings.entropy_weight * dirichlet_entropy(alpha).sum()


@register_model
class GPN(EvidentialModel):
    r"""Evidence is a density in latent space, one per class, spread along the edges.

    Paper: Stadler et al., "Graph posterior network: Bayesian predictive uncertainty for node classification",
    NeurIPS 2021. With :math:`z_i` the encoding of node i's own features and :math:`q(\cdot \mid c)` a normalising flow,

    .. math:: \beta^{ft}_{ic} = q(z_i \mid c)\,p(c)\,B, \quad \beta = \mathrm{PPR}(\beta^{ft}), \quad \alpha = 1 + \beta

    with the budget :math:`B = C\,(4\pi)^{d/2}` (or without C) and PPR ten steps of personalised PageRank. The loss over
    the training nodes is :math:`\sum_i E_{Dir(\alpha_i)}[-\ln p_{y_i}] - \lambda H[Dir(\alpha_i)]`.

    A node unlike all training nodes gets no evidence, α = 1 in every class. ``vacuity`` = C/α₀ is the paper's epistemic
    score and ``msp`` its aleatoric one; ``Prediction.embedding`` is the latent state.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GPN(epochs=10).fit(graph).predict(graph).kind
        'dirichlet'
    """

    name = "gpn"
    summary = "evidence by a density per class, spread over the graph; Dirichlet"
    paper = "Stadler et al., Graph posterior network: Bayesian predictive uncertainty for node classification"
    year = 2021
    Settings = GPNSettings
    Module, Learner = GPNModule, GPNLearner
    own_score = "vacuity"
    decayed = ("first.", "second.")
    settings: GPNSettings

    def __init__(self, **settings: Unpack[GPNOptions]) -> None:
        super().__init__(**settings)

    def activations(self, graph: Graph) -> int:
        s = self.settings
        flows = min(kept_floats(s.flow_layers, graph.num_classes, s.latent), KEPT_FLOATS // graph.num_nodes)
        return 6 * (s.hidden + s.latent) + flows + graph.num_classes * (2 * s.steps + 12)
