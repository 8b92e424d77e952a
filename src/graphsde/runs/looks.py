"""Looks at a run's calibration labels: a second test with more of them holds less often than it would alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from graphsde.acting.abstain import ACCEPT_BY
from graphsde.acting.certified import Frontier, OrdinaryTest
from graphsde.acting.ladder import limits_to_test
from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage, StorageError
from graphsde.base.lock import exclusive
from graphsde.runs.state import LOOKS as FILE
from graphsde.runs.state import LOOKS_FORMAT as FORMAT
from graphsde.runs.state import read_state

USUAL_DELTA = 0.05  # of decide, plan, report and the page
_LOCK = ".looks"  # its own: the run's lock is held for hours while a run learns, and a look must not wait for that
_PATIENCE, _PAUSE = 10.0, 0.02  # seconds; a record is written within milliseconds


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _KeptLook(_Strict):
    delta: float = Field(gt=0, lt=1)
    anytime: bool
    idle: bool
    options: dict[str, Any]
    state: int = Field(0, ge=0)
    assumed: bool = False


class _Kept(_Strict):
    format: int
    looks: list[_KeptLook]
    further: int = Field(0, ge=0)


@dataclass(frozen=True)
class Look:
    """A test of error limits on the calibration labels of a run.

    Args:
        delta: how often it may fail.
        anytime: whether it may be repeated as labels come in.
        options: everything else that makes it another test.
        idle: whether the labels were too few to certify anything, so that nothing could be certified wrongly.
        state: number of the run's state that was tested: the same options test another model in another state.
        assumed: whether it is only assumed: a run without a record may have been looked at.
    """

    delta: float
    anytime: bool
    options: dict[str, Any]
    idle: bool = field(default=False, compare=False)
    state: int = 0
    assumed: bool = False

    @classmethod
    def of(
        cls,
        *,
        max_error: float,
        delta: float,
        focus: float | None,
        samples: int,
        anytime: bool = False,
        by: str | None = None,
        ood_by: str | None = None,
        false_alarm: float | None = None,
        tolerance: float | None = None,
        size: int | None = None,
        seed: int = 0,
        drawn_for: str | None = None,
    ) -> Look:
        """The test behind :func:`graphsde.decide` with these options.

        Args:
            drawn_for: the guarantee whose rule drew other calibration nodes than a certified one has.
        """
        options = {
            "limits": list(limits_to_test(max_error, focus)),
            "focus": focus,
            "by": by or ACCEPT_BY,
            "ood_by": ood_by,
            "false_alarm": false_alarm,
            "tolerance": tolerance,
            "size": size,
            "seed": seed,  # where calibration nodes are drawn, another seed draws others
            "samples": samples,
        }
        return cls(delta, anytime, options if drawn_for is None else options | {"drawn_for": drawn_for})

    @property
    def test(self) -> OrdinaryTest:
        """What was tested."""
        return OrdinaryTest(self.delta, tuple(self.options["limits"]), self.options["focus"])

    def tested_the_rule_of(self, look: Look) -> bool:
        """Whether it is an ordinary test of the rule that ``look`` tests."""
        if self.anytime or self.assumed or self.state != look.state:
            return False
        mine, its = ({name: o for name, o in one.options.items() if name not in _OF_THE_TEST} for one in (self, look))
        return mine == its


_OF_THE_TEST = ("limits", "focus")
"""Options that say what of a rule was tested; all others make it another rule, or draw other calibration nodes."""
ASSUMED = Look(USUAL_DELTA, anytime=False, options={}, assumed=True)


@dataclass(frozen=True)
class Before:
    """Other looks at the same labels, any of which could have certified wrongly.

    Args:
        spent: their δ, which adds to that of another test.
        tests: how many of them are known to have been made.
        same_rule: those of them that tested the same rule once, on the same model: what they certified stays.
    """

    spent: float
    tests: int
    same_rule: tuple[OrdinaryTest, ...] = ()

    @property
    def spent_on_others(self) -> float:
        """The δ of those of another rule."""
        return max(0.0, self.spent - sum(one.delta for one in self.same_rule))


def looks_of(run: Path, say: Callable[[str], None] = lambda text: None) -> tuple[Look, ...]:
    """All different looks at the calibration labels of a run.

    A run that has never been looked at has an empty record. Without a record, or with one that can't be read, it is
    unknown whether it has: one ordinary look is then assumed.

    Args:
        run: the folder.
        say: called with a one-line warning about a record that can't be read.
    """
    return _record(run, say)[0]


def further_given(run: Path) -> int:
    """How many calibration labels a run was given after its fit, as far as its record says."""
    return _record(run)[1]


def note_further(run: Path, labels: int) -> None:
    """Record how many calibration labels a run was given after its fit; to be called :func:`alone`."""
    _write(run, looks_of(run), labels)


def _record(run: Path, say: Callable[[str], None] = lambda text: None) -> tuple[tuple[Look, ...], int]:
    path = run / FILE
    if not path.exists():
        return (ASSUMED,), 0
    try:
        kept = storage.read_document(path, _Kept)
        if kept.format != FORMAT:
            raise storage.damaged(path, f"format {kept.format}, but this graphsde reads {FORMAT}")
    except (BadInput, StorageError) as error:
        say(f"warning: {error.message}; one earlier look at the calibration labels is assumed")
        return (ASSUMED,), 0
    return tuple(Look(**one.model_dump()) for one in kept.looks), kept.further


def remember(run: Path, look: Look, frontier: Frontier, say: Callable[[str], None] = lambda text: None) -> None:
    """Add a look and what came of it to the run's record, unless the same test was made before.

    A run that can't be written to keeps no record: :func:`looks_before` then assumes a look.

    Args:
        run: the folder.
        look: the one that was made.
        frontier: its result.
        say: called with one-line warnings.
    """
    try:
        with alone(run):
            known, further = _record(run)
            made = replace(look, state=_state_of(run), idle=not look.anytime and not frontier.could_certify)
            if made not in known:
                _write(run, (*known, made), further)
    except StorageError as error:
        say(f"warning: this look at the calibration labels is not recorded: {error.message}")


def looks_before(run: Path, look: Look, say: Callable[[str], None] = lambda text: None) -> Before:
    """The looks at a run's calibration labels other than this one, whether it is in the record already or not.

    Args:
        run: the folder.
        look: the one to come, or just made.
        say: called with a one-line warning about a record that can't be read.
    """
    known = looks_of(run, say)
    if ASSUMED not in known and not _writable(run):
        known = (*known, ASSUMED)  # looks may have been made that could not be recorded
    look = replace(look, state=_state_of(run))
    others = tuple(one for one in known if one != look and not one.idle)
    return Before(
        # an assumed look counts as at least as risky as the one to come
        spent=sum(max(one.delta, look.delta) if one.assumed else one.delta for one in others),
        tests=sum(not one.assumed for one in others),
        # what a test with a larger δ has certified is not what this one asks for; that test counts as spent alone
        same_rule=tuple(one.test for one in others if one.delta <= look.delta and one.tested_the_rule_of(look)),
    )


def _write(run: Path, looks: tuple[Look, ...], further: int) -> None:
    kept = {"format": FORMAT, "looks": [asdict(one) for one in looks]}
    storage.write_json(run / FILE, kept | ({"further": further} if further else {}))


def _writable(run: Path) -> bool:
    """Whether a look can be recorded; found out by taking the lock, which writes to the run."""
    try:
        with alone(run):
            return True
    except StorageError:
        return False


@contextlib.contextmanager
def alone(run: Path) -> Iterator[None]:
    """No other process changes the record of looks, or the further labels, meanwhile: two at once would lose some."""
    end = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(exclusive(run / _LOCK))
                break
            except BadUsage as error:
                if error.code != "E-LOCKED" or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
        yield


def _state_of(run: Path) -> int:
    found = read_state(run)
    return 0 if found is None else found.number
