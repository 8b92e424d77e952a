"""Temperature scaling: one number for all nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphsde.scores.calibrate.base import Calibrator, Surroundings, register_calibrator


@register_calibrator
class Temperature(Calibrator):
    r"""All logits divided by one temperature: :math:`p = \mathrm{softmax}(z / T)`.

    Paper: Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017. Predicted classes
    stay the same for a model with one sample. With one parameter it hardly overfits; take it where validation nodes
    are few.
    """

    name = "temperature"
    summary = "one temperature for all nodes; keeps the ranking of classes, hardly overfits"
    paper = "Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks"
    year = 2017

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.log_temperature = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits / self.log_temperature.exp()

    @property
    def common_temperature(self) -> float:
        return float(self.log_temperature.detach().exp())


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that minimises the NLL of the mean probabilities over samples.  # [n, S, C], [n]

    Where every node is right the NLL falls without end as the temperature does, which would make certainty of n right
    answers. One wrong answer is added then, at a node like the average one, as in the rule of succession.
    """
    from scipy.optimize import minimize_scalar

    logits = logits.double()
    rows = torch.arange(len(labels))
    flawless = bool((torch.softmax(logits, -1).mean(1).argmax(-1) == labels).all())

    def nll(log_temperature: float) -> float:
        probs = torch.softmax(logits / math.exp(log_temperature), -1).mean(1)
        right = probs[rows, labels]
        loss = float(-right.clamp_min(1e-12).log().mean())
        return loss + float(-(1 - right).clamp_min(1e-12).log().mean()) / len(labels) if flawless else loss

    return math.exp(float(minimize_scalar(nll, bounds=(math.log(0.05), math.log(20.0)), method="bounded").x))
