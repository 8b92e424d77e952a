"""Hyperparameters chosen on validation nodes, with the same budget for every model; trials are cells of a journal."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage, MissingExtra
from graphsde.base.lock import exclusive
from graphsde.base.seeds import derive, numpy_stream
from graphsde.bench.cells import ModelSpec, canonical
from graphsde.bench.engines import Limits
from graphsde.bench.folder import BenchFolder
from graphsde.bench.run import BenchRequest, run_bench
from graphsde.bench.tasks.task import TASKS
from graphsde.bench.tasks.tuning import RUNGS
from graphsde.datasets.source import open_graph
from graphsde.io.graph_yaml import load_plain_yaml
from graphsde.models import MODELS

GRID: dict[str, tuple[Any, ...]] = {
    "lr": (0.001, 0.005, 0.01, 0.1),
    "weight_decay": (0.01, 0.001, 5e-4, 1e-4),
    "epochs": (15, 100, 200, 300),
    "dropout": (0.0, 0.1, 0.3, 0.5),
    "hidden": (16, 32, 64, 128, 256),
    "step": (0.01, 0.05, 0.1, 0.2),
}
"""The grid of the LGNSDE study (its appendix)."""

# names of the parameter in models, in order of preference
WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "dropout": (("dropout",), ("feature_dropout", "decoder_dropout")),
    "step": (("steps", "horizon"),),
}


def space_of(
    model: str,
    settings: dict[str, Any] | None = None,
    also: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    without: Sequence[str] = (),
) -> dict[str, tuple[Any, ...]]:
    """The grid's parameters that a model has, ``without`` some, and values of settings that are ``also`` tried.

    Example:
        >>> sorted(space_of("gcn"))
        ['dropout', 'epochs', 'hidden', 'lr', 'weight_decay']
    """
    fields = _fields(model, settings)
    space = {}
    for name, values in GRID.items():
        if name not in without and any(set(words) <= fields for words in WORDS.get(name, ((name,),))):
            space[name] = values
    return space | {name: tuple(values) for name, values in also.items()}


def settings_of(model: str, chosen: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A point of the space as settings of the model (of the members, for an ensemble)."""
    fields = _fields(model, base)
    found: dict[str, Any] = {}
    for name, value in chosen.items():
        if name == "step":
            horizon = MODELS.get(model)(**base).settings.model_dump().get("horizon", 1.0)
            found["steps"] = max(1, round(horizon / value))
        else:
            words = next((words for words in WORDS.get(name, ((name,),)) if set(words) <= fields), (name,))
            found |= dict.fromkeys(words, value)
    if "base_settings" in MODELS.get(model).Settings.model_fields:
        return {**base, "base_settings": {**base.get("base_settings", {}), **found}}
    return {**base, **found}


def _fields(model: str, settings: dict[str, Any] | None) -> set[str]:
    cls = MODELS.get(model)
    if "base_settings" in cls.Settings.model_fields:
        member = (settings or {}).get("base", cls.Settings.model_fields["base"].default)
        return set(MODELS.get(member).Settings.model_fields)
    return set(cls.Settings.model_fields)


Select = Literal["nll", "accuracy"]

# a trial whose worker was lost has no time; count the limit of a cell
LOST_SECONDS = 600.0


@dataclass(frozen=True)
class Trial:
    """One tried point; ``value`` is ``None`` if the trial failed or was pruned, ``data`` is the graph's fingerprint.

    Of several trainings, ``value`` and ``reached`` are means, ``cell`` is the first one and ``cpu_seconds`` are theirs
    together; one that failed or was given up decides for all.
    """

    number: int
    chosen: dict[str, Any]
    settings: dict[str, Any]
    value: float | None
    cell: str
    reached: tuple[float, ...]
    cpu_seconds: float
    pruned: bool
    cause: str | None = None
    data: str = ""


def trial_folder(folder: Path, number: int) -> Path:
    return folder / f"trial-{number:03d}"


def write_choice(folder: Path, number: int, chosen: dict[str, Any], settings: dict[str, Any]) -> None:
    """Announce what a trial will try, before it starts; runs of an interrupted one that tried another point go."""
    place = trial_folder(folder, number)
    choice = place / "choice.json"
    asked = json.loads(json.dumps({"chosen": chosen, "settings": settings}))
    if choice.is_file() and storage.read_json(choice) != asked:
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    storage.write_json(choice, asked)


def read_trials(folder: Path, select: Select = "nll", runs: int = 1) -> list[Trial]:
    """What was tried in ``folder`` so far; a trial with fewer than ``runs`` records was interrupted and is redone."""
    trials: list[Trial] = []
    while (choice := trial_folder(folder, len(trials)) / "choice.json").is_file():
        try:
            asked = storage.read_json(choice)
            chosen, settings = dict(asked["chosen"]), dict(asked["settings"])
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(
                "choice.json is damaged",
                code="E-CORRUPT",
                place=str(choice),
                fix="delete the folder of the trial: it will be run again",
            ) from error
        bench = BenchFolder(choice.parent)
        records = list(bench.read()[1].latest.values()) if bench.question.is_file() else []
        if len(records) < runs:
            break
        found = [_trial(len(trials), chosen, settings, record, select) for record in records]
        trials.append(_together(found) if runs > 1 else found[-1])
    return trials


def _together(runs: Sequence[Trial]) -> Trial:
    """Several trainings of one trial as one."""
    values = [run.value for run in runs if run.value is not None]
    return replace(
        runs[0],
        value=statistics.fmean(values) if len(values) == len(runs) else None,
        reached=tuple(map(statistics.fmean, zip(*(run.reached for run in runs), strict=False))),
        cpu_seconds=sum(run.cpu_seconds for run in runs),
        pruned=any(run.pruned for run in runs),
        cause=next((run.cause for run in runs if run.cause), None),
    )


def best_trial(trials: Sequence[Trial], select: Select = "nll") -> Trial:
    """The finished trial with the best validation metric; the earlier one in a tie."""
    done = [trial for trial in trials if trial.value is not None]
    if not done:
        causes = sorted({trial.cause for trial in trials if trial.cause})
        told = "; ".join(causes) or None
        raise BadUsage("no trial has finished", found=told, fix="fix the cause, or allow more time")
    sign = 1.0 if select == "nll" else -1.0
    return min(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def _trial(
    number: int, chosen: dict[str, Any], settings: dict[str, Any], record: Mapping[str, Any], select: Select
) -> Trial:
    metrics = record.get("metrics") or {}
    pruned = bool(metrics.get("pruned"))
    value = None if pruned or record["status"] != "done" else metrics.get(f"val_{select}")
    reached = tuple((record.get("curves") or {}).get("reached", ()))
    seconds = float((record.get("seconds") or {}).get("cpu") or 0.0)
    if record["status"] != "done" and not seconds:
        seconds = LOST_SECONDS
    cell, cause = record["cell"], record.get("cause")
    return Trial(number, chosen, settings, value, record["id"], reached, seconds, pruned, cause, cell["data"])


@dataclass(frozen=True)
class SearchRequest:
    """What to search.

    Args:
        dataset, model: one pair; settings of ``model`` that are held fixed.
        trials: how many settings are tried, the model's own among them.
        around: how many more are tried then, neighbours of the best one in the grid.
        seed: of the trials' training and of the sampler.
        runs: trainings of each trial, with seeds from ``seed`` on; the mean counts.
        also: settings to try in addition to the grid, with their values in order.
        named: points to try first, after the model's own settings; they count among ``trials``. Those that are named
            when the others have been tried come last.
        without: parameters of the grid that are not searched.
        prune: give up a trial that is behind the median of earlier ones; it may only have been slower at first.
        sampler: ``random`` in the whole grid, ``tpe``, or ``near``: the model's own settings with a few of them
            changed, every parameter in as many trials as the others and to another value each time; named points
            take the places of the first of them.
        select: what is minimised or maximised, on validation nodes.
        cpu_minutes: of all trials together; no new one is started beyond.
        engine, workers, address: as of a bench.
    """

    dataset: str
    model: ModelSpec
    trials: int = 8
    around: int = 0
    seed: int = 0
    runs: int = 1
    also: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    named: Sequence[Mapping[str, Any]] = ()
    without: Sequence[str] = ()
    prune: bool = True
    sampler: Literal["random", "tpe", "near"] = "random"
    select: Select = "nll"
    cpu_minutes: float = 20.0
    engine: str = "processes"
    workers: int | None = 1
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def question(self) -> dict[str, Any]:
        """All that an earlier start of the same search must agree with; engine and named points may change, and so may
        the length if nothing is tried around the best one."""
        return self._more() | {
            "dataset": self.dataset,
            "data": open_graph(self.dataset).fingerprint,
            "model": self.model.name,
            "settings": self.model.settings,
            "seed": self.seed,
            "sampler": self.sampler,
            "select": self.select,
            "options": self.options,
            "versions": {"task": TASKS.get("tuning").version, "model": MODELS.get(self.model.name).version},
        }

    def _more(self) -> dict[str, Any]:
        """What only some searches have, so that the others are what they were."""
        optional = {
            "runs": (self.runs, 1),
            "without": (list(self.without), []),
            "prune": (self.prune, True),
            "also": (dict(self.also), {}),
        }
        nearby = {"trials": self.trials, "around": self.around} if self.around else {}
        return nearby | {name: value for name, (value, usual) in optional.items() if value != usual}


def claim(folder: Path, request: SearchRequest) -> None:
    """Write the question into a new folder, or refuse a folder that holds another one; call it under the lock."""
    path = folder / "search.json"
    now = json.loads(json.dumps(request.question()))
    if not path.is_file():
        if (folder / "trial-000").is_dir():
            raise BadInput("search.json is missing", code="E-CORRUPT", place=str(path), fix=_ELSEWHERE)
        storage.write_json(path, now)
        return
    try:
        then = dict(storage.read_json(path))
    except (ValueError, TypeError) as error:
        raise BadInput("search.json is damaged", code="E-CORRUPT", place=str(path), fix=_ELSEWHERE) from error
    changed = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if changed:
        code = "E-DATA-CHANGED" if changed == ["data"] else "E-BENCH-CHANGED"
        told = "; ".join(f"{name}: {then.get(name)} then, {now.get(name)} now" for name in changed)
        raise BadUsage(f"{folder} holds another search ({told})", code=code, fix=_ELSEWHERE)


_ELSEWHERE = "choose another --out"


# trials that must be finished before others are pruned by them
FEWEST_FOR_PRUNING = 4
# random trials before TPE starts; optuna's default of ten would leave it nothing to do in a search of eight
FIRST_AT_RANDOM = 3


def next_point(request: SearchRequest, trials: Sequence[Trial]) -> dict[str, Any]:
    """An untried point of the space; the first one is empty: the model's own settings."""
    space = space_of(request.model.name, request.model.settings, request.also, request.without)
    if not trials:
        return {}
    if untried := untried_of(request, trials):
        return untried[0]
    if request.around and len(trials) >= request.trials:
        return neighbour(request, trials, space)
    if request.sampler == "near":
        own = _own_point(request, space)
        tried = [own | trial.chosen for trial in trials]
        designed = (_near(request, space, number) for number in range(len(trials), _points_of(space)))
        others = (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))
        return next(point for point in itertools.chain(designed, others) if own | point not in tried)
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "cluster") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = derive(request.seed, "search", request.model.name, request.dataset, len(trials)) % 2**32
    sampler: optuna.samplers.BaseSampler = (
        optuna.samplers.RandomSampler(seed=seed)
        if request.sampler == "random"
        else optuna.samplers.TPESampler(seed=seed, n_startup_trials=FIRST_AT_RANDOM)
    )
    study = optuna.create_study(direction="minimize" if request.select == "nll" else "maximize", sampler=sampler)
    grid: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in space.items()
    }
    for trial in trials[1:]:
        if set(trial.chosen) != set(grid):  # a named point: optuna knows whole points of its space only
            continue
        finished = trial.value is not None and math.isfinite(trial.value)
        study.add_trial(
            optuna.trial.create_trial(
                params=trial.chosen,
                distributions=grid,
                value=trial.value if finished else None,
                state=optuna.trial.TrialState.COMPLETE if finished else optuna.trial.TrialState.FAIL,
            )
        )
    tried = [trial.chosen for trial in trials]
    for _ in range(50):  # a point that was already tried teaches nothing
        asked = study.ask(grid)
        if asked.params not in tried:
            break
    return dict(asked.params)


def _points_of(space: Mapping[str, Sequence[Any]]) -> int:
    return math.prod(map(len, space.values()))


def nothing_left(request: SearchRequest, trials: Sequence[Trial]) -> bool:
    """Every point of the space has been tried; so has that of a model with nothing to search, by its own settings."""
    space = space_of(request.model.name, request.model.settings, request.also, request.without)
    if len(trials) < _points_of(space):
        return False
    own = _own_point(request, space)
    return len({canonical(own | trial.chosen) for trial in trials}) >= _points_of(space)


def untried_of(request: SearchRequest, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """The named points that no trial had yet."""
    tried = [trial.chosen for trial in trials]
    return [dict(point) for point in request.named if dict(point) not in tried]


def _near(request: SearchRequest, space: dict[str, tuple[Any, ...]], number: int) -> dict[str, Any]:
    """Trial ``number`` of a design in which every parameter is changed in a third of the trials.

    A model's own settings are its authors': most points of the whole grid are far worse, above all if it has many
    parameters.
    """
    own, trials = _own_point(request, space), range(1, min(max(request.trials, number + 1), _points_of(space)))
    changes: dict[int, dict[str, Any]] = {trial: {} for trial in trials}
    rng = numpy_stream(request.seed, "search", "near", request.model.name, request.dataset)
    others: dict[str, list[Any]] = {}
    for name, values in space.items():
        usual = values[_nearest(values, own[name])] if name in own else None
        others[name] = [values[place] for place in rng.permutation(len(values)) if values[place] != usual] or [usual]
        often = max(1, round(len(trials) / 3))
        for turn, trial in enumerate(rng.permutation(list(trials))[:often].tolist()):
            changes[trial][name] = others[name][turn % len(others[name])]
    for trial, point in changes.items():  # none repeats the model's own settings, or another trial
        while not point or any(point == changes[earlier] for earlier in range(1, trial)):
            name = str(rng.choice(list(space)))
            point[name] = others[name][int(rng.integers(len(others[name])))]
    return changes[number]


def neighbour(request: SearchRequest, trials: Sequence[Trial], space: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """A point next to the best one so far that was not tried: one parameter, or two, by one place in the grid."""
    best = best_trial(trials, request.select).chosen
    own = _own_point(request, space)
    tried = [own | trial.chosen for trial in trials]
    rng = numpy_stream(request.seed, "search", "around", request.model.name, request.dataset, len(trials))
    point = dict(best)
    for attempt in range(200):
        point = dict(best)
        # after a while every single step may have been tried
        for name in rng.permutation(list(space))[: 1 if attempt < 100 else 2].tolist():
            values = space[name]
            place = _nearest(values, point.get(name, own.get(name, values[0]))) + int(rng.choice((-1, 1)))
            point[name] = values[min(max(place, 0), len(values) - 1)]
        if own | point not in tried:  # a step beyond the grid ends where it began
            break
    return point


def _own_point(request: SearchRequest, space: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Where the model's own settings are in the space, as near as the grid has it."""
    model = MODELS.get(request.model.name)(**request.model.settings)
    model.resolve(open_graph(request.dataset))
    values = model.settings.model_dump()
    if "base_settings" in values:
        member = MODELS.get(values["base"])(**values["base_settings"])
        member.resolve(open_graph(request.dataset))
        values = member.settings.model_dump()
    found = {}
    for name in space:
        if name == "step":
            found[name] = values["horizon"] / values["steps"]
        else:
            words = next((words for words in WORDS.get(name, ((name,),)) if set(words) <= set(values)), (name,))
            found[name] = values.get(words[0])
    return {name: value for name, value in found.items() if value is not None}


def _nearest(values: Sequence[Any], value: Any) -> int:
    """The place of the value in the grid that is nearest, by ratio where there is no zero."""
    if not all(isinstance(one, int | float) for one in (*values, value)):
        return list(values).index(value) if value in values else 0
    scale = math.log if min(*values, value) > 0 else float
    return min(range(len(values)), key=lambda place: abs(scale(values[place]) - scale(value)))


def thresholds(trials: Sequence[Trial]) -> tuple[float | None, ...]:
    """The median of what earlier trials had reached at each rung (median pruning)."""
    known = [trial for trial in trials if trial.reached]
    if len(known) < FEWEST_FOR_PRUNING:
        return ()
    limits: list[float | None] = []
    for rung in range(len(RUNGS)):
        values = [trial.reached[rung] for trial in known if len(trial.reached) > rung]
        limits.append(statistics.median(values) if len(values) >= FEWEST_FOR_PRUNING else None)
    return tuple(limits)


Say = Callable[[str], None]


def run_search(
    request: SearchRequest, out: str | Path, *, say: Say = lambda text: None, until: float | None = None
) -> list[Trial]:
    """Try settings one after another until the budget is spent; running it again continues after the last one.

    No trial begins after ``until``, a time of ``time.monotonic``.

    Trial 0 has the model's own settings, so that a search never ends below them on validation nodes. The folder is
    locked from start to end: two searches must not share it.
    """
    folder = Path(out)
    with exclusive(folder):
        claim(folder, request)
        trials = read_trials(folder, request.select, request.runs)
        while len(trials) < request.trials + request.around or untried_of(request, trials):
            left = 60 * request.cpu_minutes - sum(trial.cpu_seconds for trial in trials)
            if left <= 0:
                say(f"the budget of {request.cpu_minutes:g} CPU minutes is spent after {len(trials)} trials")
                break
            if nothing_left(request, trials):
                say(f"every point of the grid has been tried after {len(trials)} trials")
                break
            if until is not None and time.monotonic() > until:
                say(f"time is up after {len(trials)} trials")
                break
            _try(request, folder, trials, min(Limits().cpu_seconds, left), say)
            trials = read_trials(folder, request.select, request.runs)
    return trials


def _try(request: SearchRequest, folder: Path, trials: list[Trial], cpu_seconds: float, say: Say) -> None:
    number = len(trials)
    chosen = next_point(request, trials)
    settings = settings_of(request.model.name, chosen, request.model.settings)
    write_choice(folder, number, chosen, settings)
    bench = BenchRequest(
        task="tuning",
        datasets=(request.dataset,),
        models=(ModelSpec(request.model.name, settings),),
        seeds=tuple(range(request.seed, request.seed + request.runs)),
        options={
            **request.options,
            "thresholds": thresholds(trials) if request.prune else (),
            "select": request.select,
        },
        engine=request.engine,
        address=request.address,
        workers=request.workers,
        limits=Limits(cpu_seconds=cpu_seconds),
    )
    run_bench(bench, trial_folder(folder, number), say=say)
    last = read_trials(folder, request.select, request.runs)[-1]
    failed = f"failed ({last.cause})"
    word = "pruned" if last.pruned else (failed if last.value is None else f"{last.value:.4f}")
    say(f"trial {last.number} of {request.model.name} on {request.dataset}: {word} {json.dumps(chosen)}")


def place_of(model: str, dataset: str) -> str:
    """Names of folders and files of a search; ``model`` as on the command line."""
    return f"{model}-{Path(dataset).name}"


def kept_settings(configs: Path, model: str, dataset: str) -> Path | None:
    """The file in which a search has left the best settings of a model for a graph."""
    path = configs / f"{place_of(model, dataset)}.yaml"
    return path if path.is_file() else None


def tuned(spec: ModelSpec, text: str, datasets: Sequence[str], configs: Path) -> ModelSpec:
    """The model with the settings that a search has left in ``configs`` for each of the graphs."""
    found, data = {}, {}
    for dataset in datasets:
        path = configs / f"{place_of(text, dataset)}.yaml"
        if not path.is_file():
            raise BadUsage(
                f"no settings of '{text}' for {Path(dataset).name}",
                place=str(configs),
                expected=path.name,
                fix=f"graphsde search --datasets {Path(dataset).name} --models {text} --configs {configs} --out FOLDER",
            )
        content = _read(path)
        found[dataset] = dict(content["settings"])
        if content.get("data"):
            data[dataset] = str(content["data"])
    return replace(spec, found=found, found_on=data, called=f"{text} (tuned)")


def write_best(path: Path, request: SearchRequest, best: Trial, trials: int) -> None:
    """Settings of the best trial, with how they were found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "model": request.model.name,
        "dataset": Path(request.dataset).name,
        "data": best.data,
        "settings": best.settings,
        "found": {
            "trial": best.number,
            "cell": best.cell,
            f"val_{request.select}": best.value,
            "trials": trials,
            "sampler": request.sampler,
            "seed": request.seed,
            **({"runs": request.runs} if request.runs > 1 else {}),
        },
    }
    storage.write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a file that :func:`write_best` wrote."""
    return dict(_read(path)["settings"])


def read_recipe(path: Path, model: str | None = None) -> tuple[str, dict[str, Any]]:
    """The model and its settings in such a file; refused if they are those of another model than ``model``."""
    content = _read(path)
    name = str(content.get("model", model or ""))
    if name not in MODELS:
        raise BadInput("a model that is not known here", code="E-CORRUPT", place=str(path), found=name or "none")
    if model not in (None, name):
        raise BadUsage("the settings are another model's", place=str(path), found=name, expected=model)
    return name, content["settings"]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = dict(load_plain_yaml(storage.read_text(path), path.name))
        return {**content, "settings": dict(content["settings"])}
    except (BadInput, TypeError, KeyError, ValueError) as error:
        raise BadInput(
            "not a file of settings", code="E-CORRUPT", place=str(path), fix="use one of graphsde search --configs"
        ) from error
