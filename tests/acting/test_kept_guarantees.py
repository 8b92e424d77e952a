"""Guarantees on average in simulation: 1,000 draws, the mean of what is guaranteed, its interval, beside the level.

``certified``, which holds with a probability, is in test_certified.py; sets of a model on a graph are in
tests/uncertainty/test_conditional_sets.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphsde.acting.expected import risk_controlling_bound, selection_p_values
from graphsde.uncertainty.conformal.intervals import conformal_quantile
from graphsde.uncertainty.multiple_testing import benjamini_hochberg, conformal_p_values

DRAWS, LIMIT, LEVEL = 1000, 0.1, 0.9
RISK = 0.25
"""A node of doubt u, uniform, is wrong with probability RISK · u: below the threshold t a share RISK · t / 2 is."""


def nodes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    doubt = rng.random(count)
    return doubt, rng.random(count) < RISK * doubt


def mean_and_interval(values: list[float]) -> tuple[float, float, float]:
    """Mean over the draws, and the ends of an interval that misses the true one in 1 of 1,000 cases."""
    mean, error = float(np.mean(values)), 3.29 * float(np.std(values)) / np.sqrt(len(values))
    return mean, mean - error, mean + error


def expected_share(rng: np.random.Generator) -> float:
    calibration, decided = nodes(rng, 200), nodes(rng, 300)
    accepted = benjamini_hochberg(selection_p_values(decided[0], *calibration), LIMIT)
    return float(decided[1][accepted].sum() / max(1, accepted.sum()))


def accepted_and_wrong_share(rng: np.random.Generator) -> float:
    bound = risk_controlling_bound(*nodes(rng, 200), LIMIT / 2)
    decided = nodes(rng, 300)
    return float((decided[1] & (decided[0] < bound)).mean())


def fdr_share(rng: np.random.Generator) -> float:
    """In-distribution ones among the flagged; 30 of 100 nodes are moved by three deviations."""
    scores = rng.normal(size=100)
    scores[:30] += 3.0
    flagged = benjamini_hochberg(conformal_p_values(scores, rng.normal(size=400)), LIMIT)
    return float(flagged[30:].sum() / max(1, flagged.sum()))


def fdr_without_ood(rng: np.random.Generator) -> float:
    """Whether anything is flagged where nothing is OOD; so many calibration nodes that a single one could be."""
    return float(benjamini_hochberg(conformal_p_values(rng.normal(size=100), rng.normal(size=1999)), LIMIT).any())


def per_node_share(rng: np.random.Generator) -> float:
    threshold = conformal_quantile(rng.normal(size=99), 1 - LIMIT)
    return float((rng.normal(size=300) > threshold).mean())


def uncovered(group: Callable[[np.ndarray, np.ndarray], np.ndarray] | None) -> Callable[[np.random.Generator], float]:
    """Share of the hard group's nodes whose class is not in the set, with quantiles per group or one for all.

    Scores of true classes are uniform, twice as large in the hard group, which a fifth of the nodes belongs to.
    """

    def share(rng: np.random.Generator) -> float:
        hard = rng.random((2, 400)) < 0.2
        scores = rng.random((2, 400)) * np.where(hard, 2.0, 1.0)
        own = hard[0] if group is not None else np.ones(400, dtype=bool)
        judged = hard[1] if group is not None else np.ones(400, dtype=bool)
        return float((scores[1][judged] > conformal_quantile(scores[0][own], LEVEL)).mean())

    return share


@pytest.mark.parametrize(
    ("name", "level", "draw"),
    [
        ("expected", LIMIT, expected_share),
        ("accepted-and-wrong", LIMIT / 2, accepted_and_wrong_share),
        ("fdr", LIMIT, fdr_share),
        ("fdr without OOD nodes", LIMIT, fdr_without_ood),
        ("per-node", LIMIT, per_node_share),
        ("sets, marginal", 1 - LEVEL, uncovered(None)),
        ("sets, per group", 1 - LEVEL, uncovered(lambda hard, _: hard)),
    ],
)
def test_on_average(name: str, level: float, draw: Callable[[np.random.Generator], float]) -> None:
    rng = np.random.default_rng(1)
    mean, low, high = mean_and_interval([draw(rng) for _ in range(DRAWS)])
    assert low <= level, f"{name}: {mean:.4f}, {low:.4f} to {high:.4f}, beside {level}"
    assert high > 0.5 * level, f"{name} is kept at no cost: {mean:.4f} beside {level}"  # the draw must be able to fail
