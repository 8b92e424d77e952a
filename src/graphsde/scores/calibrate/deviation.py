"""Deviations of numbers made right: one factor for all nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphsde.errors import BadInput
from graphsde.prediction import NumericPrediction
from graphsde.scores.calibrate.base import Calibrator, Surroundings, register_calibrator
from graphsde.scores.metrics.numeric import density_nll
from graphsde.scores.training_nodes import require_same_nodes

if TYPE_CHECKING:
    from graphsde.data.graph import Graph

NARROWEST, WIDEST = 0.05, 20.0


@register_calibrator
class Deviation(Calibrator):
    r"""Every predictive distribution stretched by one factor s around its mean: :math:`\sigma_i \to s\,\sigma_i`.

    Paper: Laves, Ihler, Fast, Kahrs and Ortmaier, "Well-calibrated regression uncertainty in medical imaging with deep
    learning", MIDL 2020. The factor minimises the NLL of the validation nodes; means stay as they are, and so do the
    shares of aleatoric and epistemic variance.
    """

    name = "deviation"
    summary = "for numbers: one factor on all standard deviations; means stay"
    paper = "Laves et al., Well-calibrated regression uncertainty in medical imaging with deep learning"
    year = 2020
    target = "numeric"

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.log_factor = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def factor(self) -> float:
        return float(self.log_factor.detach().exp())

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        raise NotImplementedError("numbers have no logits")

    def apply_to(self, prediction: Any, graph: Graph) -> Any:
        return prediction.widened(self.factor)


def fit_deviation(prediction: NumericPrediction, graph: Graph, nodes: np.ndarray | None = None) -> Deviation:
    """The factor that suits the validation nodes, or ``nodes``, best.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("diabetes")
        >>> fit_deviation(gs.GCN(epochs=5).fit(graph).predict(graph), graph).factor > 0
        True
    """
    from scipy.optimize import minimize_scalar

    require_same_nodes(prediction, graph)
    mask = graph.val_mask if nodes is None else np.asarray(nodes, dtype=bool)
    rows = np.array([], dtype=np.int64) if mask is None else np.flatnonzero(mask & graph.labelled)
    if not len(rows) or graph.values is None:
        raise BadInput(
            f"'{graph.name}' has no validation nodes with a value to fit a calibrator on",
            code="E-SPLIT-EMPTY",
            fix="use a split with validation nodes, or in Python name others (nodes=…)",
        )
    own, truth = prediction.subset(rows), graph.values[rows]
    found = minimize_scalar(
        lambda log_factor: density_nll(own.widened(math.exp(log_factor)), truth),
        bounds=(math.log(NARROWEST), math.log(WIDEST)),
        method="bounded",
    )
    calibrator = Deviation(0)
    with torch.no_grad():
        calibrator.log_factor.fill_(float(found.x))
    return calibrator.eval()
