"""Graph attention temperature scaling: a temperature for every node, from the node and its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.scores.calibrate.base import Calibrator, Surroundings, register_calibrator
from graphsde.seeds import torch_stream

HEADS = 8
LEAK = 0.2


@register_calibrator
class GATS(Calibrator):
    r"""A temperature per node that listens to the neighbours: :math:`p_i = \mathrm{softmax}(z_i / T_i)`.

    Paper: Hsu, Shen, Tomani and Cremers, "What makes graph neural networks miscalibrated?", NeurIPS 2022.

    .. math::
        T_i = T_0 + \frac1H \sum_h \mathrm{softplus}\Bigl(\omega\,\delta_i + \sum_{j \in N(i)} \alpha_{ij} \gamma_j
        \tau_j^h\Bigr), \quad \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}\Bigl(\tfrac{z_i^\top z_j}
        {\gamma_i \gamma_j}\Bigr)

    where N(i) holds i itself, :math:`\tau_j = \theta \tilde z_j` is linear in the node's logits rescaled to [0, 1] and
    sorted (so that it sees the shape of the distribution, not the classes), :math:`\delta_i` is the mean over N(i) of
    the difference in confidence, and :math:`\gamma` is a learned coefficient of training nodes, another of their
    neighbours, 1 elsewhere. Predicted classes stay the same for a model with one sample.

    Three choices are ours: logits are centred per node (softmax does not see the shift, the inner product does), with
    several samples the temperature is made from their mean and divides each of them, and the decay pulls towards a
    temperature of 1 for every node.
    """

    name = "gats"
    summary = "a temperature per node by attention over neighbours; keeps labels, wants some hundred validation nodes"
    paper = "Hsu, Shen, Tomani and Cremers, What makes graph neural networks miscalibrated?"
    year = 2022
    decay = 5e-3
    listens = True

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, trained)
        width = math.sqrt(6.0 / (classes + HEADS))
        uniform = torch.rand(classes, HEADS, generator=torch_stream(0, "gats"), dtype=torch.float64)
        self.shape_weight = nn.Parameter((2 * uniform - 1) * width)
        self.relative_confidence = nn.Parameter(torch.zeros((), dtype=torch.float64))
        # softplus(0) = ln 2: without attention the temperature is 1
        self.base = nn.Parameter(torch.tensor(1.0 - math.log(2.0), dtype=torch.float64))
        self.near_training = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits / self.temperatures(logits.mean(0), surroundings)[None, :, None]

    def resting_place(self) -> list[Tensor]:
        """The temperature 1 for every node; weights start at random only so that heads differ."""
        return [
            torch.zeros_like(start) if name == "shape_weight" else start
            for (name, _), start in zip(self.named_parameters(), super().resting_place(), strict=True)
        ]

    def temperatures(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        """One per node.  # [N, C] -> [N]"""
        receivers, senders = surroundings.receivers, surroundings.senders
        coefficient = torch.cat([self.near_training, self.near_training.new_ones(1)])[surroundings.distance]  # [N]
        low, high = logits.amin(-1, keepdim=True), logits.amax(-1, keepdim=True)
        shape = torch.sort((logits - low) / (high - low).clamp_min(1e-12), -1).values  # [N, C]
        own = (shape @ self.shape_weight) * coefficient[:, None]  # [N, H]

        scaled = logits / coefficient[:, None]
        alike = functional.leaky_relu((scaled[receivers] * scaled[senders]).sum(-1), LEAK)  # [E]
        attention = _softmax_over(alike, receivers, len(logits))
        heard = own.new_zeros(own.shape).index_add(0, receivers, attention[:, None] * own[senders])  # [N, H]

        confidence = torch.softmax(logits, -1).amax(-1)
        count = confidence.new_zeros(len(logits)).index_add(0, receivers, torch.ones_like(alike))
        others = confidence.new_zeros(len(logits)).index_add(0, receivers, confidence[senders]) / count
        relative = self.relative_confidence * (confidence - others)
        return functional.softplus(heard + relative[:, None]).mean(-1) + self.base.clamp_min(1e-2)


def _softmax_over(values: Tensor, group: Tensor, groups: int) -> Tensor:
    highest = values.new_full((groups,), float("-inf")).scatter_reduce(0, group, values.detach(), "amax")
    weight = torch.exp(values - highest[group])
    return weight / values.new_zeros(groups).index_add(0, group, weight)[group]
