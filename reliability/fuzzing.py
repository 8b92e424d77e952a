"""Coverage-guided fuzzing of everything that reads a file: only typed errors may leave."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from reliability.arena import Arena, Case, Verdict
from reliability.fuzz_bases import make_bases
from reliability.fuzz_targets import TARGETS, Prey, Target, keep, seeds
from reliability.journal import ROOT

# of the whole time, and of one target
SHARE, LEAST_SECONDS = 0.25, 5
KEPT_SEEDS = 6


def fuzzing(arena: Arena) -> Iterator[Case]:
    """The kept corpus on every target; then, unless it should be quick, new inputs as coverage leads to them."""
    bases = make_bases(arena)
    for target in TARGETS:
        yield Case(f"{target.name}: corpus", lambda t=target: _replay(arena, t, bases))  # type: ignore[misc]
    if not arena.quick:
        for target in TARGETS:
            yield Case(f"{target.name}: new inputs", lambda t=target: _hunt(arena, t, bases))  # type: ignore[misc]


def _replay(arena: Arena, target: Target, bases: Path) -> Verdict:
    def feed() -> list[str]:
        prey = Prey(target, bases, arena.folder / "prey")
        found = [] if prey.feed(prey.good) is None else ["the good file is refused"]
        for content in seeds(prey):
            try:
                prey.feed(content)
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}"[:200])
        return found

    ended = arena.warm.call(feed)
    arena.warm.learn_imports(ended)
    found = ended.value if ended.code == 0 else [ended.errors.strip()[-300:]]
    return Verdict(sorted(set(found)), ended.seconds, ended.megabytes, f"{len(list_seeds(target)) + 1} inputs")


def list_seeds(target: Target) -> list[Path]:
    from reliability.fuzz_targets import CORPUS

    return sorted((CORPUS / target.name).glob("*"))


def _hunt(arena: Arena, target: Target, bases: Path) -> Verdict:
    if find_spec("atheris") is None:
        return Verdict(["atheris is not installed: pip install atheris"])
    folder = arena.folder / "hunt"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    seconds = max(LEAST_SECONDS, round(60 * arena.minutes * SHARE / len(TARGETS)))
    command = [sys.executable, "-m", "reliability.fuzz_worker", target.name, str(bases), str(folder), str(seconds)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    begin = time.perf_counter()
    with open(folder / "log", "wb") as log:
        code = subprocess.run(
            command, stdout=log, stderr=log, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": path}
        ).returncode
    told = (folder / "log").read_text(encoding="utf-8", errors="replace")
    prey, found = Prey(target, bases, folder / "prey"), []
    for note in sorted(folder.glob("finding-*.json")):
        facts = json.loads(note.read_text(encoding="utf-8"))
        where = keep(prey, note.with_suffix(".bin").read_bytes(), "found")
        found.append(f"{facts['what']} ({facts['message']}), kept as {where.name if where else 'nothing: too large'}")
    for artifact in sorted(folder.glob("artifact-*")):
        where = keep(prey, artifact.read_bytes(), artifact.name.split("-")[1])
        found.append(f"{artifact.name.split('-')[1]}, kept as {where.name if where else 'nothing: too large'}")
    if code != 0 and not found:
        found.append(f"the fuzzer ended with {code}: {told.strip()[-300:]}")
    if arena.grow:
        new = [path.read_bytes() for path in (folder / "corpus").iterdir() if not path.name.startswith("seed-")]
        for content in sorted(new, key=len)[-KEPT_SEEDS * 4 :: 4]:
            keep(prey, content, "seed")
    runs, coverage = _last(r"number_of_executed_units:\s+(\d+)", told), _last(r"cov: (\d+)", told)
    memory = _last(r"peak_rss_mb:\s+(\d+)", told)
    detail = f"{runs:,} inputs, {coverage:,} branches"
    return Verdict(found, time.perf_counter() - begin, float(memory), detail)


def _last(pattern: str, text: str) -> int:
    found = 0
    with contextlib.suppress(IndexError):
        found = int(re.findall(pattern, text)[-1])
    return found
