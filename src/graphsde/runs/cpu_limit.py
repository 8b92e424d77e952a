"""A limit on the processor time of a piece of work, kept inside the process that does it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class CellTimeout(BaseException):
    """The processor time of a cell is used up. No ``Exception``: model code that catches those must not catch it."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`CellTimeout` once the process has spent ``seconds`` of CPU inside; only in the main thread.

    It is raised again every second, since Python swallows exceptions in finalisers, and not while a module is being
    imported: one that was cut off in the middle would stay so for every later cell. Call :func:`lift_cpu_limit` after
    catching one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        if not _importing(frame):
            raise CellTimeout

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        lift_cpu_limit()
        signal.signal(signal.SIGPROF, before)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def lift_cpu_limit() -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
