"""Where to look next, and when to give up: pure functions of the request and of the trials so far."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from graphsde.errors import MissingExtra
from graphsde.runs.search.question import SearchRequest
from graphsde.runs.search.space import space_of
from graphsde.runs.search.trials import Trial
from graphsde.seeds import derive
from graphsde.tasks.tuning import RUNGS

# trials whose course is known before others are given up by it
FEWEST_FOR_PRUNING = 4
# at random before TPE begins to think; optuna's own ten would leave it nothing to do in a search of eight
FIRST_AT_RANDOM = 3


def next_point(request: SearchRequest, trials: Sequence[Trial]) -> dict[str, Any]:
    """A point of the space that was not tried yet; at first none at all: the model's own settings."""
    space = space_of(request.model.name, request.model.settings)
    if not trials:
        return {}
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
