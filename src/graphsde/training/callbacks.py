"""What may watch a training: one record an epoch, and two moments around it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """One epoch as it happened; ``val_nll`` and ``val_accuracy`` are ``None`` where validation was not looked at."""

    epoch: int
    loss: float
    val_nll: float | None
    val_accuracy: float | None
    best: bool
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Callback:
    """Watches a training. Override what you need; the default does nothing.

    Example:
        >>> class Print(Callback):
        ...     def on_epoch(self, record):
        ...         print(record.epoch, record.loss)
    """

    def on_start(self, epochs: int, first: int) -> None:
        """``epochs`` in all, beginning with ``first`` (1, or later where a training is resumed)."""

    def on_epoch(self, record: EpochRecord) -> None: ...

    def on_end(self, best_epoch: int) -> None:
        """Called once the best epoch has been restored."""

    def on_failure(self) -> None:
        """Called when the training ends with an error or an interruption."""
