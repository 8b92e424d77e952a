"""Memory that a piece of work takes, seen from inside."""

from __future__ import annotations

import torch

from graphsde.bench.tasks.cost import PeakMemory, cpu_seconds

MEGABYTES = 120


def fill() -> None:
    """Many blocks that are too small to be mapped one by one: freed, they stay with the process."""
    blocks = [torch.ones(25_000) for _ in range(MEGABYTES * 10)]
    del blocks


def test_memory_that_was_used_before_counts_again() -> None:
    fill()
    with PeakMemory(every=0.001) as peak:
        blocks = [torch.ones(25_000) for _ in range(MEGABYTES * 10)]
    assert len(blocks) == MEGABYTES * 10
    assert peak.bytes > 0.8e6 * MEGABYTES


def test_seconds_are_those_of_the_processor() -> None:
    assert cpu_seconds(fill) > 0
