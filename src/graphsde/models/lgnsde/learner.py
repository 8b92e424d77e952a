"""An LGNSDE in training: fresh paths every epoch, the same validation paths always."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphsde.data.encoding import FeatureEncoder
from graphsde.data.graph import Graph
from graphsde.dynamics.brownian import node_keys
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.lgnsde.objective import consistency, path_likelihood, ramp
from graphsde.models.lgnsde.settings import LGNSDESettings
from graphsde.models.neural import GraphLearner, NeuralModel
from graphsde.seeds import derive
from graphsde.training.loop import Validation


class LGNSDELearner(GraphLearner):
    """Module, graph and objective, as the training loop wants them."""

    module: LGNSDEModule

    def __init__(
        self, model: NeuralModel, module: LGNSDEModule, encoder: FeatureEncoder, graph: Graph, settings: LGNSDESettings
    ) -> None:
        super().__init__(model, module, encoder, graph)
        self.settings = settings
        self.keys = node_keys(graph.node_ids)
        self.num_nodes = graph.num_nodes
        self._validation_noise: Tensor | None = None

    def parameter_groups(self) -> list[dict[str, Any]]:
        encoder = list(self.module.encoder.parameters())
        rest = [p for name, p in self.module.named_parameters() if not name.startswith("encoder.")]
        decay = self.settings.weight_decay
        if self.settings.decay_all:
            return [{"params": encoder + rest, "weight_decay": decay}]
        weight = [p for p in encoder if p.dim() == 2]
        biases = [p for p in encoder if p.dim() != 2]
        return [{"params": weight, "weight_decay": decay}, {"params": biases + rest, "weight_decay": 0.0}]

    def loss(self, epoch: int) -> Tensor:
        s = self.settings
        self.module.train()
        latent = self.module.evolve(self.inputs, self._paths(epoch), self.dropout, kl=s.kl_weight > 0)
        agree = s.consistency.kind != "none" and s.consistency.weight > 0 and epoch >= s.consistency.begin
        # without the consistency term the other nodes' logits are not needed
        if agree or s.decoder == "gcn":
            logits = self.module.decode(self.inputs, latent.state, self.dropout)
            train_logits = logits[self.train]
        else:
            train_logits = self.module.decode(self.inputs, latent.state[self.train], self.dropout)
        loss = path_likelihood(train_logits, self.train_labels, s.objective, self.likelihood)
        if agree:
            validation = self.val if len(self.val) else self.train
            weight = s.consistency.weight * ramp(epoch, s.consistency.warmup)
            if s.consistency.gated:
                weight *= max(0.0, 1.0 - float(loss.detach()) / math.log(logits.shape[-1]))
            loss = loss + weight * consistency(logits, s.consistency, validation)
        if latent.kl is not None:
            share = self.num_nodes if s.kl_unit == "node" else len(self.train)
            loss = loss + s.kl_weight * ramp(epoch, s.kl_warmup) / share * latent.kl.mean()
        return loss

    def validate(self, epoch: int) -> Validation | None:
        if not len(self.val):
            return None
        return self.likelihood.validation_of_paths(self.validation_logits(), self.val_labels)

    def validation_logits(self) -> Tensor:
        """Logits of the validation nodes on the fixed validation paths.  # [n, S, C]"""
        self.module.eval()
        count = self.settings.validation_paths if self.module.noisy else 1
        noise = Noise(derive(self.settings.seed, "validation paths"), self.keys, range(count))
        if self._validation_noise is None and self.module.noisy and self.settings.sigma_is == "ratio":
            self._validation_noise = self.module.unit_noise(self.inputs, noise)
        with torch.no_grad():
            state = self.module.evolve(self.inputs, noise, None, unit=self._validation_noise).state
            if self.settings.decoder == "linear":
                return self.module.decode(self.inputs, state[self.val])
            return self.module.decode(self.inputs, state)[self.val]

    def _paths(self, epoch: int) -> Noise:
        count = self.settings.paths
        return Noise(derive(self.settings.seed, "training paths"), self.keys, range((epoch - 1) * count, epoch * count))
