"""A disk that is full, fails or refuses at every call by which a verb changes its folder."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from reliability.arena import Arena, Case, Verdict
from reliability.disk import NEEDS_ROOM, Disturbance
from reliability.kills import unfinished
from reliability.scenarios import Scenario, complaint

CODES: dict[str, tuple[int, ...]] = {
    "write": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO,),
    "truncate": (errno.EIO,),
    "open": (errno.ENOSPC, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "rename": (errno.EIO, errno.EACCES),
    "link": (errno.EACCES, errno.EIO),
    "unlink": (errno.EACCES, errno.EIO),
    "rmdir": (errno.EACCES, errno.EIO),
}


def faults(arena: Arena) -> Iterator[Case]:
    """A failing call ends in exit code 74 with the path, in the old state or the new; then the same command works."""
    for scenario in arena.scenarios:
        course = arena.course(scenario)
        cases = []
        for number, call in enumerate(course.ended.calls):
            place = f"call {number} ({call.operation} {call.path})"
            plans = [(errno.errorcode[code], Disturbance(number, "fault", code)) for code in CODES[call.operation]]
            if call.operation in NEEDS_ROOM:
                plans.append(("a full disk", Disturbance(number, "full", errno.ENOSPC)))
            for word, plan in plans:
                name = f"{scenario.name}: {word} at {place}"
                cases.append(Case(name, lambda s=scenario, p=plan: _fail(arena, s, p)))  # type: ignore[misc]
        yield from arena.thinned(cases)


def _fail(arena: Arena, scenario: Scenario, disturbance: Disturbance) -> Verdict:
    ground, place, course = arena.ground, arena.place, arena.course(scenario)
    words = ground.words(scenario.command, ground.fresh(scenario, place))
    ended = arena.warm.graphsde(words, watched=place, disturbance=disturbance)
    after = ground.aftermath(scenario, place)
    found = []
    if ended.code == 0:
        # some calls may fail without harm: a second name for a file, the sync of a folder
        if after.found != course.new:
            found.append("success was reported and the new state is not there")
    elif ended.code != 74:
        found.append(f"exit code {ended.code}: {ended.errors.strip()[-200:]}")
    elif str(place) not in ended.errors:
        found.append(f"the path is not named: {ended.errors.strip()[-200:]}")
    if "Traceback" in ended.errors:
        found.append("a traceback")
    wrong = complaint(scenario, course, after.found)
    found += [wrong] if wrong else []
    return Verdict([*found, *unfinished(course, after)], ended.seconds, ended.megabytes)
