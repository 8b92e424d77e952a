"""Graph neural stochastic diffusion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.data.encoding import FeatureEncoder
from graphsde.data.graph import Graph
from graphsde.dynamics.brownian import node_keys
from graphsde.models.base import register_model
from graphsde.models.gnsd.network import GNSDModule, GNSDSettings, Noise
from graphsde.models.neural import GraphLearner, Inputs, NeuralModel, Response
from graphsde.prediction import Kind
from graphsde.seeds import derive
from graphsde.training.loop import Validation

CENTRAL_PATHS = 4


@register_model
class GNSD(NeuralModel):
    r"""Graph diffusion shaken in proportion to what it would change:
    :math:`dH = (A_f(H) - H)\,dt + (H - A_g(H)) \odot dW`.

    Paper: Lin et al., "Graph neural stochastic diffusion for estimating uncertainty in node classification", ICML 2024.
    H(0) = BatchNorm(Linear(X)); A_f and A_g are single-head attention layers (Veličković et al., 2018), the second one
    the paper's stochastic forcing network; Itô, Euler–Maruyama; logits Linear(tanh(H(T))); cross-entropy alone.

    ``noise="diagonal"`` is what the authors released; ``noise="q-wiener"`` the text's Q-Wiener process
    :math:`W = \sum_k \sqrt{q_k} e_k \beta_k` on the graph's Laplacian eigenvectors.

    Its samples are paths. For foreign nodes the paper scores by ``gnnsafe`` with ``alpha=0.3, steps=4``: much of its
    lead comes from that propagation, which any model's energies can have.

    Example:
        >>> import graphsde as gs
        >>> from graphsde.models.gnsd import GNSD
        >>> graph = gs.load("digits")
        >>> GNSD(epochs=3, hidden=16).fit(graph).predict(graph, samples=4).probs.shape
        (4, 1797, 10)
    """

    name = "gnsd"
    summary = "graph diffusion with state-dependent noise; its paths are samples"
    paper = "Lin et al., Graph neural stochastic diffusion for estimating uncertainty in node classification"
    year = 2024
    Settings = GNSDSettings
    settings: GNSDSettings

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        return dict(_PER_GRAPH.get(graph.name, {}))

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        return GNSDModule(width, classes, self.settings, generator)

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(module.parameters()), "weight_decay": self.settings.weight_decay}]

    def make_learner(self, module: nn.Module, encoder: FeatureEncoder, graph: Graph) -> GNSDLearner:
        assert isinstance(module, GNSDModule)
        return GNSDLearner(self, module, encoder, graph, self.settings)

    @property
    def kind(self) -> Kind:
        return "samples"

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        """One path at a time: its bits do not depend on how many others are asked for."""
        assert isinstance(self.module, GNSDModule)
        stream, keys = derive(seed, "prediction paths"), node_keys(graph.node_ids)
        initial = self.module.initial(inputs)
        logits = torch.empty(samples, graph.num_nodes, len(self._require_fitted()))
        embedding = torch.zeros(graph.num_nodes, self.settings.hidden, dtype=torch.float64)
        for path in range(samples):
            state = self.module.evolve(inputs, initial, Noise(stream, keys, [path]))
            logits[path] = self.module.decode(state)[:, 0]
            embedding += state[:, 0]
        return Response(logits, embedding / samples)

    def central_logits(self, inputs: Inputs, graph: Graph) -> Tensor:
        """Mean over a few paths."""
        assert isinstance(self.module, GNSDModule)
        seed, keys = derive(self.settings.seed, "central paths"), node_keys(graph.node_ids)
        return self.module(inputs, Noise(seed, keys, range(CENTRAL_PATHS))).mean(1)

    def activations(self, graph: Graph) -> int:
        s = self.settings
        steps = s.steps if s.gradients == "store" else 1
        degree = 1 + graph.num_edges // max(1, graph.num_nodes)
        return s.paths * (2 * steps * (6 * s.hidden + 8 * degree) + 6 * graph.num_classes) + 6 * s.hidden


class GNSDLearner(GraphLearner):
    """Fresh paths every epoch, the same validation paths always."""

    module: GNSDModule

    def __init__(
        self, model: NeuralModel, module: GNSDModule, encoder: FeatureEncoder, graph: Graph, settings: GNSDSettings
    ) -> None:
        super().__init__(model, module, encoder, graph)
        self.settings, self.keys = settings, node_keys(graph.node_ids)

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
        probs = torch.zeros(())
        with torch.no_grad():
            initial = self.module.initial(self.inputs)
            for path in range(self.settings.validation_paths):
                state = self.module.evolve(self.inputs, initial, Noise(seed, self.keys, [path]))
                logits = self.module.decode(state[self.val])[:, 0]
                probs = probs + torch.softmax(logits, -1) / self.settings.validation_paths
        nll = functional.nll_loss(probs.clamp_min(1e-12).log(), self.val_labels)
        return Validation(float(nll), float((probs.argmax(-1) == self.val_labels).float().mean()))


# the authors leave the citation graphs' features as they are and divide Amazon's by their row sums
_PER_GRAPH: dict[str, dict[str, Any]] = {
    "cora": {"scaling": "none", "evaluate_every": 2},
    "citeseer": {"scaling": "none"},
    "pubmed": {"scaling": "none", "epochs": 150, "patience": 40, "evaluate_every": 5},
    "computers": {"scaling": "row", "epochs": 150, "patience": 40, "evaluate_every": 5},
    "photo": {"scaling": "row", "epochs": 150, "patience": 40, "evaluate_every": 5},
}
