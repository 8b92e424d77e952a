"""Accept or review: predictions that need no review, with an exact bound on how often they are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.guarantee import Guarantee
from graphsde.acting.ood import OODFlag
from graphsde.base.errors import BadUsage
from graphsde.base.registry import Rules
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, Predictor, RegressionPrediction
from graphsde.uncertainty.binomial import clopper_pearson_upper, nodes_to_certify
from graphsde.uncertainty.held_out import HeldOut, held_out, require_share, too_few
from graphsde.uncertainty.scores import score

ACCEPT_BY = "margin"
BEYOND = "chance of a larger error"
STEPS = 100
FORGIVEN = 2


@dataclass(frozen=True, eq=False)
class AbstentionCurve:
    """What each threshold would mean, from the strictest to the one that accepts every node.

    Args:
        thresholds: a node is accepted where its uncertainty is at most this.  # [T], ascending
        coverages: share of the decided nodes that is accepted.  # [T]
        accepted: calibration nodes that are accepted.  # [T]
        errors: how many of those are wrong.  # [T]
        upper_bounds: of the error rate, each for its own threshold; a threshold picked by looking at them has no
            guarantee, the one that :func:`abstain` returns has.  # [T]
        certified: thresholds that passed the test, in sequence.  # [T] bool
        start: where the sequence begins.
    """

    thresholds: np.ndarray
    coverages: np.ndarray
    accepted: np.ndarray
    errors: np.ndarray
    upper_bounds: np.ndarray
    certified: np.ndarray
    start: int

    @property
    def calibration_errors(self) -> np.ndarray:
        """Error rate among the accepted calibration nodes; NaN where there are none.  # [T]"""
        return np.divide(self.errors, self.accepted, out=np.full(len(self.errors), np.nan), where=self.accepted > 0)


@dataclass(frozen=True, eq=False)
class Abstention:
    """Which nodes are accepted, and their guarantee.

    Args:
        max_error, delta: with probability ``1 − delta`` over the draw of the calibration nodes, at most a share
            ``max_error`` of the accepted nodes is wrong.
        by: name of the uncertainty.
        values: of every node.  # [N]
        threshold: largest accepted uncertainty; ``None`` where no threshold could be certified.
        upper_bound: Clopper-Pearson bound at the threshold, at most ``max_error``; NaN where nothing is accepted.
        accepted: over all nodes.  # [N] bool
        decided: nodes whose label has not been used: the ones the rule is for.  # [N] bool
        coverage: share of the decided nodes that is accepted.
        calibration: the nodes that the threshold comes from.  # [N] bool
        calibration_source: in words.
        curve: what other thresholds would mean.
        ood: the flag that acts first, if there is one.
        tolerance: for regression: a prediction is wrong if it is off by more.
        stated: the guarantee, if it differs from the one of :func:`abstain`.
    """

    max_error: float
    delta: float
    by: str
    values: np.ndarray
    threshold: float | None
    upper_bound: float
    accepted: np.ndarray
    decided: np.ndarray
    coverage: float
    calibration: np.ndarray
    calibration_source: str
    curve: AbstentionCurve
    ood: OODFlag | None = None
    tolerance: float | None = None
    stated: Guarantee | None = None

    def summary(self) -> dict[str, Any]:
        """Limit, threshold, bound, coverage and guarantee, as plain values."""
        return {
            "max_error": self.max_error,
            "delta": self.delta,
            "uncertainty": self.by,
            "threshold": self.threshold,
            "upper_bound": None if self.threshold is None else self.upper_bound,
            "coverage": self.coverage,
            "guarantee": self.guarantee,
        }

    def realised(self, test: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
        """How the guarantee turned out on some nodes.

        Args:
            test: which nodes.  # [N] bool
            wrong: nodes whose prediction is wrong.  # [N] bool
        """
        accepted = test & self.accepted
        return {
            "nodes": int(test.sum()),
            "accepted": int(accepted.sum()),
            "coverage": float(accepted[test].mean()),
            "wrong": int(wrong[accepted].sum()),
            "error": float(wrong[accepted].mean()) if accepted.any() else None,
            "error_of_all": float(wrong[test].mean()),
        }

    @property
    def guaranteed_error(self) -> float | None:
        """``max_error`` if anything is accepted, otherwise ``None``."""
        return None if self.threshold is None else self.max_error

    @property
    def guarantee(self) -> str:
        """The guarantee in words, with its assumptions."""
        if self.threshold is None:
            return (
                f"no threshold could be certified to keep errors at or below {self.max_error:.1%}: every node needs "
                "review. Allow more errors, or calibrate on more labelled nodes."
            )
        if self.stated is not None:
            return self.stated.words
        which = "accepted nodes" if self.ood is None else "nodes accepted after flagging OOD ones"
        wrong = "wrong" if self.tolerance is None else f"off by more than {self.tolerance:g}"
        classes = ", known classes" if self.tolerance is None else ""
        return (
            f"with probability {1 - self.delta:.0%} over the draw of the {int(self.calibration.sum())} calibration "
            f"nodes, at most {self.max_error:.1%} of the {which} are {wrong}. This holds on average over "
            f"nodes of the kind that was calibrated on (drawn like them, same graph{classes}), not for each "
            "group of nodes and not for OOD ones."
        )


def abstain(
    prediction: Prediction,
    graph: Graph,
    *,
    max_error: float = 0.05,
    delta: float = 0.05,
    by: str | np.ndarray | None = None,
    tolerance: float | None = None,
    ood: OODFlag | None = None,
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    seed: int = 0,
    model: Predictor | None = None,
) -> Abstention:
    r"""Accept as many nodes as can be shown to have at most a share ``max_error`` of errors.

    Fixed-sequence testing (Angelopoulos et al., "Learn then test", 2021) with exact binomial bounds (Clopper and
    Pearson, 1934). Thresholds :math:`\lambda_1 < \lambda_2 < \dots` on the uncertainty come from nodes outside the
    calibration set; each is tested on the calibration nodes it accepts, from strict to loose, until one fails:

    .. math:: \text{certify } \lambda \iff P(\mathrm{Bin}(n_\lambda, \varepsilon) \le k_\lambda) \le \delta

    with :math:`k_\lambda` errors among :math:`n_\lambda` accepted calibration nodes. The loosest certified threshold is
    used. The probability that any threshold is certified wrongly is at most :math:`\delta`. With ``ood``, nodes that
    are flagged are never accepted, and the bound holds for the errors among the remaining nodes.

    Assumptions: calibration nodes and nodes decided on have the same distribution, and the model has not seen their
    labels. A shift between them (other graph, later time, OOD classes) voids it.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        max_error: the share ε of accepted nodes that may be wrong.
        delta: probability, over draws of the calibration nodes, that the guarantee fails.
        by: a score (default ``margin``), or uncertainties of all nodes. In our measurements the default accepts more
            nodes of an uncalibrated model than ``msp`` and ``entropy``, and as many of a calibrated one.
        tolerance: required for regression: a prediction is wrong if it is off by more than this, in the target's
            unit. Nodes are then accepted by the model's probability of such an error.
        ood: from :func:`graphsde.acting.ood.flag_ood`; acts before acceptance.
        calibration: mask or positions of the calibration nodes. If not given: the graph's calibration mask, else
            ``size`` labelled nodes outside training, validation and test, drawn with ``seed``.
        model: the one that predicted, for scores that need further predictions of it.

    Raises:
        BadInput: (``E-CAL-SMALL``) so few calibration nodes that nothing could be certified even without errors;
            the message says how many are needed.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = gs.abstain(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.1)
        >>> found.upper_bound <= 0.1 and found.accepted.shape == (1797,)
        True
    """
    require_share("max_error", max_error)
    require_share("delta", delta)
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    name, values, wrong = ACCEPTANCE.of(prediction)(prediction, graph, held, by, tolerance, ood, model)
    cleared = np.ones(graph.num_nodes, dtype=bool) if ood is None else ood.cleared
    needed = nodes_to_certify(max_error, delta)
    judged = cleared[held.nodes]
    if ood is not None:
        judged &= ~_at_the_threshold(ood, held.nodes, wrong)
    if judged.sum() < needed:
        raise too_few(
            int(judged.sum()),
            needed,
            f"to certify an error rate of at most {max_error:g} with confidence {1 - delta:g}",
            "allow more errors, or label more nodes for calibration",
            of="calibration nodes" + ("" if ood is None else " that are not flagged as OOD"),
        )
    decided = _decided(graph, held)
    curve = _curve(values, cleared, decided, held.nodes[judged], wrong[judged], max_error, delta)
    passed = np.flatnonzero(curve.certified)
    threshold = float(curve.thresholds[passed[-1]]) if len(passed) else None
    accepted = cleared & (values <= threshold) if threshold is not None else np.zeros(graph.num_nodes, dtype=bool)
    return Abstention(
        max_error=float(max_error),
        delta=float(delta),
        by=name,
        values=values,
        threshold=threshold,
        upper_bound=float(curve.upper_bounds[passed[-1]]) if len(passed) else math.nan,
        accepted=accepted,
        decided=decided,
        coverage=float(accepted[decided].mean()),
        calibration=held.mask,
        calibration_source=held.source.words,
        curve=curve,
        ood=ood,
        tolerance=None if tolerance is None else float(tolerance),
    )


By = str | np.ndarray | None
ACCEPTANCE: Rules[Callable[..., tuple[str, np.ndarray, np.ndarray]]] = Rules("accepting predictions")
"""Name and uncertainty of all nodes, and which calibration nodes are wrong.  # [N], [n] bool"""


@ACCEPTANCE.register("regression")
def _accept_numbers(
    prediction: RegressionPrediction, graph: Graph, held: HeldOut, by: By, tolerance: float | None, ood: Any, model: Any
) -> tuple[str, np.ndarray, np.ndarray]:
    """By the probability of being off by more than the tolerance."""
    if tolerance is None or ood is not None or isinstance(by, str):
        raise BadUsage(
            "a regression model accepts nodes by the probability of an error above a tolerance",
            code="E-TARGET",
            found=by if isinstance(by, str) else None,
            fix="set tolerance= (--tolerance) to the largest error that is still acceptable, and leave out the score",
        )
    chance = prediction.beyond(tolerance)  # refuses a tolerance that is not positive
    wrong = np.abs(prediction.mean[held.nodes] - held.labels) > tolerance
    if by is None:
        return BEYOND, chance, wrong
    return "given", _checked(by, prediction.num_items), wrong


@ACCEPTANCE.register("classification")
def _accept_classes(
    prediction: ClassPrediction, graph: Graph, held: HeldOut, by: By, tolerance: Any, ood: Any, model: Predictor | None
) -> tuple[str, np.ndarray, np.ndarray]:
    by = ACCEPT_BY if by is None else by
    if tolerance is not None:
        raise BadUsage("tolerance is for regression, but this model predicts classes", found=tolerance)
    wrong = prediction.index[held.nodes] != held.labels
    if isinstance(by, str):
        return by, score(by, prediction, graph, model), wrong
    return "given", _checked(by, graph.num_nodes), wrong


def _checked(by: np.ndarray, nodes: int) -> np.ndarray:
    values = np.asarray(by, dtype=np.float64)
    if values.shape != (nodes,) or not np.all(np.isfinite(values)):
        raise BadUsage(
            f"uncertainties must be one finite number for each of {nodes} nodes, not of shape {values.shape}",
            expected="one finite number per node",
        )
    return values


def _decided(graph: Graph, held: HeldOut) -> np.ndarray:
    """Nodes not used for training, selection or calibration.  # [N] bool

    If none are left, those outside the calibration set: thresholds must not come from the nodes they are tested on.
    """
    for mask in (~(held.mask | graph.role("train") | graph.role("val")), ~held.mask):
        if mask.any():
            return mask
    raise BadUsage(
        "all nodes are calibration nodes: none are left to decide on or to take thresholds from",
        code="E-CAL-USED",
        fix="calibrate on fewer nodes",
    )


def _at_the_threshold(ood: OODFlag, nodes: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """The calibration node that the flag's threshold was read from; among ties one that is right.  # [n] bool

    Given the threshold, the other calibration nodes below it are an independent sample of in-distribution nodes.
    Without that node, the same nodes can be used for both steps and the bound needs no correction.
    """
    at = ood.values[nodes] == ood.threshold
    candidates = np.flatnonzero(at & ~wrong) if (at & ~wrong).any() else np.flatnonzero(at)
    aside = np.zeros(len(nodes), dtype=bool)
    aside[candidates[:1]] = True
    return aside


def _curve(
    values: np.ndarray,
    cleared: np.ndarray,
    decided: np.ndarray,
    nodes: np.ndarray,
    wrong: np.ndarray,
    max_error: float,
    delta: float,
) -> AbstentionCurve:
    """Thresholds from the decided nodes, counts and bounds from the calibration nodes ``nodes``."""
    open_nodes = decided & cleared if (decided & cleared).any() else decided
    grid = np.quantile(values[open_nodes], np.arange(1, STEPS + 1) / STEPS, method="inverted_cdf")
    grid[-1] = values.max()  # the last threshold accepts every node that is not flagged
    thresholds = np.unique(grid)
    accepted, errors = _counts(values[nodes], wrong, thresholds)
    bounds = clopper_pearson_upper(errors, accepted, delta)

    start = _first_to_test(_shares_below(values[open_nodes], thresholds), len(nodes), max_error, delta)
    certified = np.zeros(len(thresholds), dtype=bool)
    certified[start:] = np.logical_and.accumulate(bounds[start:] <= max_error)
    coverages = _shares_below(np.where(cleared, values, np.inf)[decided], thresholds)
    return AbstentionCurve(thresholds, coverages, accepted, errors, bounds, certified, start)


def _shares_below(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(values), thresholds, side="right") / len(values)


def _first_to_test(shares: np.ndarray, nodes: int, max_error: float, delta: float) -> int:
    """The strictest threshold that can be expected to accept enough calibration nodes to pass.

    Enough to allow two errors if there are that many nodes, otherwise one or none: a stricter start would fail
    by chance, a looser one would meet more errors than necessary. It must not depend on the calibration nodes:
    ``shares`` is of the others.
    """
    expected = nodes * shares - np.sqrt(nodes * shares * (1.0 - shares))
    for forgiven in (FORGIVEN, 1, 0):
        enough = np.flatnonzero(expected >= nodes_to_certify(max_error, delta, errors=forgiven))
        if len(enough):
            return int(enough[0])
    return len(shares) - 1


def _counts(values: np.ndarray, wrong: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many nodes each threshold accepts, and how many of those are wrong.  # [T], [T]"""
    order = np.argsort(values, kind="stable")
    accepted = np.searchsorted(values[order], thresholds, side="right")
    return accepted, np.concatenate([[0], np.cumsum(wrong[order])])[accepted]
