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


def usage_of(work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of ``work``, those of the system among them, its page faults, and the process's peak meanwhile."""
    forget_the_peak()
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    work()
    seconds, after = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(seconds, 5),
        "system_seconds": round(after.ru_stime - before.ru_stime, 5),
        "page_faults": after.ru_minflt - before.ru_minflt,
        "peak_bytes": resident("VmHWM"),
    }
