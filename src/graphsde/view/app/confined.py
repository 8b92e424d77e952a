"""Reading a visitor's files in a separate process, with limits, so that failures stay there.

``python -m graphsde.view.app.confined PATH`` reads a graph and prints one line of JSON: that it can be read, or the
error. The graph itself is not returned; the caller reads the files again, now that they are known to be
harmless.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError, NotEnoughMemory, StorageError, shorten
from graphsde.base.memory import available_bytes, human_bytes
from graphsde.io.read import read

MOST_SECONDS = 60
MOST_MEMORY = 4_000_000_000  # for a file of the largest size that the page accepts
_STARTING = 60  # seconds that a busy machine may need to start a process
_GRACE = 5
_COMMAND = [sys.executable, "-m", "graphsde.view.app.confined"]
_KINDS: dict[str, type[GraphsdeError]] = {
    kind.__name__: kind for kind in (BadInput, BadUsage, NotEnoughMemory, StorageError)
}


def check_readable(path: Path, *, seconds: int = MOST_SECONDS, memory: int = MOST_MEMORY) -> None:
    """Read the graph in ``path`` in another process.

    Args:
        path: a file or folder, as :func:`graphsde.io.read.read` takes it.
        seconds: of computing.
        memory: bytes beyond what the program itself uses; never more than the machine has free.

    Raises:
        GraphsdeError: as reading it raises; with the code ``E-UPLOAD`` if the process itself failed.
    """
    memory = min(memory, available_bytes())
    request = json.dumps({"path": str(path), "seconds": seconds, "memory": memory})
    try:
        done = subprocess.run(
            [*_COMMAND, request],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # threads would use up address space
            timeout=seconds + _STARTING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _ended(f"it took more than {seconds + _STARTING} seconds") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise _ended(_reason(done.returncode, seconds)) from None
    if "error" in answer:
        raise _KINDS.get(answer["kind"], GraphsdeError)(**answer["error"])


def _reason(code: int, seconds: int) -> str:
    if code == -getattr(signal, "SIGXCPU", 24):
        return f"it took more than {seconds} seconds"
    if code < 0:
        return f"its process was ended by signal {-code}, as when memory runs out"
    return f"its process ended with code {code}"


def _ended(reason: str) -> BadInput:
    return BadInput(
        f"reading the upload was stopped: {reason}",
        code="E-UPLOAD",
        expected="files that are read within a minute and the memory of this machine",
        fix="fit the graph from the command line: graphsde fit FOLDER --out RUN; the page shows the run",
    )


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The result of the process for a path, with its limits set."""
    confine(int(request["seconds"]), int(request["memory"]))
    try:
        read(str(request["path"]))
    except MemoryError:
        limit = human_bytes(int(request["memory"]))
        error = NotEnoughMemory(
            f"reading the upload takes more than {limit}", expected=f"at most {limit}", fix=_ended("").fix
        )
        return {"kind": "NotEnoughMemory", "error": error.as_dict()}
    except GraphsdeError as error:
        return {"kind": type(error).__name__, "error": error.as_dict()}
    except Exception as error:
        message = f"reading the upload failed: {shorten(f'{type(error).__name__}: {error}')}"
        return {"kind": "GraphsdeError", "error": GraphsdeError(message, fix="this is a bug in graphsde").as_dict()}
    return {}


def confine(seconds: int, memory: int) -> None:
    """Limit what this process may still use; a system without such limits (Windows) relies on the caller's timeout."""
    import psutil

    # load everything that reading needs first, so that the limit applies to the files
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from graphsde.io import graphml, npz, tables  # noqa: F401

    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    limits = {
        # the first signal reports the timeout; a little later, one that can't be ignored
        resource.RLIMIT_CPU: (spent + seconds, spent + seconds + _GRACE),
        resource.RLIMIT_AS: (psutil.Process().memory_info().vms + memory,) * 2,
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, (soft, hard) in limits.items():
        _, most = resource.getrlimit(kind)
        allowed = hard if most == resource.RLIM_INFINITY else min(hard, most)
        try:
            resource.setrlimit(kind, (min(soft, allowed), allowed))
        except (ValueError, OSError):  # not every system has each of them
            continue


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
