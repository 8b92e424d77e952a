"""The training loop on a problem whose answer is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage, Diverged
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.optimizers import Adam
from graphsde.nn.settings import TrainSettings
from graphsde.nn.training import Validation, train


class Parabola:
    """Minimise (x - 3)² with noise on the gradient; validation improves until x passes 2, then gets worse."""

    def __init__(self, seed: int = 0) -> None:
        self.x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        self.noise = torch.Generator().manual_seed(seed)
        self.poison_at: int | None = None

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.x]}]

    def loss(self, epoch: int) -> Tensor:
        wobble = torch.randn(1, generator=self.noise, dtype=torch.float64) * 0.1
        value = ((self.x - 3 + wobble) ** 2).sum()
        return value * float("nan") if epoch == self.poison_at else value

    def validate(self, epoch: int) -> Validation:
        return Validation(float(((self.x.detach() - 2) ** 2).sum()), 0.5)

    def tensors(self) -> dict[str, Tensor]:
        return {"x": self.x}

    def generators(self) -> dict[str, torch.Generator]:
        return {"noise": self.noise}


class Recorder(Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.records: list[EpochRecord] = []

    def on_start(self, epochs: int, first: int) -> None:
        self.calls.append(f"start {epochs} {first}")

    def on_epoch(self, record: EpochRecord) -> None:
        self.records.append(record)

    def on_end(self, best_epoch: int) -> None:
        self.calls.append(f"end {best_epoch}")

    def on_failure(self) -> None:
        self.calls.append("failure")


def test_the_best_epoch_is_restored_and_training_stops() -> None:
    learner, recorder = Parabola(), Recorder()
    result = train(learner, TrainSettings(epochs=500, lr=0.1, patience=7), callbacks=[recorder])
    best = min(recorder.records, key=lambda r: r.val_nll if r.val_nll is not None else 1e9)
    assert result.stopped_early
    assert result.best_epoch == best.epoch == len(recorder.records) - 7
    assert float((learner.x.detach() - 2) ** 2) == pytest.approx(best.val_nll, rel=1e-12)
    assert recorder.calls == ["start 500 1", f"end {best.epoch}"]


def test_without_early_stopping_the_last_epoch_is_kept() -> None:
    learner = Parabola()
    result = train(learner, TrainSettings(epochs=400, lr=0.1, early_stop=False))
    assert result.best_epoch == 400 and not result.stopped_early
    assert float(learner.x.detach()) == pytest.approx(3.0, abs=0.1)
    assert all(record.val_nll is None for record in result.records)


def test_validation_only_where_asked() -> None:
    result = train(Parabola(), TrainSettings(epochs=11, lr=0.01, evaluate_every=5))
    assert [r.epoch for r in result.records if r.val_nll is not None] == [5, 10, 11]


def test_a_loss_that_is_not_finite_is_an_error_that_names_the_epoch() -> None:
    learner, recorder = Parabola(), Recorder()
    learner.poison_at = 4
    with pytest.raises(Diverged, match="epoch 4"):
        train(learner, TrainSettings(epochs=10), callbacks=[recorder])
    assert recorder.calls[-1] == "failure"


class StopAt(Callback):
    def __init__(self, guard: InterruptGuard, epoch: int) -> None:
        self.guard, self.epoch = guard, epoch

    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == self.epoch:
            self.guard.received = 2


@pytest.mark.parametrize("stop", [1, 9, 23])
def test_an_interrupted_training_ends_where_the_undisturbed_one_does(tmp_path: Path, stop: int) -> None:
    settings = TrainSettings(epochs=40, lr=0.05, patience=1000)
    whole = Parabola()
    expected = train(whole, settings)

    guard = InterruptGuard()
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    with pytest.raises(Interrupted):
        train(Parabola(), settings, checkpoint=checkpoint, interrupt=guard, callbacks=[StopAt(guard, stop)])
    assert checkpoint.path.exists()

    resumed, recorder = Parabola(seed=99), Recorder()
    result = train(resumed, settings, checkpoint=checkpoint, callbacks=[recorder])
    assert recorder.calls[0] == f"start 40 {stop + 1}"
    assert torch.equal(resumed.x, whole.x)
    assert [r.loss for r in result.records] == [r.loss for r in expected.records]
    assert result.best_epoch == expected.best_epoch

    again, recorder = Parabola(seed=7), Recorder()  # a process that died after its training, before the model was safe
    assert train(again, settings, checkpoint=checkpoint, callbacks=[recorder]).best_epoch == expected.best_epoch
    assert torch.equal(again.x, whole.x) and not any(call.startswith("epoch") for call in recorder.calls)


def test_a_signal_in_the_last_epoch_stops_nothing() -> None:
    settings, guard = TrainSettings(epochs=5, lr=0.05, patience=1000), InterruptGuard()
    whole, disturbed = Parabola(), Parabola()
    train(whole, settings)
    train(disturbed, settings, interrupt=guard, callbacks=[StopAt(guard, 5)])
    assert guard.received is not None and torch.equal(disturbed.x, whole.x)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    from graphsde.base.errors import BadInput

    path = tmp_path / "state.safetensors"
    path.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00garbage!")
    with pytest.raises(BadInput, match=r"state\.safetensors is damaged"):
        train(Parabola(), TrainSettings(epochs=3), checkpoint=Checkpoint(path))


def test_nobody_loses_patience_before_looking() -> None:
    learner = Parabola()
    result = train(learner, TrainSettings(epochs=60, lr=0.1, patience=2, evaluate_every=5))
    looked = [record.epoch for record in result.records if record.val_nll is not None]
    assert looked and result.best_epoch in looked and result.stopped_early
    assert len(result.records) in looked  # ended right after a look
    assert float(learner.x.detach()) == pytest.approx(2, abs=0.5)


class SeveralSteps(Parabola):
    """Three losses an epoch, each at the place where the last step has led."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[float] = []

    def losses(self, epoch: int) -> Iterator[Tensor]:
        for target in (1.0, 2.0, 3.0):
            self.places.append(float(self.x.detach()))
            yield ((self.x - target) ** 2).sum()

    def notes(self) -> list[str]:
        return ["three steps an epoch"]


def test_a_learner_may_take_several_steps_an_epoch() -> None:
    heard: list[str] = []

    class Notes(Callback):
        def on_note(self, text: str) -> None:
            heard.append(text)

    learner = SeveralSteps()
    result = train(learner, TrainSettings(epochs=2, lr=0.1, early_stop=False), callbacks=[Notes()])
    # one optimiser goes along, each step by the gradient of its own loss alone
    x = torch.zeros(1, dtype=torch.float64)
    optimizer, expected = Adam([{"params": [x]}], lr=0.1), []
    for target in (1.0, 2.0, 3.0) * 2:
        expected.append(float(x))
        x.grad = 2 * (x - target)
        optimizer.step()
    assert learner.places == expected
    first = learner.places[:3]
    losses = [(x - target) ** 2 for x, target in zip(first, (1.0, 2.0, 3.0), strict=True)]
    assert result.records[0].loss == pytest.approx(sum(losses) / 3)
    assert heard == ["three steps an epoch"]
    assert {float(value) for name, value in result.momentum.items() if name.endswith("step")} == {6.0}


class Disagreeing(Parabola):
    """Validation NLL is best in epoch 3, accuracy in epochs 6 and 8, the later of which has the lower NLL."""

    nll = (3.0, 2.0, 1.0, 2.0, 3.0, 5.0, 6.0, 4.0, 7.0, 8.0, 9.0, 9.0)
    accuracy = (0.1, 0.2, 0.3, 0.3, 0.3, 0.5, 0.4, 0.5, 0.5, 0.4, 0.4, 0.4)

    def __init__(self) -> None:
        super().__init__()
        self.places: list[float] = []

    def validate(self, epoch: int) -> Validation:
        self.places.append(float(self.x.detach()))
        return Validation(self.nll[epoch - 1], self.accuracy[epoch - 1])


@pytest.mark.parametrize(("select", "kept", "marked"), [("nll", 3, [1, 2, 3]), ("accuracy", 8, [1, 2, 3, 6, 8])])
def test_the_epoch_that_is_kept_is_the_best_by_what_was_chosen(select: Any, kept: int, marked: list[int]) -> None:
    learner = Disagreeing()
    result = train(learner, TrainSettings(epochs=12, lr=0.1, patience=12, select=select))
    assert result.best_epoch == kept and [one.epoch for one in result.records if one.best] == marked
    assert float(learner.x.detach()) == learner.places[kept - 1]


def test_patience_is_lost_by_what_was_chosen() -> None:
    for select, epochs in (("nll", 6), ("accuracy", 11)):
        result = train(Disagreeing(), TrainSettings(epochs=12, lr=0.1, patience=3, select=select))  # type: ignore[arg-type]
        assert result.stopped_early and len(result.records) == epochs


@pytest.mark.parametrize("stop", [4, 6, 7])
def test_a_training_by_accuracy_is_resumed_with_what_was_best(tmp_path: Path, stop: int) -> None:
    settings, guard = TrainSettings(epochs=12, lr=0.1, patience=12, select="accuracy"), InterruptGuard()
    whole, checkpoint = Disagreeing(), Checkpoint(tmp_path / "state.safetensors")
    expected = train(whole, settings)
    with pytest.raises(Interrupted):
        train(Disagreeing(), settings, checkpoint=checkpoint, interrupt=guard, callbacks=[StopAt(guard, stop)])
    resumed = Disagreeing()
    result = train(resumed, settings, checkpoint=checkpoint)
    assert [one.best for one in result.records] == [one.best for one in expected.records]
    assert torch.equal(resumed.x, whole.x) and result.best_epoch == 8


def test_numbers_have_no_accuracy_to_choose_by() -> None:
    class Number(Parabola):
        def validate(self, epoch: int) -> Validation:
            return Validation(1.0, None)

    with pytest.raises(BadUsage, match="E-TARGET"):
        train(Number(), TrainSettings(epochs=3, select="accuracy"))
    assert train(Number(), TrainSettings(epochs=3)).best_epoch == 1
