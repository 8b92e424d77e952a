"""The matrix products of one training epoch of a member of the default LGNSDE's family, and nothing else.

No implementation of that member is faster than these, in their shapes and as often: per path the encoder's two layers
with their gradients (masks differ from path to path, so nothing is shared), then every step's product with the graph
for all paths at once, forward and back. Products with few columns are made the way round that is faster. Draws,
activations, the loss and the optimiser are not among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphsde.graph.sparse import SparseMatrix
from graphsde.models.lgnsde.learner import LGNSDELearner
from graphsde.models.lgnsde.module import PerceptronEncoder
from graphsde.nn.layers import Features


@dataclass(frozen=True)
class Product:
    """``left @ right``, so many times an epoch."""

    what: str
    left: Features
    right: Tensor
    times: int

    def run(self) -> None:
        for _ in range(self.times):
            if isinstance(self.left, SparseMatrix):
                self.left.times(self.right)
            else:
                torch.mm(self.left, self.right)

    @property
    def multiplications(self) -> int:
        entries = self.left.nnz if isinstance(self.left, SparseMatrix) else self.left.numel()
        return self.times * entries * self.right.shape[1]


def products(learner: LGNSDELearner) -> list[Product]:
    """Of the epochs that cost most: those in which agreement is asked of all nodes."""
    module, settings = learner.module, learner.settings
    encoder = module.encoder
    if not isinstance(encoder, PerceptronEncoder) or settings.drift.name != "graph-filter" or not module.drift.linear:
        raise ValueError("products are listed for members with a perceptron as encoder and a plain filter as drift")
    if module.decoder is not None:
        raise ValueError("products are listed for members whose state is logits")
    generator = torch.Generator().manual_seed(0)

    def dense(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator)

    features, adjacency = learner.inputs.features, learner.inputs.adjacency
    nodes, inputs = features.shape
    first, second, paths = settings.encoder_width, module.width, settings.paths
    turned = features.transposed() if isinstance(features, SparseMatrix) else features.t()
    hidden, logits = dense(nodes, first), dense(nodes, second)
    state = dense(nodes, paths * second)
    return [
        Product("features × W₁", features, dense(inputs, first), paths),
        Product("hidden × W₂", dense(first, second).t(), hidden.t(), paths),
        Product("Â × state", adjacency, state, settings.steps),
        Product("Âᵀ × gradient", adjacency.transposed(), state, settings.steps),
        Product("gradient × W₂ᵀ", logits, dense(second, first), paths),
        Product("hiddenᵀ × gradient", logits.t(), hidden, paths),
        Product("featuresᵀ × gradient", turned, hidden, paths),
    ]


def products_of(learner: LGNSDELearner) -> Callable[[], None]:
    """All of them, once."""
    listed = products(learner)

    def run() -> None:
        for one in listed:
            one.run()

    return run
