"""Deciding: does the promise of few errors among accepted nodes hold, and for how many nodes?"""

from __future__ import annotations

import math

from pydantic import Field

from graphsde.data.graph import Graph
from graphsde.tasks.decide import decide
from graphsde.tasks.promised import PromiseOptions, PromiseTask
from graphsde.tasks.task import Measurement, ModelMaker, register_task


class DecidingOptions(PromiseOptions):
    """Options of :class:`Deciding`.

    Args:
        max_error, delta: the promise: at most this share of errors, but for this share of draws.
        false_alarm: share of familiar nodes that may be flagged as foreign.
    """

    max_error: float = Field(0.05, gt=0, lt=1)
    delta: float = Field(0.05, gt=0, lt=1)
    false_alarm: float = Field(0.05, gt=0, lt=1)


@register_task
class Deciding(PromiseTask):
    """Errors among the accepted test nodes, how many are accepted, false alarms of the flag for foreign nodes.

    ``kept`` is 1 where the realised error is at most ``max_error``, or nothing was accepted.
    """

    name = "decide"
    summary = "accepting nodes with a promise: realised error among accepted test nodes, coverage, false alarms"
    Options = DecidingOptions
    options: DecidingOptions
    headline = ("kept", "accepted_error", "coverage", "false_alarms", "accuracy")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        o = self.options
        model, prediction, cost = self.predicted(make, graph)
        found = decide(
            prediction,
            graph,
            max_error=o.max_error,
            delta=o.delta,
            false_alarm=o.false_alarm,
            size=o.size,
            seed=seed,
            model=model,
        ).summary()
        test = found["test"]
        error = math.nan if test["error"] is None else test["error"]
        metrics = {
            "kept": float(not error > o.max_error),
            "accepted_error": error,
            "coverage": test["coverage"],
            "upper_bound": math.nan if found["upper_bound"] is None else found["upper_bound"],
            "threshold": math.nan if found["threshold"] is None else found["threshold"],
            "false_alarms": test["false_alarms"],
            "accuracy": 1.0 - test["error_of_all"],
            "set_coverage": test["set_coverage"],
            "set_size": test["set_size"],
            "n_test": float(test["nodes"]),
            "n_accepted": float(test["accepted"]),
            "n_calibration": float(found["calibration"]["nodes"]),
        }
        return Measurement(metrics | cost)
