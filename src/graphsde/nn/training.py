"""The one training loop: early stopping on validation nodes, best epoch restored, resumable to the bit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadInput, BadUsage, Diverged
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.scratch import saves_in_files
from graphsde.base.world import world
from graphsde.graph.graph import Graph
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint, TrainState, optimizer_tensors, restore_optimizer, under
from graphsde.nn.optimizers import OPTIMIZERS, Optimizer
from graphsde.nn.over_parts import add_gradients, total
from graphsde.nn.settings import TrainSettings


@dataclass(frozen=True)
class Validation:
    """Metrics on the validation nodes; regression has no accuracy."""

    nll: float
    accuracy: float | None

    def key(self, select: Literal["nll", "accuracy"]) -> tuple[float, ...]:
        """What tells the better of two: it has the lower one.

        Example:
            >>> Validation(0.5, 0.8).key("accuracy") < Validation(0.4, 0.7).key("accuracy")
            True
        """
        if select == "nll":
            return (self.nll,)
        if self.accuracy is None:
            raise BadUsage("epochs can't be chosen by accuracy in regression", code="E-TARGET", fix="use select=nll")
        return (-self.accuracy, self.nll)


class RandomStream(Protocol):
    """A random stream whose state can be saved."""

    def get_state(self) -> Tensor: ...

    def set_state(self, state: Tensor) -> object: ...


class Learner(Protocol):
    """What the loop needs of a model in training.

    One with several steps per epoch also has ``losses(epoch)``, an iterator over the loss of each: the next one is
    requested after the optimiser has taken the previous step. One with remarks has ``notes()``, a list of sentences.
    """

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameters with their weight decay, in the form of torch's optimisers."""

    def loss(self, epoch: int) -> Tensor: ...

    def validate(self, epoch: int) -> Validation | None:
        """``None`` if there are no validation nodes."""

    def tensors(self) -> dict[str, Tensor]:
        """Live parameters and buffers by name: what "the best epoch" means."""

    def generators(self) -> Mapping[str, RandomStream]:
        """Random streams that training draws from, by name."""


def losses_of(learner: Learner, epoch: int) -> Iterator[Tensor]:
    """The loss of every step of an epoch, computed on demand."""
    several = getattr(learner, "losses", None)
    if several is not None:
        yield from several(epoch)
        return
    with saves_in_files(world().parts):
        loss = learner.loss(epoch)
    yield loss


@dataclass(frozen=True)
class TrainResult:
    records: list[EpochRecord]
    best_epoch: int
    stopped_early: bool
    momentum: dict[str, Tensor]
    """The optimiser's state after the last epoch, by the names of :func:`optimizer_tensors`."""


@dataclass
class _Best:
    """The best epoch so far; without a key none has been evaluated yet."""

    key: tuple[float, ...]
    epoch: int
    tensors: dict[str, Tensor]


def rows_of_masks(graph: Graph) -> tuple[Tensor, Tensor]:
    """Positions of the training nodes and of the validation nodes used to choose an epoch.  # [n], [m] int64"""
    assert graph.train_mask is not None
    val = np.zeros(graph.num_nodes, bool) if graph.val_mask is None else graph.val_mask & graph.familiar
    return torch.from_numpy(np.flatnonzero(graph.train_mask)), torch.from_numpy(np.flatnonzero(val))


LONG_REHEARSAL = 5.0
"""An epoch that takes longer than this is timed only once."""


@dataclass(frozen=True)
class Rehearsal:
    """Upper bound on the cost of training.

    Args:
        step: seconds of one epoch without validation.
        validation: seconds of one validation.
        seconds: of all epochs.
    """

    step: float
    validation: float
    seconds: float


def rehearse(learner: Learner, settings: TrainSettings, *, validate: bool) -> Rehearsal:
    """Time a few epochs, which leave ``learner`` changed.

    They use the loss of the last epoch, which includes terms that start late. The first one also
    includes one-time set-up, and counts only if it is long.
    """
    optimizer = OPTIMIZERS[settings.optimizer](learner.parameter_groups(), lr=settings.lr)
    steps, looks = [], []
    for _ in range(3 if settings.epochs >= 50 else 2):
        begin = time.perf_counter()
        optimizer.zero_grad()
        for loss in losses_of(learner, settings.epochs):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        steps.append(time.perf_counter() - begin)
        if validate:
            learner.validate(settings.epochs)
        looks.append(time.perf_counter() - begin - steps[-1])
        if steps[-1] + looks[-1] > LONG_REHEARSAL:
            break
    step, look = (max(times[1:] or times) for times in (steps, looks))
    often = math.ceil(settings.epochs / settings.evaluate_every) if validate else 0
    return Rehearsal(step, look, step * settings.epochs + look * often)


def train(
    learner: Learner,
    settings: TrainSettings,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    interrupt: InterruptGuard | None = None,
    momentum: dict[str, Tensor] | None = None,
) -> TrainResult:
    """Train ``learner`` and leave it at its best epoch.

    With a ``checkpoint`` that holds a state, training resumes from there and ends like an uninterrupted run.
    The last state stays in it: the caller clears it once the model is saved.
    ``momentum`` is the optimiser state of earlier training of the same parameters.
    """
    training = Training(learner, settings, momentum=momentum)
    if checkpoint is not None and (state := checkpoint.load()) is not None:
        training.restore(state)
    return training.complete(callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)


class Training:
    """Training that can run in pieces: however it is divided, it takes the same steps to the same result.

    Args:
        learner: what is trained.
        settings: how.
        momentum: the optimiser state of earlier training of the same parameters.
        notes: plain values that a checkpoint keeps besides the state.
    """

    def __init__(
        self,
        learner: Learner,
        settings: TrainSettings,
        *,
        momentum: dict[str, Tensor] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        self.learner, self.settings, self.notes = learner, settings, notes or {}
        self.optimizer = OPTIMIZERS[settings.optimizer](learner.parameter_groups(), lr=settings.lr)
        self.records: list[EpochRecord] = []
        self.best = _Best((), 0, {})
        self.stopped = False
        self.told = 0  # records that callbacks have seen, here or before an interruption
        if momentum:
            restore_optimizer(self.optimizer, momentum)

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.records)

    @property
    def over(self) -> bool:
        return self.stopped or self.epoch >= self.settings.epochs

    def advance(self) -> EpochRecord:
        """One epoch."""
        epoch = self.epoch + 1
        record = _epoch(self.learner, self.optimizer, self.settings, epoch, self.best)
        self.records.append(record)
        self.stopped = self._out_of_patience(record)
        return record

    def _out_of_patience(self, record: EpochRecord) -> bool:
        """Only after the first validation."""
        return record.val_nll is not None and record.epoch - self.best.epoch >= self.settings.patience

    def complete(
        self,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> TrainResult:
        """Run all remaining epochs; then the learner is at its best one."""
        for callback in callbacks:
            callback.on_start(self.settings.epochs, self.told + 1)
            for note in getattr(self.learner, "notes", list)():
                callback.on_note(note)
        try:
            for record in self.records[self.told :]:  # epochs of a race, which callbacks have not seen one by one
                for callback in callbacks:
                    callback.on_epoch(record)
            while not self.over:
                record = self.advance()
                for callback in callbacks:
                    callback.on_epoch(record)
                if self.over:  # nothing left to stop or to redo
                    break
                interrupted = interrupt is not None and interrupt.received is not None
                if checkpoint is not None and (interrupted or checkpoint.due()):
                    checkpoint.save(self.state())
                if interrupt is not None and interrupt.received is not None:
                    raise Interrupted(interrupt.received)
        except BaseException:
            for callback in callbacks:
                callback.on_failure()
            raise
        if checkpoint is not None and self.epoch > self.told:
            checkpoint.save(self.state())
        self.to_best()
        for callback in callbacks:
            callback.on_end(self.best.epoch)
        return TrainResult(self.records, self.best.epoch, self.stopped, optimizer_tensors(self.optimizer))

    def to_best(self) -> None:
        """Put the best epoch's values into the learner."""
        _copy_into(self.learner.tensors(), self.best.tensors)

    def state(self) -> TrainState:
        tensors = {f"live.{name}": tensor for name, tensor in self.learner.tensors().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.tensors.items()}
        tensors |= {f"random.{name}": generator.get_state() for name, generator in self.learner.generators().items()}
        tensors |= optimizer_tensors(self.optimizer)
        values = {
            **self.notes,
            "epoch": self.epoch,
            "best_epoch": self.best.epoch,
            "records": [record.as_dict() for record in self.records],
        }
        return TrainState(tensors, values)

    def restore(self, state: TrainState) -> None:
        """Restore ``state``; one of another model, another graph or another program is refused."""
        try:
            self._restore(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            raise BadInput(
                f"the checkpoint does not match this model ({type(error).__name__})", code="E-CORRUPT", fix="delete it"
            ) from error

    def _restore(self, state: TrainState) -> None:
        _copy_into(self.learner.tensors(), under("live.", state.tensors))
        for name, generator in self.learner.generators().items():
            generator.set_state(state.tensors[f"random.{name}"])
        restore_optimizer(self.optimizer, state.tensors)
        self.records = [EpochRecord(**record) for record in state.values["records"]]
        self.best = _Best((), state.values["best_epoch"], under("best.", state.tensors))
        if 0 < self.best.epoch <= self.epoch and (nll := self.records[self.best.epoch - 1].val_nll) is not None:
            then = Validation(nll, self.records[self.best.epoch - 1].val_accuracy)
            self.best.key = then.key(self.settings.select)
        self.told = len(self.records)
        self.stopped = bool(self.records) and self._out_of_patience(self.records[-1])


def _epoch(learner: Learner, optimizer: Optimizer, settings: TrainSettings, epoch: int, best: _Best) -> EpochRecord:
    begin = time.perf_counter()
    optimizer.zero_grad()
    values = []
    for loss in losses_of(learner, epoch):
        values.append(float(total(loss.detach())))
        if not math.isfinite(values[-1]):
            raise Diverged(
                f"the training loss is {values[-1]} in epoch {epoch}",
                found=values[-1],
                fix="lower lr, or scale the features",
            )
        optimizer.zero_grad()
        loss.backward()
        add_gradients([one for group in optimizer.param_groups for one in group["params"]])
        optimizer.step()
        del loss  # free it before the next one is computed
    value = sum(values) / max(len(values), 1)
    validation = None
    if settings.early_stop and (epoch % settings.evaluate_every == 0 or epoch == settings.epochs):
        validation = learner.validate(epoch)
    improved = False
    if validation is not None:
        if not math.isfinite(validation.nll):
            raise Diverged(f"the validation NLL is {validation.nll} in epoch {epoch}", fix="lower lr")
        key = validation.key(settings.select)
        improved = not best.key or key < best.key
        if improved:
            best.key, best.epoch = key, epoch
            best.tensors = {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}
    elif not settings.early_stop:
        best.epoch = epoch  # the last epoch is kept: nothing to copy
    return EpochRecord(
        epoch=epoch,
        loss=value,
        val_nll=None if validation is None else validation.nll,
        val_accuracy=None if validation is None else validation.accuracy,
        best=improved,
        seconds=time.perf_counter() - begin,
    )


def _copy_into(live: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in saved.items():
            live[name].copy_(tensor)
