"""An LGNSDE in training: new paths every epoch, always the same validation paths."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.base.world import world
from graphsde.graph.graph import Graph
from graphsde.graph.part_graph import PartGraph
from graphsde.models.lgnsde.last_layer import last_layer_features
from graphsde.models.lgnsde.module import LGNSDEModule, Noise, no_closed_kl
from graphsde.models.lgnsde.settings import ConsistencySettings, LGNSDESettings
from graphsde.models.neural import GraphLearner, NeuralModel
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.likelihood import ClassLikelihood, Likelihood
from graphsde.nn.mask_stream import MaskStream
from graphsde.nn.over_parts import everybody, share_of_mean, total
from graphsde.nn.training import RandomStream, Validation
from graphsde.sde.brownian import keys_of
from graphsde.uncertainty.evidence import evidence_of
from graphsde.uncertainty.state_posterior import StatePosterior

# a node has full weight if at least a quarter of the validation nodes resemble the classes no more than it does
FULL_AGREEMENT = 4.0


def path_likelihood(
    logits: Tensor,
    labels: Tensor,
    objective: Literal["elbo", "mixture", "importance"],
    likelihood: Likelihood = ClassLikelihood(),
    log_ratio: Tensor | None = None,
) -> Tensor:
    """Negative log-likelihood per training node, over paths; for a partitioned graph, this part's share of it.

    # logits [n, S, C], labels [n], log_ratio [S]

    ``elbo`` is the expected log-likelihood of the evidence lower bound. ``mixture`` is the log of the mean likelihood,
    that of the prediction itself; not every single path has to be right, but minus the KL it is not a bound: two
    states of prior ½ with likelihoods 1 and 0 have the evidence ½, and q = (.7, .3) gives −.439 > ln ½. ``importance``
    is ln of the mean over paths of p(Y|H) dP/dQ, with ``log_ratio`` = ln dP/dQ: a bound for any number of paths, the
    ELBO for one.
    """
    per_path = likelihood.of_paths(logits, labels)
    if objective == "elbo":
        return -share_of_mean(per_path)
    if objective == "importance":
        assert log_ratio is not None
        bound = torch.logsumexp(total(per_path.sum(0) + log_ratio), 0) - math.log(logits.shape[1])
        return -bound / total(len(labels)) / world().parts  # every part has the same share
    return -share_of_mean(
        torch.logsumexp(per_path, dim=1) - torch.log(logits.new_tensor(float(logits.shape[1]), dtype=torch.float32))
    )


def ramp(epoch: int, warmup: int) -> float:
    """A weight that grows linearly to 1 over ``warmup`` epochs."""
    return min(1.0, epoch / warmup)


def consistency(
    logits: Tensor, settings: ConsistencySettings, validation: Tensor, weights: Tensor | None = None
) -> Tensor:
    r"""Disagreement among the paths of each node, mean over nodes, or weighted.  # logits [N, S, C], weights [N]

    ``sharpen``: :math:`\|p_s - \mathrm{sharpen}(\bar p, \tau)\|^2`, the target detached. ``confident``:
    :math:`\|p_s - \bar p\|^2 + \tfrac12 k H(p_s)` with k = 1 where the mean's largest probability reaches the median
    of that over the validation nodes (no label is used).
    """
    # classes first in memory: torch's loop over a few columns is ten times slower
    logs = torch.log_softmax(logits.permute(2, 0, 1).contiguous(), dim=0).permute(1, 2, 0)
    probs = logs.exp()
    mean = probs.mean(dim=1, keepdim=True)
    if settings.kind == "sharpen":
        with torch.no_grad():
            target = mean ** (1.0 / settings.temperature)
            target = target / target.sum(-1, keepdim=True)
        if weights is not None:
            return share_of_mean((probs - target).square().sum(-1).mean(1) * weights)
        return share_of_mean((probs - target).square().sum(-1))
    disagreement = (probs - mean.detach()).square().sum(-1).mean(1)  # [N]
    with torch.no_grad():
        surest = mean[:, 0].max(-1).values
        confident = (surest >= everybody(surest[validation]).median()).to(probs.dtype)
    entropy = -(probs * logs).sum(-1).mean(1)
    per_node = disagreement + 0.5 * confident * entropy
    return share_of_mean(per_node if weights is None else per_node * weights)


class LGNSDELearner(GraphLearner):
    """Module, graph and objective, as the training loop wants them."""

    module: LGNSDEModule
    settings: LGNSDESettings

    def __init__(self, model: NeuralModel, module: LGNSDEModule, encoder: FeatureEncoder, graph: Graph) -> None:
        s: LGNSDESettings = model.settings  # type: ignore[assignment]
        if graph.target_kind == "regression" and (s.consistency.kind != "none" or s.temperature):
            raise BadUsage(
                "consistency and temperature need class probabilities, and this is regression",
                code="E-TARGET",
                fix="leave out both settings",
            )
        super().__init__(model, module, encoder, graph)
        self.masks = MaskStream(s.seed, "dropout")
        self.keys = keys_of(graph).to(self.device)
        self.num_nodes, self.num_trained = total(graph.num_nodes), total(len(self.train))
        self._validation_noise: Tensor | None = None
        self.resemblance = self._resemblance(graph)
        if s.objective == "importance" and not module.drift.closed_kl(module.prior, module.diffusion):
            raise no_closed_kl()

    def _resemblance(self, graph: Graph) -> Tensor | None:
        """Weight of each node in the consistency loss: min(1, 4p), p the share of validation nodes that resemble the
        classes trained on no more than it does.  # [N]"""
        wanted = self.settings.consistency
        if not wanted.by_evidence or wanted.kind == "none" or not self.validated:
            return None
        share = graph.tail_share if isinstance(graph, PartGraph) else evidence_of(graph).tail_share()
        assert share is not None
        return torch.from_numpy(np.minimum(1.0, FULL_AGREEMENT * share)).float().to(self.device)

    def loss(self, epoch: int) -> Tensor:
        s = self.settings
        self.module.train()
        if not world().alone:  # a separate stream for every part and epoch, which need not be saved
            self.masks = MaskStream(derive(s.seed, "part", world().part, epoch), "dropout")
        agree = s.consistency.kind != "none" and s.consistency.weight > 0 and epoch >= s.consistency.begin
        weighted, kl = s.objective == "importance", s.kl_weight > 0
        # noise drawn node by node is only needed for nodes that are used
        rows = self.train if not agree and s.noise_by == "marginals" else None
        latent = self.module.evolve(
            self.inputs, self._paths(epoch), self.masks, kl=kl and not weighted, log_ratio=kl and weighted, rows=rows
        )
        if agree:
            logits = self.module.decode(self.inputs, latent.state, self.masks)
            train_logits = logits[self.train]
        elif rows is not None:
            train_logits = self.module.decode(self.inputs, latent.state, self.masks)
        else:
            train_logits = self.module.decode_at(self.inputs, latent.state, self.train, self.masks)
        ratio = None
        if weighted:
            ratio = latent.log_ratio if kl else train_logits.new_zeros(train_logits.shape[1])
            assert ratio is not None
            share = self.num_trained / self.num_nodes if s.kl_unit == "node" else 1.0
            ratio = ratio * (s.kl_weight * ramp(epoch, s.kl_warmup) * share)
        loss = path_likelihood(train_logits, self.train_labels, s.objective, self.likelihood, ratio)
        if agree:
            validation = self.val if self.validated else self.train
            weight = s.consistency.weight * ramp(epoch, s.consistency.warmup)
            if s.consistency.gated:
                weight *= max(0.0, 1.0 - float(total(loss.detach())) / math.log(logits.shape[-1]))
            loss = loss + weight * consistency(logits, s.consistency, validation, self.resemblance)
        if latent.kl is not None:
            share = self.num_nodes if s.kl_unit == "node" else self.num_trained
            loss = loss + s.kl_weight * ramp(epoch, s.kl_warmup) / share * latent.kl.mean()
        return loss

    def validate(self, epoch: int) -> Validation | None:
        if not self.validated:
            return None
        return self.likelihood.validation_of_paths(self.validation_logits(), self.val_labels)

    def validation_logits(self) -> Tensor:
        """Logits of the validation nodes, of all parts, on the fixed validation paths.  # [n, S, C]"""
        return everybody(self._own_validation_logits())

    def _own_validation_logits(self) -> Tensor:
        self.module.eval()
        marginal, ratio = self.settings.noise_by == "marginals", self.settings.sigma_is == "ratio"
        count = self.settings.validation_paths if self.module.noisy else 1
        noise = Noise(derive(self.settings.seed, "validation paths"), self.keys, range(count))
        if self._validation_noise is None and self.module.noisy and ratio and not marginal:
            self._validation_noise = self.module.unit_noise(self.inputs, noise)
        with torch.no_grad():
            if marginal and self.module.noisy:  # one solve is enough for the signal and all draws
                initial, mean = self.module.mean_path(self.inputs)
                self.module.measure_signal(self.inputs, noise, mean)
                state = self.module.around(self.inputs, mean, noise, self.val)
                return self.module.decode(self.inputs, self.module.beside(state, initial[self.val]))
            self.module.measure_signal(self.inputs, noise)
            if self.module.by_node:
                state = self.module.evolve(self.inputs, noise, None, unit=self._validation_noise, rows=self.val).state
                return self.module.decode(self.inputs, state)
            state = self.module.evolve(self.inputs, noise, None, unit=self._validation_noise).state
            return self.module.decode_at(self.inputs, state, self.val)

    def measure_signal(self) -> None:
        self.module.eval()
        self.module.measure_signal(self.inputs, Noise(derive(self.settings.seed, "validation paths"), self.keys, (0,)))

    def state_posterior(self) -> StatePosterior | None:
        """Posterior of the logits given the training nodes; ``None`` if the last layer has no linear features.

        Scales are those of the calibrated, noise-free prediction of the validation nodes (of the training nodes if
        there are none): s² is the mean square of its logits around their mean over classes, β the mean of p(1 − p).
        """
        if not isinstance(self.likelihood, ClassLikelihood):
            return None
        self.module.eval()
        features = last_layer_features(self.module, self.inputs)
        if features is None:
            return None
        with torch.no_grad():
            initial, final = self.module.mean_path(self.inputs)
            rows = self.val if self.validated else self.train
            logits = self.module.decode_at(self.inputs, self.module.beside(final, initial), rows)[:, 0].cpu().double()
        logits = everybody(logits) / self.module.log_temperature.cpu().double().exp()
        probs = torch.softmax(logits, -1)
        prior = (logits - logits.mean(-1, keepdim=True)).square().mean()
        curvature = (probs * (1.0 - probs)).mean()
        return StatePosterior.of(features.cpu(), self.train.cpu(), prior=float(prior), curvature=float(curvature))

    def generators(self) -> Mapping[str, RandomStream]:
        return {"dropout": self.masks.generator, "masks": self.masks} if world().alone else {}

    def _paths(self, epoch: int) -> Noise:
        count = self.settings.paths
        return Noise(derive(self.settings.seed, "training paths"), self.keys, range((epoch - 1) * count, epoch * count))
