"""Graph neural diffusion: the network that it shares with its successors, and the model."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from graphsde.graph.graph import Graph
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import GRANDOptions
from graphsde.nn.layers import Linear, Randomness, dropout
from graphsde.sde.drift import GraphHeatDrift
from graphsde.sde.field import Drift
from graphsde.sde.integrate import Path, integrate
from graphsde.sde.solvers import Dopri5, Solver, make_solver

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
        solver: ``rk4`` or ``euler`` with equal steps, or the adaptive ``dopri5``.
        steps: how many equal steps. The diffusion's eigenvalues lie in [−2α, 0], α < 1, so that steps up to 1.39 are
            stable for ``rk4`` and steps up to 1 for ``euler``.
        rtol, atol: relative and absolute tolerance of ``dopri5``.
        max_evaluations: limit of ``dopri5``.
        gradients: ``store``, or ``checkpoint`` for less memory at 1.8 times the time (not with ``dopri5``).
        attention: similarity of two nodes: ``scaled-dot``, ``cosine`` or ``exp-kernel``.
        heads: of the attention, averaged.
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


class GRANDSettings(FlowSettings):
    """Settings of :class:`GRAND`, besides those of :class:`~graphsde.models.grand.FlowSettings`.

    Args:
        variant: ``linear`` computes attention once, from H(0), ``nonlinear`` at every evaluation.
        source: whether β H(0) is added, β learned from 0 on.
        normalise: ``rows``: what a node receives is an average, and constants stay; ``columns``: what a node sends
            is shared out, and sums over nodes stay the same. The paper's code has both, and takes columns on Cora.
        sharing: how similarity becomes shares: by ``softmax``, as in the paper, or by ``squareplus``, with which its
            code was run on the citation graphs.
    """

    variant: Literal["linear", "nonlinear"] = "linear"
    source: bool = True
    normalise: Literal["rows", "columns"] = "rows"
    sharing: Literal["softmax", "squareplus"] = "softmax"


@register_model
class GRAND(FlowModel):
    r"""Heat that flows along edges, with learned conductivities:
    :math:`\dot H = \alpha\,(A(H) - I) H + \beta H(0)`.

    Paper: Chamberlain et al., "GRAND: graph neural diffusion", ICML 2021. H(0) = Linear(X),
    :math:`A_{ij} = \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d_k})` over the neighbours of i and itself, mean over
    heads, uniform at the start; α the sigmoid of a learned number; logits Linear(relu(H(T))).

    Deterministic: its uncertainty is only that of its class probabilities; there is no epistemic part.

    Settings for the benchmark graphs are the published ones, except for the weight decay of Cora and CiteSeer, chosen
    on validation nodes, fewer epochs and row-normalised features on PubMed, and scaled-dot attention without rewiring
    on the Amazon graphs. They are solved by Runge–Kutta steps of length about one instead of ``dopri5``, up to T: the
    authors' test-time search for the best moment to stop is left out.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GRAND(epochs=3).fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "grand"
    summary = "graph diffusion with learned attention as an ODE; deterministic"
    paper, year = "Chamberlain et al., GRAND: graph neural diffusion", 2021
    Settings = GRANDSettings
    settings: GRANDSettings

    def __init__(self, **settings: Unpack[GRANDOptions]) -> None:
        super().__init__(**settings)

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        s = self.settings
        drift = GraphHeatDrift(
            s.hidden,
            teleport=0.0,
            rate=0.5,
            learn_rate=True,
            source=0.0,
            learn_source=s.source,
            attention=s.variant,
            kernel=s.attention,
            conserving=s.normalise == "columns",
            sharing=s.sharing,
            heads=s.heads,
            attention_width=s.attention_width,
            generator=generator,
        )
        return FlowModule(width, classes, s, drift, generator)
