"""Time of a fit: a trial run of its most expensive epoch, of what follows the last one, and of a prediction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphsde.base.errors import Diverged
from graphsde.models.race import epochs_of_race
from graphsde.nn.training import Rehearsal, rehearse

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph
    from graphsde.models.neural import GraphLearner, NeuralModel

REHEARSED_SAMPLES = 8
"""Samples of the trial prediction, as many as are drawn together; time is proportional for more."""


@dataclass(frozen=True)
class Rehearsed:
    """A model after a miniature fit, and the times of its parts."""

    learner: GraphLearner
    epochs: int
    epoch: Rehearsal
    after: float
    """Seconds from the last epoch to the prediction."""


def rehearse_fit(model: NeuralModel, graph: Graph, samples: int) -> Rehearsed:
    """Try ``model``, a scratch copy that is left in any state, on ``graph``.

    Args:
        model: to try.
        graph: to fit on.
        samples: of the prediction.
    """
    learner = model.learner(graph)
    settings = model.settings
    epoch = rehearse(learner, settings, validate=settings.early_stop)
    after, few = _seconds(lambda: model.take(learner, graph)), min(samples, REHEARSED_SAMPLES)
    try:
        drawing = _seconds(lambda: model.predict(graph, samples=few))
    except Diverged:  # weights after so few steps say nothing about the final ones
        drawing = 0.0
    after += drawing * (samples / few if model.kind == "samples" else 1.0)
    return Rehearsed(learner, settings.epochs, epoch, after)


def seconds_of(tried: Sequence[Rehearsed]) -> float:
    """Of a fit with its prediction, as if all epochs were run; for several members, as if the slowest won the race."""
    longest = max(one.epoch.seconds + one.after for one in tried)
    # every member may advance to the next rung
    beyond = epochs_of_race(len(tried), max(one.epochs for one in tried))
    return longest + beyond * max(one.epoch.seconds / one.epochs for one in tried)


def _seconds(what: Callable[[], object]) -> float:
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin
