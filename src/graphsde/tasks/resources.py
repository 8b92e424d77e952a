"""What a piece of work takes: CPU seconds and memory, measured from inside."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from types import TracebackType

from graphsde.memory import give_back_free_memory


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of this process and all its threads."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


class PeakMemory:
    """Highest resident memory above the level at entry, looked at every few milliseconds.

    Memory that the process has freed before is handed back first, as filling it again would not be seen; short peaks
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look()
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self._look()

    def _look(self) -> None:
        self.bytes = max(self.bytes, self._process.memory_info().rss - self._before)
