"""A search whose trials are cells of a journal: the study is rebuilt from it at every start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from graphsde.runs.bench import BenchRequest, run_bench
from graphsde.runs.cells import ModelSpec
from graphsde.runs.engines import Limits
from graphsde.runs.lock import exclusive
from graphsde.runs.search.question import SearchRequest, claim
from graphsde.runs.search.sampling import next_point, thresholds
from graphsde.runs.search.space import settings_of
from graphsde.runs.search.trials import Trial, read_trials, trial_folder, write_choice

Say = Callable[[str], None]


def run_search(request: SearchRequest, out: str | Path, *, say: Say = lambda text: None) -> list[Trial]:
    """Try settings one after another until the budget is spent; running again goes on after the last one.

    Trial 0 has the model's own settings, so that a search never ends below them on validation nodes. The folder is
    held from the first look at it to the last trial: two searches in it would take turns at one study.
    """
    folder = Path(out)
    with exclusive(folder):
        claim(folder, request)
        trials = read_trials(folder, request.select)
        while len(trials) < request.trials:
            left = 60 * request.cpu_minutes - sum(trial.cpu_seconds for trial in trials)
            if left <= 0:
                say(f"the budget of {request.cpu_minutes:g} CPU minutes is spent after {len(trials)} trials")
                break
            _try(request, folder, trials, min(Limits().cpu_seconds, left), say)
            trials = read_trials(folder, request.select)
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
        seeds=(request.seed,),
        options={**request.options, "thresholds": thresholds(trials), "select": request.select},
        engine=request.engine,
        address=request.address,
        workers=request.workers,
        limits=Limits(cpu_seconds=cpu_seconds),
    )
    run_bench(bench, trial_folder(folder, number), say=say)
    last = read_trials(folder, request.select)[-1]
    failed = f"failed ({last.cause})"
    word = "given up" if last.pruned else (failed if last.value is None else f"{last.value:.4f}")
    say(f"trial {last.number} of {request.model.name} on {request.dataset}: {word} {json.dumps(chosen)}")
