"""A search whose trials are cells of a journal: the study is rebuilt from it at every start."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from graphsde.errors import BadUsage, MissingExtra
from graphsde.runs.bench import BenchRequest, run_bench
from graphsde.runs.bench_folder import BenchFolder
from graphsde.runs.cells import ModelSpec
from graphsde.runs.engines import Limits
from graphsde.runs.search.space import settings_of, space_of
from graphsde.seeds import derive
from graphsde.tasks.tuning import RUNGS

# trials whose course is known before others are given up by it
FEWEST_FOR_PRUNING = 4


@dataclass(frozen=True)
class SearchRequest:
    """What to search.

    Args:
        dataset, model: one pair; settings of ``model`` that are held fixed.
        trials: how many settings are tried, the model's own among them.
        seed: of the trials' training and of the sampler.
        sampler: ``random`` or ``tpe``.
        select: what is minimised or maximised, on validation nodes.
        cpu_minutes: of all trials together; no new one is begun beyond.
        engine, workers: as of a bench.
    """

    dataset: str
    model: ModelSpec
    trials: int = 8
    seed: int = 0
    sampler: Literal["random", "tpe"] = "random"
    select: Literal["nll", "accuracy"] = "nll"
    cpu_minutes: float = 20.0
    engine: str = "processes"
    workers: int | None = 1
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One tried point; ``value`` is ``None`` where the trial failed or was given up."""

    number: int
    chosen: dict[str, Any]
    settings: dict[str, Any]
    value: float | None
    cell: str
    reached: tuple[float, ...]
    cpu_seconds: float
    pruned: bool
    cause: str | None = None


def run_search(
    request: SearchRequest,
    out: str | Path,
    *,
    say: Callable[[str], None] = lambda text: None,
) -> list[Trial]:
    """Try settings one after another until the budget is spent; running again goes on after the last one.

    Trial 0 has the model's own settings, so that a search never ends below them on validation nodes.
    """
    folder = Path(out)
    trials = read_trials(folder)
    while len(trials) < request.trials:
        spent = sum(trial.cpu_seconds for trial in trials)
        if spent > 60 * request.cpu_minutes:
            say(f"the budget of {request.cpu_minutes:g} CPU minutes is spent after {len(trials)} trials")
            break
        chosen = _next_point(request, trials)
        settings = settings_of(request.model.name, chosen, request.model.settings)
        _write_choice(folder, len(trials), chosen, settings, request.select)
        bench = BenchRequest(
            task="tuning",
            datasets=(request.dataset,),
            models=(ModelSpec(request.model.name, settings),),
            seeds=(request.seed,),
            options={**request.options, "thresholds": _thresholds(trials)},
            engine=request.engine,
            workers=request.workers,
            limits=Limits(cpu_seconds=60 * request.cpu_minutes),
        )
        run_bench(bench, _trial_folder(folder, len(trials)), say=say)
        trials = read_trials(folder)
        last = trials[-1]
        failed = f"failed ({last.cause})"
        word = "given up" if last.pruned else (failed if last.value is None else f"{last.value:.4f}")
        say(f"trial {last.number} of {request.model.name} on {request.dataset}: {word} {json.dumps(chosen)}")
    return trials


def best_trial(trials: Sequence[Trial], select: str = "nll") -> Trial:
    """The finished trial with the best validation figure; the earlier one where two are equal."""
    done = [trial for trial in trials if trial.value is not None]
    if not done:
        causes = sorted({trial.cause for trial in trials if trial.cause})
        raise BadUsage(
            "no trial has finished",
            found="; ".join(causes) or None,
            fix="mend the cause, or allow more time",
        )
    sign = 1.0 if select == "nll" else -1.0
    return min(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def read_trials(folder: Path) -> list[Trial]:
    """What was tried in ``folder`` so far, from the journals; one without a record was interrupted and is redone."""
    trials: list[Trial] = []
    while (choice := _trial_folder(folder, len(trials)) / "choice.json").is_file():
        asked = json.loads(choice.read_text(encoding="utf-8"))
        bench = BenchFolder(choice.parent)
        records = list(bench.read()[1].records) if bench.question.is_file() else []
        if not records:
            break
        trials.append(_trial(len(trials), asked, records[-1]))
    return trials


def _trial(number: int, asked: Mapping[str, Any], record: Mapping[str, Any]) -> Trial:
    metrics = record.get("metrics") or {}
    pruned = bool(metrics.get("pruned"))
    value = None if pruned or record["status"] != "done" else metrics.get(f"val_{asked['select']}")
    reached = tuple((record.get("curves") or {}).get("reached", ()))
    seconds = float((record.get("seconds") or {}).get("cpu") or 0.0)
    cause = record.get("cause")
    return Trial(number, asked["chosen"], asked["settings"], value, record["id"], reached, seconds, pruned, cause)


def _next_point(request: SearchRequest, trials: list[Trial]) -> dict[str, Any]:
    """The next point, a pure function of the request and of the trials so far."""
    space = space_of(request.model.name, request.model.settings)
    if not trials:
        return {}
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "cluster") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = derive(request.seed, "search", request.model.name, request.dataset, len(trials)) % 2**32
    samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    study = optuna.create_study(
        direction="minimize" if request.select == "nll" else "maximize", sampler=samplers[request.sampler](seed=seed)
    )
    grid: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in space.items()
    }
    for trial in trials[1:]:
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
    for _ in range(50):  # a point that was tried already teaches nothing
        asked = study.ask(grid)
        if asked.params not in tried:
            break
    return dict(asked.params)


def _thresholds(trials: list[Trial]) -> tuple[float | None, ...]:
    """The median of what earlier trials had reached at each rung (median pruning)."""
    known = [trial for trial in trials if trial.reached]
    if len(known) < FEWEST_FOR_PRUNING:
        return ()
    limits: list[float | None] = []
    for rung in range(len(RUNGS)):
        values = [trial.reached[rung] for trial in known if len(trial.reached) > rung]
        limits.append(statistics.median(values) if len(values) >= FEWEST_FOR_PRUNING else None)
    return tuple(limits)


def _trial_folder(folder: Path, number: int) -> Path:
    return folder / f"trial-{number:03d}"


def _write_choice(folder: Path, number: int, chosen: dict[str, Any], settings: dict[str, Any], select: str) -> None:
    from graphsde import storage

    place = _trial_folder(folder, number)
    place.mkdir(parents=True, exist_ok=True)
    storage.write_json(place / "choice.json", {"chosen": chosen, "settings": settings, "select": select})
