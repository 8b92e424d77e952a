"""Every bad file of the tests through the library, the command line and the page's upload, with what it costs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reliability.arena import Arena, Case, Verdict
from reliability.journal import ROOT
from reliability.warm import answer

if TYPE_CHECKING:
    from graphsde.view.app.uploads import Upload

MOST_SECONDS, MOST_MEGABYTES = 2.0, 200.0
# the page takes files by their names, so that it may refuse one for its name alone, or for its size
REFUSED_BY_THE_PAGE = ("E-FORMAT", "E-BOMB", "E-PATH", "E-PICKLE", "E-EMPTY")


def bad_inputs(arena: Arena) -> Iterator[Case]:
    """The typed error that is expected, in at most 2 s of processor time and 200 MB, and nothing executed."""
    sys.path.insert(0, str(ROOT / "tests" / "io"))
    from bad_files import BAD_FILES  # type: ignore[import-not-found]
    from hostile_files import HOSTILE  # type: ignore[import-not-found]

    corpus = [(case.name, case.build, case.expected) for case in BAD_FILES]
    corpus += [(f"costly {name}", build, code) for name, (build, code) in HOSTILE.items()]
    arena.warm.learn_imports(arena.warm.call(lambda: _all_readers(arena)))
    ways: dict[str, Callable[[Path, str], str | None]] = {
        "library": _library,
        "command line": _command_line,
        "page": _page,
    }
    cases = []
    for name, build, expected in corpus:
        for way, attack in ways.items():
            run_case = lambda b=build, e=expected, a=attack: _try(arena, b, e, a)  # noqa: E731
            cases.append(Case(f"{name}: {way}", run_case))
    yield from arena.thinned(cases, 10)


def _all_readers(arena: Arena) -> None:
    """Imports what the readers and the page import on first use, so that it is no cost of a file."""
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    import graphsde.io.graphml
    import graphsde.io.npz
    import graphsde.view.app.uploads  # noqa: F401
    from graphsde.io.read import read

    read(arena.ground.graph)
    answer("check", arena.ground.graph, "--json")


def _try(arena: Arena, build: Any, expected: str, attack: Callable[[Path, str], str | None]) -> Verdict:
    folder = arena.place
    shutil.rmtree(folder, ignore_errors=True)
    made = arena.warm.call(lambda: str(build(folder / "graph")))
    if made.code != 0:
        return Verdict([f"the file can't be made: {made.errors[-200:]}"])
    ended = arena.warm.call(lambda: attack(Path(made.value), expected))
    found = [ended.value] if ended.value else []
    if ended.code != 0:
        found.append(f"exit code {ended.code}: {ended.errors.strip()[-200:]}")
    if list(folder.rglob("marker")):
        found.append("the file was executed")
    if ended.cpu_seconds > MOST_SECONDS:
        found.append(f"it took {ended.cpu_seconds:.1f} s")
    if ended.megabytes > MOST_MEGABYTES:
        found.append(f"it took {ended.megabytes:.0f} MB")
    shutil.rmtree(folder, ignore_errors=True)
    return Verdict(found, ended.cpu_seconds, ended.megabytes)


def _library(path: Path, expected: str) -> str | None:
    from graphsde.base.errors import GraphsdeError
    from graphsde.io.read import read

    try:
        read(path)
    except GraphsdeError as error:
        return None if error.code == expected else f"{error.code} instead of {expected}"
    return f"it was read, {expected} was expected" if expected.startswith("E-") else None


def _command_line(path: Path, expected: str) -> str | None:
    code, _, errors = answer("check", path, "--json")
    if "Traceback" in errors or (code != 0 and "\x1b" in errors):
        return f"not fit to be shown: {errors[:100]!r}"
    if expected.startswith("E-"):
        right = code == 65 and errors.startswith(f"{expected}:")
        return None if right else f"exit code {code} ({errors[:100]!r}) instead of 65 and {expected}"
    return None if code == 0 else f"exit code {code}: {errors[:100]!r}"


def _page(path: Path, expected: str) -> str | None:
    """As the page's own reader takes what a browser has sent; what no browser can send is no case."""
    from graphsde.base.errors import GraphsdeError
    from graphsde.view.app.uploads import keep_upload

    files = _uploads(path)
    if files is None:
        return None
    try:
        keep_upload(files, path.parent / "uploads")
    except GraphsdeError as error:
        if error.code in (expected, *REFUSED_BY_THE_PAGE) or (error.exit_code == 65 and expected[:2] == "E-"):
            return None
        return f"{error.code} instead of {expected}"
    return f"it was kept, {expected} was expected" if expected.startswith("E-") else None


def _uploads(path: Path) -> list[Upload] | None:
    from graphsde.view.app.uploads import Upload

    paths = sorted(path.iterdir()) if path.is_dir() else [path]
    if not paths or any(one.is_symlink() or not one.is_file() for one in paths):
        return None
    return [Upload(one.name, one.read_bytes()) for one in paths]
