"""What a fit takes: the arithmetic of time and memory by a clock of our own, and the peak against a real process."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphsde as gs
from graphsde.base import memory
from graphsde.base.errors import NotEnoughMemory
from graphsde.graph.graph import Graph
from graphsde.models import MODELS
from graphsde.models.cost import Rehearsed, seconds_of
from graphsde.models.race import epochs_of_race
from graphsde.nn import training
from graphsde.nn.settings import TrainSettings
from graphsde.nn.training import Rehearsal, Validation, rehearse
from graphsde.runs import fit as runs

from support import block_graph

ROOT = Path(__file__).resolve().parents[2]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(training.time, "perf_counter", lambda: self.now)


class Timed:
    """A learner whose epochs take as long as they are told to."""

    def __init__(self, clock: Clock, steps: list[float], looks: list[float]) -> None:
        self.clock, self.steps, self.looks = clock, list(steps), list(looks)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.epochs: list[int] = []

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.weight]}]

    def loss(self, epoch: int) -> Tensor:
        self.epochs.append(epoch)
        self.clock.now += self.steps.pop(0)
        return self.weight.sum()

    def validate(self, epoch: int) -> Validation | None:
        self.clock.now += self.looks.pop(0)
        return None

    def tensors(self) -> dict[str, Tensor]:
        return {"weight": self.weight}

    def generators(self) -> dict[str, torch.Generator]:
        return {}


def test_the_last_epoch_is_rehearsed_and_the_first_try_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Timed(Clock(monkeypatch), [4.0, 1.0, 2.0], [0.9, 0.25, 0.5])
    found = rehearse(learner, TrainSettings(epochs=101, evaluate_every=10), validate=True)
    assert learner.epochs == [101] * 3  # terms that begin late are part of it
    assert found == Rehearsal(2.0, 0.5, 101 * 2.0 + 11 * 0.5)


def test_few_epochs_are_rehearsed_less_and_long_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Timed(Clock(monkeypatch), [4.0, 1.0, 2.0], [])
    assert rehearse(few, TrainSettings(epochs=10), validate=False).seconds == 10.0
    long = Timed(Clock(monkeypatch), [6.0, 1.0], [1.0, 1.0])
    assert rehearse(long, TrainSettings(epochs=100), validate=True).seconds == 700.0
    assert len(few.epochs) == 2 and len(long.epochs) == 1


def test_a_race_is_counted_as_if_the_slowest_went_through_all_of_it() -> None:
    def member(step: float, after: float, epochs: int = 200) -> Rehearsed:
        return Rehearsed(None, epochs, Rehearsal(step, 0.0, step * epochs), after)  # type: ignore[arg-type]

    assert seconds_of([member(0.1, 3.0)]) == pytest.approx(23.0)
    four = [member(0.1, 3.0), member(0.2, 1.0), member(0.1, 30.0), member(0.1, 0.0)]
    assert epochs_of_race(4, 200) == 3 * 50 + 1 * 50
    assert seconds_of(four) == pytest.approx(max(20 + 30, 40 + 1) + 200 * 0.2)


def test_late_terms_prediction_and_samples_are_in_the_estimate() -> None:
    """Consistency begins at epoch 6: an epoch with it is what is rehearsed."""
    graph, asked = block_graph(), []
    model = gs.LGNSDE(preset="universal", epochs=9, seed=1)

    class Watched(model.Learner):  # type: ignore[name-defined,misc]
        def loss(self, epoch: int) -> Tensor:
            asked.append(epoch)
            return super().loss(epoch)

    model.Learner = Watched  # type: ignore[misc]
    model.estimate(graph)
    assert set(asked) == {9} and model.settings.consistency.begin <= 9


@pytest.mark.parametrize("name", ["gcn", "lgnsde", "gpn", "bgcn", "gkde", "mlp"])
def test_an_estimate_leaves_no_trace(name: str) -> None:
    graph = block_graph()
    fresh, estimated = (MODELS.get(name)(epochs=3, seed=2) for _ in range(2))
    before = copy.deepcopy(estimated._given)
    found = estimated.estimate(graph, samples=5)
    assert estimated._given == before and estimated.class_names is None and not estimated.history
    assert found.peak is not None and found.peak >= memory.resident_bytes() // 2 and found.seconds > 0
    one, other = (model.fit(graph).predict(graph, samples=4).probs for model in (fresh, estimated))
    assert np.array_equal(one, other)


def test_memory_grows_with_what_is_asked_for() -> None:
    def needed(nodes: int = 2_000, samples: int = 64, **settings: Any) -> int:
        graph = gs.split(gs.synthetic(nodes, features=16), "fractions")
        return gs.LGNSDE(preset="universal", **settings).needed_memory(graph, samples=samples)

    base = needed()
    assert needed(nodes=20_000) > 2 * base
    assert needed(hidden=512) > base
    assert needed(samples=6_400) > needed(samples=640) > base
    # draws cost nothing where none are made
    graph = gs.split(gs.synthetic(2_000), "fractions")
    assert gs.GCN().needed_memory(graph, samples=64) == gs.GCN().needed_memory(graph, samples=6_400)


def test_members_of_a_race_share_what_passes() -> None:
    graph = block_graph()
    alone, race = gs.GCN(epochs=3), gs.GCN(epochs=3, race=True)
    members = race._entrants(graph) if race.resolve(graph) is None else []
    assert len(members) > 2
    standing = [one.standing_memory(graph) for one in members]
    dearest = max(one.memory(graph) for one in members)
    assert dearest <= race.needed_memory(graph) <= dearest + sum(standing)
    assert alone.needed_memory(graph) < race.needed_memory(graph)


def test_too_large_a_fit_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_graph()
    monkeypatch.setenv(memory.LIMIT_VARIABLE, "10")
    monkeypatch.setattr(gs.GCN, "learner", lambda *_: pytest.fail("it was tried"))
    with pytest.raises(NotEnoughMemory) as caught:
        gs.GCN(epochs=3).estimate(graph)
    assert caught.value.code == "E-MEM"


def test_the_peak_of_a_process_is_seen() -> None:
    before = memory.peak_bytes()
    assert before >= memory.resident_bytes() > 10_000_000
    room = before - memory.resident_bytes() + 50_000_000
    held = np.ones(room, dtype=np.uint8)  # ones: pages of zeros are not there until somebody writes
    after = memory.peak_bytes()
    del held
    assert after >= before + 25_000_000 and memory.peak_bytes() > after - 5_000_000  # counted in batches


def test_a_run_also_covers_what_is_written(graph: Graph) -> None:
    model = gs.GCN(epochs=3)
    alone, run = model.estimate(graph), runs.estimate_run(model, graph, 4)
    assert run.peak is not None and alone.peak is not None
    assert run.peak >= memory.resident_bytes() + runs.LATE_LIBRARIES // 2
    without = gs.LabelPropagation()
    assert without.estimate(graph).peak is None and (runs.estimate_run(without, graph).peak or 0) > 0


@pytest.fixture
def graph() -> Graph:
    return block_graph()


def benchmark(patch: pytest.MonkeyPatch) -> Any:
    patch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("estimates", ROOT / "benchmarks" / "estimates.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("preset", ["auto", pytest.param("universal", marks=pytest.mark.slow)])
def test_the_estimate_is_within_thirty_percent_of_the_peak(monkeypatch: pytest.MonkeyPatch, preset: str) -> None:
    """In a fresh process, from its first import to the last file."""
    estimates = benchmark(monkeypatch)
    settings = {"preset": preset, "race": False} if preset == "auto" else {"preset": preset}
    row = estimates.measure("synthetic:10000", epochs=3, settings=settings)
    assert abs(row["memory_ratio"] - 1) <= estimates.WITHIN, row
