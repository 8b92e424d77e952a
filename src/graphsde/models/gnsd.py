"""Graph neural stochastic diffusion: its drift and noise, network and model."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.device import widened
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.lgnsde.module import Noise
from graphsde.models.neural import GraphLearner, Inputs, NeuralModel, NeuralSettings, Response
from graphsde.models.options import GNSDOptions
from graphsde.models.sampled import TEMPERATURE_SAMPLES
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.layers import Linear, dropout
from graphsde.nn.likelihood import validation_of_probs
from graphsde.nn.training import Validation
from graphsde.prediction import Kind
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import QWienerDiffusion
from graphsde.sde.drift import GATDrift
from graphsde.sde.field import BoundDiffusion, BoundDrift, refuse_infinite_kl
from graphsde.sde.integrate import integrate


class AttentionFlow(nn.Module):
    """A layer of single-head graph attention without activation, and the drift from a state towards it."""

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layer = GATDrift(width, heads=1, layers=1, time=False, generator=generator)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundAttentionFlow:
        return BoundAttentionFlow(self.layer.bind(adjacency, initial))


class BoundAttentionFlow:
    """A(H) − H.  # [N, S, d] -> [N, S, d]"""

    def __init__(self, attention: BoundDrift) -> None:
        self.attention, self.tensors = attention, attention.tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.attention(t, h) - h


class BoundForcing:
    r"""g(H) = H − A(H), entry by entry, times independent noise of every node and dimension or, given ``modes``, a
    Q-Wiener process :math:`\sum_k \sqrt{q_k} e_k \beta_k`: the graph's slow modes, each with a Brownian motion per
    dimension."""

    def __init__(self, flow: BoundAttentionFlow, modes: BoundDiffusion | None) -> None:
        self.flow, self.modes, self.tensors = flow, modes, flow.tensors

    def keys(self, node_keys: Tensor) -> Tensor:
        return node_keys if self.modes is None else self.modes.keys(node_keys)

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return -self.flow(t, h) * (noise if self.modes is None else self.modes.apply(t, h, noise))

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl("gnsd")


class Forcing(nn.Module):
    """The stochastic forcing network; ``modes`` of the graph carry its noise, or every node has its own."""

    def __init__(self, width: int, modes: int | None, generator: torch.Generator) -> None:
        super().__init__()
        self.flow = AttentionFlow(width, generator)
        self.process = None if modes is None else QWienerDiffusion(width, modes=modes)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundForcing:
        modes = None if self.process is None else self.process.bind(adjacency)
        return BoundForcing(self.flow.bind(adjacency, initial), modes)


class GNSDSettings(NeuralSettings):
    """Settings of :class:`~graphsde.models.gnsd.GNSD`; the defaults are its authors': 200 epochs without early
    stopping, and the one with the highest validation accuracy, on one path, is kept.

    Args:
        hidden: width of the state.
        noise: ``diagonal``: a Brownian motion for every node and dimension; ``q-wiener``: one for each of the graph's
            slow modes and every dimension. The second is spread over the graph, but renumbering the nodes changes its
            samples (not their law).
        modes: how many, for ``q-wiener``.
        horizon: T, the end of the time axis.
        steps: number of equal Euler–Maruyama steps.
        dropout: on the features.
        weight_decay: on all parameters.
        paths: drawn in every training step.
        validation_paths: drawn for every validation.
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
    validation_paths: int = Field(1, ge=1, le=10_000)
    gradients: Literal["store", "checkpoint"] = "store"
    patience: int = Field(200, ge=1)
    select: Literal["nll", "accuracy"] = "accuracy"


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


class GNSDLearner(GraphLearner):
    """Fresh paths every epoch, the same validation paths always."""

    module: GNSDModule
    settings: GNSDSettings

    def __init__(self, model: GNSD, module: GNSDModule, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        self.keys = node_keys(graph.node_ids).to(self.device)

    def loss(self, epoch: int) -> Tensor:
        self.module.train()
        count = self.settings.paths
        seed = derive(self.settings.seed, "training paths")
        noise = Noise(seed, self.keys, range((epoch - 1) * count, epoch * count))
        logits = self.module(self.inputs, noise, self.dropout)[self.train]
        return functional.cross_entropy(logits.flatten(0, 1), self.train_labels.repeat_interleave(count))

    def validate(self, epoch: int) -> Validation | None:
        if not len(self.val):
            return None
        self.module.eval()
        seed = derive(self.settings.seed, "validation paths")
        probs = torch.zeros((), device=self.device)
        with torch.no_grad():
            initial = self.module.initial(self.inputs)
            for path in range(self.settings.validation_paths):
                state = self.module.evolve(self.inputs, initial, Noise(seed, self.keys, [path]))
                logits = self.module.decode(state[self.val])[:, 0]
                probs = probs + torch.softmax(logits, -1) / self.settings.validation_paths
        return validation_of_probs(probs, self.val_labels)

    def validation_logits(self) -> Tensor:
        self.module.eval()
        seed = derive(self.settings.seed, "validation paths")
        with torch.no_grad():
            initial = self.module.initial(self.inputs)
            count = max(TEMPERATURE_SAMPLES, self.settings.validation_paths)
            ends = (self.module.evolve(self.inputs, initial, Noise(seed, self.keys, [path])) for path in range(count))
            return torch.cat([self.module.decode(state[self.val]) for state in ends], dim=1)


CENTRAL_PATHS = 4


@register_model
class GNSD(NeuralModel):
    r"""Graph diffusion with noise in proportion to what it would change:
    :math:`dH = (A_f(H) - H)\,dt + (H - A_g(H)) \odot dW`.

    Paper: Lin et al., "Graph neural stochastic diffusion for estimating uncertainty in node classification", ICML 2024.
    H(0) = BatchNorm(Linear(X)); A_f and A_g are single-head attention layers (Veličković et al., 2018), the second one
    the paper's stochastic forcing network; Itô, Euler–Maruyama; logits Linear(tanh(H(T))); cross-entropy alone.

    ``noise="diagonal"`` is what the authors released; ``noise="q-wiener"`` the text's Q-Wiener process
    :math:`W = \sum_k \sqrt{q_k} e_k \beta_k` on the graph's Laplacian eigenvectors.

    Its samples are paths. OOD nodes are detected by the score ``gnsd``, energies averaged four times over edges and
    self loops: much of its lead comes from that propagation, which any model's energies can have.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GNSD(epochs=3, hidden=16).fit(graph).predict(graph, samples=4).probs.shape
        (4, 1797, 10)
    """

    name = "gnsd"
    version = 3  # 2: trained as its authors do, where it was stopped early by validation NLL; 3: validated on one path
    summary = "graph diffusion with state-dependent noise; its paths are samples"
    paper = "Lin et al., Graph neural stochastic diffusion for estimating uncertainty in node classification"
    year = 2024
    Settings = GNSDSettings
    Module, Learner = GNSDModule, GNSDLearner
    own_score = "gnsd"
    settings: GNSDSettings
    module: GNSDModule

    def __init__(self, **settings: Unpack[GNSDOptions]) -> None:
        super().__init__(**settings)

    @property
    def kind(self) -> Kind:
        return "samples"

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        """One path at a time: its bits do not depend on how many others are drawn."""
        stream, keys = derive(seed, "prediction paths"), node_keys(graph.node_ids).to(inputs.device)
        initial = self.module.initial(inputs)
        logits = torch.empty(samples, graph.num_nodes, len(self._require_fitted()))
        embedding = widened(inputs.adjacency.values.new_zeros(graph.num_nodes, self.settings.hidden))
        for path in range(samples):
            state = self.module.evolve(inputs, initial, Noise(stream, keys, [path]))
            logits[path] = self.module.decode(state)[:, 0]
            embedding += state[:, 0]
        return Response(logits, embedding / samples)

    def central_logits(self, inputs: Inputs, graph: Graph) -> Tensor:
        """Mean over a few paths."""
        seed, keys = derive(self.settings.seed, "central paths"), node_keys(graph.node_ids).to(inputs.device)
        return self.module(inputs, Noise(seed, keys, range(CENTRAL_PATHS))).mean(1)

    def activations(self, graph: Graph) -> int:
        s = self.settings
        steps = s.steps if s.gradients == "store" else 1
        degree = 1 + graph.num_edges // max(1, graph.num_nodes)
        return s.paths * (2 * steps * (6 * s.hidden + 8 * degree) + 6 * graph.num_classes) + 6 * s.hidden
