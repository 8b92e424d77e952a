"""Long-running work: a separate process that the page follows and can cancel."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from graphsde.base import storage
from graphsde.base.errors import BadUsage

State = Literal["running", "done", "cancelled", "failed"]
PATIENCE = 5.0
"""Seconds that a cancelled job has to save its progress."""


@dataclass(frozen=True)
class Progress:
    """How far a job has come.

    Args:
        state: what it is doing.
        epochs: maximum number; 0 before training has started.
        history: one row per epoch, with ``epoch``, ``loss``, ``val_nll``, ``val_accuracy``.
        said: lines that the work printed about itself, the newest last.
        result: available once it is done.
        error: why it ended, in words.
    """

    state: State
    epochs: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def share(self) -> float:
        last = self.history[-1]["epoch"] if self.history else 0
        return 1.0 if self.state == "done" else min(last / self.epochs, 0.99) if self.epochs else 0.0


class Job:
    """One process at work, and the file it writes its progress to."""

    def __init__(self, request: dict[str, Any], folder: Path) -> None:
        self.request = request
        self.folder = folder
        self._cancelled = False
        storage.write_json(folder / "request.json", request)
        with open(folder / "stderr.txt", "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "graphsde.view.app.work", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # we forward Ctrl-C at the server once
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    @property
    def run_name(self) -> str:
        return str(self.request["name"])

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def progress(self) -> Progress:
        code = self._process.poll()  # before reading the file: a job that has ended has written all of it
        lines = _lines(self.folder / "progress.jsonl")
        kinds: dict[str, list[dict[str, Any]]] = {}
        for line in lines:
            kinds.setdefault(line.pop("kind"), []).append(line)
        result = kinds.get("result", [{}])[-1]
        error = kinds.get("error", [{}])[-1].get("text")
        state: State = "running"
        if code is not None:
            state = "done" if code == 0 and result else "cancelled" if self._cancelled else "failed"
        if state == "failed" and error is None:
            error = f"E-WORKER: the process ended with code {code}. Fix: see {self.folder / 'stderr.txt'}."
        return Progress(
            state,
            epochs=kinds.get("start", [{}])[-1].get("epochs", 0),
            history=kinds.get("epoch", []),
            said=[line["text"] for line in kinds.get("say", [])],
            result=result,
            error=error if state == "failed" else None,
        )

    def cancel(self) -> None:
        """Ask it to stop after the current epoch and keep its progress; kill it if it does not stop."""
        if not self.running:
            return
        self._cancelled = True
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait(self, seconds: float) -> Progress:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.progress()


class Jobs:
    """All jobs of this server; one at a time, since each takes every core.

    Args:
        folder: where they keep their files.

    Attributes:
        current: the last job that was started, running or not.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current: Job | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, request: dict[str, Any]) -> Job:
        with self._lock:
            if self.current is not None and self.current.running:
                raise BadUsage("another fit is running", code="E-LOCKED", fix="wait for it, or cancel it first")
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
            self.current = Job(request, self.folder / name)
            return self.current

    def forget(self) -> None:
        """Stop showing the last job."""
        if self.current is not None and not self.current.running:
            self.current = None

    def close(self) -> None:
        if self.current is not None:
            self.current.cancel()


def append_line(path: Path, kind: str, **values: Any) -> None:
    """One line of progress, written atomically."""
    line = json.dumps({"kind": kind, **values}) + "\n"
    with open(path, "ab") as stream:
        os.write(stream.fileno(), line.encode())


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]
