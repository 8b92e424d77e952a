"""Guarantees that hold on average: conformal selection, and conformal risk control."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.abstain import ACCEPTANCE, By
from graphsde.acting.guarantee import Guarantee, accepted_and_wrong_guarantee, expected_guarantee
from graphsde.acting.ood import OODFlag
from graphsde.base.errors import BadUsage
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.prediction import Prediction, Predictor
from graphsde.uncertainty.held_out import HeldOut, held_out, require_share
from graphsde.uncertainty.multiple_testing import benjamini_hochberg, conformal_p_values


@dataclass(frozen=True, eq=False)
class Selection:
    """Which nodes are accepted, with a guarantee that holds on average.

    Args:
        guarantee: in words.
        max_error: the limit.
        by: name of the uncertainty.
        values: of every node.  # [N]
        accepted: nodes whose prediction is accepted.  # [N] bool
        decided: nodes that were decided on; others have no guarantee.  # [N] bool
        threshold: the largest accepted uncertainty; ``None`` if nothing is accepted.
        p_values: of the nodes decided on, small if a prediction is surely right; NaN for others, and for all nodes
            if the rule has none.  # [N]
        calibration: which nodes were used.  # [N] bool
        calibration_source: in words.
        accepted_calibration, wrong_calibration: calibration nodes up to the threshold, and how many of these are wrong.
        ood: the flag that acts first, if there is one.
        tolerance: for regression: a prediction is wrong if it is off by more.
    """

    guarantee: Guarantee
    max_error: float
    by: str
    values: np.ndarray
    accepted: np.ndarray
    decided: np.ndarray
    threshold: float | None
    p_values: np.ndarray
    calibration: np.ndarray
    calibration_source: str
    accepted_calibration: int
    wrong_calibration: int
    ood: OODFlag | None = None
    tolerance: float | None = None

    @property
    def accepted_share(self) -> float:
        """Of the nodes decided on."""
        return float(self.accepted[self.decided].mean())

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a table or JSON."""
        return {
            "guarantee": self.guarantee.as_dict(),
            "max_error": self.max_error,
            "uncertainty": self.by,
            "threshold": self.threshold,
            "decided": int(self.decided.sum()),
            "accepted": int(self.accepted.sum()),
            "accepted_share": self.accepted_share,
            "calibration": {
                "nodes": int(self.calibration.sum()),
                "source": self.calibration_source,
                "accepted": self.accepted_calibration,
                "wrong": self.wrong_calibration,
            },
        }


def select(
    prediction: Prediction,
    graph: Graph,
    *,
    max_error: float = 0.05,
    by: By = None,
    tolerance: float | None = None,
    ood: OODFlag | None = None,
    nodes: np.ndarray | None = None,
    calibration: np.ndarray | None = None,
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
) -> Selection:
    r"""Accept nodes so that on average at most a share ``max_error`` is wrong: the guarantee ``expected``.

    Conformal selection (Jin and Candès, 2023). With n calibration nodes, a node i that is decided on has

    .. math:: p_i = \frac{1 + \#\{j: j \text{ wrong and at least as sure as } i\}}{n + 1}

    and Benjamini–Hochberg at ``max_error`` over these p-values decides which are accepted. Then
    ``E[wrong accepted / max(1, accepted)] ≤ max_error`` over draws of calibration nodes and nodes decided on. It needs
    far fewer labels than ``certified`` and guarantees less: a single draw may exceed the limit.

    Args:
        prediction, graph, by, tolerance, model: as of :func:`graphsde.abstain`.
        max_error: the limit.
        ood: as of :func:`graphsde.acting.certified.certify`; flagged nodes are left out on both sides.
        nodes: mask or positions of those to decide on; all that are neither trained, validated nor calibrated on, if
            not given.
        calibration, size, seed: which calibration nodes. If the split has none: the test nodes, or half of them
            if no others are left to decide on.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = select(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.1)
        >>> found.guarantee.name, found.accepted_share > 0.9
        ('expected', True)
    """
    require_share("max_error", max_error)
    held = calibration_for_selection(prediction, graph, calibration, size=size, seed=seed, nodes=nodes)
    decided = _to_decide(graph, held, nodes)
    name, values, wrong = ACCEPTANCE.of(prediction)(prediction, graph, held, by, tolerance, ood, model)
    cleared = np.ones(graph.num_nodes, dtype=bool) if ood is None else ood.cleared
    judged, candidates = cleared[held.nodes], np.flatnonzero(decided & cleared)
    inside = held.nodes[judged]
    p_values = np.full(graph.num_nodes, np.nan)
    p_values[candidates] = selection_p_values(values[candidates], values[inside], wrong[judged])
    accepted = np.zeros(graph.num_nodes, dtype=bool)
    accepted[candidates] = benjamini_hochberg(p_values[candidates], max_error)
    threshold = float(values[accepted].max()) if accepted.any() else None
    below = np.zeros(len(inside), dtype=bool) if threshold is None else values[inside] <= threshold
    return Selection(
        guarantee=expected_guarantee(max_error),
        max_error=float(max_error),
        by=name,
        values=values,
        accepted=accepted,
        decided=decided,
        threshold=threshold,
        p_values=p_values,
        calibration=held.mask,
        calibration_source=held.source.words,
        accepted_calibration=int(below.sum()),
        wrong_calibration=int(wrong[judged][below].sum()),
        ood=ood,
        tolerance=None if tolerance is None else float(tolerance),
    )


def selection_p_values(values: np.ndarray, calibration: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """``(1 + #{wrong calibration nodes at least as certain}) / (n + 1)``.  # like values

    Example:
        >>> selection_p_values(np.array([0.1, 0.5]), np.array([0.2, 0.3, 0.6]), np.array([False, True, True])).tolist()
        [0.25, 0.5]
    """
    return conformal_p_values(-np.asarray(values), -np.asarray(calibration)[wrong], nodes=len(calibration))


def control_risk(
    prediction: Prediction,
    graph: Graph,
    *,
    max_share: float = 0.05,
    by: By = None,
    tolerance: float | None = None,
    ood: OODFlag | None = None,
    calibration: np.ndarray | None = None,
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
) -> Selection:
    """Accept as many as possible while at most ``max_share`` of *all* nodes are accepted and wrong, on average.

    Conformal risk control (Angelopoulos et al., 2024): the loosest threshold at which
    ``(1 + #{calibration nodes accepted and wrong}) / (n + 1)`` is at most ``max_share``. The share is of all nodes, not
    of the accepted ones: if few nodes are accepted, a larger share of them may be wrong.

    Args:
        prediction, graph, by, tolerance, ood, calibration, size, seed, model: as of :func:`select`.
        max_share: the limit.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = control_risk(gs.LabelPropagation().fit(graph).predict(graph), graph, max_share=0.03)
        >>> bool((1 + found.wrong_calibration) / (1 + found.calibration.sum()) <= 0.03)
        True
    """
    require_share("max_share", max_share)
    held = calibration_for_selection(prediction, graph, calibration, size=size, seed=seed)
    decided = _to_decide(graph, held, None)
    name, values, wrong = ACCEPTANCE.of(prediction)(prediction, graph, held, by, tolerance, ood, model)
    cleared = np.ones(graph.num_nodes, dtype=bool) if ood is None else ood.cleared
    own = np.where(cleared, values, np.inf)[held.nodes]
    first_too_loose = risk_controlling_bound(own, wrong, max_share)
    accepted = cleared & (values < first_too_loose)
    inside = own < first_too_loose
    return Selection(
        guarantee=accepted_and_wrong_guarantee(max_share),
        max_error=float(max_share),
        by=name,
        values=values,
        accepted=accepted,
        decided=decided,
        threshold=float(values[accepted].max()) if accepted.any() else None,
        p_values=np.full(graph.num_nodes, np.nan),
        calibration=held.mask,
        calibration_source=held.source.words,
        accepted_calibration=int(inside.sum()),
        wrong_calibration=int(wrong[inside].sum()),
        ood=ood,
        tolerance=None if tolerance is None else float(tolerance),
    )


def risk_controlling_bound(values: np.ndarray, wrong: np.ndarray, max_share: float) -> float:
    """Nodes strictly below this are accepted: the value of the first wrong node too many; infinite if there is none.

    With n nodes the wrong ones below may be ``⌊max_share · (n + 1)⌋ − 1``; −inf where that is negative.

    Example:
        >>> risk_controlling_bound(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, True, True]), 0.4)
        0.3
    """
    allowed = math.floor(max_share * (len(values) + 1) + 1e-9) - 1
    if allowed < 0:
        return -math.inf
    errors = np.sort(np.asarray(values, dtype=np.float64)[wrong])
    return float(errors[allowed]) if allowed < len(errors) else math.inf


def calibration_for_selection(
    prediction: Prediction,
    graph: Graph,
    calibration: np.ndarray | None = None,
    *,
    size: int | None = None,
    seed: int = 0,
    nodes: np.ndarray | None = None,
) -> HeldOut:
    """All test nodes if others are left to decide on, otherwise half of them."""
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    if nodes is not None or calibration is not None or size is not None or _undecided(graph, held).any():
        return held
    return held_out(prediction, graph, size=max(CALIBRATION_SIZE, len(held)), seed=seed)


def _undecided(graph: Graph, held: HeldOut) -> np.ndarray:
    return ~(held.mask | graph.role("train") | graph.role("val"))


def _to_decide(graph: Graph, held: HeldOut, nodes: np.ndarray | None) -> np.ndarray:
    if nodes is None:
        chosen = _undecided(graph, held)
    else:
        given = np.asarray(nodes)
        chosen = given.copy() if given.dtype == bool else mask_of(given.astype(np.int64), graph.num_nodes)
        used = chosen & (held.mask | graph.role("train") | graph.role("val"))
        if used.any():
            raise BadUsage(
                f"{int(used.sum())} of the nodes to decide on were trained, validated or calibrated on",
                code="E-CAL-USED",
                fix="decide on nodes whose labels have not been used",
            )
    if not chosen.any():
        raise BadUsage(
            "all nodes are training, validation or calibration nodes: none are left to decide on",
            code="E-CAL-USED",
            fix="calibrate on fewer nodes",
        )
    return chosen
