"""Callbacks that watch training: one record per epoch, and its start and end; a progress bar."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphsde.base.terminal import make_console, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@dataclass(frozen=True)
class EpochRecord:
    """One epoch as it happened; ``val_nll`` and ``val_accuracy`` are ``None`` in epochs without validation."""

    epoch: int
    loss: float
    val_nll: float | None
    val_accuracy: float | None
    best: bool
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Callback:
    """Watches training. Override what you need; the default does nothing.

    Example:
        >>> class Print(Callback):
        ...     def on_epoch(self, record):
        ...         print(record.epoch, record.loss)
    """

    def on_start(self, epochs: int, first: int) -> None:
        """``epochs`` in total, starting with ``first`` (1, or later if training is resumed)."""

    def on_epoch(self, record: EpochRecord) -> None: ...

    def on_note(self, text: str) -> None:
        """Something worth a line, such as how a race stands."""

    def on_race(self, done: int, total: int) -> None:
        """Progress of a race, in epochs of all its members; at the end ``done`` is ``total``."""

    def on_end(self, best_epoch: int) -> None:
        """Called once the best epoch has been restored."""

    def on_failure(self) -> None:
        """Called when training ends with an error or an interruption."""


class ProgressBar(Callback):
    """Shows epoch, validation NLL and time left; silent if standard error is neither a terminal nor a notebook.

    Args:
        title: what is shown before the bar.

    Example:
        >>> import graphsde as gs
        >>> model = gs.GCN(epochs=5).fit(gs.load("digits"), callbacks=[gs.ProgressBar()])
    """

    def __init__(self, title: str = "fitting") -> None:
        self.title = title
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._best = float("inf")

    def on_start(self, epochs: int, first: int) -> None:
        self._open(self.title, epochs, first - 1)

    def on_race(self, done: int, total: int) -> None:
        if self._bar is None:
            self._open("race", total, done)
        elif self._task is not None:
            self._bar.update(self._task, completed=done)
        if done >= total:
            self._close()

    def _open(self, title: str, total: int, completed: int) -> None:
        if not _drawn():  # rich would draw nothing either, but its import takes as long as some fits
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=make_console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(printable(title), total=total, completed=completed, status="")
        self._bar.start()

    def on_epoch(self, record: EpochRecord) -> None:
        if self._bar is None or self._task is None:
            return
        if record.val_nll is not None:
            self._best = min(self._best, record.val_nll)
            status = f"val NLL {record.val_nll:.3f} (best {self._best:.3f})"
        else:
            status = f"loss {record.loss:.3f}"
        self._bar.update(self._task, completed=record.epoch, status=status)

    def on_note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(printable(text), highlight=False, markup=False)
        else:
            print(printable(text), file=sys.stderr, flush=True)

    def on_end(self, best_epoch: int) -> None:
        self._close()

    def on_failure(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


PROGRESS_VARIABLE = "GRAPHSDE_PROGRESS"
_FITTING: ContextVar[bool] = ContextVar("a fit that shows its progress, or not, as it likes", default=False)


@contextlib.contextmanager
def shown_progress(callbacks: Sequence[Callback], title: str) -> Iterator[Sequence[Callback]]:
    """``callbacks``, or a :class:`ProgressBar` if there are none and a person waits for the fit.

    A person waits in a notebook and in an interactive interpreter; ``GRAPHSDE_PROGRESS=on`` or ``off`` decides
    for any process. A fit inside another one shows nothing.
    """
    if callbacks or _FITTING.get() or not _watched():
        yield callbacks
        return
    token = _FITTING.set(True)
    try:
        yield [ProgressBar(title)]
    finally:
        _FITTING.reset(token)


def _drawn() -> bool:
    """Whether a bar on standard error can be seen; environment variables of rich take precedence."""
    if "ipykernel" in sys.modules or {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"} & set(os.environ):
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def _watched() -> bool:
    if (told := os.environ.get(PROGRESS_VARIABLE, "").lower()) in ("on", "off"):
        return told == "on"
    if "ipykernel" in sys.modules:
        return find_spec("ipywidgets") is not None  # what rich draws with there
    return hasattr(sys, "ps1") and sys.stderr.isatty()
