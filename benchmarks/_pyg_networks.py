"""GCN and APPNP as a user of PyTorch Geometric would train them, in whichever layout is fastest for it."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from _fit import Schedule, train
from torch import Tensor, nn
from torch.nn import functional

from graphsde.graph.sparse import SparseMatrix
from graphsde.models.neural import GraphLearner

FEATURE_LAYOUTS = ("dense", "coo", "csr")
GRAPH_LAYOUTS = ("edges", "csr")
Layout = tuple[str, str]
DENSE_LIMIT = 50_000_000  # entries of a dense feature matrix that is still tried


class PyGNetwork(nn.Module):
    """Two layers on the very tensors that the library's own model trains on.

    Args:
        kind: ``gcn`` or ``appnp``, as in the papers.
        learner: of the library's model: features as they are scaled there, training and validation nodes.
        width: of the hidden layer.
        dropout: on the input and on the hidden layer.
        weight_decay: of the first layer.
        layout: of the features and of the graph.
    """

    def __init__(
        self,
        kind: Literal["gcn", "appnp"],
        learner: GraphLearner,
        edge_index: Tensor,
        classes: int,
        *,
        width: int,
        dropout: float,
        weight_decay: float,
        layout: Layout,
        seed: int = 0,
    ) -> None:
        from torch_geometric.nn import APPNP, GCNConv

        super().__init__()
        torch.manual_seed(seed)  # PyG draws weights and masks from the global stream
        self.learner, self.rate, self.decay, self.layout = learner, dropout, weight_decay, layout
        features = learner.inputs.features
        self.features = _in_layout(features, layout[0])
        nodes, inputs = features.shape
        self.graph = edge_index if layout[1] == "edges" else _adjacency(edge_index, nodes)
        self.spread: Callable[..., Tensor] | None = None
        if kind == "gcn":
            self.first, self.second = GCNConv(inputs, width, cached=True), GCNConv(width, classes, cached=True)
        else:
            self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, classes)
            self.spread = APPNP(K=10, alpha=0.1, cached=True)

    def forward(self) -> Tensor:
        x = dropped(self.features, self.rate) if self.training else self.features
        if self.spread is None:
            hidden = functional.dropout(torch.relu(self.first(x, self.graph)), self.rate, self.training)
            return self.second(hidden, self.graph)
        hidden = functional.dropout(torch.relu(self.first(x)), self.rate, self.training)
        return self.spread(self.second(hidden), self.graph)

    def loss(self, epoch: int) -> Tensor:
        self.train()
        return functional.cross_entropy(self()[self.learner.train], self.learner.train_labels)

    def probs(self) -> Tensor:
        self.eval()
        with torch.no_grad():
            return torch.softmax(self(), -1)

    def validation_probs(self) -> Tensor:
        return self.probs()[self.learner.val]

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [
            {"params": list(self.first.parameters()), "weight_decay": self.decay},
            {"params": list(self.second.parameters()), "weight_decay": 0.0},
        ]


def fastest_layout(make: Callable[[Layout], PyGNetwork], epochs: int = 4) -> tuple[Layout, dict[str, float]]:
    """The layout in which the peer's epoch takes the least CPU time, and the times of all, in seconds."""
    found: dict[Layout, float] = {}
    for layout in itertools.product(FEATURE_LAYOUTS, GRAPH_LAYOUTS):
        try:
            network = make(layout)
        except _TooLarge:
            continue
        schedule = Schedule(1, 1, 0.01)
        seconds = []
        for _ in range(epochs):
            begin = time.process_time()
            train(network, schedule, network.learner.val_labels)
            seconds.append(time.process_time() - begin)
        found[layout] = min(seconds[1:] or seconds)
    best = min(found, key=lambda one: found[one])
    return best, {" × ".join(layout): round(seconds, 5) for layout, seconds in found.items()}


class _TooLarge(Exception):
    """Dense features that would not fit."""


def _in_layout(features: SparseMatrix | Tensor, layout: str) -> Tensor:
    entries = features.shape[0] * features.shape[1]
    if layout == "dense" and entries > DENSE_LIMIT:
        raise _TooLarge
    csr = features.csr() if isinstance(features, SparseMatrix) else None
    if layout == "dense":
        return features if csr is None else csr.to_dense()  # type: ignore[return-value]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse CSR tensor support is in beta.*")
        csr = features.to_sparse_csr() if csr is None else csr  # type: ignore[union-attr]
    return csr if layout == "csr" else csr.to_sparse_coo().coalesce()


def _adjacency(edge_index: Tensor, nodes: int) -> Tensor:
    """Undirected, so that it is its own transpose, which is what PyG wants."""
    ones = torch.ones(edge_index.shape[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse CSR tensor support is in beta.*")
        return (
            torch.sparse_coo_tensor(edge_index, ones, (nodes, nodes), check_invariants=False).coalesce().to_sparse_csr()
        )


def dropped(x: Tensor, rate: float) -> Tensor:
    """Dropout on stored entries, which in law is dropout on all."""
    if x.layout == torch.sparse_coo:
        values = functional.dropout(x.values(), rate)
        return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True, check_invariants=False)
    if x.layout == torch.sparse_csr:
        values = functional.dropout(x.values(), rate)
        return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, size=x.shape, check_invariants=False)
    return functional.dropout(x, rate)
