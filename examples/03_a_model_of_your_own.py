"""A model of your own in one short file: registered, listed, and held to the contract that all models keep.

Run: python examples/03_a_model_of_your_own.py
"""

from __future__ import annotations

from typing import Any

import torch

import graphsde as gs


class SmoothedSettings(gs.NeuralSettings):
    """Settings of :class:`Smoothed`.

    Args:
        hops: how often logits are averaged.
        weight_decay: on all weights.
    """

    hops: int = 2
    weight_decay: float = 5e-4


class SmoothedModule(torch.nn.Module):
    def __init__(self, width: int, classes: int, hops: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear, self.hops = gs.Linear(width, classes, generator), hops

    def forward(self, inputs: gs.Inputs, generator: torch.Generator | None = None) -> gs.Outputs:
        logits = self.linear(inputs.features)
        for _ in range(self.hops):
            logits = inputs.adjacency @ logits
        return gs.Outputs(logits)


@gs.register
class Smoothed(gs.NeuralModel):
    """A linear classifier whose logits are averaged over neighbours.

    Paper: Wu et al., "Simplifying graph convolutional networks", ICML 2019 (the idea, not its settings).
    """

    name, summary = "smoothed", "linear classifier, logits averaged over neighbours"
    paper, year = "Wu et al., Simplifying graph convolutional networks", 2019
    Settings = SmoothedSettings
    settings: SmoothedSettings

    def build(self, width: int, classes: int, generator: torch.Generator) -> torch.nn.Module:
        return SmoothedModule(width, classes, self.settings.hops, generator)

    def parameter_groups(self, module: torch.nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(module.parameters()), "weight_decay": self.settings.weight_decay}]


if __name__ == "__main__":
    print(f"{gs.testing.check_model(Smoothed, {'epochs': 5})} guarantees kept")
    graph = gs.load("digits")
    metrics = gs.evaluate(Smoothed(hops=1).fit(graph).predict(graph), graph)
    print(f"digits: {metrics['accuracy']:.1%} of {metrics['n_test']} test images are right")
