"""Gradients with respect to the features: perturbed features, and what changes a node's uncertainty."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional

from graphsde.base.errors import BadUsage
from graphsde.base.memory import require_memory
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import Features
from graphsde.prediction import Perturb

if TYPE_CHECKING:
    from graphsde.models.neural import Inputs, NeuralModel


def moved_features(model: NeuralModel, graph: Graph, inputs: Inputs, perturb: Perturb) -> Features:
    """See :class:`~graphsde.prediction.Perturb`; dense: the step reaches every column.  # [N, d]"""
    if model.target_kind != "classification":
        raise BadUsage("a perturbed prediction needs classes, and this model predicts numbers", code="E-TARGET")
    if not perturb.temperature > 0:
        raise BadUsage("a temperature must be positive", found=perturb.temperature, expected="a number above 0")
    if perturb.size == 0:
        return inputs.features

    def doubt(logits: Tensor) -> Tensor:
        tempered = logits / perturb.temperature
        return functional.cross_entropy(tempered, tempered.detach().argmax(-1), reduction="sum")

    dense, gradient = _gradient(model, graph, inputs, doubt)
    return dense - perturb.size * dense.std() * gradient.sign()


def entropy_gradient(model: NeuralModel, graph: Graph, inputs: Inputs, node: int) -> Tensor:
    """How the entropy of a node's central prediction changes with its own features, as the model sees them.  # [d]"""

    def entropy(logits: Tensor) -> Tensor:
        log_probs = functional.log_softmax(logits.double() / model.temperature_of_logits(), -1)
        return -(log_probs.exp() * log_probs).sum()

    own = _row(inputs.features, node).requires_grad_()
    with _constant(model), torch.enable_grad():
        logits = model.central_logits_at(inputs, graph, node, own)
        if logits is not None:
            return torch.autograd.grad(entropy(logits), own)[0]
    if isinstance(inputs.features, SparseMatrix):
        features = OneRow(inputs.features, node)
        with contextlib.suppress(_NoProduct):
            return _by(features.row, model, graph, replace(inputs, features=features), lambda all: entropy(all[node]))
    return _gradient(model, graph, inputs, lambda all: entropy(all[node]))[1][node]


def _row(features: Features, position: int) -> Tensor:
    """One row, dense, of its own memory.  # [d]"""
    if isinstance(features, Tensor):
        return features[position].clone()
    own = slice(int(features.crow[position]), int(features.crow[position + 1]))
    row = features.values.new_zeros(features.shape[1])
    return row.index_add_(0, features.col[own], features.values[own])


class _NoProduct(Exception):
    """A model uses its features in a way that only a constant matrix supports."""


class OneRow(SparseMatrix):
    """A sparse matrix with one dense, differentiable row: the others need no gradient memory.

    Args:
        matrix: the original.
        position: of the row.
    """

    def __init__(self, matrix: SparseMatrix, position: int) -> None:
        super().__init__(matrix.crow, matrix.col, matrix.values, matrix.shape)
        self.constant, self.position = matrix, position
        self.row = _row(matrix, position).requires_grad_()

    def __matmul__(self, dense: Tensor) -> Tensor:
        product = self.constant @ dense
        return product.index_copy(0, torch.tensor([self.position]).to(product.device), (self.row @ dense)[None])

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        raise _NoProduct

    to = with_values = csr = csr_transposed = transposed = times = _refuse


def _gradient(
    model: NeuralModel, graph: Graph, inputs: Inputs, loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Dense features and the gradient of a loss of the central logits with respect to them.  # [N, d], [N, d]"""
    dense = _dense(inputs.features).requires_grad_()
    gradient = _by(dense, model, graph, replace(inputs, features=dense), loss)
    return dense.detach(), gradient


def _by(variable: Tensor, model: NeuralModel, graph: Graph, inputs: Inputs, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The gradient of a loss of the central logits with respect to something in ``inputs``."""
    with _constant(model), torch.enable_grad():
        (gradient,) = torch.autograd.grad(loss(model.central_logits(inputs, graph)), variable)
    return gradient


@contextlib.contextmanager
def _constant(model: NeuralModel) -> Iterator[None]:
    """Inside, no one asks for a gradient of the model's parameters."""
    assert model.module is not None
    wanted = [parameter.requires_grad for parameter in model.module.parameters()]
    model.module.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, want in zip(model.module.parameters(), wanted, strict=True):
            parameter.requires_grad_(want)


def _dense(features: Features) -> Tensor:
    if not isinstance(features, SparseMatrix):
        return features.clone()
    rows, columns = features.shape
    require_memory(
        16 * rows * columns, "perturbing sparse features", "use a score that does not perturb, such as entropy"
    )
    return features.on(torch.device("cpu")).csr().to_dense().to(features.device)
