"""The paper's network (encoder, GCN drift, OU prior, path KL, decoder) as one would fit it with torchsde or diffrax."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from _peers import ReferenceSDE, torchsde_solve
from _pyg_networks import dropped
from _workload import Task
from torch import Tensor
from torch.nn import functional

from graphsde.graph.sparse import SparseMatrix
from graphsde.models.neural import GraphLearner

DROPOUT, DECAY, KL_WEIGHT = 0.5, 5e-4, 0.01
"""Of the preset ``paper``; the KL is averaged over nodes, as in the authors' code."""
WIDTH, STEPS = 64, 10


def latent_settings() -> dict[str, Any]:
    """The same network in the library: the preset without dropout in the drift, with a decoder that reads each node."""
    return {
        "preset": "paper",
        "hidden": WIDTH,
        "steps": STEPS,
        "drift": {"name": "gcn", "options": {"layers": 2}},
        "decoder": "linear",
        "validation_paths": 1,
        "race": False,
    }


def task_of(learner: GraphLearner, edge_index: Tensor, keys: Tensor, classes: int) -> Task:
    """The graph as the library's own model sees it."""
    features = learner.inputs.features
    if isinstance(features, Tensor):
        features = SparseMatrix.from_scipy(sp.csr_array(features.numpy()))
    return Task(
        "as in the library",
        features,
        learner.inputs.adjacency,
        edge_index,
        learner.train_labels,
        learner.train,
        keys,
        classes,
    )


class FittedSDE(ReferenceSDE):
    """The reference with the dropout and the weighting that make it learn."""

    def __init__(
        self, task: Task, validation: Tensor, *, width: int = WIDTH, steps: int = STEPS, seed: int = 0
    ) -> None:
        torch.manual_seed(seed)
        super().__init__(task, width, steps)
        self.features = task.features.csr()  # an encoder's product is many times faster with it, for everybody
        self.validation = validation

    def encoded(self) -> Tensor:
        return torch.relu(self.encoder(dropped(self.features, DROPOUT) if self.training else self.features))

    def loss(self, epoch: int) -> Tensor:
        self.train()
        y = torchsde_solve(self.drift, self.encoded(), self.steps, "srk", kl=True, seed=epoch)
        h = functional.dropout(y[self.task.train, :-1], DROPOUT, True)
        return functional.cross_entropy(self.decoder(h), self.task.labels) + KL_WEIGHT * y[:, -1].mean()

    def probs(self, samples: int, *, first: int = 1_000_000) -> Tensor:
        """Mean over paths that no epoch has seen.  # [N, C]"""
        self.eval()
        total = torch.zeros(self.task.nodes, self.task.classes)
        with torch.no_grad():
            initial = self.encoded()
            for seed in range(first, first + samples):
                state = torchsde_solve(self.drift, initial, self.steps, "srk", kl=False, seed=seed)
                total += torch.softmax(self.decoder(state), -1)
        return total / samples

    def validation_probs(self) -> Tensor:
        return self.probs(1, first=0)[self.validation]

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": list(self.parameters()), "weight_decay": DECAY}]
