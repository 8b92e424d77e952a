"""Fair times on a machine that is never quite alone: contenders in turns, CPU time, medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SHORTEST_TURN = 0.2  # seconds: a fast contender runs several times per turn, so that a cold cache does not decide


@dataclass(frozen=True)
class Times:
    """Seconds of one contender, one figure per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def as_dict(self) -> dict[str, float]:
        return {"median": self.median, "min": min(self.seconds), "max": max(self.seconds)}


def take_turns(
    contenders: Mapping[str, Callable[[], object]], rounds: int, *, clock: Callable[[], float] = time.process_time
) -> dict[str, Times]:
    """Every contender once per round, in changing order; the first round is thrown away."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            seconds[name].append(_one_turn(contenders[name], clock))
    return {name: Times(tuple(values[1:])) for name, values in seconds.items()}


def _one_turn(contender: Callable[[], object], clock: Callable[[], float]) -> float:
    """The median run of a turn."""
    runs: list[float] = []
    while sum(runs) < SHORTEST_TURN:
        begin = clock()
        contender()
        runs.append(clock() - begin)
    return statistics.median(runs)


def speedup(slow: Times, fast: Times) -> float:
    return round(slow.median / fast.median, 3)
