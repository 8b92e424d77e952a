"""What a process has taken of the machine: memory and page faults, as the system counts them (Linux)."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

MEBIBYTE = 2**20


def forget_the_peak() -> None:
    """The peak of the resident set counts from now on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def resident(field: str) -> int:
    """Bytes: ``VmRSS`` now, ``VmHWM`` at most."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


class Meter:
    """What this process takes from :meth:`start` on."""

    def start(self) -> None:
        forget_the_peak()
        self._before, self._begin = resource.getrusage(resource.RUSAGE_SELF), time.process_time()

    def read(self) -> dict[str, float]:
        """CPU seconds, those of the system among them, page faults, and the process's peak meanwhile."""
        seconds, now = time.process_time() - self._begin, resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": round(seconds, 5),
            "system_seconds": round(now.ru_stime - self._before.ru_stime, 5),
            "page_faults": now.ru_minflt - self._before.ru_minflt,
            "peak_bytes": resident("VmHWM"),
        }


def usage_of(work: Callable[[], object]) -> dict[str, float]:
    """A :class:`Meter`'s reading after ``work``."""
    meter = Meter()
    meter.start()
    work()
    return meter.read()
