"""The state of a run: a manifest with the sha256 of its files, and atomic changes.

A new state is prepared in a folder next to the current files. Its manifest is written last: from then on the new state
is valid, and the next process that opens the run moves its files into place if the one that made it died.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from graphsde.base import storage
from graphsde.base.errors import BadInput, StorageError
from graphsde.base.storage import damaged, read_document

MANIFEST = "manifest.json"
FORMAT = 2
READABLE = (1, 2)
"""Format 1 had no kept graph, prediction and evidence; a version that knows no other would call them damage."""
HISTORY = "history"
GUARDED = (
    "config.yaml",
    "graph.json",
    "environment.json",
    "graph.safetensors",
    "predictions.parquet",
    "prediction.safetensors",
    "evidence.safetensors",
    "model.safetensors",
    "model.json",
    "metrics.jsonl",
    "labels.json",
    "learned.json",
    "controls.json",
)
"""Files that a state can have, in the order in which they move into place."""
LOOKS = "looks.json"
"""Which tests were made on the calibration labels (:mod:`graphsde.runs.looks`); a new state of a run keeps it, because
the labels were seen all the same."""
LOOKS_FORMAT = 1
FURTHER_LABELS = "further-labels.json"
"""Calibration labels that came after the fit (:mod:`graphsde.runs.further_labels`); a new state keeps them, too."""
DERIVED = ("report.html", "decisions.csv", "review.csv", "predictions.csv")
"""Files derived from a state, which would be wrong for the next one."""
MARK = "manifest"
"""The mark in ``environment.json`` of a run that must have a manifest."""
_PREPARED = ".state-"
_PLAN = "plan.json"
_OLD = "old"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Guard(_Document):
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class _Manifest(_Document):
    format: int
    state: int = Field(ge=1)
    files: dict[str, _Guard]


class _Plan(_Document):
    """What is left to do once the manifest is there.

    Args:
        round: the number under ``history/`` to keep the previous state as; ``None`` discards it.
        removed: files and folders that the new state makes superfluous, by their names in the run's folder.
    """

    round: int | None
    removed: list[str]


@dataclass(frozen=True)
class State:
    """What a run's folder holds.

    Args:
        number: one more with every change; 0 for a run of a version that wrote no manifest.
        files: sha256 by name, of all files that belong to the state.
    """

    number: int
    files: dict[str, str] = field(default_factory=dict)

    @property
    def guarded(self) -> bool:
        return self.number > 0


def read_state(run: Path) -> State | None:
    """The current state, its files in place but not yet verified; ``None`` if there is none."""
    settle(run)
    path = run / MANIFEST
    if path.is_file():
        found = read_document(path, _Manifest)
        if found.format not in READABLE:
            raise BadInput(
                f"{MANIFEST} has format {found.format}, this graphsde reads {READABLE[-1]} and earlier ones",
                code="E-MODEL-VERSION",
                place=str(path),
                fix="use the version that wrote it, or fit again",
            )
        unknown = sorted(set(found.files) - set(GUARDED))
        if unknown:
            raise damaged(path, f"{unknown[0]} is not a file of a run")
        return State(found.state, {name: guard.sha256 for name, guard in found.files.items()})
    if not _has_files(run):
        return None
    if _marked(run / "environment.json"):
        raise BadInput(
            f"{MANIFEST} is missing",
            code="E-CORRUPT",
            place=str(path),
            fix="restore the file from a backup, or fit again with --overwrite",
        )
    return State(0)


def _marked(environment: Path) -> bool:
    """Whether the run was made by a version that writes manifests."""
    try:
        return bool(json.loads(environment.read_bytes()).get(MARK))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def has_state(run: Path) -> bool:
    """Whether there is a finished run, without checking its content."""
    if (run / MANIFEST).is_file() or _has_files(run):
        return True
    return any((folder / MANIFEST).is_file() for folder in _prepared(run))


def _has_files(run: Path) -> bool:
    return all((run / name).is_file() for name in ("config.yaml", "model.json", "metrics.jsonl"))


def require_whole(run: Path, state: State) -> None:
    """Refuse a run with a changed, missing or unexpected file."""
    for name, expected in state.files.items():
        path = run / name
        if not path.is_file():
            raise _misfit(path, "is missing")
        if storage.sha256(path) != expected:
            raise _misfit(path, "was changed after the run was written")
    if state.guarded:
        for name in GUARDED:
            if name not in state.files and (run / name).exists():
                raise _misfit(run / name, "does not belong to this run")


def _misfit(path: Path, what: str) -> BadInput:
    return BadInput(
        f"{path.name} {what}, according to {MANIFEST}",
        code="E-CORRUPT",
        place=str(path),
        fix="restore the file from a backup, or fit again with --overwrite",
    )


class NewState:
    """A new state of a run being prepared; use it under the run's lock.

    Files are written into :attr:`folder`; those not written again stay unchanged.

    Args:
        run: its folder.
        fresh: the new state takes nothing from the previous one, which may be damaged.

    Example:
        >>> with NewState(run) as new:  # doctest: +SKIP
        ...     model.save(new.folder)
        ...     new.commit()
    """

    def __init__(self, run: Path, *, fresh: bool = False) -> None:
        self.run, self.fresh = run, fresh

    def __enter__(self) -> NewState:
        try:
            before = read_state(self.run)
        except BadInput:
            if not self.fresh:
                raise
            before = None
        for leftover in _prepared(self.run):  # of a process that ended before its manifest was there
            remove_tree(leftover)
        self.number = 1 if before is None else before.number + 1
        self.folder = self.run / f"{_PREPARED}{self.number}"
        try:
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise storage.io_error("write", self.folder, error) from error
        storage.sync_folder(self.run)  # the folder is there before anything depends on it
        return self

    def __exit__(self, *details: object) -> None:
        if not (self.folder / MANIFEST).is_file():
            shutil.rmtree(self.folder, ignore_errors=True)

    def commit(
        self, *, round_before: int | None = None, removed: Iterable[str] = (), outdated: Iterable[str] = ()
    ) -> None:
        """Make the files in :attr:`folder` the run's.

        Args:
            round_before: keep the previous state as this round under ``history/``.
            removed: names of finished work in the run's folder.
            outdated: files of the previous state that the new one does not have and must not keep.
        """
        left_out = set(outdated)
        files = {name: _guard(self.folder / name) for name in GUARDED if (self.folder / name).is_file()}
        gone = [*DERIVED, *removed]
        for name in GUARDED:
            if name in files or not (self.run / name).is_file():
                continue
            if self.fresh or name in left_out:
                gone.append(name)
            else:
                files[name] = _guard(self.run / name)
        if self.fresh:
            gone += [LOOKS, FURTHER_LABELS]
        if round_before is not None:
            self._keep_old()
        storage.write_json(self.folder / _PLAN, _Plan(round=round_before, removed=gone).model_dump())
        manifest = _Manifest(format=FORMAT, state=self.number, files=files)
        storage.write_json(self.folder / MANIFEST, manifest.model_dump())
        settle(self.run)
        if self.fresh:  # an empty record: without one, nobody could know that the run was never looked at
            with contextlib.suppress(StorageError):  # the run is complete without it
                storage.write_json(self.run / LOOKS, {"format": LOOKS_FORMAT, "looks": []})

    def _keep_old(self) -> None:
        try:
            (self.folder / _OLD).mkdir()
        except OSError as error:
            raise storage.io_error("write", self.folder / _OLD, error) from error
        for name in (*GUARDED, *DERIVED, LOOKS, FURTHER_LABELS, MANIFEST):
            if (self.run / name).is_file():
                _same_file(self.run / name, self.folder / _OLD / name)
        storage.sync_folder(self.folder / _OLD)


def settle(run: Path) -> None:
    """Finish a change whose manifest exists; otherwise do nothing.

    Safe to repeat at any point and for several processes at once: every file is moved by one of them, and a prepared
    folder has a number of its own, so that a slow process never moves a file of a later change.
    """
    for folder in _prepared(run):
        if (folder / MANIFEST).is_file():
            try:
                _finish(run, folder)
            except OSError as error:
                failed = storage.io_error("write", run, error)
                failed.fix = "the new state is complete on disk: fix the disk, and the next command will install it"
                raise failed from error


def _finish(run: Path, folder: Path) -> None:
    try:
        plan = read_document(folder / _PLAN, _Plan)
        manifest = read_document(folder / MANIFEST, _Manifest)
    except StorageError:
        if not (folder / MANIFEST).exists():  # another process finished it meanwhile
            return
        raise
    if plan.round is not None:
        kept = run / HISTORY / str(plan.round)
        kept.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # already moved by an interrupted process
            os.rename(folder / _OLD, kept)
        storage.sync_folder(kept.parent)
    for name in GUARDED:
        if name in manifest.files:
            with contextlib.suppress(FileNotFoundError):
                os.replace(folder / name, run / name)
    for name in plan.removed:
        if Path(name).name != name:
            raise damaged(folder / _PLAN, f"'{name}' is not a file of a run")
        _remove(run / name)
    storage.sync_folder(run)
    with contextlib.suppress(FileNotFoundError):
        os.replace(folder / MANIFEST, run / MANIFEST)
    storage.sync_folder(run)
    remove_tree(folder)


def _remove(path: Path) -> None:
    if path.name == HISTORY:  # only files of runs; the rest belongs to the user
        for folder in past_rounds(path.parent):
            remove_tree(folder)
        with contextlib.suppress(OSError):
            path.rmdir()
    elif path.is_dir():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _prepared(run: Path) -> list[Path]:
    """Folders of changes, the oldest first."""

    def numbered() -> Iterator[tuple[int, Path]]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in run.iterdir():
                number = path.name.removeprefix(_PREPARED)
                if path.name.startswith(_PREPARED) and number.isdecimal():
                    yield int(number), path

    try:
        return [path for _, path in sorted(numbered())]
    except OSError as error:
        raise storage.io_error("read", run, error) from error


def _guard(path: Path) -> _Guard:
    try:
        return _Guard(sha256=storage.sha256(path), bytes=path.stat().st_size)
    except OSError as error:
        raise storage.io_error("read", path, error) from error


def past_rounds(run: Path) -> list[Path]:
    """Folders of earlier rounds, oldest first; each can be read as a run."""
    folder = run / HISTORY
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if one.name.isdecimal()), key=lambda one: int(one.name))


def present_round(run: Path) -> int:
    """0 for a run as first fitted, plus one for every round of learning."""
    past = past_rounds(run)
    return int(past[-1].name) + 1 if past else 0


def remove_tree(folder: Path) -> None:
    """Delete a folder; it is fine if it is already gone or two processes delete it at once."""
    for _ in range(3):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            if not folder.exists():
                return
        except OSError as error:
            raise storage.io_error("delete", folder, error) from error
        else:
            return


def _same_file(source: Path, target: Path) -> None:
    """A hard link if the disk supports it, otherwise a copy: files of a run are replaced, never modified."""
    try:
        os.link(source, target)
    except OSError:
        try:
            shutil.copyfile(source, target)
            with open(target, "r+b") as stream:  # Windows syncs only what is open for writing
                os.fsync(stream.fileno())
        except OSError as error:
            raise storage.io_error("write", target, error) from error
