"""What the systems cost: seconds per epoch relative to a GCN in the same process, memory, measured from inside."""

from __future__ import annotations

import gc
import math
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from graphsde.base.errors import BadUsage
from graphsde.base.memory import give_back_free_memory
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.graph import Graph
from graphsde.models import GCN

MOST_EPOCHS = 500


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of this process and all its threads."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


class PeakMemory:
    """Highest resident memory above the level at entry, sampled every few milliseconds.

    Memory that the process has freed before is returned first, since reusing it would not be seen; short peaks
    may be missed: a lower bound.

    Example:
        >>> with PeakMemory() as peak:
        ...     block = bytearray(50_000_000)
        >>> peak.bytes > 10_000_000
        True
    """

    def __init__(self, every: float = 0.005) -> None:
        import psutil

        self._process = psutil.Process()
        self._every, self._stop = every, threading.Event()
        self.bytes = 0

    def __enter__(self) -> PeakMemory:
        gc.collect()
        give_back_free_memory()
        self._before = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._look()
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self._look()

    def _look(self) -> None:
        self.bytes = max(self.bytes, self._process.memory_info().rss - self._before)


class CostOptions(TaskOptions):
    """Options of :class:`Cost`.

    Args:
        rounds: measurements, alternating the model and the GCN; medians are reported.
        epochs: of the longer of two fits whose difference is used, so that set-up does not count.
        seconds: that this difference is to take: of fast systems the longer fit gets more epochs, up to 500, since
            what one fit takes more than the next for no reason is a few hundredths of a second.
        growth: also measure how the time of an epoch grows with ``nodes``, ``edges`` or ``steps`` on made graphs.
    """

    rounds: int = Field(3, ge=1, le=100)
    epochs: int = Field(12, ge=3, le=1000)
    seconds: float = Field(0.5, ge=0.0, le=60.0)
    growth: Literal["none", "nodes", "edges", "steps"] = "none"


class Cost(Task):
    """CPU seconds per epoch, the same over a GCN's (measured alternately), of a later prediction; peak memory.

    ``epoch_seconds`` is training alone; ``epoch_seconds_validated`` has the looks at the validation nodes in it, as
    often and with as many paths as a fit takes, which is what an epoch of a real fit costs.

    With ``growth`` the exponent of the growth in nodes, edges or steps is fitted on a log-log scale: 1 is linear.
    """

    name = "cost"
    summary = (
        "seconds per epoch, without and with validation, relative to a GCN, seconds per prediction, memory, growth"
    )
    version = 3
    Options = CostOptions
    options: CostOptions
    headline = (
        "epoch_seconds",
        "epoch_over_gcn",
        "epoch_seconds_validated",
        "epoch_over_gcn_validated",
        "predict_seconds",
        "peak_bytes",
    )

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        return None  # it times fits

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        if self.options.growth != "none":
            return self._growth(make)
        timers = {
            f"{name}{word}": self._timer(maker, graph, validated)
            for word, validated in (("", False), ("_validated", True))
            for name, maker in (("epoch_seconds", make), ("gcn_epoch_seconds", partial(GCN, seed=seed)))
        }
        curves: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(self.options.rounds):
            for name, timer in timers.items():
                curves[name].append(timer())
        seconds = {name: statistics.median(measured) for name, measured in curves.items()}
        ratios = {
            f"epoch_over_gcn{word}": seconds[f"epoch_seconds{word}"] / seconds[f"gcn_epoch_seconds{word}"]
            for word in ("", "_validated")
        }
        with PeakMemory() as peak:
            model = make(**epochs_of(make, 2)).fit(graph)
        self.predict(model, graph)  # what the first one builds is kept
        predicted = [cpu_seconds(lambda: self.predict(model, graph)) for _ in range(self.options.rounds)]
        metrics = {
            **seconds,
            **ratios,
            "predict_seconds": statistics.median(predicted),
            "peak_bytes": float(peak.bytes),
        }
        return Measurement(metrics, curves)

    def _timer(self, make: ModelMaker, graph: Graph, validated: bool = False) -> Callable[[], float]:
        """What measures the seconds of one epoch: a long training minus a short one, by the epochs between them."""
        short = 2

        def training(epochs: int) -> float:
            return cpu_seconds(lambda: make(**epochs_of(make, epochs, validated)).fit(graph))

        def epoch(long: int) -> float:
            return max(training(long) - training(short), 1e-9) / (long - short)

        first = epoch(max(short + 1, self.options.epochs // 3))
        wanted = short + math.ceil(self.options.seconds / first)
        return partial(epoch, max(self.options.epochs, min(wanted, MOST_EPOCHS)))

    def _growth(self, make: ModelMaker) -> Measurement:
        sizes = {"nodes": (2000, 4000, 8000, 16000), "edges": (5, 10, 20, 40), "steps": (5, 10, 20, 40)}
        axis, values, seconds = self.options.growth, sizes[self.options.growth], []
        for value in values:
            graph = synthetic(value if axis == "nodes" else 4000, degree=float(value) if axis == "edges" else 5.0)
            graph = self.prepare(graph, 0)
            changed = partial(make, steps=value) if axis == "steps" else make
            timer = self._timer(changed, graph)
            seconds.append(statistics.median(timer() for _ in range(self.options.rounds)))
        exponent = float(np.polyfit(np.log(values), np.log(seconds), 1)[0])
        return Measurement({f"exponent_{axis}": exponent}, {axis: [float(v) for v in values], "epoch_seconds": seconds})


def epochs_of(make: ModelMaker, count: int, validated: bool = False) -> dict[str, Any]:
    """Settings that make a training exactly ``count`` epochs long, with or without its looks at validation nodes."""
    model = make()
    wanted: dict[str, Any] = {"epochs": count, "early_stop": validated}
    if validated:
        wanted["patience"] = count
    # members that race each other are trained side by side for a while: their epochs are not those of the model
    settings = model.training_settings(**wanted, race=False) or model.training_settings(**wanted)
    if settings is None:
        raise BadUsage(f"{model.name} is not trained in epochs", code="E-SETTING", fix="leave out this model")
    return settings
