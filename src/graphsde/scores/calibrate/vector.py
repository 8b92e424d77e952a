"""Vector scaling: a factor and an offset per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphsde.scores.calibrate.base import Calibrator, Surroundings, register_calibrator


@register_calibrator
class Vector(Calibrator):
    r"""Each class with its own factor and offset: :math:`p = \mathrm{softmax}(w \odot z + b)`.

    Paper: Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017. It can change
    predicted classes, and mends a model that favours some of them: take it where training was balanced and the graph
    is not. A weak pull towards :math:`w = 1, b = 0` keeps it finite where a class is told perfectly.
    """

    name = "vector"
    summary = "a factor and an offset per class; mends favoured classes, may change labels"
    paper = "Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks"
    year = 2017
    decay = 1e-3

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.factor = torch.nn.Parameter(torch.ones(classes, dtype=torch.float64))
        self.offset = torch.nn.Parameter(torch.zeros(classes, dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits * self.factor + self.offset
