"""Label propagation: a baseline that uses edges and labels but no features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, Unpack

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from graphsde.base.errors import BadInput
from graphsde.base.interrupt import InterruptGuard
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.models.base import Estimate, Model, ModelSettings, register_model
from graphsde.models.options import LabelPropagationOptions
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.prediction import ClassPrediction, Perturb, Prediction


class LabelPropagationSettings(ModelSettings):
    """Settings of :class:`LabelPropagation`.

    Args:
        alpha: share taken from the neighbours in each step.
        steps: number of steps.
    """

    alpha: float = Field(0.9, ge=0, le=1)
    steps: int = Field(50, ge=0, le=100_000)


@register_model
class LabelPropagation(Model):
    r"""Known labels spread along the edges.

    Paper: Zhou et al., "Learning with local and global consistency", NeurIPS 2003.
    Formula: :math:`Y \leftarrow \alpha \hat A Y + (1-\alpha) Y_0`, training rows reset to their label after each step,
    rows normalised at the end. A node that no label reaches gets the class frequencies of the training nodes.

    On another graph the nodes whose ids were training nodes keep their labels; a graph without any is refused.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.LabelPropagation().fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "label-propagation"
    summary = "labels spread along edges, no features; deterministic, nothing to train"
    paper, year = "Zhou, Bousquet, Lal, Weston and Schölkopf, Learning with local and global consistency", 2003
    Settings = LabelPropagationSettings
    settings: LabelPropagationSettings

    def __init__(self, **settings: Unpack[LabelPropagationOptions]) -> None:
        super().__init__(**settings)
        self._known: dict[Any, int] = {}

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        self.resolve(graph)
        require_trainable(graph, early_stop=False)
        assert graph.labels is not None and graph.train_mask is not None
        rows = np.flatnonzero(graph.train_mask)
        self._known = dict(zip(graph.node_ids[rows].tolist(), graph.labels[rows].tolist(), strict=True))
        self.class_names, self.calibrator = graph.class_names, None
        return self

    @property
    def has_feature_gradient(self) -> bool:
        return False

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        names = self._require_fitted()
        self._refuse_perturbation(perturb)
        self._check_classes(graph)
        ids = graph.node_ids.tolist()
        rows = np.array([row for row, node in enumerate(ids) if node in self._known], dtype=np.int64)
        if not rows.size:
            raise BadInput(
                "none of the training nodes is in this graph, so there are no labels to spread",
                code="E-NO-LABELS",
                fix="predict on a graph that contains training nodes, or use a model with features",
            )
        source = np.zeros((graph.num_nodes, len(names)))
        source[rows, [self._known[ids[row]] for row in rows]] = 1.0
        operator = graph.adjacency.normalized.astype(np.float64)
        spread = source.copy()
        for _ in range(self.settings.steps):
            spread = self.settings.alpha * (operator @ spread) + (1 - self.settings.alpha) * source
            spread[rows] = source[rows]
        total = spread.sum(axis=1, keepdims=True)
        frequency = np.bincount(list(self._known.values()), minlength=len(names)) / len(self._known)
        probs = np.where(total > 0, spread / np.where(total > 0, total, 1.0), frequency)
        return self._calibrated(ClassPrediction(probs[None], graph.node_ids, names, "deterministic"), graph)

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        return Estimate(8 * graph.num_nodes * graph.num_classes * 4 + 12 * graph.num_edges, 0.0, 0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        labels = torch.tensor(list(self._known.values()), dtype=torch.int64)
        return {"labels": labels}, {"node_ids": list(self._known)}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._known = dict(zip(values["node_ids"], tensors["labels"].tolist(), strict=True))
