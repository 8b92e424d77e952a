"""What processor this is: without that, a time or a last digit means nothing on another machine."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from functools import cache
from pathlib import Path


def processor_name() -> str:
    """The processor as the system names it.

    Example:
        >>> len(processor_name()) > 0
        True
    """
    return processor_facts().get("model name") or platform.processor() or platform.machine()


@cache
def processor_facts() -> dict[str, str]:
    """The first processor's entries in Linux's list; on a Mac its name alone."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        pairs = (line.partition(":") for line in reversed(lines))
        return {name.strip(): value.strip() for name, _, value in pairs}
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        words = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return {"model name": subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()}
    return {}
