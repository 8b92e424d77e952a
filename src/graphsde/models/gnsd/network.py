"""Encoder, stochastic diffusion, decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from graphsde.dynamics.brownian import BrownianMotion
from graphsde.dynamics.integrate import integrate
from graphsde.dynamics.layers import Linear, dropout
from graphsde.models.gnsd.dynamics import AttentionFlow, Forcing
from graphsde.models.neural import Inputs, NeuralSettings


class GNSDSettings(NeuralSettings):
    """Settings of :class:`~graphsde.models.gnsd.GNSD`.

    Args:
        hidden: width of the state.
        noise: ``diagonal``: a Brownian motion for every node and dimension; ``q-wiener``: one for each of the graph's
            slow modes and every dimension. The second is spread over the graph, but renumbering the nodes changes its
            samples (not their law).
        modes: how many, for ``q-wiener``.
        horizon, steps: the time axis; Euler–Maruyama in equal steps.
        dropout: on the features.
        weight_decay: on all parameters.
        paths, validation_paths: per training step and in validation.
        gradients: ``store``, or ``checkpoint`` for less memory at 1.8 times the time.
    """

    hidden: int = Field(64, ge=1, le=65536)
    noise: Literal["diagonal", "q-wiener"] = "diagonal"
    modes: int = Field(64, ge=1, le=100_000)
    horizon: float = Field(1.0, gt=0, le=1e6)
    steps: int = Field(10, ge=1, le=1_000_000)
    dropout: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    paths: int = Field(1, ge=1, le=10_000)
    validation_paths: int = Field(5, ge=1, le=10_000)
    gradients: Literal["store", "checkpoint"] = "store"


@dataclass(frozen=True)
class Noise:
    """Which Brownian paths drive a solve."""

    seed: int
    keys: Tensor  # [N]
    paths: Sequence[int]


class GNSDModule(nn.Module):
    """z = Linear(tanh(H(T))), dH = f(H) dt + g(H) dW, H(0) = BatchNorm(Linear(X))."""

    def __init__(self, width: int, classes: int, settings: GNSDSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = Linear(width, settings.hidden, generator)
        self.norm = nn.BatchNorm1d(settings.hidden)
        self.drift = AttentionFlow(settings.hidden, generator)
        self.forcing = Forcing(settings.hidden, settings.modes if settings.noise == "q-wiener" else None, generator)
        self.decoder = Linear(settings.hidden, classes, generator)

    def initial(self, inputs: Inputs, generator: torch.Generator | None = None) -> Tensor:
        """H(0).  # [N, d]"""
        return self.norm(self.encoder(dropout(inputs.features, self.settings.dropout, generator)))

    def evolve(self, inputs: Inputs, initial: Tensor, noise: Noise) -> Tensor:
        """H(T) on some paths.  # [N, d] -> [N, S, d]"""
        s = self.settings
        start = initial.unsqueeze(1).expand(-1, len(noise.paths), -1).contiguous()
        forcing = self.forcing.bind(inputs.adjacency, start)
        motion = BrownianMotion(
            noise.seed, forcing.keys(noise.keys), noise.paths, s.hidden, s.horizon, s.steps, start.dtype
        )
        return integrate(
            self.drift.bind(inputs.adjacency, start),
            start,
            horizon=s.horizon,
            steps=s.steps,
            solver="euler",
            diffusion=forcing,
            noise_kind="diagonal",
            brownian=motion,
            gradients=s.gradients,
        ).final

    def decode(self, state: Tensor) -> Tensor:
        """Logits of every path.  # [N, S, d] -> [N, S, C]"""
        return self.decoder(torch.tanh(state).flatten(0, 1)).view(*state.shape[:2], -1)

    def forward(self, inputs: Inputs, noise: Noise, generator: torch.Generator | None = None) -> Tensor:
        """Logits of every path.  # [N, S, C]"""
        return self.decode(self.evolve(inputs, self.initial(inputs, generator), noise))
