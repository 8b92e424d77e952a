"""A model of your own in one short file: registered, listed, and held to the contract that all models keep.

Run: python examples/03_a_model_of_your_own.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import nn

import graphsde as gs
from graphsde.models.neural import Inputs, NeuralModel, NeuralSettings, Outputs
from graphsde.nn.layers import Linear
from graphsde.testing.models import MODEL_CHECKS, ModelCase


class SmoothedSettings(NeuralSettings):
    hops: int = Field(2, ge=0)
    weight_decay: float = Field(5e-4, ge=0)


class SmoothedModule(nn.Module):
    def __init__(self, width: int, classes: int, hops: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear, self.hops = Linear(width, classes, generator), hops

    def forward(self, inputs: Inputs, generator: torch.Generator | None = None) -> Outputs:
        logits = self.linear(inputs.features)
        for _ in range(self.hops):
            logits = inputs.adjacency @ logits
        return Outputs(logits)


@gs.register_model
class Smoothed(NeuralModel):
    """A linear classifier whose logits are averaged over neighbours.

    Paper: Wu et al., "Simplifying graph convolutional networks", ICML 2019 (the idea, not its settings).
    """

    name = "smoothed"
    summary = "linear classifier, logits averaged over neighbours"
    paper = "Wu et al., Simplifying graph convolutional networks"
    year = 2019
    Settings = SmoothedSettings
    settings: SmoothedSettings

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        return SmoothedModule(width, classes, self.settings.hops, generator)

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(module.parameters()), "weight_decay": self.settings.weight_decay}]


if __name__ == "__main__":
    case = ModelCase(lambda **settings: Smoothed(**{"epochs": 5, **settings}))
    for check in MODEL_CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            check(case, Path(folder))
    print(f"{len(MODEL_CHECKS)} promises kept")
    graph = gs.load("digits")
    metrics = gs.evaluate(Smoothed().fit(graph).predict(graph), graph)
    print(f"digits: {metrics['accuracy']:.1%} of {metrics['n_test']} test images are right")
