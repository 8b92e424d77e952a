"""How many more calibration labels a limit needs, given the errors seen so far."""

from __future__ import annotations

import math

from graphsde.uncertainty.binomial import clopper_pearson_interval, nodes_for_power, nodes_to_certify

POWER = 0.8
"""Power that numbers of further labels are computed for."""
DOUBT = 0.5
"""The range of further labels is for the ends of an interval that misses the true error this often."""
SURELY = 0.1
"""Of the interval whose lower end, a bound with confidence 95 %, puts a limit out of reach."""
BET = 5.0
"""An anytime-valid test costs about as much as a δ five times smaller; only thresholds depend on this."""


def further_labels(
    wrong: int, accepted: int, nodes: int, limit: float, delta: float, *, anytime: bool = False
) -> tuple[tuple[int, int | None] | None, str]:
    """How many more calibration labels a limit needs, at least and at most, and the same in words.

    Computed for a power of 80 % at both ends of a 50 % interval of the error. A limit is out of reach only if the error
    is above it with confidence 95 %: the observed share alone may be above it by chance.

    Args:
        wrong, accepted: calibration nodes that are accepted, and how many of these are wrong.
        nodes: all calibration nodes.
        limit, delta: of the test.
        anytime: whether the test is an e-process, which needs more; approximate.

    Example:
        >>> further_labels(10, 100, 200, 0.05, 0.05)[1]
        'not reachable at this threshold: 10.0% of the 100 accepted calibration nodes are wrong'
        >>> further_labels(3, 50, 200, 0.05, 0.05)[1]
        'at least 4,572 further calibration labels; given the observed error, possibly no number is enough'
        >>> further_labels(0, 1, 3, 0.05, 0.05)[1]
        'at least 59 calibration labels are needed; there are 3'
        >>> further_labels(50, 58, 58, 0.05, 0.05)[1]
        'not reachable at this threshold: 86.2% of the 58 accepted calibration nodes are wrong'
    """
    cost = delta / BET if anytime else delta
    needed = nodes_to_certify(limit, cost)
    hopeless = wrong > 1 and clopper_pearson_interval(wrong, accepted, SURELY)[0] > limit
    if nodes < needed and not hopeless:
        there = "are none yet" if nodes == 0 else "is 1" if nodes == 1 else f"are {nodes:,}"
        return (needed - nodes, None), f"at least {needed:,} calibration labels are needed; there {there}"
    if accepted == 0:
        return None, "no calibration node is accepted: more validation and calibration labels are needed"
    if hopeless:
        return None, (
            f"not reachable at this threshold: {wrong / accepted:.1%} of the {accepted:,} accepted calibration nodes "
            "are wrong"
        )
    low, high = clopper_pearson_interval(wrong, accepted, DOUBT)
    fewest = nodes_for_power(limit, low, cost, POWER) if low < limit else None
    if fewest is None:  # the labels so far stay in the test, so at least their errors must be made up for
        fewest = nodes_to_certify(limit, cost, errors=wrong)
    most = nodes_for_power(limit, high, cost, POWER) if high < limit else None
    at_least = max(1, math.ceil(fewest * nodes / accepted) - nodes)
    at_most = None if most is None else max(at_least, math.ceil(most * nodes / accepted) - nodes)
    return (at_least, at_most), label_words(at_least, at_most, wrong)


def label_words(at_least: int, at_most: int | None, wrong: int) -> str:
    """A range in words; ``wrong`` is how many of the accepted nodes are."""
    if at_most is None:
        doubt = "; given the observed error, possibly no number is enough" if wrong else ""
        return f"at least {at_least:,} further calibration labels{doubt}"
    return f"{at_least:,} to {at_most:,} further calibration labels" if at_most > at_least else (
        f"about {at_least:,} further calibration labels"
    )  # fmt: skip
