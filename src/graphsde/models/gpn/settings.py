"""Settings of the graph posterior network."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphsde.models.neural import NeuralSettings


class GPNSettings(NeuralSettings):
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
