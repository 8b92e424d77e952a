"""Ranks of models over all runs that every one of them has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.compare import collect, higher_is_better
from graphsde.runs.statistics import average_ranks, critical_difference


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks (graph and seed), and the distance from which two differ."""

    metric: str
    models: list[str]
    ranks: np.ndarray
    blocks: int
    distance: float


def rank_models(records: Iterable[Mapping[str, Any]], metric: str) -> Ranking | None:
    """Blocks are the (graph, seed) pairs on which every model has the metric; ``None`` where there are too few."""
    found = collect(records)
    models = sorted({label for by_model in found.values() for label in by_model})
    table = []
    for by_model in found.values():
        seeds = sorted({seed for runs in by_model.values() for seed in runs.values})
        for seed in seeds:
            row = [_value(by_model, label, seed, metric) for label in models]
            if not any(math.isnan(value) for value in row):
                table.append(row)
    if len(models) < 2 or len(table) < 2:
        return None
    ranks = average_ranks(np.array(table), higher_is_better=higher_is_better(metric))
    return Ranking(metric, models, ranks, len(table), critical_difference(len(models), len(table)))


def _value(by_model: Mapping[str, Any], label: str, seed: int, metric: str) -> float:
    return float(by_model[label].values.get(seed, {}).get(metric, math.nan)) if label in by_model else math.nan
