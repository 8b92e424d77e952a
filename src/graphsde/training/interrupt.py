"""Ctrl-C and friends, taken between two epochs so that nothing is left half done."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self

from graphsde.errors import GraphsdeError


class Interrupted(GraphsdeError):
    """The user or the system asked to stop; what was reached is saved."""

    default_code = "E-INTERRUPTED"

    def __init__(self, number: int, fix: str | None = None) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}", fix=fix)

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return 128 + self.number


class InterruptGuard:
    """While it is open, the first signal is remembered instead of raised; a second one acts at once.

    Example:
        >>> with InterruptGuard() as guard:
        ...     guard.received is None
        True
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
