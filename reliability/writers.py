"""Two processes on one folder: one pauses at every call, the other comes, looks, is refused or does it all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from reliability.arena import Arena, Case, Verdict
from reliability.disk import Disturbance
from reliability.scenarios import SCENARIOS, Course, Scenario, complaint
from reliability.warm import Ended

# of the processor, in a process that has nothing to import any more; what a busy machine adds is not the program's
MOST_SECONDS = 1.0
CROWD = 4
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass(frozen=True)
class Pair:
    """The scenario whose process pauses, and the one that comes to its folder then."""

    first: str
    second: str


PAIRS = (
    Pair("fit gcn", "fit gcn"), Pair("calibrate", "calibrate"), Pair("calibrate", "learn"), Pair("learn", "learn"),
    Pair("learn", "calibrate"), Pair("fit overwrite", "fit overwrite"), Pair("bench", "bench"),
    Pair("search", "search"),
)  # fmt: skip


def writers(arena: Arena) -> Iterator[Case]:
    """Nothing is lost, nothing is there twice; while one holds the folder the other is refused, and readers are not."""
    for pair in PAIRS[1:7:5] if arena.quick else PAIRS:
        course = arena.course(BY_NAME[pair.first])
        cases = []
        for number, call in enumerate(course.ended.calls):
            name = f"{pair.second} while {pair.first} is at call {number} ({call.operation} {call.path})"
            cases.append(Case(name, lambda p=pair, n=number: _meet(arena, p, n)))  # type: ignore[misc]
        # every third call: what matters is on which side of a lock or a rename it is
        yield from arena.thinned(cases[::3], 3)
    for name in ("calibrate", "bench") if arena.quick else BY_NAME:
        for attempt in range(1 if arena.quick else 5):
            crowd = lambda s=BY_NAME[name]: _crowd(arena, s)  # noqa: E731
            yield Case(f"{CROWD} times {name} at once, attempt {attempt}", crowd)


def _meet(arena: Arena, pair: Pair, number: int) -> Verdict:
    ground, place = arena.ground, arena.place
    one, two = BY_NAME[pair.first], BY_NAME[pair.second]
    course = arena.course(one)
    ground.fresh(one, place)
    # the lock is taken when its holder's number is written
    calls = course.ended.calls
    locked = any(call.operation == "write" and call.path.endswith(".lock") for call in calls[:number])
    first = arena.warm.begin(ground.words(one.command, place), watched=place, disturbance=Disturbance(number, "pause"))
    found = [] if first.paused() else ["there was no such call"]
    wrong = complaint(one, course, ground.seen(one, place))
    if wrong:
        found.append(f"a reader in between: {wrong}")
    second = arena.warm.graphsde(ground.words(two.command, place))
    first.go_on()
    ended = first.wait()
    found += _refusal(second, first.number, must=locked and not _let_go(course, number))
    if ended.code != 0 and not (second.code == 0 and ended.code in (2, 65)):
        found.append(f"the first ends with {ended.code}: {ended.errors.strip()[-200:]}")
    found += _no_other_end(arena, one, two, ended, second)
    return Verdict(found, second.cpu_seconds, second.megabytes)


def _let_go(course: Course, number: int) -> bool:
    """Whether the lock may be free again: a search holds one for each of its folders in turn.

    Its best settings, one file that is replaced whole, go to a folder of the user's after that.
    """
    later = course.ended.calls[number:]
    return any(call.path.endswith(".lock") for call in later) or later[0].path.startswith("configs")


def _refusal(second: Ended, holder: int, *, must: bool) -> list[str]:
    if second.code == 0:
        return ["two processes wrote at once"] if must else []
    if second.code != 2 or "E-LOCKED" not in second.errors:
        return [f"the second ends with {second.code}: {second.errors.strip()[-200:]}"]
    # its number is written a moment after the lock is taken
    named = str(holder) in second.errors or (not must and "another process" in second.errors)
    found = [] if named else [f"the holder is not named: {second.errors.strip()[-200:]}"]
    if second.cpu_seconds > MOST_SECONDS:
        found.append(f"refused only after {second.cpu_seconds:.1f} s")
    return found


def _no_other_end(arena: Arena, one: Scenario, two: Scenario, first: Ended, second: Ended) -> list[str]:
    """The folder is in the state that whoever succeeded last has left."""
    seen = arena.ground.seen(one, arena.place)
    if isinstance(seen, dict) and "broken" in seen:
        return [f"the folder can't be used: {seen['broken']}"]
    if one is two or second.code != 0:
        return [] if seen == arena.course(one).new else ["the end is not the new state"]
    return []


def _crowd(arena: Arena, scenario: Scenario) -> Verdict:
    """Several at the very same time: those that succeed leave what one alone would have left."""
    ground, place = arena.ground, arena.place
    course = arena.course(scenario)
    shutil.rmtree(place, ignore_errors=True)
    words = ground.words(scenario.command, ground.fresh(scenario, place))
    ended = [running.wait() for running in [arena.warm.begin(words) for _ in range(CROWD)]]
    found = [] if any(one.code == 0 for one in ended) else ["nobody succeeded"]
    for one in ended:
        if one.code != 0 and (one.code != 2 or "E-LOCKED" not in one.errors):
            found.append(f"exit code {one.code}: {one.errors.strip()[-200:]}")
    if ground.seen(scenario, place) != course.new:
        found.append("the end is not the new state")
    return Verdict(found, max(one.seconds for one in ended), max(one.megabytes for one in ended))
