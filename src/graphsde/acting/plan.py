"""Before labelling: how many calibration labels a guarantee needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.guarantee import Guarantee, certified_guarantee, expected_guarantee
from graphsde.acting.ladder import limits_to_test
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.uncertainty.binomial import MOST_NODES, nodes_for_power, nodes_to_certify, power_of_test
from graphsde.uncertainty.held_out import require_share

ERRORS: tuple[float, ...] = (0.25, 0.5, 0.75)
"""Assumed error among accepted nodes, as shares of the limit."""
POWERS = (0.5, 0.8, 0.95)
TESTED = 0.25
"""Share of the labels used for testing and calibration if files have no split."""


@dataclass(frozen=True)
class Need:
    """What one guarantee needs under one assumption.

    Args:
        guarantee: its name, ``certified`` or ``expected``.
        assumed_error: among accepted nodes.
        power: probability that it is certified.
        labels: calibration labels; ``None`` if impractically many.
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
        fewest: minimum number of labels to certify anything, even if no accepted node is wrong.
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

    By exact binomial arithmetic. ``certified``: enough for the accepted ones among them to pass the test with the
    power, for one limit with a threshold fixed beforehand; looser limits before it in the sequence need fewer.
    ``expected``: enough for conformal selection to accept the share ``accepted_share`` of many nodes with the power.

    Args:
        max_error: the limit.
        delta: how often ``certified`` may fail.
        accepted_share: share of the nodes that should be accepted: labels of other nodes don't count in the test.
        errors: assumed error among accepted nodes, as shares of the limit.
        powers: probabilities of obtaining the guarantee.

    Example:
        >>> found = plan(0.05)
        >>> found.fewest, [one.labels for one in found.needs if one.guarantee == "certified"][:3]
        (59, [93, 153, 234])
    """
    for name, value in (("max_error", max_error), ("delta", delta)):
        require_share(name, value)
    if not 0.0 < accepted_share <= 1.0:
        raise BadUsage(
            "accepted_share must be a share of the nodes", found=accepted_share, expected="above 0, at most 1"
        )
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


@dataclass(frozen=True)
class GraphPlan:
    """What a graph's labels are enough for; made by :func:`plan_for_graph`.

    Args:
        plan: how many labels the limit needs.
        labelled: number of labels.
        calibration: how many of them are used for calibration.
        share: of all labels that are used for calibration.
        sentences: all of this in words.
        reach: for each limit the largest error among accepted nodes that would be certified with probability 80 %;
            ``None`` if none would.
    """

    plan: Plan
    labelled: int
    calibration: int
    share: float
    sentences: tuple[str, ...]
    reach: tuple[tuple[float, float | None], ...]

    def need_rows(self) -> list[dict[str, str]]:
        """A row of cells per guarantee and assumed error."""
        rows = []
        for row in self.plan.rows():
            name, error, *counts = row.values()
            wanted = None if counts[1] is None else math.ceil(counts[1] / self.share)
            columns = list(row)[2:]
            cells = {title: _count(count) for title, count in zip(columns, counts, strict=True)}
            rows.append(
                {"guarantee": name, "if the accepted error is": f"{100 * error:.3g}%", **cells}
                | {"all labels for 80%": _count(wanted)}
            )
        return rows

    @property
    def reach_title(self) -> str:
        return f"What {self.calibration:,} calibration labels can certify, with probability 80%:"

    def reach_rows(self) -> list[dict[str, str]]:
        """A row of cells per limit."""
        return [
            {"limit": f"{100 * limit:.3g}%", "if the accepted error is": _at_most(error)} for limit, error in self.reach
        ]

    def as_dict(self) -> dict[str, Any]:
        return self.plan.as_dict() | {
            "labelled": self.labelled,
            "calibration": self.calibration,
            "reach": [{"limit": limit, "largest_error": error} for limit, error in self.reach],
        }


def plan_for_graph(graph: Graph, max_error: float, delta: float = 0.05, *, accuracy: float | None = None) -> GraphPlan:
    """How many labels a limit needs, and what a graph's labels are enough for, before any fit.

    Args:
        graph: with or without a split; without one, a quarter of the labels is used for testing and calibration.
        max_error, delta: of the guarantee.
        accuracy: expected of the model. No more than a share ``accuracy / (1 − max_error)``
            of the nodes can then be accepted, however well errors are detected.

    Example:
        >>> import graphsde as gs
        >>> found = plan_for_graph(gs.load("digits"), 0.05)
        >>> found.labelled, found.plan.fewest
        (1797, 59)
    """
    require_share("max_error", max_error)
    accepted, errors = 1.0, ERRORS
    if accuracy is not None:
        require_share("accuracy", accuracy)
        accepted = min(1.0, accuracy / (1.0 - max_error))
        errors = tuple(sorted({*ERRORS, (1.0 - accuracy) / max_error})) if 1.0 - accuracy < max_error else ERRORS
    needs = plan(max_error, delta, accepted_share=accepted, errors=errors)
    labelled = int(graph.labelled.sum())
    roles = graph.role("calibration") if graph.role("calibration").any() else graph.role("test")
    calibration = int((roles & graph.labelled).sum()) if graph.masks else round(TESTED * labelled)
    share = calibration / labelled if calibration else TESTED
    words = [
        f"{graph.name}: {graph.num_nodes:,} nodes, {labelled:,} of them labelled. "
        + (
            f"Its split uses {calibration:,} of them for calibration."
            if graph.masks
            else f"A quarter of the labels, {calibration:,}, is kept for testing and calibration."
        ),
        f"Certifying a limit of {100 * max_error:.3g}% takes at least {needs.fewest:,} calibration labels if no "
        f"accepted node is wrong, and more with errors:",
    ]
    if accuracy is not None:
        words.insert(
            1,
            f"With an accuracy of {100 * accuracy:.3g}%, at most {100 * accepted:.3g}% of the nodes can be accepted "
            f"at that limit, and labels of the others don't count.",
        )
    reach = tuple((limit, _largest_error(calibration * accepted, limit, delta)) for limit in limits_to_test(max_error))
    return GraphPlan(needs, labelled, calibration, share, tuple(words), reach)


def _largest_error(nodes: float, limit: float, delta: float, power: float = 0.8) -> float | None:
    """The largest error among accepted nodes at which the test passes with the power."""
    from scipy.optimize import brentq

    count = math.floor(nodes)
    if count < nodes_to_certify(limit, delta):
        return None
    return float(brentq(lambda error: float(power_of_test(count, error, limit, delta)) - power, 0.0, limit))


def _count(count: int | None) -> str:
    return "impractically many" if count is None else f"{count:,}"


def _at_most(error: float | None) -> str:
    return "out of reach: too few labels" if error is None else f"at most {100 * error:.2g}%"


def _certified_labels(max_error: float, error: float, delta: float, power: float, accepted_share: float) -> int | None:
    accepted = nodes_for_power(max_error, error, delta, power)
    return None if accepted is None else math.ceil(accepted / accepted_share - 1e-9)


def _expected_labels(max_error: float, error: float, delta: float, power: float, accepted_share: float) -> int | None:
    """The fewest n from which on ``P((1 + Bin(n, s·r)) / (n + 1) ≤ ε·s) ≥ power``: then a share s is accepted.

    1 + Bin(n, s·r) counts the wrong calibration nodes at least as certain as the last accepted node; s·ε is
    the level that Benjamini–Hochberg compares the p-values of a share s with.
    """
    from scipy.special import bdtr

    reach, last = 64, 0
    while last < MOST_NODES:
        n = np.arange(1, reach + 1)
        most = np.floor(max_error * accepted_share * (n + 1) - 1.0 + 1e-9)
        passed = np.where(most >= 0, bdtr(np.maximum(most, 0.0), n, accepted_share * error), 0.0)
        last = int(n[passed < power].max(initial=0))
        if 2 * last <= reach:
            return last + 1 if last < MOST_NODES else None
        reach *= 2
    return None
