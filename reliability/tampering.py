"""Every file of a finished run changed in every way, then every verb: a typed error that names the file, or no change.

A file that belongs to the state of a run must be refused by every verb; one that does not (a report, a lock, the list
of hashes itself) may be passed over, if no result changes.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reliability.arena import Arena, Case, Verdict
from reliability.scenarios import GCN, LGNSDE, fit_words
from reliability.warm import answer

FLIPS, EDITS = 24, 10
# no result of these verbs is read from them; where nothing changes, passing them over is right
OUTSIDE = re.compile(r"(^|/)(report\.html|looks\.json|\.lock|manifest\.json|replaced-labels.*)$")


@dataclass(frozen=True)
class Victim:
    """A finished run, and another one of the same kind whose files could be mistaken for its own."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    other: tuple[tuple[str, ...], ...]
    fit: tuple[str, ...]


LEARNED = (("calibrate", "{out}"), ("learn", "{out}", "{labels}", "--test-labels"), ("report", "{out}"))
VICTIMS = (
    Victim(
        "gcn, learned",
        (fit_words("gcn", *GCN), *LEARNED),
        (fit_words("gcn", *GCN, "--seed", "1"), *LEARNED),
        fit_words("gcn", *GCN),
    ),
    Victim(
        "lgnsde",
        (fit_words("lgnsde", *LGNSDE),),
        (fit_words("lgnsde", *LGNSDE, "--seed", "1"),),
        fit_words("lgnsde", *LGNSDE),
    ),
)
LENIENT = ("--false-alarm", "0.5", "--confidence-level", "0.5", "--samples", "4")  # three calibration nodes show little
READING: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate", "{out}", "--json", "--samples", "4"),
    "predict": ("predict", "{out}", "--out", "{table}", "--samples", "4"),
    "decide": ("decide", "{out}", "--out", "{table}", "--json", "--max-error", "0.99", "--delta", "0.9", *LENIENT),
    "ask": ("ask", "{out}", "--json", "--budget", "3", "--samples", "4"),
    "explain": ("explain", "{out}", "9", "--json"),
    "doctor": ("doctor", "{out}", "--json"),
}
# each on a copy of its own
WRITING = ("calibrate", "learn", "fit", "report")


def tampering(arena: Arena) -> Iterator[Case]:
    """No changed file leads to another result with exit code 0, and none to an untyped error."""
    for victim in VICTIMS[: 1 if arena.quick else None]:
        run, other = _made(arena, victim)
        ended = arena.warm.call(lambda v=victim, r=run: _answers(arena, v, r))  # type: ignore[misc]
        arena.warm.learn_imports(ended)
        expected = ended.value
        failing = {verb: errors for verb, (code, _, errors) in expected.items() if code != 0}
        assert not failing, f"verbs that fail on a run that is whole: {failing}"
        cases = []
        for path in sorted(path for path in run.rglob("*") if path.is_file() and "history" not in path.parts):
            inside = path.relative_to(run).as_posix()
            theirs = other / inside
            for name, content in changes(path, theirs if theirs.is_file() else None):
                run_case = lambda v=victim, r=run, i=inside, c=content, e=expected: _tamper(arena, v, r, i, c, e)  # noqa: E731
                cases.append(Case(f"{victim.name}: {inside} {name}", run_case))
        yield from arena.thinned(cases, 6)


def _made(arena: Arena, victim: Victim) -> tuple[Path, Path]:
    places = []
    for word, commands in (("run", victim.commands), ("other", victim.other)):
        place = arena.folder / f"{word}-{VICTIMS.index(victim)}"
        for command in commands if not place.exists() else ():
            ended = arena.warm.graphsde(arena.ground.words(command, place))
            arena.warm.learn_imports(ended)
            assert ended.code == 0, ended.errors
        places.append(place)
    return places[0], places[1]


def changes(path: Path, other: Path | None) -> Iterator[tuple[str, bytes | None]]:
    """Ways to change a file: the name of the way, and the new content, ``None`` for none at all."""
    content = path.read_bytes()
    yield "deleted", None
    yield "emptied", b""
    for share in (1, 2, 3):
        yield f"cut at {len(content) * share // 4}", content[: len(content) * share // 4]
    yield "with a byte more", content + b"\n"
    offsets = sorted({len(content) * number // FLIPS for number in range(FLIPS)} | {max(len(content) - 1, 0)})
    for offset in offsets if content else ():
        bit = offset % 8
        flipped = content[:offset] + bytes([content[offset] ^ (1 << bit)]) + content[offset + 1 :]
        yield f"bit {bit} of byte {offset}", flipped
    if other is not None and other.read_bytes() != content:
        yield "of another run", other.read_bytes()
    if path.suffix in (".json", ".jsonl", ".yaml"):
        yield from _edits(path.suffix, content)


def _edits(suffix: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The same file with one value changed, so that it is still a file of its kind."""
    if suffix == ".yaml":
        value = yaml.safe_load(content)
    else:
        lines = content.splitlines() if suffix == ".jsonl" else [content]
        value = [json.loads(line) for line in lines]
    leaves = list(_leaves(value, ()))
    for place in leaves[:: max(1, len(leaves) // EDITS)]:
        changed = copy.deepcopy(value)
        holder = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = _another(holder[place[-1]])
        name = ".".join(map(str, place[1 if suffix == ".json" else 0 :]))
        if suffix == ".yaml":
            yield f"with another {name}", yaml.safe_dump(changed, sort_keys=False, allow_unicode=True).encode()
        elif suffix == ".json":
            yield f"with another {name}", (json.dumps(changed[0], indent=2, ensure_ascii=False) + "\n").encode()
        else:
            yield f"with another {name}", "".join(json.dumps(line) + "\n" for line in changed).encode()


def _leaves(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Where plain values lie, and lists whose first two entries could be swapped."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if place and isinstance(value, list) and len(value) > 1 and value[0] != value[1]:
        yield place
    for key, one in inner:
        yield from _leaves(one, (*place, key))
    if not isinstance(value, dict | list):
        yield place


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [value[1], value[0], *value[2:]]
    return "other" if value is None else f"{value}x"


def _tamper(
    arena: Arena, victim: Victim, run: Path, inside: str, content: bytes | None, expected: dict[str, Any]
) -> Verdict:
    place = arena.place
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place)
    if content is None:
        (place / inside).unlink()
    else:
        (place / inside).write_bytes(content)
    ended = arena.warm.call(lambda: _answers(arena, victim, place))
    if ended.value is None:
        return Verdict([f"the verbs did not end: {ended.code} {ended.errors[-300:]}"], ended.seconds, ended.megabytes)
    found: dict[str, list[str]] = {}
    for verb, (code, result, errors) in ended.value.items():
        wrong = _complaint(inside, code, result == expected[verb][1], errors)
        if wrong:
            found.setdefault(wrong, []).append(verb)
    complaints = [f"{', '.join(verbs)}: {wrong}" for wrong, verbs in found.items()]
    return Verdict(complaints, ended.seconds, ended.megabytes)


def _complaint(inside: str, code: int, unchanged: bool, errors: str) -> str | None:
    outside = OUTSIDE.search(inside) is not None
    if code == 0:
        if not unchanged:
            return "another result with exit code 0"
        return None if outside else "the change is not noticed"
    if code != 65 or "Traceback" in errors:
        return f"exit code {code} ({errors.strip()[:90]})"
    return None if Path(inside).name in errors else f"the file is not named ({errors.strip()[:90]})"


def _answers(arena: Arena, victim: Victim, run: Path) -> dict[str, tuple[int, str, str]]:
    """Exit code, a hash of the result and the errors of every verb; ``run`` itself stays as it is."""
    found = {}
    with tempfile.TemporaryDirectory(dir=arena.folder) as name:
        copies = (Path(name) / str(number) for number in itertools.count())
        reading = next(copies)
        shutil.copytree(run, reading)
        for verb, words in READING.items():
            found[verb] = _result(arena, words, reading, Path(name) / f"{verb}.csv")
        for verb in WRITING:
            words = {
                "calibrate": ("calibrate", "{out}", "--by", "vector", "--json"),
                "learn": ("learn", "{out}", str(arena.folder / "more.csv"), "--test-labels", "--json"),
                "fit": victim.fit,
                "report": ("report", "{out}"),
            }[verb]
            own = next(copies)
            shutil.copytree(run, own)
            (arena.folder / "more.csv").write_text("id,label\n9,red\n", encoding="utf-8")
            found[verb] = _result(arena, words, own, own / "report.html" if verb == "report" else None)
    return found


def _result(arena: Arena, words: tuple[str, ...], run: Path, table: Path | None) -> tuple[int, str, str]:
    places = {
        "out": str(run),
        "graph": str(arena.ground.graph),
        "table": str(table),
        "labels": str(arena.ground.labels),
    }
    code, output, errors = answer(*[word.format(**places) for word in words])
    text = output + (
        table.read_text(encoding="utf-8", errors="replace") if table is not None and table.exists() else ""
    )
    text = text.replace(str(run), "RUN")
    if table is not None:
        text = text.replace(str(table.parent), "PLACE")
    text = re.sub(r'"[a-z_]*seconds": [0-9.e-]+|"memory_available": "[^"]*"', "", text)
    if words[0] == "doctor" and code == 65:  # its findings are its result
        errors = output
    if words[0] == "report":
        text = str(code)  # it says when it was made
    return code, hashlib.sha256(text.encode()).hexdigest(), errors
