"""Models whose samples are passes with another draw of masks or weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from graphsde.base.device import widened
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.models.neural import Draws, GraphLearner, Inputs, NeuralModel, Outputs, Response
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.likelihood import validation_of_probs
from graphsde.nn.training import Validation
from graphsde.prediction import Kind
from graphsde.sde.brownian import node_keys

# with few draws the noise of their mean counts as the model's, and the temperature comes out too high
TEMPERATURE_SAMPLES = 32


class SampledLearner(GraphLearner):
    """Validation by the mean of a few samples, the same ones in every epoch."""

    def __init__(self, model: NeuralModel, module: nn.Module, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        self.keys = node_keys(graph.node_ids).to(self.device)

    def validate(self, epoch: int) -> Validation | None:
        if not len(self.val):
            return None
        self.module.eval()
        drawn = [torch.softmax(logits, -1) for logits in self._draws(self.settings.validation_samples)]
        return validation_of_probs(torch.stack(drawn).mean(0), self.val_labels)

    def validation_logits(self) -> Tensor:
        self.module.eval()
        return torch.stack(self._draws(max(TEMPERATURE_SAMPLES, self.settings.validation_samples)), dim=1)

    def _draws(self, count: int) -> list[Tensor]:
        """Logits of the validation nodes under the first draws of one family.  # count × [n, C]"""
        seed = derive(self.model.settings.seed, "validation samples")
        with torch.no_grad():
            return [out.logits[self.val] for out in passes(self.module, self.inputs, self.keys, seed, count)]


class SampledModel(NeuralModel):
    """Base of models that are random at prediction: ``module(inputs, masks)`` draws from keyed masks.

    Sample k is a pure function of (seed, k, node ids), so that it does not depend on how many are drawn or on the order
    of the nodes. In training a plain generator replaces the masks. Settings have ``validation_samples``.
    """

    Learner = SampledLearner

    @property
    def kind(self) -> Kind:
        return "samples"

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        logits: list[Tensor] = []
        hidden: Tensor | None = None
        for draw in self.draws(inputs, graph, samples, seed):
            logits.append(draw.logits)
            if draw.hidden is not None:
                hidden = draw.hidden + (0.0 if hidden is None else hidden)
        return Response(torch.cat(logits), None if hidden is None else hidden / samples)

    def draws(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Iterator[Draws]:
        assert self.module is not None
        keys = node_keys(graph.node_ids).to(inputs.device)
        for outputs in passes(self.module, inputs, keys, derive(seed, "prediction samples"), samples):
            hidden = None if outputs.hidden is None else widened(outputs.hidden).cpu()
            yield Draws(outputs.logits.cpu()[None], hidden)


def passes(module: nn.Module, inputs: Inputs, keys: Tensor, seed: int, samples: int) -> Iterator[Outputs]:
    """The module's outputs under the first ``samples`` draws of a family."""
    for sample in range(samples):
        yield module(inputs, KeyedMasks(seed, sample, keys))
