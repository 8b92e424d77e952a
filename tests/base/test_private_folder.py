"""Temporary folders end with their process, or with the next one that needs such a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphsde.base.lock import exclusive
from graphsde.base.private_folder import LONGEST_START, clear_abandoned, private_folder

PREFIX = "graphsde-ray-"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left_behind(folder: Path, owner: str = "4194305") -> Path:
    (folder / "ray" / "session").mkdir(parents=True)
    (folder / "ray" / "session" / "log").write_text("x")
    (folder / ".lock").write_text(owner)
    return folder


def test_a_folder_is_private_and_goes_at_the_end(place: Path) -> None:
    with private_folder(PREFIX) as folder:
        assert folder.parent == place and folder.stat().st_mode & 0o077 == 0
        (folder / "ray").mkdir()
    assert list(place.iterdir()) == []
    with pytest.raises(ZeroDivisionError), private_folder(PREFIX):
        1 / 0  # noqa: B018
    assert list(place.iterdir()) == []


def test_folders_of_the_dead_are_cleared_and_all_else_stays(place: Path) -> None:
    dead = left_behind(place / f"{PREFIX}dead")
    # its number was given to a process that lives: the lock is what counts
    reused = left_behind(place / f"{PREFIX}reused", owner=str(os.getpid()))
    living = left_behind(place / f"{PREFIX}living")
    stays = [left_behind(place / "graphsde-other"), left_behind(place / "ray-dead"), living]
    (place / f"{PREFIX}file").write_text("a file")
    stays.append(place / f"{PREFIX}file")
    elsewhere = left_behind(place / "elsewhere")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    with exclusive(living), private_folder(PREFIX) as mine:
        assert not dead.exists() and not reused.exists()
        assert all(path.exists() for path in stays) and (elsewhere / "ray").is_dir()
        with private_folder(PREFIX) as second:  # one of our own that lives is as safe
            assert mine.exists() and second != mine
    assert clear_abandoned(place, PREFIX) == [living]


def test_a_folder_that_is_about_to_be_locked_stays_until_nobody_can_be(place: Path) -> None:
    new, half = place / f"{PREFIX}new", place / f"{PREFIX}half"
    new.mkdir()
    half.mkdir()
    (half / ".lock").touch()
    assert clear_abandoned(place, PREFIX) == []
    long_ago = time.time() - LONGEST_START - 60
    for folder in (new, half):
        os.utime(folder, (long_ago, long_ago))
    assert clear_abandoned(place, PREFIX) == [half, new]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners of files here")
def test_another_users_folder_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = left_behind(place / f"{PREFIX}theirs")
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    assert clear_abandoned(place, PREFIX) == [] and theirs.is_dir()


def test_a_long_place_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder("graphsde-test-", longest_place=len(str(tmp_path)) - 1) as folder:
        assert folder.parent == Path("/tmp")
    with private_folder("graphsde-test-", longest_place=len(str(tmp_path))) as folder:
        assert folder.parent == tmp_path


def test_after_a_real_kill(place: Path) -> None:
    code = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from graphsde.base.private_folder import private_folder\n"
        f"with private_folder({PREFIX!r}) as folder:\n    print(folder, flush=True)\n    time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert clear_abandoned(place, PREFIX) == [] and folder.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.is_dir()
    assert clear_abandoned(place, PREFIX) == [folder] and not folder.exists()
