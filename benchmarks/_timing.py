"""Fair times on a machine that is never quite alone: contenders in turns, CPU time, medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# seconds: a fast contender runs several times per turn, so that a cold cache does not decide
SHORTEST_TURN = 0.2


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
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    skip: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Times]:
    """Every contender once per round, in changing order; the first ``skip`` rounds are thrown away.

    ``rounds=0`` is for trials: each once, as short as possible.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    shortest = SHORTEST_TURN if rounds else 0.0
    rounds, skip = (rounds, skip) if rounds else (1, 0)
    for turn in range(rounds + skip):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            seconds[name].append(_one_turn(contenders[name], clock, shortest))
    return {name: Times(tuple(values[skip:])) for name, values in seconds.items()}


def _one_turn(contender: Callable[[], object], clock: Callable[[], float], shortest: float) -> float:
    """The median run of a turn."""
    runs: list[float] = []
    while not runs or sum(runs) < shortest:
        begin = clock()
        contender()
        runs.append(clock() - begin)
    return statistics.median(runs)


def speedup(slow: Times, fast: Times) -> float:
    return round(slow.median / fast.median, 3)
