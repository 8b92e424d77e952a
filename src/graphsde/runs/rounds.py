"""Rounds of a run: the newest in its folder, those before under ``history/``; a round is there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from graphsde.base import storage
from graphsde.base.errors import BadInput

STAGING = ".learning"
HISTORY = "history"
READY = "ready.json"
KEPT = (
    "config.yaml",
    "graph.json",
    "environment.json",
    "predictions.parquet",
    "model.safetensors",
    "model.json",
    "metrics.jsonl",
    "labels.json",
    "learned.json",
)
"""Files that make a round, in the order in which they move into place."""
STALE = ("report.html", "checkpoint.safetensors")
"""Files of the round before that would be wrong beside the new one."""
_OLD = "old"


def staging(run: Path) -> Path:
    """Where the next round is prepared; nobody reads it before it is complete."""
    return run / STAGING


def begin_round(run: Path, request: dict[str, Any]) -> bool:
    """Make the staging folder; whether one for the same ``request`` was there already, to be gone on with."""
    folder = staging(run)
    note = folder / "request.json"
    with contextlib.suppress(OSError, ValueError):
        if json.loads(note.read_text(encoding="utf-8")) == json.loads(json.dumps(request)):
            return True
    _remove(folder)
    storage.write_json(note, request)
    return False


def commit_round(run: Path, number: int) -> None:
    """Let the files in the staging folder become round ``number`` of ``run``; the round before goes to ``history/``.

    Everything is on disk before ``ready.json`` is; from then on the new round counts, and whoever opens the run next
    finishes the moves if this process does not live to do so.
    """
    folder = staging(run)
    _remove(folder / _OLD)
    (folder / _OLD).mkdir()
    for name in (*KEPT, *STALE[:1]):
        if (run / name).is_file():
            _same_file(run / name, folder / _OLD / name)
    storage.sync_folder(folder / _OLD)
    storage.write_json(folder / READY, {"round": number, "files": [n for n in KEPT if (folder / n).is_file()]})
    finish_round(run)


def finish_round(run: Path) -> None:
    """Finish the moves of a round that is complete; does nothing in all other cases. Safe to repeat at any point."""
    folder = staging(run)
    ready = folder / READY
    if not ready.is_file():
        return
    try:
        plan = json.loads(storage.read_text(ready))
        before = run / HISTORY / str(int(plan["round"]) - 1)
        files = [name for name in KEPT if name in plan["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{READY} is damaged", code="E-CORRUPT", place=str(ready), fix=f"delete {folder}") from error
    try:
        before.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # moved already, by whoever was stopped here
            os.rename(folder / _OLD, before)
        storage.sync_folder(before.parent)
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                os.replace(folder / name, run / name)
        for name in STALE:
            (run / name).unlink(missing_ok=True)
        storage.sync_folder(run)
        ready.unlink(missing_ok=True)
    except OSError as error:
        raise storage.io_error("write", run, error) from error
    _remove(folder)


def past_rounds(run: Path) -> list[Path]:
    """Folders of the rounds before the present one, the oldest first; each can be read as a run."""
    folder = run / HISTORY
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if one.name.isdecimal()), key=lambda one: int(one.name))


def present_round(run: Path) -> int:
    """0 for a run as it was first fitted; one more for every time it has learned."""
    past = past_rounds(run)
    return int(past[-1].name) + 1 if past else 0


def forget_rounds(run: Path) -> None:
    """Remove what learning has left in a run that is to be replaced."""
    for folder in (staging(run), *past_rounds(run)):
        _remove(folder)
    with contextlib.suppress(OSError):
        (run / HISTORY).rmdir()


def _same_file(source: Path, target: Path) -> None:
    """A second name where the disk can, else a copy: files of a run are replaced, never written into."""
    try:
        os.link(source, target)
    except OSError:
        try:
            shutil.copyfile(source, target)
            with open(target, "r+b") as stream:  # Windows syncs only what is open for writing
                os.fsync(stream.fileno())
        except OSError as error:
            raise storage.io_error("write", target, error) from error


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage.io_error("delete", folder, error) from error
