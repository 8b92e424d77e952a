"""Encoder, a differential equation on the graph, decoder: what GRAND and GREAD share."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from graphsde.data.graph import Graph
from graphsde.dynamics.field import Drift
from graphsde.dynamics.integrate import integrate
from graphsde.dynamics.layers import Linear, Randomness, dropout
from graphsde.dynamics.path import Path
from graphsde.dynamics.solvers import Dopri5, Solver, make_solver
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs

EVALUATIONS = {"rk4": 4, "euler": 1, "dopri5": 20}
"""Of the drift per step; for the adaptive method a guess, which only the estimate of memory uses."""


class FlowSettings(NeuralSettings):
    """Settings of a network whose hidden layer is a differential equation on the graph.

    Args:
        hidden: width of the state.
        input_dropout: on the features.
        dropout: on relu(H(T)).
        weight_decay: on all parameters.
        horizon: T.
        solver: ``rk4`` or ``euler`` in equal steps, or ``dopri5``, which chooses its own.
        steps: how many equal steps. The diffusion's eigenvalues lie in [−2α, 0], α < 1, so that steps up to 1.39 are
            stable for ``rk4`` and steps up to 1 for ``euler``.
        rtol, atol, max_evaluations: of ``dopri5``; it refuses to go on after so many evaluations.
        gradients: ``store``, or ``checkpoint`` for less memory at 1.8 times the time (not with ``dopri5``).
        attention: how alike two nodes are: ``scaled-dot``, ``cosine`` or ``exp-kernel``.
        heads: of the attention, whose mean is taken.
        attention_width: of all heads together.
    """

    hidden: int = Field(64, ge=1, le=65536)
    input_dropout: float = Field(0.5, ge=0, lt=1)
    dropout: float = Field(0.3, ge=0, lt=1)
    weight_decay: float = Field(5e-3, ge=0)
    horizon: float = Field(4.0, gt=0, le=1e6)
    solver: Literal["rk4", "euler", "dopri5"] = "rk4"
    steps: int = Field(4, ge=1, le=1_000_000)
    rtol: float = Field(1e-4, gt=0, le=1)
    atol: float = Field(1e-5, gt=0, le=1)
    max_evaluations: int = Field(2000, ge=1)
    gradients: Literal["store", "checkpoint"] = "store"
    attention: Literal["scaled-dot", "cosine", "exp-kernel"] = "scaled-dot"
    heads: int = Field(4, ge=1, le=1024)
    attention_width: int = Field(32, ge=1, le=65536)


class FlowModule(nn.Module):
    """z = Linear(dropout(relu(H(T)))) with dH/dt = drift(H), H(0) = Linear(dropout(X))."""

    def __init__(
        self, width: int, classes: int, settings: FlowSettings, drift: Drift, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = Linear(width, settings.hidden, generator)
        self.drift = drift
        self.decoder = Linear(settings.hidden, classes, generator)

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        initial = self.encoder(dropout(inputs.features, self.settings.input_dropout, randomness))
        hidden = self.flow(inputs, initial).final[:, 0]
        return Outputs(self.decoder(dropout(torch.relu(hidden), self.settings.dropout, randomness)), hidden)

    def flow(self, inputs: Inputs, initial: Tensor) -> Path:
        """The solution from ``initial``.  # [N, d] -> [N, 1, d]"""
        s, start = self.settings, initial.unsqueeze(1)
        field = self.drift.bind(inputs.adjacency, start)
        return integrate(
            field, start, horizon=s.horizon, steps=s.steps, solver=make_flow_solver(s), gradients=s.gradients
        )


class FlowModel(NeuralModel):
    """Base of the models with a :class:`FlowModule`: deterministic, weight decay on everything."""

    settings: FlowSettings

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(module.parameters()), "weight_decay": self.settings.weight_decay}]

    def activations(self, graph: Graph) -> int:
        s = self.settings
        evaluations = EVALUATIONS[s.solver] * (s.steps if s.gradients == "store" else 1)
        degree = 1 + graph.num_edges // max(1, graph.num_nodes)
        attention = 8 * s.heads * (degree + s.attention_width)
        return s.hidden * (6 + 4 * evaluations + 2 * s.steps) + attention + 6 * graph.num_classes


def make_flow_solver(settings: FlowSettings) -> Solver:
    if settings.solver == "dopri5":
        return Dopri5(settings.rtol, settings.atol, settings.max_evaluations)
    return make_solver(settings.solver)
