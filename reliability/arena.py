"""Where attacks take place: a scratch folder, a warm process, the small graph; and what an attack is."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reliability.journal import KEPT
from reliability.scenarios import SCENARIOS, Course, Ground, Scenario, undisturbed
from reliability.warm import Warm


@dataclass
class Verdict:
    """The result of an attack: complaints (none if the guarantee held) and what it cost."""

    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0
    detail: str = ""

    @property
    def outcome(self) -> str:
        return "; ".join(self.complaints) or KEPT


@dataclass(frozen=True)
class Case:
    """One attack: its name in the journal, and what carries it out."""

    name: str
    run: Callable[[], Verdict]


Attack = Callable[["Arena"], Iterator[Case]]


class Arena:
    """Made once per process; ``quick`` asks for a handful of cases, ``grow`` to keep new inputs of a fuzzer."""

    def __init__(self, folder: Path, *, quick: bool = False, minutes: float = 60.0, grow: bool = False) -> None:
        self.folder, self.quick, self.minutes, self.grow = folder, quick, minutes, grow
        self.place = folder / "work"

    @functools.cached_property
    def warm(self) -> Warm:
        return Warm(self.folder)

    @functools.cached_property
    def ground(self) -> Ground:
        return Ground(self.folder, self.warm)

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        few = ("calibrate", "bench")
        return tuple(one for one in SCENARIOS if not self.quick or one.name in few)

    @functools.cache  # noqa: B019  (an arena lives as long as its process)
    def course(self, scenario: Scenario) -> Course:
        return undisturbed(scenario, self.ground, self.place)

    def thinned(self, cases: list[Case], few: int = 4) -> list[Case]:
        """All of them, or some from everywhere."""
        return cases[:: max(1, len(cases) // few)] if self.quick else cases


@contextlib.contextmanager
def arena(*, quick: bool = False, minutes: float = 60.0, grow: bool = False) -> Iterator[Arena]:
    """In memory where the system offers it: what is tested is the order of calls, not the disk below."""
    shared = Path("/dev/shm")
    parent = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="reliability-", dir=parent))
    try:
        yield Arena(folder, quick=quick, minutes=minutes, grow=grow)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
