"""How much memory there is, and a clear error before it runs out."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphsde.base.errors import BadUsage, NotEnoughMemory

if TYPE_CHECKING:
    import torch

LIMIT_VARIABLE = "GRAPHSDE_MEMORY_LIMIT"
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([KMGT])(iB|B|)", re.IGNORECASE)
_limit: int | None = None
LARGE_PIECE = 1 << 23
"""Bytes: above the blocks that products and encoders work in, which come and go all the time."""


def parse_bytes(text: str) -> int:
    """An amount of memory with its unit: ``G`` and ``GiB`` are 2³⁰ bytes, ``GB`` is 10⁹.

    Example:
        >>> parse_bytes("512M"), parse_bytes("1.5GiB"), parse_bytes("2 GB")
        (536870912, 1610612736, 2000000000)
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise BadUsage(
            f"{text!r} is not an amount of memory", found=text, expected="a number and a unit, such as 512M or 2G"
        )
    number, letter, end = found.groups()
    return int(float(number) * UNITS[letter.upper() + ("B" if end.upper() == "B" else "")])


@contextmanager
def within_memory(limit: int | str | None) -> Iterator[None]:
    """Limit the anonymous memory of this process inside the block, in bytes or as ``"2G"``; ``None`` changes
    nothing.

    Computations keep to the limit by their own estimates: they use smaller blocks or files, or
    refuse to start. It is not enforced.

    Example:
        >>> with within_memory("2G"):
        ...     available_bytes() < 2**31
        True
    """
    global _limit  # of the whole process, like its memory, and so of all its threads
    before = _limit
    if limit is not None:
        _limit = parse_bytes(limit) if isinstance(limit, str) else limit
        _give_back_large_pieces()
    try:
        yield
    finally:
        _limit = before


def memory_limit() -> int | None:
    """What :func:`within_memory` allows in all, in bytes; ``None`` outside."""
    return _limit


def anonymous_bytes() -> int:
    """Memory of this process that is not backed by files; all of its memory if the system does not distinguish them."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resident_bytes()


def available_bytes(device: torch.device | None = None) -> int:
    """Free memory of this machine or of a CUDA card; or what :func:`within_memory` leaves, or the value (in MiB) of
    ``GRAPHSDE_MEMORY_LIMIT``, whichever is smallest."""
    import psutil

    if device is not None and device.type == "cuda":
        import torch

        free = int(torch.cuda.mem_get_info(device)[0])
    else:  # Apple's GPU shares the memory of the machine
        free = int(psutil.virtual_memory().available)
        if _limit is not None:
            free = min(free, max(0, _limit - anonymous_bytes()))
    limit = os.environ.get(LIMIT_VARIABLE)
    if limit is None:
        return free
    try:
        return min(free, int(float(limit) * 2**20))
    except ValueError:
        raise BadUsage(f"{LIMIT_VARIABLE} is {limit!r}", expected="a number of MiB") from None


def resident_bytes() -> int:
    """Memory that this process uses now, libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """Peak memory of this process; its current memory if the system keeps no peak."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                # not from getrusage, which includes what a process held before it became this program
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
    """Raise :class:`NotEnoughMemory` if ``needed`` bytes are not available, on ``device`` if one is given."""
    free = available_bytes(device)
    if needed > free:
        where = f" on {device}" if device is not None and device.type == "cuda" else ""
        raise NotEnoughMemory(
            f"{purpose} would need about {human_bytes(needed)} of memory",
            expected=f"at most {human_bytes(free)}{where}",
            fix=fix,
        )


def give_back_free_memory() -> None:
    """Return freed memory to the system, if the C library can (glibc)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another libc, or none
        return
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    trim(0)


def share_one_arena() -> None:
    """Make new threads share one memory arena: threads that take turns would otherwise each keep what they
    have freed (glibc)."""
    _set_malloc({_ARENA_MAX: 1})


def _give_back_large_pieces() -> None:
    """From now on, freed pieces of :data:`LARGE_PIECE` and more go back to the system at once (glibc).

    By itself it comes to keep pieces of up to 32 MiB, with gaps between them that no other piece fits into: of 2.0 GiB
    that a wide state in parts took at a peak, 0.7 had been freed before.
    """
    # the end of the heap stays for a while: else it would come and go with every block
    _set_malloc({_MMAP_THRESHOLD: LARGE_PIECE, _TRIM_THRESHOLD: 8 * LARGE_PIECE})


def _set_malloc(parameters: dict[int, int]) -> None:
    try:
        set_parameter = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another libc, or none to ask
        return
    set_parameter.argtypes, set_parameter.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    for name, value in parameters.items():
        set_parameter(name, value)


_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of malloc.h


def human_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.1f} GB" if unit == "GB" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
