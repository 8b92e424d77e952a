"""Mutation testing: would the suite notice a small mistake in the numerical core?

    python studies/mutants.py            run what is not in the journal yet (``make mutants``)
    python studies/mutants.py --show     the figures and whatever is alive

Mutants are a fixed sample of all small mistakes that the syntax tree allows (``mutation_operators.py``), and a list of
dangerous ones (``known_mutants.yaml``). Each is run against the tests that reach its lines, the quickest first. Mutants
that change no result stand there too, with the reason.

Results are appended to results/mutants/runs.jsonl, one line per mutant; what is there is not run again, except for
mutants that were alive and whose tests have changed since. Which test runs which line is measured first (some minutes)
and kept in results/mutants/coverage.json, file by file until a source or the test file changes.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from mutation_operators import Mutant, mutants_of, textual_mutant
from mutation_runner import Outcome, Project, Test, digest, judge, preload, reached, trace_tests

ROOT = Path(__file__).resolve().parents[1]
KNOWN: dict[str, list[dict[str, str]]] = yaml.safe_load(
    Path(__file__).with_name("known_mutants.yaml").read_text(encoding="utf-8")
)
FOLDER = ROOT / "results" / "mutants"
SEED = 0
AREAS: dict[str, tuple[int, tuple[str, ...]]] = {
    "dynamics": (70, ("sde/*.py", "sde/solvers/*.py", "sde/diffusion/*.py", "sde/drift/graph_*.py")),
    "noise": (15, ("base/keyed_normals.py", "base/seeds.py")),
    "uncertainty": (45, ("uncertainty/*.py", "uncertainty/*/*.py")),
    "metrics": (20, ("metrics/*.py",)),
    "statistics": (15, ("bench/statistics.py",)),
    "lgnsde": (20, ("models/lgnsde/module.py", "models/lgnsde/learner.py", "models/lgnsde/last_layer.py")),
    "abstaining": (10, ("acting/abstain.py", "acting/ood.py")),
    "guarantees": (
        20,
        (
            "acting/certified.py",
            "acting/ladder.py",
            "acting/needed_labels.py",
            "acting/expected.py",
            "acting/plan.py",
            "acting/cross_fit.py",
        ),
    ),
}
"""How many mutants are drawn from which files."""
TESTS = (
    "sde/test_*.py", "uncertainty/test_*.py", "metrics/test_*.py", "bench/test_statistics.py", "bench/test_compare.py",
    "bench/test_theory_bounds.py", "acting/test_abstaining.py", "acting/test_unseen_classes.py",
    "acting/test_certified.py", "acting/test_expected.py", "acting/test_ood_rules.py", "acting/test_plan.py",
    "acting/test_cross_fit.py", "acting/test_decide_guarantees.py",
    "models/test_lgnsde*.py", "models/test_regression_targets.py", "test_ground.py",
)  # fmt: skip


def this_project() -> Project:
    sources = [path for _, patterns in AREAS.values() for path in _files(ROOT / "src" / "graphsde", patterns)]
    return Project(ROOT, tuple(dict.fromkeys(sources)), tuple(_files(ROOT / "tests", TESTS)))


def _files(folder: Path, patterns: Iterable[str]) -> list[str]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.name != "__init__.py"}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def drawn(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """A sample that does not change where code elsewhere does: the lowest hashes of seed and id."""
    return sorted(mutants, key=lambda one: digest([str(seed), one.id]))[:count]


def sample(project: Project, seed: int = SEED) -> list[Mutant]:
    """The dangerous ones, then those drawn; in an order that leaves no area to the end."""
    known = [known_mutant(project, **one) for one in KNOWN["dangerous"]]
    chosen = []
    for count, patterns in AREAS.values():
        files = _files(ROOT / "src" / "graphsde", patterns)
        candidates = [one for path in files for one in mutants_of(path, project.text(path))]
        chosen += drawn(candidates, count, seed)
    return known + drawn(chosen, len(chosen), seed)


def known_mutant(project: Project, name: str, file: str, before: str, after: str) -> Mutant:
    path = f"src/graphsde/{file}"
    return textual_mutant(path, project.text(path), before, after, f"known: {name}")


def coverage(project: Project, store: Path) -> list[Test]:
    """The tests with the lines they run; measured where that is not known."""
    kept: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    sources = digest([project.text(path) for path in project.sources])
    tests: list[Test] = []
    for file in project.tests:
        state = digest([sources, project.text(file)])
        if kept.get(file, {}).get("state") != state:
            found = [asdict(one) for one in trace_tests(project, file)]
            print(f"{file}: {len(found)} tests, {sum(one['seconds'] for one in found):.1f} s", flush=True)
            kept[file] = {"state": state, "tests": found}
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_text(json.dumps(kept), encoding="utf-8")
        tests += [Test(**one) for one in kept[file]["tests"]]
    return tests


def state_of(project: Project, mutant: Mutant, tests: Sequence[Test]) -> str:
    """What a mutant's outcome depends on beside the mutant: the files of the tests that reach it."""
    files = sorted({one.id.partition("::")[0] for one in reached(mutant, tests)})
    return digest([text for file in files for text in (file, project.text(file))])


def run(project: Project, mutants: Sequence[Mutant], tests: Sequence[Test], journal: Path) -> list[dict[str, Any]]:
    """Judge every mutant that the journal has no answer for; all answers of these mutants, in order."""
    done = read(journal)
    journal.parent.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(mutants, 1):
        state = state_of(project, one, tests)
        old = done.get(one.id)
        if old is not None and (old["outcome"] == "killed" or old["tests_state"] == state):
            continue
        known = is_equivalent(_words(one))
        found = Outcome("alive", None, 0) if known else judge(project, one, tests)
        line = {"id": one.id, **_words(one), **asdict(found), "tests_state": state}
        line["date"] = datetime.now(UTC).date().isoformat()
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        done[one.id] = line
        said = f"killed by {found.by}" if found.outcome == "killed" else found.outcome.upper()
        print(f"{number}/{len(mutants)} {one.path}:{one.line} {one.operator}: {said}", flush=True)
    return [done[one.id] for one in mutants]


def _words(mutant: Mutant) -> dict[str, Any]:
    kept = ("path", "line", "function", "operator", "before", "after")
    return {key: value for key, value in asdict(mutant).items() if key in kept}


def read(journal: Path) -> dict[str, dict[str, Any]]:
    """The last answer for every mutant."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return {one["id"]: one for one in map(json.loads, lines)}


def is_equivalent(line: dict[str, Any]) -> str | None:
    """Why a mutant changes no result, if it is known to change none."""
    place = ("file", "function", "before", "after")
    wanted = {**line, "file": line["path"].removeprefix("src/graphsde/")}
    found = [one["reason"] for one in KNOWN["equivalent"] if all(one[key] == wanted[key] for key in place)]
    return found[0] if found else None


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """How many were killed, and what each of the others would change."""
    open_ones = [one for one in lines if one["outcome"] != "killed"]
    same = [one for one in open_ones if is_equivalent(one)]
    counts = Counter(one["operator"].partition(":")[0] for one in lines)
    words = [f"{len(lines)} mutants: {len(lines) - len(open_ones)} killed, {len(same)} equivalent, "
             f"{len(open_ones) - len(same)} alive"]  # fmt: skip
    words.append(", ".join(f"{name} {count}" for name, count in counts.most_common()))
    for one in open_ones:
        reason = is_equivalent(one)
        head = f"{one['outcome']} {one['path']}:{one['line']} in {one['function'] or 'the module'} ({one['operator']})"
        words.append(f"{head}\n    - {one['before']}\n    + {one['after']}" + (f"\n    = {reason}" if reason else ""))
    return "\n".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="what the journal has, without running anything")
    parser.add_argument("--only", default="", help="mutants of files whose path has this in it")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample")
    given = parser.parse_args()
    project = this_project()
    mutants = [one for one in sample(project, given.seed) if given.only in one.path]
    journal = FOLDER / "runs.jsonl"
    if given.show:
        done = read(journal)
        lines = [done[one.id] for one in mutants if one.id in done]
        print(f"{len(lines)} of {len(mutants)} were run")
    else:
        preload()
        lines = run(project, mutants, coverage(project, FOLDER / "coverage.json"), journal)
    print(summary(lines))
    return int(any(one["outcome"] != "killed" and not is_equivalent(one) for one in lines))


if __name__ == "__main__":
    raise SystemExit(main())
