"""Programs in copies of a warm process: a test pays for what they do, not for the import of torch."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PRELOADED = ["graphsde.cli.app", "graphsde.bench.run", "graphsde.runs.fit"]


@dataclass
class Running:
    """A program that has been started; its output is in files."""

    process: ForkServerProcess
    out: Path
    errors: Path

    def ended(self) -> int:
        """Its exit code, once it has one."""
        self.process.join(600)
        assert self.process.exitcode is not None, "the program does not end"
        return self.process.exitcode


def start(*words: object, folder: Path, **environment: str) -> Running:
    """Start what ``python`` does with these words: a script, or ``-m`` and a module, and its arguments.

    Args:
        folder: for the files with its output.
        environment: what differs from the environment of this process; it has the import path of this process as well.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    out, errors = folder / "out.txt", folder / "errors.txt"
    given = ([str(word) for word in words], {**os.environ, **environment}, str(out), str(errors))
    process = context.Process(target=_run, args=given)
    process.start()
    return Running(process, out, errors)


def _run(words: list[str], environment: dict[str, str], out: str, errors: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(words[0]))  # as Python does
            runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
