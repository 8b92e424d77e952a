"""Ranks of models over graphs, from the runs that every one of them has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphsde.errors import BadUsage
from graphsde.runs.compare import Runs, collect
from graphsde.runs.direction import judged_values
from graphsde.runs.statistics import average_ranks, critical_difference


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks, and the distance from which two differ.

    Args:
        metric: ranked by.
        models: in the order of ``ranks``.
        ranks: mean rank of each, 1 being best.
        blocks: how many.
        over: ``graphs``; ``seeds`` where there is a single graph: then the diagram speaks of that graph alone.
        distance: Nemenyi's critical difference.
    """

    metric: str
    models: list[str]
    ranks: np.ndarray
    blocks: int
    over: Literal["graphs", "seeds"]
    distance: float


def rank_models(records: Iterable[Mapping[str, Any]], metric: str) -> Ranking | None:
    """Rank by the mean over the seeds that every model has, graph by graph; ``None`` where there are too few blocks.

    A graph is one block, however many seeds were run on it: seeds of one graph are not independent, and counting them
    as blocks would make the critical difference too small (Demšar, 2006, asks for independent data sets).
    """
    found = collect(records)
    models = sorted({label for by_model in found.values() for label in by_model})
    tables = [table for by_model in found.values() if len(table := _common(by_model, models, metric))]
    over: Literal["graphs", "seeds"] = "graphs" if len(tables) > 1 else "seeds"
    blocks = (
        [table.mean(axis=0) for table in tables] if over == "graphs" else [row for table in tables for row in table]
    )
    if len(models) < 2 or len(blocks) < 2:
        return None
    ranks = average_ranks(np.array(blocks), higher_is_better=True)
    return Ranking(metric, models, ranks, len(blocks), over, critical_difference(len(models), len(blocks)))


def _common(by_model: Mapping[str, Runs], models: list[str], metric: str) -> np.ndarray:
    """Values of the seeds that every model has, turned so that more is better.  # [seeds, models]"""
    values = {
        label: {
            str(seed): run[metric]
            for seed, run in (by_model[label].values.items() if label in by_model else ())
            if not math.isnan(run.get(metric, math.nan))
        }
        for label in models
    }
    turned = judged_values(metric, values)
    if turned is None:
        raise BadUsage(f"'{metric}' is neither better high nor low, so that nothing can be ranked by it", found=metric)
    seeds = sorted(set.intersection(*[set(own) for own in turned.values()])) if turned else []
    return np.array([[turned[label][seed] for label in models] for seed in seeds]).reshape(len(seeds), len(models))
