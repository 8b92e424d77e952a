"""Every module, a fit and a bench in a process that has nothing of Unix: what it takes to run on Windows.

The same file is the program of that process, see :func:`main`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "graphsde"
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "readline", "syslog", "pty", "tty")
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV"}  # all that Windows has
SIGNAL_NAMES = ("setitimer", "getitimer", "alarm", "pause", "pthread_sigmask", "pthread_kill", "sigwait")
OS_NAMES = (
    "fork", "forkpty", "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "killpg", "setsid", "getpgid",
    "getsid", "nice", "wait", "WNOHANG", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_SYNC", "pread",
    "pwrite", "sync", "fdatasync", "posix_fadvise", "posix_fallocate", "sched_getaffinity", "sched_setaffinity",
    "getloadavg", "sysconf", "uname", "statvfs", "mkfifo", "chown", "fchmod", "fchown",
)  # fmt: skip
# these carry code of their own for every system and choose it by the name of the system, which is still that of Unix
WITH_CODE_FOR_ALL = ("asyncio", "subprocess", "tempfile", "multiprocessing", "filelock", "psutil", "torch", "sklearn")


class Absent(importlib.abc.MetaPathFinder):
    """Tells graphsde, and nobody else, that the modules of Unix are not there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if name in MODULES and frame.f_globals.get("__name__", "").startswith("graphsde"):
            raise ModuleNotFoundError(f"there is no module {name} on this system", name=name)


def take_unix_away() -> None:
    for name in WITH_CODE_FOR_ALL:
        importlib.import_module(name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    numbers = [name for name in dir(signal) if name.startswith(("SIG", "ITIMER_")) and not name.startswith("SIG_")]
    for module, names in ((signal, [*SIGNAL_NAMES, *(set(numbers) - SIGNALS)]), (os, OS_NAMES)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def every_module() -> list[str]:
    """But ``__main__``, which would run."""
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]
    return [name for name in names if "__pycache__" not in name]


def main(folder: Path) -> None:
    """Import everything, fit, bench; what came of it as JSON on the last line."""
    take_unix_away()
    wanting: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name in every_module():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            ood = error.name is not None and not error.name.startswith("graphsde") and error.name not in MODULES
            (wanting if ood else failed)[name] = str(error)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    from typer.testing import CliRunner

    from graphsde.cli.app import app

    said = {}
    for verb, *words in (
        ("fit", "digits", "--model", "gcn", "--set", "epochs=2"),
        ("bench", "misclassification", "--datasets", "digits", "--models", "gcn", "--set", "epochs=2", "--seeds", "1",
         "--engine", "serial"),
    ):  # fmt: skip
        result = CliRunner().invoke(app, [verb, *words, "--out", str(folder / verb), "--json"])
        said[verb] = [result.exit_code, result.stderr]
    print(json.dumps({"failed": failed, "wanting": wanting, "said": said}))


def test_without_anything_of_unix_all_modules_import_and_a_fit_and_a_bench_run(tmp_path: Path) -> None:
    import pytest

    # torch asks for the user's name, which Windows has in this variable
    env = {**os.environ, "USERNAME": "somebody"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failed"] == {}
    (fit, fit_words), (bench, bench_words) = found["said"]["fit"], found["said"]["bench"]
    assert fit == 0 and (tmp_path / "fit" / "model.json").exists(), fit_words
    assert bench == 0 and (tmp_path / "bench" / "journal.jsonl").exists(), bench_words
    assert "CPU time can't be limited" in bench_words
    if found["wanting"]:
        pytest.skip(f"all else is well, but extras are not installed: {found['wanting']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
