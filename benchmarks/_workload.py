"""One training task that every contender solves: a citation graph, a latent SDE with a graph convolution as drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.errors import StorageError
from graphsde.base.seeds import torch_stream
from graphsde.datasets.benchmarks import load
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.lgnsde.model import chunks
from graphsde.nn.layers import Linear
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.drift import GCNDrift
from graphsde.sde.integrate import Gradients, Path, integrate
from graphsde.sde.prior import OrnsteinUhlenbeckPrior

SIGMA = 1.0
THETA = 1.0
HORIZON = 1.0
LEARNING_RATE = 0.01
WORDS_PER_NODE = 18
TINY = 200


@dataclass(frozen=True)
class Task:
    """A graph as the contenders see it."""

    name: str
    features: SparseMatrix  # [N, F]
    adjacency: SparseMatrix  # [N, N]
    edge_index: Tensor  # [2, E]
    labels: Tensor  # [n], of the training nodes
    train: Tensor  # [n]
    keys: Tensor  # [N]
    classes: int

    @property
    def nodes(self) -> int:
        return self.adjacency.shape[0]

    def dense_features(self) -> Tensor:
        return self.features.csr().to_dense()


def make_task(name: str = "cora") -> Task:
    """The named graph, or a made one of Cora's size and sparsity where the files are not here; ``tiny`` for trials."""
    try:
        graph = like_cora(TINY) if name == "tiny" else load(name, download=False)
    except StorageError:
        graph = like_cora()
    words = sp.csr_array(graph.features, dtype=np.float32)
    scale = 1.0 / np.maximum(words.sum(axis=1), 1e-12)
    words.data = words.data * np.repeat(scale, np.diff(words.indptr))
    assert graph.labels is not None
    train = np.flatnonzero(graph.labelled if graph.train_mask is None else graph.train_mask)
    if graph.train_mask is None:
        train = train[:: max(1, len(train) // (20 * graph.num_classes))]
    return Task(
        f"{graph.name} ({graph.num_nodes} nodes, {graph.num_edges} edges)",
        SparseMatrix.from_scipy(words),
        graph.adjacency.operator,
        torch.from_numpy(graph.adjacency.edge_index()),
        torch.from_numpy(graph.labels[train].copy()),
        torch.from_numpy(train),
        node_keys(graph.node_ids),
        graph.num_classes,
    )


def like_cora(nodes: int = 2708) -> Graph:
    graph = synthetic(nodes, classes=7, features=1433, degree=3.9)
    dense = np.asarray(graph.features)
    cut = np.quantile(dense, 1 - WORDS_PER_NODE / dense.shape[1])
    return graph.with_features(sp.csr_array((dense > cut).astype(np.float32)))


Written = Literal["solve", "drift", "nothing"]


class Recorded:
    """A bound graph convolution without its written-out gradient for solvers and, where ``nothing`` is written, for
    autograd."""

    def __init__(self, bound: Any, written: Written) -> None:
        self.bound, self.written, self.tensors = bound, written, bound.tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        if self.written == "drift" or not torch.is_grad_enabled():
            return self.bound(t, h)
        return self.bound.run(t, h, self.tensors, None)


class LatentSDE(nn.Module):
    """Our contender: node-wise encoder, two graph convolutions with time as drift, linear decoder.

    Args:
        task: the graph.
        width: d.
        steps: L.
        solver, gradients: as in :func:`graphsde.sde.integrate.integrate`.
        written: how much of the gradient is written out by hand: that of the whole ``solve``, of the ``drift`` alone,
            or ``nothing``, which leaves all to autograd.
    """

    def __init__(
        self,
        task: Task,
        width: int,
        steps: int,
        *,
        solver: str = "sra1",
        gradients: Gradients = "store",
        written: Written = "solve",
    ) -> None:
        super().__init__()
        self.task, self.width, self.steps, self.solver, self.gradients = task, width, steps, solver, gradients
        self.written = written
        generator = torch_stream(0, "benchmark")
        self.encoder = Linear(task.features.shape[1], width, generator)
        self.drift = GCNDrift(width, generator=generator)
        self.prior = OrnsteinUhlenbeckPrior(width, theta=THETA)
        self.diffusion = ConstantDiffusion(width, sigma=SIGMA)
        self.decoder = Linear(width, task.classes, generator)

    def solve(self, initial: Tensor, seed: int, paths: range, *, kl: bool) -> Path:
        """``initial`` [N, S, d]"""
        task = self.task
        drift = self.drift.bind(task.adjacency, initial)
        return integrate(
            drift if self.written == "solve" else Recorded(drift, self.written),
            initial,
            horizon=HORIZON,
            steps=self.steps,
            solver=self.solver,
            diffusion=self.diffusion.bind(task.adjacency),
            noise_kind=self.diffusion.noise,
            brownian=BrownianMotion(seed, task.keys, paths, self.width, HORIZON, self.steps),
            prior=self.prior.bind(task.adjacency, initial) if kl else None,
            gradients=self.gradients,
        )

    def loss(self, epoch: int) -> Tensor:
        path = self.solve(self.encoder(self.task.features).unsqueeze(1), 0, range(epoch, epoch + 1), kl=True)
        assert path.kl is not None
        return evidence_bound(self.decoder(path.final[self.task.train, 0]), path.kl.sum(), self.task)

    def predict(self, samples: int) -> Tensor:
        """Mean class probabilities, with the groups of paths that the library's own prediction takes.  # [N, C]"""
        total = torch.zeros(self.task.nodes, self.task.classes)
        with torch.no_grad():
            initial = self.encoder(self.task.features).unsqueeze(1)
            for paths, used in chunks(samples, self.task.nodes * self.width):
                path = self.solve(initial.expand(-1, len(paths), -1).contiguous(), 1, paths, kl=False)
                total += torch.softmax(self.decoder(path.final[:, :used]), -1).sum(1)
        return total / samples


def evidence_bound(logits: Tensor, kl: Tensor, task: Task) -> Tensor:
    """The negative bound per training node.  # logits [n, C]"""
    return functional.cross_entropy(logits, task.labels) + kl / len(task.train)


def epochs_of(model: nn.Module, loss: Callable[[int], Tensor]) -> Callable[[], None]:
    """A function that trains one epoch: forward, backward, one step of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    count = 0

    def epoch() -> None:
        nonlocal count
        count += 1
        optimizer.zero_grad()
        loss(count).backward()
        optimizer.step()

    return epoch
