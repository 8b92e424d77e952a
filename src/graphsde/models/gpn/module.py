"""Encoder, densities and diffusion of evidence."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.layers import Linear, Randomness, dropout
from graphsde.models.evidential import LARGEST_LOG_EVIDENCE
from graphsde.models.gpn.flows import RadialFlows
from graphsde.models.gpn.settings import GPNSettings
from graphsde.models.neural import Inputs, Outputs


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
            # a node so far out that its density is not a number has no evidence; in training it must be heard of
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
