"""Signals such as Ctrl-C: handled between two epochs, or at once except inside a block that must not be interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn, Self

from graphsde.base.errors import GraphsdeError


class Interrupted(GraphsdeError):
    """The user or the system asked to stop; progress so far is saved."""

    default_code = "E-INTERRUPTED"

    def __init__(self, number: int, fix: str | None = None) -> None:
        self.number = number
        super().__init__(f"interrupted by {signal.Signals(number).name}", fix=fix)

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return 128 + self.number


class _Handlers:
    """While open, it handles signals; the first one restores the previous handlers."""

    # Windows has no SIGHUP
    SIGNALS = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *raised: object) -> None:
        self._restore()

    def reclaim(self) -> None:
        """Reinstall our handlers after a library has replaced them with its own."""
        if self.received is None and self._previous:
            for number in self._previous:
                signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}


class InterruptGuard(_Handlers):
    """While open, the first signal is remembered instead of raised; a second one acts at once.

    Example:
        >>> with InterruptGuard() as guard:
        ...     guard.received is None
        True
    """

    def stop(self, number: int) -> NoReturn:
        """Act as if signal ``number`` had arrived, when there is nothing to finish first."""
        self.received = number
        raise Interrupted(number)


class StopNow(BaseException):
    """A signal asked to stop. Not an ``Exception``, so that code that catches errors of a cell does not swallow it."""


class Stopper(_Handlers):
    """While open, SIGINT, SIGTERM and SIGHUP raise :class:`StopNow` in the main thread; a second one acts as usual.

    Example:
        >>> with Stopper() as stopper:
        ...     with stopper.held():
        ...         pass  # a signal that arrives here is raised at the end of the block
        >>> stopper.received is None
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self._holding = 0

    def __enter__(self) -> Self:
        return super().__enter__() if threading.current_thread() is threading.main_thread() else self

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals until the end of the block; keep the block short."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
        if self.received is not None and not self._holding:
            raise StopNow

    def stop(self, number: int) -> NoReturn:
        """Act as if signal ``number`` had arrived; for libraries that handle signals themselves."""
        self.received = number
        raise StopNow

    def _take(self, number: int, frame: FrameType | None) -> None:
        super()._take(number, frame)
        if not self._holding:
            raise StopNow
