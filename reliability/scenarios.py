"""Verbs that write, on a graph of 30 nodes: what is there before, the command, and what can be seen of the result."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reliability.warm import Ended, Warm, answer

# what a folder says of itself before anything is finished in it
NOTHING_YET = ("E-NO-RUN", "E-UNFINISHED", "E-NO-BENCH", "E-NO-MODEL")
GRAPH_SEED = 0


@dataclass(frozen=True)
class Scenario:
    """A command that changes a folder.

    Args:
        name: how it is called in the journal.
        before: commands that make the old state.
        command: the one that is attacked; ``{out}`` is the folder, ``{graph}`` the graph, ``{labels}`` its labels.
        observe: what can be seen of the folder, as plain values without times.
        grows: the result comes in parts, each of which counts by itself.
        trains: an interrupted training must go on, not begin anew.
    """

    name: str
    before: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]
    observe: Callable[[Path], Any]
    grows: bool = False
    trains: bool = False


class Ground:
    """The files that all scenarios start from, below one folder."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm
        self.graph, self.labels = folder / "graph", folder / "labels.csv"
        if not self.graph.exists():
            ended = warm.call(lambda: _write_ground(self.graph, self.labels))
            assert ended.code == 0, ended.errors
            warm.learn_imports(ended)
        self._old: dict[tuple[tuple[str, ...], ...], Path] = {}

    def words(self, command: tuple[str, ...], out: Path) -> list[str]:
        places = {"out": str(out), "graph": str(self.graph), "labels": str(self.labels)}
        return [word.format(**places) for word in command]

    def old(self, scenario: Scenario) -> Path:
        """A folder in the state before the command; not to be changed."""
        if scenario.before not in self._old:
            place = self.folder / f"old-{len(self._old)}"
            for command in scenario.before:
                ended = self.warm.graphsde(self.words(command, place))
                assert ended.code == 0, ended.errors
                self.warm.learn_imports(ended)
            self._old[scenario.before] = place
        return self._old[scenario.before]

    def fresh(self, scenario: Scenario, place: Path) -> Path:
        """A copy of that state at ``place``."""
        shutil.rmtree(place, ignore_errors=True)
        if self.old(scenario).exists():
            shutil.copytree(self.old(scenario), place)
        return place

    def seen(self, scenario: Scenario, place: Path) -> Any:
        """What can be seen of ``place``."""
        ended = self.warm.call(lambda: _looked(scenario, place, self.folder))
        self.warm.learn_imports(ended)
        return ended.value

    def aftermath(self, scenario: Scenario, place: Path) -> Aftermath:
        """What an attack has left, and what becomes of it when the same command is given again."""

        def look_and_go_on() -> Any:
            found = _looked(scenario, place, self.folder)
            code, output, errors = answer(*self.words(scenario.command, place))
            return found, code, output, errors, _looked(scenario, place, self.folder)

        ended = self.warm.call(look_and_go_on)
        if ended.value is None:
            raise AssertionError(f"looking at the folder failed: {ended.code} {ended.errors[-500:]}")
        found, code, output, errors, final = ended.value
        return Aftermath(found, code, output, errors, final, ended.epochs)


def _looked(scenario: Scenario, place: Path, scratch: Path) -> Any:
    """Looks at a copy, since even looking may finish what was interrupted."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        copy = Path(name) / place.name
        if place.exists():
            shutil.copytree(place, copy)
        try:
            return scenario.observe(copy)
        except Exception as error:  # whatever it is, it is the finding
            return {"broken": f"{type(error).__name__}: {error}"[:300]}


@dataclass(frozen=True)
class Aftermath:
    """The state that an attack has left; how the same command ended when it was given again, and the state then."""

    found: Any
    code: int
    output: str
    errors: str
    final: Any
    epochs: int


@dataclass(frozen=True)
class Course:
    """An undisturbed run of a scenario: the states before and after, and the calls in between."""

    old: Any
    new: Any
    ended: Ended


def undisturbed(scenario: Scenario, ground: Ground, place: Path) -> Course:
    """Run it once to import, once to trace: the second has the calls that every copy makes."""
    old = ground.seen(scenario, ground.fresh(scenario, place))
    for _ in range(2):
        ended = ground.warm.graphsde(ground.words(scenario.command, ground.fresh(scenario, place)), watched=place)
        ground.warm.learn_imports(ended)
        if ended.code != 0:
            raise AssertionError(f"{scenario.name} fails undisturbed: {ended.errors}")
    if ended.missed:
        raise AssertionError(f"calls that the tracer does not see: {ended.missed}")
    return Course(old, ground.seen(scenario, place), ended)


def _write_ground(graph: Path, labels: Path) -> None:
    import numpy as np

    import graphsde as gs
    from graphsde.graph.build import from_arrays

    rng = np.random.default_rng(GRAPH_SEED)
    classes = np.repeat(np.arange(3), 10)
    features = (rng.normal(size=(3, 8))[classes] * 2 + rng.normal(size=(30, 8))).astype(np.float32)
    same = classes[:, None] == classes[None, :]
    edges = np.stack(np.nonzero(np.triu(rng.random((30, 30)) < np.where(same, 0.4, 0.04), 1)))
    role = np.arange(30) % 10
    made = from_arrays(features, edges, labels=classes, class_names=["red", "green", "blue"], name="tiny")
    masks = {"train": role < 4, "val": (role >= 4) & (role < 6), "calibration": role == 6, "test": role > 6}
    gs.write_tables(made.with_masks(**masks), graph)
    # of a test node and a calibration node
    labels.write_text("id,label\n8,red\n16,green\n", encoding="utf-8")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if "seconds" not in key and key != "run"}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _refusal(code: int, errors: str) -> dict[str, Any]:
    """A folder that says it has nothing to show is in order; anything else that is refused is not."""
    word = errors.partition(":")[0]
    return {"nothing": True} if code == 65 and word in NOTHING_YET else {"broken": errors.strip()[:300], "code": code}


def observe_run(run: Path) -> Any:
    """Answers of ``evaluate``, ``predict`` and ``doctor``; and what is kept: predictions, metrics, model, rounds."""
    from graphsde.runs.folder import RunFolder

    code, output, errors = answer("evaluate", run, "--json", "--samples", 4)
    if code != 0:
        return _refusal(code, errors)
    seen: dict[str, Any] = {"evaluate": _timeless(json.loads(output))}
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "predictions.csv"
        code, _, errors = answer("predict", run, "--out", table, "--samples", 4)
        if code != 0:
            return _refusal(code, errors)
        seen["predict"] = hashlib.sha256(table.read_bytes()).hexdigest()
    code, output, errors = answer("doctor", run, "--json")
    if code != 0:
        return _refusal(code, errors or output[-300:])
    # whether it is whole; that another fit was interrupted beside it is no part of the state
    seen["doctor"] = {key: json.loads(output)["run"][key] for key in ("finished", "problems")}
    folder = RunFolder(run)
    seen["predictions"] = hashlib.sha256(folder.predictions.read_bytes()).hexdigest()
    seen["metrics"] = _timeless(folder.read_metrics())
    tensors, values = folder.load_model().state()
    numbers = hashlib.sha256()
    for key in sorted(tensors):
        numbers.update(key.encode() + tensors[key].contiguous().numpy().tobytes())
    seen["model"] = numbers.hexdigest()
    seen["model_values"] = hashlib.sha256(json.dumps(_timeless(values), sort_keys=True).encode()).hexdigest()
    seen["graph"] = folder.load_graph().fingerprint
    seen["rounds"] = {past.name: _round(past) for past in sorted(run.glob("history/*"))}
    return json.loads(json.dumps(seen))


def _round(past: Path) -> Any:
    """A round before the present one, which can be read as a run."""
    code, output, errors = answer("evaluate", past, "--json", "--samples", 4)
    return _timeless(json.loads(output)) if code == 0 else _refusal(code, errors)


def observe_bench(out: Path) -> Any:
    """The records that count, in their order, without times; and whether one is there twice."""
    from graphsde.base.errors import GraphsdeError
    from graphsde.bench.folder import BenchFolder

    try:
        question, contents = BenchFolder(out).read()
    except GraphsdeError as error:
        return _refusal(error.exit_code, str(error))
    records = [{key: record[key] for key in ("id", "status", "metrics", "curves")} for record in contents.records]
    twice = len(records) - len(contents.latest)
    parts = [_timeless(json.loads(json.dumps(record))) for record in records]
    return {"question": question, "twice": twice, "parts": parts}


def observe_search(out: Path) -> Any:
    """Trials of every model and graph, and the settings that came out."""
    import dataclasses

    from graphsde.base.errors import GraphsdeError
    from graphsde.bench.search import read_settings, read_trials

    parts, best = [], {}
    try:
        for folder in sorted(path for path in out.glob("*") if path.is_dir() and path.name != "configs"):
            parts += [[folder.name, _timeless(dataclasses.asdict(trial))] for trial in read_trials(folder)]
        best = {path.name: read_settings(path) for path in sorted(out.glob("configs/*.yaml"))}
    except GraphsdeError as error:
        return _refusal(error.exit_code, str(error))
    return json.loads(json.dumps({"twice": 0, "parts": parts, "best": best}))


def fit_words(model: str, *more: str) -> tuple[str, ...]:
    return ("fit", "{graph}", "--out", "{out}", "--model", model, "--samples", "4", "--json", *more)


GCN = ("--set", "epochs=4", "--set", "hidden=4")
LGNSDE = ("--no-race", "--set", "epochs=3")
GCN_RUN = (fit_words("gcn", *GCN),)
BENCH: tuple[str, ...] = (
    "bench",
    "misclassification",
    "--datasets",
    "{graph}",
    "--models",
    "label-propagation,gcn",
    "--seeds",
    "2",
)
BENCH += ("--engine", "serial", "--set", "gcn.epochs=2", "--set", "gcn.hidden=4", "--out", "{out}", "--json")
SEARCH: tuple[str, ...] = ("search", "--datasets", "{graph}", "--models", "sgc", "--trials", "2", "--engine", "serial")
SEARCH += ("--out", "{out}", "--configs", "{out}/configs", "--json")

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("fit gcn", (), GCN_RUN[0], observe_run, trains=True),
    Scenario("fit logistic", (), fit_words("logistic"), observe_run),
    Scenario("fit lgnsde", (), fit_words("lgnsde", *LGNSDE), observe_run, trains=True),
    Scenario("fit overwrite", GCN_RUN, fit_words("gcn", *GCN, "--set", "dropout=0", "--overwrite"), observe_run),
    Scenario("calibrate", GCN_RUN, ("calibrate", "{out}", "--json"), observe_run),
    Scenario("learn", GCN_RUN, ("learn", "{out}", "{labels}", "--test-labels", "--json"), observe_run, trains=True),
    Scenario("bench", (), BENCH, observe_bench, grows=True),
    Scenario("search", (), SEARCH, observe_search, grows=True),
)


def complaint(scenario: Scenario, course: Course, found: Any) -> str | None:
    """What is wrong with a state between old and new; ``None`` where it is one of them, or a part of a growing one."""
    if found in (course.old, course.new):
        return None
    if isinstance(found, dict) and "broken" in found:
        return f"the folder can't be used: {found['broken']}"
    if not isinstance(found, dict) or "nothing" in found:
        return "the old result is gone and the new one is not there"
    if scenario.grows:
        known = course.new["parts"]
        if found["twice"] or found["parts"] != known[: len(found["parts"])]:
            return f"parts that an undisturbed run does not have: {len(found['parts'])} of {len(known)}"
        return None
    differing = [key for key in course.new if found.get(key) != course.new[key]]
    if not isinstance(course.old, dict) or "nothing" in course.old:
        return f"a finished run that is not the new one: {', '.join(differing)}"
    same_as_old = [key for key in course.new if found.get(key) == course.old.get(key)]
    return f"a mixture: unlike the new state in {', '.join(differing)}; like the old in {', '.join(same_as_old)}"
