"""The evidence lower bound of the graph Gaussian process, as the training loop wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from graphsde.base.keyed_normals import node_keys, standard_normals, stream_of
from graphsde.base.seeds import torch_stream
from graphsde.graph.graph import Graph
from graphsde.models.graph_gp.kernel import Knowledge
from graphsde.models.graph_gp.settings import GraphGPSettings
from graphsde.nn.likelihood import validation_of_probs
from graphsde.nn.training import Validation, rows_of_masks

if TYPE_CHECKING:
    from graphsde.models.graph_gp.posterior import Posterior

VALIDATION_SAMPLES = 64


class GraphGPLearner:
    r"""Negative ELBO per training node: :math:`\frac1n \bigl[ KL(q \| p) - \sum_i E_q \log softmax(f_i)_{y_i} \bigr]`.

    The expectation is over the marginals of q at the nodes of a batch, by reparametrised draws from a generator of its
    own; gpytorch's likelihoods draw from the global one.
    """

    def __init__(self, posterior: Posterior, settings: GraphGPSettings, graph: Graph) -> None:
        assert graph.labels is not None
        self.posterior, self.settings, self.inducing = posterior, settings, posterior.inducing
        self.labels = torch.from_numpy(graph.labels.copy())
        self.train, self.val = rows_of_masks(graph)
        self.train_labels, self.val_labels = self.labels[self.train], self.labels[self.val]
        self.random = torch_stream(settings.seed, "graph-gp training")
        stream = stream_of(settings.seed, "graph-gp validation")
        keys = node_keys(graph.node_ids[self.val.numpy()])
        self.val_noise = latent_noise(stream, keys, VALIDATION_SAMPLES, graph.num_classes)

    scale = None  # classes have none

    def knowledge(self) -> Knowledge:
        """What must be saved."""
        return self.posterior.knowledge(self.labels[self.inducing])

    def parameter_groups(self) -> list[dict[str, Any]]:
        kernel = list(self.posterior.kernel.nodes.parameters())
        of_kernel = {id(parameter) for parameter in kernel}
        own = [parameter for parameter in self.posterior.parameters() if id(parameter) not in of_kernel]
        groups: list[dict[str, Any]] = [{"params": own}]
        if self.settings.learn_kernel:
            groups.append({"params": kernel, "lr": self.settings.kernel_lr})
        return groups

    def loss(self, epoch: int) -> Tensor:
        total = self.train.numel()
        rows, labels = self.train, self.train_labels
        if total > self.settings.batch:
            chosen = torch.randperm(total, generator=self.random)[: self.settings.batch]
            rows, labels = rows[chosen], labels[chosen]
        mean, variance = self.posterior.marginals(rows)
        noise = torch.randn(self.settings.draws, *mean.shape, generator=self.random, dtype=mean.dtype)
        log_probs = torch.log_softmax(mean + variance.sqrt() * noise, dim=1)  # [draws, C, n]
        likelihood = -functional.nll_loss(log_probs.mean(0).T, labels)
        return self.posterior.divergence() / total - likelihood

    def validate(self, epoch: int) -> Validation | None:
        if not self.val.numel():
            return None
        with torch.no_grad():
            mean, variance = self.posterior.marginals(self.val)
            probs = torch.softmax(mean.T + variance.T.sqrt() * self.val_noise, -1).mean(0)
        return validation_of_probs(probs, self.val_labels)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.posterior.state_dict(keep_vars=True))

    def generators(self) -> dict[str, torch.Generator]:
        return {"training": self.random}


def latent_noise(stream: int, keys: Tensor, samples: int, classes: int) -> Tensor:
    """Standard normals by (stream, sample, node, class).  # [S, N, C]"""
    return standard_normals(stream, keys, range(samples), 0, classes, torch.float64).transpose(0, 1)
