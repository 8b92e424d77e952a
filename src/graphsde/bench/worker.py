"""A worker process: reads cells as lines of JSON and answers with outcomes as lines of JSON.

Started by the engine ``processes`` as ``python -m graphsde.bench.worker``; not meant to be run manually.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import BinaryIO


def main() -> None:
    # Ctrl-C reaches the whole process group; the parent decides what happens to its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders, answers = _take_streams()
    die_with_parent(int(sys.argv[1]))

    from graphsde.base.errors import GraphsdeError
    from graphsde.base.plugins import load_plugins

    try:
        load_plugins()
    except GraphsdeError as error:
        sys.exit(str(error))
    from graphsde.bench.cells import Cell
    from graphsde.bench.execute import run_cell

    limit_memory()
    _send(answers, {"ready": os.getpid()})
    for line in orders:
        order = json.loads(line)
        _send(answers, run_cell(Cell(**order["cell"]), order["cpu_seconds"]).as_dict())


def die_with_parent(parent: int) -> None:
    """Ask the system to end this process with its parent; on other systems than Linux the end of input does, later."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit("the parent is gone")


def limit_memory() -> None:
    """A cell that needs more memory than the machine has gets an error instead of being killed by the system.

    On Linux only: other systems have no such limit, or do not enforce it.
    """
    import psutil

    from graphsde.base.memory import available_bytes

    if not sys.platform.startswith("linux"):
        return
    import resource

    used = psutil.Process().memory_info().data
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + available_bytes()
    if hard == resource.RLIM_INFINITY or wanted < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes for ourselves; from now on printing goes to standard error and input is empty."""
    orders = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return orders, answers


def _send(answers: BinaryIO, message: dict[str, object]) -> None:
    answers.write(json.dumps(message, allow_nan=False).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
