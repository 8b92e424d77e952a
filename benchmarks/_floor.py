"""What no implementation can be faster than: the matrix products of an epoch and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import torch
from _workload import Task

LAYERS = 2
EVALUATIONS_PER_STEP = 2  # SRA1


def products_of_an_epoch(task: Task, width: int, steps: int) -> Callable[[], None]:
    """All dense and sparse products of forward and backward, in the shapes and as often as an epoch needs them."""
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(task.nodes, width, generator=generator)
    weight = torch.randn(width, width, generator=generator)
    encoder = torch.randn(task.features.shape[1], width, generator=generator)
    decoder = torch.randn(width, task.classes, generator=generator)
    read = state[task.train]
    logits = read @ decoder
    adjacency, back = task.adjacency, task.adjacency.transposed()
    features, features_back = task.features, task.features.transposed()

    def run() -> None:
        features.times(encoder)
        features_back.times(state)
        for _ in range(EVALUATIONS_PER_STEP * steps * LAYERS):
            state @ weight
            adjacency.times(state)
            back.times(state)
            state @ weight.t()
            state.t() @ state
        read @ decoder
        logits @ decoder.t()
        read.t() @ logits

    return run
