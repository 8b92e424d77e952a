"""Which tests reach a line, and whether they notice a mutant there.

Nothing is written to the source files: a child process takes the module with the mistake in it from memory. Children
are forked from a parent that has the large libraries loaded already and no part of the project, so that a mutant costs
the tests and little else. Needs ``os.fork``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal

import pytest
from mutation_operators import Mutant

OFTEN_ENOUGH = 5.0
"""Seconds of the cheapest tests that are tried first: most mutants fail at once."""
FILES_AT_FIRST = 3
ALTOGETHER = 20.0
"""Seconds of tests that one mutant may cost: what only slower tests would notice counts as alive."""
SLOWER = 4.0
"""A mutant may take so many times the time of its tests before it counts as caught in a loop."""
GRACE = 15.0
PATIENCE = 900.0
"""Seconds by the clock before a child that uses no processor time is given up."""
LIBRARIES = ("numpy", "scipy.stats", "scipy.sparse.linalg", "scipy.special", "torch", "yaml", "pydantic", "hypothesis",
             "sklearn.metrics", "torchsde", "torchdiffeq")  # fmt: skip


@dataclass(frozen=True)
class Project:
    """Where sources and tests are.

    Args:
        root: with the folders ``src`` and ``tests``.
        sources: files that mutants are made of, from the root.
        tests: files whose tests may notice them, from the root.
    """

    root: Path
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def module(self, path: str) -> str:
        parts = Path(path).relative_to("src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Test:
    """A test that passes: its id, its seconds, and the lines of each source file that it runs."""

    id: str
    seconds: float
    lines: dict[str, list[int]]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``killed`` by a test (or by a loop without end), ``alive``, or ``unreached``."""

    outcome: Literal["killed", "alive", "unreached"]
    by: str | None
    tests: int


class _Mutated(importlib.abc.MetaPathFinder):
    """Finds one module, with the text that is given."""

    def __init__(self, module: str, file: Path, text: str) -> None:
        self.module, self.file, self.text = module, file, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        folder = [str(self.file.parent)] if self.file.name == "__init__.py" else None
        loader = _Loader(fullname, str(self.file), self.text)
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=loader, submodule_search_locations=folder
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


@dataclass(eq=False)
class _FirstFailure:
    """A plugin of pytest that remembers what failed first."""

    failed: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


@dataclass(eq=False)
class _Tracer:
    """A plugin of pytest that writes down which lines of the sources each test runs, and how long it takes.

    What runs while fixtures are set up counts for every test of the file: a fixture is made once for several.
    """

    files: dict[str, str]  # file name as Python knows it -> path from the root
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    shared: dict[str, set[int]] = field(default_factory=dict)
    _now: dict[str, set[int]] = field(default_factory=dict)

    def _global(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._local if frame.f_code.co_filename in self.files else None

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._now.setdefault(self.files[frame.f_code.co_filename], set()).add(frame.f_lineno)
        return self._local

    @contextlib.contextmanager
    def _into(self, lines: dict[str, set[int]]) -> Any:
        self._now = lines
        threading.settrace(self._global)
        sys.settrace(self._global)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        with self._into(self.shared):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        lines: dict[str, set[int]] = {}
        with self._into(lines):
            result = yield
        self.tests.setdefault(item.nodeid, {})["lines"] = lines
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {})
        test["seconds"] = test.get("seconds", 0.0) + report.duration
        test["passed"] = test.get("passed", True) and report.passed

    def result(self) -> list[dict[str, Any]]:
        done = []
        for name, test in self.tests.items():
            if test.get("passed") and "lines" in test:
                both = {path: sorted(lines | self.shared.get(path, set())) for path, lines in test["lines"].items()}
                both |= {path: sorted(lines) for path, lines in self.shared.items() if path not in both}
                done.append({"id": name, "seconds": round(test["seconds"], 3), "lines": both})
        return done


def preload() -> None:
    """Load the large libraries that tests use, where they are installed."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def in_child(work: Callable[[], Any], seconds: float | None = None) -> Any:
    """What ``work`` returns in a forked process; ``None`` where that took too long or died.

    Args:
        work: returns what JSON can hold.
        seconds: of processor time, so that a busy machine makes no difference.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        child = os.fork()
        if child == 0:
            _live(work, answer, seconds)
        # a child that waits for ever uses no processor time
        end = None if seconds is None else time.monotonic() + max(PATIENCE, SLOWER * seconds)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if end is not None and time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.02)
        return json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else None


def _live(work: Callable[[], Any], answer: Path, seconds: float | None) -> None:
    status = 1
    try:
        os.setsid()
        if seconds is not None:
            limit = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        found = work()
        draft = answer.with_suffix(".draft")
        draft.write_text(json.dumps(found), encoding="utf-8")
        draft.replace(answer)
        status = 0
    finally:
        os._exit(status)


def _pytest(project: Project, ids: Sequence[str], plugin: object, *options: str) -> int:
    os.chdir(project.root)
    sources = str(project.root / "src")
    sys.path.insert(0, sources)
    os.environ["PYTHONPATH"] = sources
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    fixed = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(project.root)]
    if "hypothesis" in sys.modules:
        fixed.append("--hypothesis-seed=0")
    return int(pytest.main([*fixed, *options, *ids], plugins=[plugin]))


def trace_tests(project: Project, file: str) -> list[Test]:
    """The tests of one file that pass, with the lines they run."""
    files = {str(project.root / path): path for path in project.sources}

    def work() -> list[dict[str, Any]]:
        tracer = _Tracer(files)
        _pytest(project, [file], tracer)
        return tracer.result()

    return [Test(**one) for one in in_child(work) or []]


def reached(mutant: Mutant, tests: Sequence[Test]) -> list[Test]:
    """The tests that run a line of the mutant, the quickest first, as many as there is time for.

    What is run on import belongs to no test, and what is compiled before it runs is in no test's lines: then all tests
    that run anything of that file count.
    """
    place = range(mutant.line, mutant.end_line + 1)
    touching = [one for one in tests if one.lines.get(mutant.path)]
    lines = [] if mutant.on_import else touching
    hit = [one for one in lines if any(line in place for line in one.lines[mutant.path])]
    quickest = sorted(hit or touching, key=lambda one: one.seconds)
    spent = itertools.accumulate(one.seconds for one in quickest)
    return [one for one, so_far in zip(quickest, spent, strict=True) if so_far <= ALTOGETHER] or quickest[:1]


def judge(project: Project, mutant: Mutant, tests: Sequence[Test]) -> Outcome:
    """Run the tests that reach a mutant until one fails that passes without it."""
    wanted = reached(mutant, tests)
    text = mutant.apply(project.text(mutant.path))
    ran = 0
    for some in _in_turn(mutant, wanted):
        left = some
        while left:
            found = _run(project, left, mutant.path, text)
            ran += len(left)
            if found is None:
                return Outcome("killed", "no answer in time", ran)
            status, failed = found
            if status == 0:
                break
            if failed is None:  # pytest did not come to the tests
                if _passes(project, tuple(one.id for one in left[:1])):
                    return Outcome("killed", "it can't be imported", ran)
                raise RuntimeError(f"{left[0].id} does not run without a mutant either")
            if "::" not in failed or _passes(project, (failed,)):
                return Outcome("killed", failed, ran)
            left = [one for one in left if one.id != failed]
    return Outcome("alive" if wanted else "unreached", None, ran)


def _run(project: Project, tests: Sequence[Test], path: str, text: str) -> tuple[int, str | None] | None:
    """pytest's status and the first failure, with another text of one source file; ``None`` where it never ends."""

    def work() -> tuple[int, str | None]:
        sys.meta_path.insert(0, _Mutated(project.module(path), project.root / path, text))
        first = _FirstFailure()
        return _pytest(project, [one.id for one in tests], first, "-x"), first.failed

    found = in_child(work, GRACE + SLOWER * sum(one.seconds for one in tests))
    return None if found is None else (found[0], found[1])


_PASSED: dict[tuple[Path, tuple[str, ...]], bool] = {}


def _passes(project: Project, ids: tuple[str, ...]) -> bool:
    """Whether tests pass by themselves on the sources as they are; asked once."""
    key = (project.root, ids)
    if key not in _PASSED:
        _PASSED[key] = in_child(lambda: _pytest(project, ids, _FirstFailure())) == 0
    return _PASSED[key]


def _in_turn(mutant: Mutant, tests: Sequence[Test]) -> list[list[Test]]:
    """A few quick tests from files of the same folder if there are any, then all others."""
    folder = Path(mutant.path).parts[2:-1]
    near = [one for one in tests if Path(one.id.partition("::")[0]).parts[1:-1][:1] == folder[:1]] or list(tests)
    files: list[str] = []
    first: list[Test] = []
    spent = 0.0
    for one in near:
        file = one.id.partition("::")[0]
        if file not in files and len(files) == FILES_AT_FIRST:
            continue
        if spent + one.seconds > OFTEN_ENOUGH and first:
            break
        files += [] if file in files else [file]
        first.append(one)
        spent += one.seconds
    chosen = {one.id for one in first}
    rest = [one for one in tests if one.id not in chosen]
    return [some for some in (first, rest) if some]


def digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\x1f".join(texts).encode()).hexdigest()[:12]
