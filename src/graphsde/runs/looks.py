"""Looks at a run's calibration labels: a second test with more of them holds less often than it would alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from graphsde.acting.abstain import ACCEPT_BY
from graphsde.acting.certified import Frontier, limits_to_test
from graphsde.base import storage
from graphsde.base.errors import BadInput, StorageError
from graphsde.runs.state import LOOKS as FILE

FORMAT = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _KeptLook(_Strict):
    delta: float = Field(gt=0, lt=1)
    anytime: bool
    idle: bool
    options: dict[str, Any]


class _Kept(_Strict):
    format: int
    looks: list[_KeptLook]


@dataclass(frozen=True)
class Look:
    """A test of error limits on the calibration labels of a run, in its present state.

    Args:
        delta: how often it may fail.
        anytime: whether it may be repeated as labels come in.
        options: everything else that makes it another test.
        idle: whether the labels were too few to certify anything, so that nothing could be certified wrongly.
    """

    delta: float
    anytime: bool
    options: dict[str, Any]
    idle: bool = field(default=False, compare=False)

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
    ) -> Look:
        """The test behind :func:`graphsde.decide` with these options."""
        options = {
            "limits": list(limits_to_test(max_error, focus)),
            "focus": None if anytime else focus,  # which has no focus
            "by": by or ACCEPT_BY,
            "ood_by": ood_by,
            "false_alarm": false_alarm,
            "tolerance": tolerance,
            "size": size,
            "seed": seed if size is not None else None,  # without a size all nodes are used
            "samples": samples,
        }
        return cls(delta, anytime, options)


def looks_of(run: Path) -> tuple[Look, ...]:
    """All different looks since the run's model or labels have changed."""
    path = run / FILE
    if not path.is_file():
        return ()
    try:
        kept = storage.read_document(path, _Kept)
        if kept.format != FORMAT:
            raise storage.damaged(path, f"format {kept.format}, but this graphsde reads {FORMAT}")
    except BadInput as error:
        error.fix = "delete the file: one ordinary look is then assumed"
        raise
    return tuple(Look(one.delta, one.anytime, one.options, one.idle) for one in kept.looks)


def remember(run: Path, look: Look, frontier: Frontier) -> None:
    """Add a look and what came of it to the run's record, unless the same test was made before.

    A run that can't be written to keeps no record: :func:`spent_before` then assumes a look.
    """
    try:
        known = looks_of(run)
        if look not in known:
            made = replace(look, idle=not look.anytime and not frontier.could_certify)
            looks = [asdict(one) for one in (*known, made)]
            storage.write_json(run / FILE, {"format": FORMAT, "looks": looks})
    except StorageError:
        return


def spent_before(run: Path, look: Look, *, further: bool) -> float:
    """The δ of all other looks, which adds to that of this one: any of them could have certified wrongly.

    An ordinary test may be run only once, and says so, whatever was looked at before. Testing again with further labels
    without a record of the first look counts as if that had been an ordinary test.

    Args:
        run: the folder.
        look: the one to come.
        further: whether it has labels that an earlier look did not have.
    """
    if not look.anytime:
        return 0.0
    known = looks_of(run)
    if further and not known:
        return look.delta
    return sum(one.delta for one in known if one != look and not one.idle)
