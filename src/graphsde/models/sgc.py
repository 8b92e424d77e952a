"""Simple graph convolution: logistic regression on features averaged over neighbours."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.memory import require_memory
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.neural import GraphLearner, Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.models.options import SGCOptions
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.layers import Features, Randomness, features_on, glorot
from graphsde.nn.training import Validation

# above this share of entries a dense product is smaller and faster
SPARSE_BELOW = 0.2


class SGCSettings(NeuralSettings):
    """Settings of :class:`SGC`; the defaults are the paper's, with its weight decay searched on validation nodes.

    Args:
        steps: K, how often features are averaged.
        weight_decay: on weight and bias.
    """

    steps: int = Field(2, ge=0, le=10_000)
    weight_decay: float = Field(1e-5, ge=0)
    lr: float = Field(0.2, gt=0, le=100)
    epochs: int = Field(100, ge=1, le=1_000_000)
    patience: int = Field(100, ge=1)


class SGCModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: SGCSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(width, classes, generator))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.steps = settings.steps

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        # X W is averaged rather than X: equal, and only as wide as there are classes
        logits = inputs.features @ self.weight
        for _ in range(self.steps):
            logits = inputs.adjacency @ logits
        return Outputs(logits + self.bias)

    def classify(self, averaged: Features) -> Tensor:
        """Logits of nodes whose features were averaged beforehand.  # [n, d] -> [n, C]"""
        return averaged @ self.weight + self.bias


class SGCLearner(GraphLearner):
    """The loss on averaged features that were computed beforehand."""

    def __init__(self, model: SGC, module: SGCModule, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        self.classify = module.classify
        rows = torch.cat([self.train, self.val]).cpu().numpy()
        averaged = averaged_features(encoder.transform(graph), graph.adjacency.normalized, model.settings.steps, rows)
        self.train_features = features_on(self.device, _as_features(averaged[: len(self.train)]))
        self.val_features = features_on(self.device, _as_features(averaged[len(self.train) :]))

    def loss(self, epoch: int) -> Tensor:
        return functional.cross_entropy(self.classify(self.train_features), self.train_labels)

    def validate(self, epoch: int) -> Validation | None:
        if not len(self.val):
            return None
        with torch.no_grad():
            logits = self.classify(self.val_features)
        return self.likelihood.validation(logits, self.val_labels)

    def validation_logits(self) -> Tensor:
        with torch.no_grad():
            return self.classify(self.val_features)[:, None]


@register_model
class SGC(NeuralModel):
    r"""Logistic regression on averaged features: :math:`Z = \hat A^K X W + b`.

    Paper: Wu et al., "Simplifying graph convolutional networks", ICML 2019.

    Deterministic. :math:`\hat A^K X` is computed once per fit and kept for training and validation nodes only, so that
    an epoch never uses the graph.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.SGC(epochs=3).fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "sgc"
    summary = "logistic regression on features averaged over neighbours; deterministic"
    paper, year = "Wu et al., Simplifying graph convolutional networks", 2019
    Settings = SGCSettings
    Module, Learner = SGCModule, SGCLearner
    settings: SGCSettings

    def __init__(self, **settings: Unpack[SGCOptions]) -> None:
        super().__init__(**settings)

    def memory(self, graph: Graph) -> int:
        encoder = FeatureEncoder.fit(graph, self.settings.scaling)
        return super().memory(graph) + (8 * graph.num_nodes * encoder.width if self.settings.steps else 0)


def averaged_features(
    features: np.ndarray | sp.csr_array, operator: sp.csr_array, steps: int, rows: np.ndarray
) -> np.ndarray | sp.csr_array:
    r"""Some rows of :math:`\hat A^K X`, sparse for as long as that pays off.

    Args:
        features: X, dense or sparse.  # [N, d]
        operator: Â.  # [N, N]
        steps: K.
        rows: positions of the rows wanted.  # [R]

    Returns:
        ``[R, d]``
    """
    if steps == 0:
        return features[rows]
    for step in range(steps):
        receivers = operator if step < steps - 1 else operator[rows]
        features = receivers @ (features if _stays_sparse(receivers, features) else _dense(features))
    return features


def _stays_sparse(receivers: sp.csr_array, features: Any) -> bool:
    if not sp.issparse(features):
        return False
    entries = np.diff(features.indptr).astype(np.float32)
    # a row of the product has at most as many entries as the rows it sums
    most = np.minimum(sp.csr_array(receivers.astype(bool)) @ entries, features.shape[1]).sum()
    return bool(most < SPARSE_BELOW * receivers.shape[0] * features.shape[1])


def _dense(features: Any) -> np.ndarray:
    rows, columns = features.shape
    fix = "use a model that propagates narrow layers, such as gcn, or fewer features"
    require_memory(8 * rows * columns, f"averaging {rows:,} × {columns:,} features", fix)
    return features.toarray() if sp.issparse(features) else features


def _as_features(matrix: np.ndarray | sp.csr_array) -> Features:
    if sp.issparse(matrix):
        return SparseMatrix.from_scipy(matrix)
    return torch.tensor(matrix)
