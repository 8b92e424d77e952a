"""The training loop that peers get: Adam, early stopping on validation NLL, the best epoch restored, as in ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import graphsde as gs


@dataclass(frozen=True)
class Schedule:
    """What both sides of a comparison are given."""

    epochs: int
    patience: int
    lr: float
    every: int = 1  # epochs between two looks at the validation nodes
    early_stop: bool = True

    def settings(self) -> dict[str, Any]:
        """The same for a model of the library."""
        return {
            "epochs": self.epochs,
            "patience": self.patience,
            "lr": self.lr,
            "evaluate_every": self.every,
            "early_stop": self.early_stop,
        }


class Network(Protocol):
    """A peer in torch."""

    def loss(self, epoch: int) -> Tensor: ...

    def validation_probs(self) -> Tensor:
        """Of the nodes of ``validation``.  # [n, C]"""

    def parameter_groups(self) -> list[dict[str, Any]]: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> Any: ...


def train(network: Network, schedule: Schedule, labels: Tensor) -> int:
    """Train to convergence; how many epochs that took.  # labels [n], of the validation nodes"""
    optimizer = torch.optim.Adam(network.parameter_groups(), lr=schedule.lr)
    best, best_epoch, kept = math.inf, 0, {}
    for epoch in range(1, schedule.epochs + 1):
        optimizer.zero_grad()
        network.loss(epoch).backward()
        optimizer.step()
        if epoch % schedule.every and epoch != schedule.epochs:
            continue
        with torch.no_grad():
            nll = float(functional.nll_loss(network.validation_probs().log(), labels))
        if not schedule.early_stop:
            continue
        if nll < best:
            best, best_epoch = nll, epoch
            kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        elif epoch - best_epoch >= schedule.patience:
            break
    if kept:
        network.load_state_dict(kept)
    return epoch


def test_accuracy(graph: gs.Graph, probs: np.ndarray) -> float:
    """Share of test nodes whose most probable class is theirs.  # probs [N, C]"""
    assert graph.test_mask is not None and graph.labels is not None
    rows = np.flatnonzero(graph.test_mask)
    return round(float((probs[rows].argmax(-1) == graph.labels[rows]).mean()), 4)
