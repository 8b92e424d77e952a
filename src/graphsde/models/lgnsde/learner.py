"""An LGNSDE in training: fresh paths every epoch, the same validation paths always."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.lgnsde.settings import ConsistencySettings, LGNSDESettings
from graphsde.models.neural import GraphLearner, NeuralModel
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.likelihood import ClassLikelihood, Likelihood
from graphsde.nn.training import Validation
from graphsde.sde.brownian import node_keys


def path_likelihood(
    logits: Tensor, labels: Tensor, objective: Literal["mean", "log-mean"], likelihood: Likelihood = ClassLikelihood()
) -> Tensor:
    """Negative log-likelihood per training node, over paths.  # logits [n, S, C], labels [n]

    ``mean`` is the expected log-likelihood of the evidence lower bound; ``log-mean`` the log of the mean likelihood,
    which is a tighter bound and does not ask every single path to be right.
    """
    per_path = likelihood.of_paths(logits, labels)
    if objective == "mean":
        return -per_path.mean()
    return -(torch.logsumexp(per_path, dim=1) - torch.log(torch.tensor(float(logits.shape[1])))).mean()


def ramp(epoch: int, warmup: int) -> float:
    """A weight that grows linearly to 1 over ``warmup`` epochs."""
    return min(1.0, epoch / warmup)


def consistency(logits: Tensor, settings: ConsistencySettings, validation: Tensor) -> Tensor:
    r"""Disagreement among the paths of each node, mean over nodes.  # logits [N, S, C]

    ``sharpen``: :math:`\|p_s - \mathrm{sharpen}(\bar p, \tau)\|^2`, the target detached. ``confident``:
    :math:`\|p_s - \bar p\|^2 + \tfrac12 k H(p_s)` with k = 1 where the mean's largest probability reaches the median
    of that over the validation nodes (no label is used).
    """
    probs = torch.softmax(logits, dim=-1)
    mean = probs.mean(dim=1, keepdim=True)
    if settings.kind == "sharpen":
        with torch.no_grad():
            target = mean ** (1.0 / settings.temperature)
            target = target / target.sum(-1, keepdim=True)
        return (probs - target).square().sum(-1).mean()
    disagreement = (probs - mean.detach()).square().sum(-1).mean(1)  # [N]
    with torch.no_grad():
        surest = mean[:, 0].max(-1).values
        confident = (surest >= surest[validation].median()).to(probs.dtype)
    entropy = -(probs * torch.log_softmax(logits, dim=-1)).sum(-1).mean(1)
    return (disagreement + 0.5 * confident * entropy).mean()


class LGNSDELearner(GraphLearner):
    """Module, graph and objective, as the training loop wants them."""

    module: LGNSDEModule
    settings: LGNSDESettings

    def __init__(self, model: NeuralModel, module: LGNSDEModule, encoder: FeatureEncoder, graph: Graph) -> None:
        s: LGNSDESettings = model.settings  # type: ignore[assignment]
        if graph.target_kind == "regression" and (s.consistency.kind != "none" or s.temperature):
            raise BadUsage(
                "consistency and temperature go by class probabilities, and this is regression",
                code="E-TARGET",
                fix="leave both settings out",
            )
        super().__init__(model, module, encoder, graph)
        self.keys = node_keys(graph.node_ids)
        self.num_nodes = graph.num_nodes
        self._validation_noise: Tensor | None = None

    def loss(self, epoch: int) -> Tensor:
        s = self.settings
        self.module.train()
        latent = self.module.evolve(self.inputs, self._paths(epoch), self.dropout, kl=s.kl_weight > 0)
        agree = s.consistency.kind != "none" and s.consistency.weight > 0 and epoch >= s.consistency.begin
        if agree:
            logits = self.module.decode(self.inputs, latent.state, self.dropout)
            train_logits = logits[self.train]
        else:
            train_logits = self.module.decode_at(self.inputs, latent.state, self.train, self.dropout)
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
            return self.module.decode_at(self.inputs, state, self.val)

    def _paths(self, epoch: int) -> Noise:
        count = self.settings.paths
        return Noise(derive(self.settings.seed, "training paths"), self.keys, range((epoch - 1) * count, epoch * count))
