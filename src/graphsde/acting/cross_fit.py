"""Cross-fitted metrics: calibrated on one half of the nodes, evaluated on the other, and vice versa."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.seeds import check_seed, numpy_stream
from graphsde.graph.masks import mask_of


def halves(nodes: np.ndarray, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two pairs of masks over all nodes: one half to calibrate on, the other to evaluate on, then swapped.

    Args:
        nodes: which nodes to divide at random.  # [N] bool
        seed: of the division.

    Example:
        >>> (one, other), (_, again) = halves(np.array([True, False, True, True, True]))
        >>> int(one.sum()), int(other.sum()), bool((one == again).all())
        (2, 2, True)
    """
    chosen = np.flatnonzero(np.asarray(nodes, dtype=bool))
    if len(chosen) < 2:
        raise BadInput(
            f"{len(chosen)} nodes are too few to divide into two halves",
            code="E-CAL-SMALL",
            expected="at least 2 labelled test nodes",
            fix="label more nodes, or use calibration nodes that are not test nodes",
        )
    order = numpy_stream(check_seed(seed), "acting", "cross-fit").permutation(chosen)
    one, other = (mask_of(part, len(nodes)) for part in np.array_split(order, 2))
    yield one, other
    yield other, one


def cross_fitted(
    nodes: np.ndarray, judge: Callable[[np.ndarray, np.ndarray], dict[str, Any]], seed: int = 0
) -> dict[str, Any]:
    """Held-out metrics of something calibrated on the same nodes, by swapping halves.

    Counts are added up. Shares are averaged, weighted by their number of nodes. The metrics are of rules that
    were calibrated on half of the nodes; the rule in use is calibrated on all of them and is a little better.

    Args:
        nodes: which nodes to divide.  # [N] bool
        judge: calibrates on the first mask and evaluates on the second: metrics by name, integers for counts,
            ``None`` or NaN where there is nothing to evaluate; ``nodes`` is how many there are.
        seed: of the division.

    Example:
        >>> cross_fitted(np.ones(5, bool), lambda fit, test: {"nodes": int(test.sum()), "share": fit.sum() / 4})
        {'nodes': 5, 'share': 0.6}
    """
    first, second = (judge(calibration, judged) for calibration, judged in halves(nodes, seed))
    weights = [first["nodes"], second["nodes"]]
    return {name: _pooled([value, second[name]], weights) for name, value in first.items()}


def _pooled(values: list[Any], weights: list[int]) -> Any:
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    if not known:
        return None
    if all(isinstance(value, int) for value, _ in known):
        return sum(value for value, _ in known)
    return float(np.average([value for value, _ in known], weights=[weight for _, weight in known]))
