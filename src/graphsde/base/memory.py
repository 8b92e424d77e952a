"""How much memory there is, and a refusal in words before it runs out."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from graphsde.base.errors import BadUsage, NotEnoughMemory

if TYPE_CHECKING:
    import torch

LIMIT_VARIABLE = "GRAPHSDE_MEMORY_LIMIT"


def available_bytes(device: torch.device | None = None) -> int:
    """Free memory of this machine or of a CUDA card, or the smaller figure (in MiB) that ``GRAPHSDE_MEMORY_LIMIT``
    sets."""
    import psutil

    if device is not None and device.type == "cuda":
        import torch

        free = int(torch.cuda.mem_get_info(device)[0])
    else:  # Apple's GPU shares the memory of the machine
        free = int(psutil.virtual_memory().available)
    limit = os.environ.get(LIMIT_VARIABLE)
    if limit is None:
        return free
    try:
        return min(free, int(float(limit) * 2**20))
    except ValueError:
        raise BadUsage(f"{LIMIT_VARIABLE} is {limit!r}", expected="a number of MiB") from None


def resident_bytes() -> int:
    """Memory that this process holds now, libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The most that this process has ever held; what it holds now where the system keeps no such count."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                # not of getrusage, which counts what a process held before it became this program
                if line.startswith("VmHWM:"):
                    return max(int(line.split()[1]) * 1024, resident_bytes())
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return resident_bytes()
    unit = 1 if sys.platform == "darwin" else 1024
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, resident_bytes())


def require_memory(needed: int, purpose: str, fix: str, device: torch.device | None = None) -> None:
    """Raise :class:`NotEnoughMemory` if ``needed`` bytes are not there, on ``device`` where one is given."""
    free = available_bytes(device)
    if needed > free:
        where = f" on {device}" if device is not None and device.type == "cuda" else ""
        raise NotEnoughMemory(
            f"{purpose} would take about {human_bytes(needed)}",
            expected=f"at most {human_bytes(free)}{where}",
            fix=fix,
        )


def give_back_free_memory() -> None:
    """Hand memory that the process has freed back to the system, where the C library can (glibc)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another libc, or none to ask
        return
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    trim(0)


def human_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.1f} GB" if unit == "GB" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
