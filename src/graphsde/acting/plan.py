"""Before any label is bought: how many calibration labels a guarantee needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.guarantee import Guarantee, certified_guarantee, expected_guarantee
from graphsde.base.errors import BadUsage
from graphsde.uncertainty.binomial import MOST_NODES, nodes_for_power, nodes_to_certify
from graphsde.uncertainty.held_out import require_share

ERRORS = (0.25, 0.5, 0.75)
"""Assumed error among accepted nodes, as shares of the limit."""
POWERS = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Need:
    """What one guarantee needs under one assumption.

    Args:
        guarantee: its name, ``certified`` or ``expected``.
        assumed_error: among accepted nodes.
        power: chance that it is given.
        labels: calibration labels; ``None`` where it would be more than anybody has.
    """

    guarantee: str
    assumed_error: float
    power: float
    labels: int | None

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Plan:
    """How many calibration labels; made by :func:`plan`.

    Args:
        max_error, delta: of the guarantee.
        accepted_share: share of the nodes that should be accepted.
        fewest: labels without which nothing can be certified, even if no accepted node is wrong.
        needs: under each assumption.
        guarantees: in words.
    """

    max_error: float
    delta: float
    accepted_share: float
    fewest: int
    needs: tuple[Need, ...]
    guarantees: tuple[Guarantee, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row per guarantee and assumed error, a column per power."""
        found: dict[tuple[str, float], dict[str, Any]] = {}
        for one in self.needs:
            row = found.setdefault(
                (one.guarantee, one.assumed_error),
                {"guarantee": one.guarantee, "assumed error": one.assumed_error},
            )
            row[f"labels for {100 * one.power:.4g}%"] = one.labels
        return list(found.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "max_error": self.max_error,
            "delta": self.delta,
            "accepted_share": self.accepted_share,
            "fewest": self.fewest,
            "needs": [one.as_dict() for one in self.needs],
            "guarantees": [one.as_dict() for one in self.guarantees],
        }


def plan(
    max_error: float,
    delta: float = 0.05,
    *,
    accepted_share: float = 1.0,
    errors: Sequence[float] = ERRORS,
    powers: Sequence[float] = POWERS,
) -> Plan:
    """How many calibration labels the guarantees ``certified`` and ``expected`` need for a limit.

    By exact binomial arithmetic. ``certified``: so many that the accepted ones among them pass the test with the
    power, for one limit with a threshold that is fixed beforehand; looser limits before it in the sequence need fewer.
    ``expected``: so many that conformal selection accepts the share ``accepted_share`` of many nodes with the power.

    Args:
        max_error: the limit.
        delta: how often ``certified`` may fail.
        accepted_share: share of the nodes that should be accepted: labels of other nodes don't count in the test.
        errors: assumed error among accepted nodes, as shares of the limit.
        powers: chances that the guarantee is given.

    Example:
        >>> found = plan(0.05)
        >>> found.fewest, [one.labels for one in found.needs if one.guarantee == "certified"][:3]
        (59, [93, 153, 234])
    """
    for name, value in (("max_error", max_error), ("delta", delta)):
        require_share(name, value)
    if not 0.0 < accepted_share <= 1.0:
        raise BadUsage("accepted_share is a share of the nodes", found=accepted_share, expected="above 0, at most 1")
    for name, values in (("errors", errors), ("powers", powers)):
        for value in values:
            require_share(name, value)
    needs = [
        Need(name, max_error * share, float(power), count(max_error, max_error * share, delta, power, accepted_share))
        for name, count in (("certified", _certified_labels), ("expected", _expected_labels))
        for share in errors
        for power in powers
    ]
    return Plan(
        max_error=float(max_error),
        delta=float(delta),
        accepted_share=float(accepted_share),
        fewest=math.ceil(nodes_to_certify(max_error, delta) / accepted_share - 1e-9),
        needs=tuple(needs),
        guarantees=(certified_guarantee(delta), expected_guarantee(max_error)),
    )


def _certified_labels(max_error: float, error: float, delta: float, power: float, accepted_share: float) -> int | None:
    accepted = nodes_for_power(max_error, error, delta, power)
    return None if accepted is None else math.ceil(accepted / accepted_share - 1e-9)


def _expected_labels(max_error: float, error: float, delta: float, power: float, accepted_share: float) -> int | None:
    """The fewest n from which on ``P((1 + Bin(n, s·r)) / (n + 1) ≤ ε·s) ≥ power``: then a share s is accepted.

    1 + Bin(n, s·r) counts the calibration nodes that are wrong and at least as sure as the last accepted node; s·ε is
    the level that Benjamini–Hochberg holds the p-values of a share s against.
    """
    from scipy.special import bdtr

    reach = 64
    while reach <= 2 * MOST_NODES:
        n = np.arange(1, reach + 1)
        most = np.floor(max_error * accepted_share * (n + 1) - 1.0 + 1e-9)
        passed = np.where(most >= 0, bdtr(np.maximum(most, 0.0), n, accepted_share * error), 0.0)
        below = np.flatnonzero(passed < power)
        if not len(below):
            return 1
        if 2 * n[below[-1]] <= reach:
            return int(n[below[-1]]) + 1
        reach *= 2
    return None
