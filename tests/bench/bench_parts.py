"""Tasks for the tests of benches: quick, deterministic, and troublesome on request. Loaded as a plugin by workers."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from graphsde.base.errors import Diverged
from graphsde.base.seeds import numpy_stream
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, register_task
from graphsde.graph.graph import Graph


class TinyOptions(TaskOptions):
    """A value that changes the answer, and a file: while it is there, the last seed's cells don't end."""

    shift: float = 0.0
    gate: str = ""
    last: int = 0


def answer(make: ModelMaker, graph: Graph, seed: int, shift: float = 0.0) -> Measurement:
    model = make()
    values = numpy_stream(seed, model.name, graph.fingerprint).normal(size=3) + shift
    metrics = {"accuracy": values[0], "nll": np.float32(values[1]), "undefined": math.nan, "n_test": 9}
    return Measurement(metrics, {"curve": values.tolist()})


@register_task
class Tiny(Task):
    """Random numbers that depend on model, graph and seed alone."""

    name, summary, version = "tiny", "random numbers", 1
    headline = ("accuracy", "nll")
    Options = TinyOptions
    options: TinyOptions

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        while self.options.gate and seed == self.options.last and os.path.exists(self.options.gate):
            time.sleep(0.01)
        print("words that must not reach the protocol")
        return answer(make, graph, seed, self.options.shift)


class TroubleOptions(TaskOptions):
    """Where cells count their attempts."""

    folder: str = ""


@register_task
class Trouble(Task):
    """A cell whose seed has an entry in :attr:`PLANS` fails in that way as often as it says, then answers."""

    name, summary = "trouble", "cells that die"
    headline = ("accuracy",)
    Options = TroubleOptions
    options: TroubleOptions
    PLANS: ClassVar[dict[int, tuple[str, int]]] = {
        0: ("killed", 1),
        1: ("killed", 1),
        2: ("killed", 99),
        3: ("numpy-memory", 99),
        4: ("torch-memory", 99),
        5: ("growth", 99),
        6: ("hung", 99),
        7: ("time", 99),
        8: ("error", 99),
        9: ("diverged", 99),
        10: ("left", 1),
        14: ("endless", 99),
    }

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        plan, times = self.PLANS.get(seed, ("", 0))
        if self._begin(seed) <= times:
            misbehave(plan)
        return answer(make, graph, seed)

    def _begin(self, seed: int) -> int:
        """The number of this attempt."""
        path = Path(self.options.folder) / f"attempts-{seed}"
        with open(path, "a") as stream:
            stream.write(f"{os.getpid()}\n")
        return len(path.read_text().splitlines())


def misbehave(plan: str) -> None:
    if plan == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    elif plan == "numpy-memory":
        np.ones(1 << 55)
    elif plan == "torch-memory":
        torch.ones(1 << 55)
    elif plan == "growth":
        # never touched, so that the machine does not feel it; the limit of the process does
        blocks = []
        while len(blocks) < 10_000:
            blocks.append(np.empty(1 << 27))
    elif plan == "hung":
        time.sleep(600)
    elif plan in ("time", "endless"):
        if plan == "time":  # all of a limit that is generous to its neighbours is used up
            signal.setitimer(signal.ITIMER_PROF, 0.1, 1.0)
        while True:
            sum(range(1000))
    elif plan == "error":
        raise ZeroDivisionError("\x1b[31mred")
    elif plan == "diverged":
        raise Diverged("the state is not finite")
    elif plan == "left":
        os._exit(3)
