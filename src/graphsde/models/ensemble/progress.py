"""How far the training of an ensemble has come: one file for finished members and the one in training."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphsde.models.base import Model
from graphsde.training.callbacks import EpochRecord
from graphsde.training.checkpoint import Checkpoint, TrainState

_CURRENT = "current."


class EnsembleProgress:
    """The ensemble's checkpoint, which holds finished members whole and the current member's training state.

    Args:
        checkpoint: the file; without one nothing is kept.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint = checkpoint
        state = None if checkpoint is None else checkpoint.load()
        state = TrainState() if state is None else state
        self.finished: list[dict[str, Any]] = state.values.get("finished", [])
        self.current_values: dict[str, Any] | None = state.values.get("current")
        self.current_tensors = without_prefix(state.tensors, _CURRENT)
        self.tensors = {name: tensor for name, tensor in state.tensors.items() if not name.startswith(_CURRENT)}

    def restore(self, number: int, member: Model, class_names: tuple[str, ...]) -> None:
        """Make ``member`` what it was when it had finished."""
        kept = self.finished[number]
        member.class_names, member.best_epoch = class_names, kept["best_epoch"]
        member.history = [EpochRecord(**record) for record in kept["history"]]
        member.restore(without_prefix(self.tensors, member_prefix(number)), kept["values"])

    def finish(self, number: int, member: Model) -> None:
        """Keep a member that has just been fitted."""
        if self.checkpoint is None:
            return
        tensors, values = member.state()
        self.tensors |= with_prefix(tensors, member_prefix(number))
        history = [record.as_dict() for record in member.history]
        self.finished.append({"values": values, "best_epoch": member.best_epoch, "history": history})
        self.save_current(TrainState(), None)

    def save_current(self, state: TrainState, values: dict[str, Any] | None) -> None:
        assert self.checkpoint is not None
        self.current_tensors, self.current_values = state.tensors, values
        tensors = self.tensors | with_prefix(state.tensors, _CURRENT)
        self.checkpoint.save(TrainState(tensors, {"finished": self.finished, "current": values}))

    def of_member(self) -> Checkpoint | None:
        """What the member in training takes for its own checkpoint."""
        return None if self.checkpoint is None else _MemberCheckpoint(self, self.checkpoint)

    def clear(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.clear()


class _MemberCheckpoint(Checkpoint):
    """A member's window into the ensemble's file."""

    def __init__(self, progress: EnsembleProgress, whole: Checkpoint) -> None:
        super().__init__(whole.path, whole.every)
        self.progress, self.whole = progress, whole

    def due(self) -> bool:
        return self.whole.due()

    def save(self, state: TrainState) -> None:
        self.progress.save_current(state, state.values)

    def load(self) -> TrainState | None:
        if self.progress.current_values is None:
            return None
        return TrainState(self.progress.current_tensors, self.progress.current_values)

    def clear(self) -> None:
        """Nothing yet: until the member is kept as finished, its last state is what a resumed run goes on from."""


def member_prefix(number: int) -> str:
    return f"member{number}."


def with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def without_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
