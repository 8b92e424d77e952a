"""``kill -9`` before, during and after every call by which a verb changes its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator

from reliability.arena import Arena, Case, Verdict
from reliability.disk import Disturbance, When
from reliability.scenarios import Aftermath, Course, Scenario, complaint
from reliability.warm import Ended


def kills(arena: Arena) -> Iterator[Case]:
    """A kill leaves the old state or the new one, and the same command ends in the new one without training anew."""
    for scenario in arena.scenarios:
        course = arena.course(scenario)
        cases = []
        for number, call in enumerate(course.ended.calls):
            moments: tuple[When, ...] = (
                ("before", "during", "after") if call.operation == "write" else ("before", "after")
            )
            for when in moments:
                name = f"{scenario.name}: {when} call {number} ({call.operation} {call.path})"
                cases.append(Case(name, lambda s=scenario, n=number, w=when: _kill(arena, s, Disturbance(n, w))))  # type: ignore[misc]
        yield from arena.thinned(cases)


def _kill(arena: Arena, scenario: Scenario, disturbance: Disturbance) -> Verdict:
    ground, place, course = arena.ground, arena.place, arena.course(scenario)
    words = ground.words(scenario.command, ground.fresh(scenario, place))
    ended = arena.warm.graphsde(words, watched=place, disturbance=disturbance)
    if not ended.killed:
        return Verdict([f"there was no such call: exit code {ended.code}"], ended.seconds, ended.megabytes)
    after = ground.aftermath(scenario, place)
    found = [*_lost(scenario, course, ended, after), *unfinished(course, after)]
    wrong = complaint(scenario, course, after.found)
    return Verdict([wrong, *found] if wrong else found, ended.seconds, ended.megabytes)


def _lost(scenario: Scenario, course: Course, ended: Ended, after: Aftermath) -> list[str]:
    """What was acknowledged or trained and is not there."""
    lost = []
    if scenario.grows:
        parts = after.found.get("parts", ())
        if len(parts) < ended.acknowledged:
            lost.append(f"{ended.acknowledged} parts were reported as done and {len(parts)} are there")
    elif _is_answer(ended.output) and after.found != course.new:
        lost.append("the result was printed and is not there")
    # an epoch may be done and not be kept yet
    allowed = course.ended.epochs + 1
    if scenario.trains and ended.epochs + after.epochs > allowed:
        lost.append(f"training lost: {ended.epochs} epochs were done, then {after.epochs} of {course.ended.epochs}")
    return lost


def unfinished(course: Course, after: Aftermath) -> list[str]:
    """What is wrong with the end that the same command came to when it was given again."""
    if after.code != 0:
        return [f"the same command again ends with {after.code}: {after.errors.strip()[-300:]}"]
    if "Traceback" in after.errors:
        return ["the same command again shows a traceback"]
    if after.final != course.new:
        told = after.final if isinstance(after.final, dict) else {}
        wrong = told.get("broken") or [key for key in course.new if told.get(key) != course.new[key]]
        return [f"the same command again does not end in the new state: {wrong}"]
    return []


def _is_answer(output: str) -> bool:
    try:
        return bool(json.loads(output))
    except ValueError:
        return False
