"""What to do with each node: accept its prediction, review it, or (for classes) treat it as OOD."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphsde.acting.abstain import ACCEPT_BY, Abstention
from graphsde.acting.certified import Frontier, OrdinaryTest, certify
from graphsde.acting.decisions import ClassDecisions, Decisions, RegressionDecisions
from graphsde.acting.expected import Selection, calibration_for_selection, control_risk, select
from graphsde.acting.ladder import FOCUS, limits_to_test, usual_focus
from graphsde.acting.ood import FDR, OODFlag, flag_per_node, no_flag, p_values_among
from graphsde.acting.rules import (
    GUARANTEES,
    OOD_RULES,
    SETS,
    GuaranteeName,
    OODRule,
    SetsName,
    of_frontier,
    of_selection,
)
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.base.html import counted
from graphsde.base.registry import Rules, unknown_name
from graphsde.base.renames import current
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.prediction import ClassPrediction, Prediction, Predictor, RegressionPrediction
from graphsde.uncertainty.conformal import conformalize
from graphsde.uncertainty.conformal.conditional import conformal_by_degree
from graphsde.uncertainty.held_out import held_out, require_share
from graphsde.uncertainty.scores import score


def decide(
    prediction: Prediction,
    graph: Graph,
    *,
    max_error: float = 0.05,
    delta: float = 0.05,
    guarantee: GuaranteeName = "certified",
    ladder: Sequence[float] | None = None,
    focus: float | Literal["usual"] | None = "usual",
    tolerance: float | None = None,
    by: str | None = None,
    ood_rule: OODRule | None = None,
    false_alarm: float | None = None,
    ood_by: str | None = None,
    confidence_level: float = 0.9,
    sets: SetsName | None = None,
    sets_by: str | None = None,
    intervals_by: str | None = None,
    calibration: np.ndarray | None = None,
    further: np.ndarray | None = None,
    anytime: bool = False,
    spent: float = 0.0,
    earlier: Sequence[OrdinaryTest] = (),
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
    **former: Any,
) -> Decisions:
    """Choose one action per node: first flag OOD nodes, then accept or review the others.

    Whatever the guarantee, the limits of a ladder are tested, and ``frontier`` of the result says which hold. If
    nothing can be accepted at ``max_error``, ``way_out()`` says what can be, and how many labels it would take: too few
    labels are not an error. Future OOD nodes are not covered by any guarantee: the flag has a stated rate of
    false alarms, not of misses. Regression has no such flag: its predictions do not reveal OOD nodes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        max_error: share of the accepted nodes that may be wrong.
        delta: probability, over draws of the calibration nodes, that ``certified`` fails.
        guarantee: ``certified`` uses the loosest certified limit that is at most ``max_error``
            (:func:`graphsde.certify`); ``expected`` holds on average and needs fewer labels (:func:`graphsde.select`);
            ``accepted-and-wrong`` bounds the share of *all* nodes that are accepted and wrong, on average
            (:func:`graphsde.acting.expected.control_risk`). One limit chosen beforehand: :func:`graphsde.abstain`.
        ladder: the limits, fixed before any label is seen; by default 30, 20, 15, 10, 7.5, 5, 3, 2, 1 %, ``max_error``
            and ``focus``.
        focus: the limit that gets most of ``delta``, also fixed beforehand (:func:`graphsde.certify`); usually 5 %, or
            ``max_error`` if it is not one of the default limits.
        tolerance: for regression (required): a prediction is wrong if it is off by more than this.
        by: for classes: the uncertainty to accept by; default ``margin``.
        ood_rule: for classes: the rule behind the action ``ood``, ``per-node`` (default) or ``fdr``. Acceptance
            always uses the flag ``per-node``, so that it is a function of one node's scores.
        false_alarm, ood_by: for classes: of :func:`graphsde.acting.ood.flag_per_node`; 0.05, and ``ood`` if it is
            defined.
        confidence_level: of :func:`graphsde.conformalize`.
        sets: for classes: ``marginal`` (default), ``class`` (every class is covered) or ``degree`` (every band of
            degrees is).
        sets_by, intervals_by: for classes and for regression: ``by`` of :func:`graphsde.conformalize`.
        calibration, size, seed: which calibration nodes; the same for all steps. The calibration nodes of the split if
            not given, otherwise all test nodes; metrics on test nodes are then cross-fitted.
        further: mask or positions of nodes that were drawn at random and labelled since the first test, for testing
            again; their labels are in ``graph``, and they have no role. Nodes with the role ``further``, which the
            graph of a run has (:func:`graphsde.open_run`), are always among them.
        anytime: use a test that may be repeated whenever ``further`` labels come in; with ``further`` it
            always is. If you may want to test again, set it from the start.
        earlier: with ``further``: tests without ``anytime`` that were made before on the first calibration nodes with
            the same ``by`` and OOD flag, as ``frontier.test`` of their results. What they certified stays certified,
            and their δ counts as spent.
        spent: with ``further`` or ``anytime``: δ of other tests on the same labels. Any of them could have certified
            wrongly, so the stated probability is ``1 − delta − spent``; from 1 on, none is left.
        model: the one that predicted, for scores that need further predictions of it.
        former: options under their former names.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = gs.decide(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.1)
        >>> set(found.actions) <= {"accept", "ood", "review"}, found.abstention.max_error
        (True, 0.1)
        >>> graph = gs.load("diabetes")
        >>> found = gs.decide(gs.GCN(epochs=30).fit(graph).predict(graph), graph, tolerance=150, max_error=0.2)
        >>> set(found.actions) <= {"accept", "review"}
        True
    """
    _require_one_of("guarantee", guarantee, GUARANTEES)
    for name, value in (("max_error", max_error), ("delta", delta)):
        require_share(name, value)
    if focus == "usual":
        focus = usual_focus(max_error) if ladder is None else FOCUS
    if focus is not None:
        require_share("focus", focus)
    if not 0 <= spent < float("inf"):  # more than 1 is possible: many tests leave no probability at all
        raise BadUsage(
            f"spent can't be {spent}", found=str(spent), expected="the δ of earlier tests together, 0 or more"
        )
    rule = DECIDING.of(prediction)
    known = [name for name, one in inspect.signature(rule).parameters.items() if one.default is not one.empty]
    asked: dict[str, Any] = {
        "tolerance": tolerance,
        "by": by,
        "ood_rule": ood_rule,
        "false_alarm": false_alarm,
        "ood_by": ood_by,
        "sets": sets,
        "sets_by": sets_by,
        "intervals_by": intervals_by,
        "model": model,
    }
    asked |= _formerly(former)
    given = {name: value for name, value in asked.items() if value is not None}
    if strange := sorted(set(given) - set(known)):
        raise BadUsage(
            f"{', '.join(strange)} does not apply to {prediction.speaks_of}, which this model predicts",
            code="E-TARGET",
            found=", ".join(strange),
            expected="one of " + ", ".join(known),
            fix="leave it out",
        )
    graph = _with_further(graph, further)
    calibrated = _calibration(prediction, graph, guarantee, calibration, size, seed)
    limits = limits_to_test(max_error, focus) if ladder is None else tuple(ladder)
    anytime = anytime or further is not None or bool(graph.role("further").any())
    if earlier and not anytime:
        raise BadUsage(
            "an ordinary test is run once, so it has no earlier tests",
            found=f"{len(earlier)} in earlier",
            fix="set further or anytime, or leave earlier out",
        )
    terms = Terms(guarantee, float(max_error), float(delta), limits, focus, anytime, seed, float(spent), tuple(earlier))
    return rule(prediction, graph, calibrated, terms, confidence_level=confidence_level, **given)


@dataclass(frozen=True)
class Terms:
    """The request: the guarantee, its limit, and how often it may fail; see :func:`decide`."""

    guarantee: GuaranteeName
    max_error: float
    delta: float
    ladder: tuple[float, ...]
    focus: float | None
    anytime: bool
    seed: int
    spent: float = 0.0
    earlier: tuple[OrdinaryTest, ...] = ()


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The nodes that everything is calibrated on.

    Args:
        first: those of the first test.  # [N] bool
        nodes: all of them.  # [N] bool
        source: in words.
    """

    first: np.ndarray
    nodes: np.ndarray
    source: str


def _calibration(
    prediction: Prediction,
    graph: Graph,
    guarantee: GuaranteeName,
    calibration: np.ndarray | None,
    size: int | None,
    seed: int,
) -> Calibrated:
    """Calibration nodes; having none is not an error: then nothing is certified."""
    choose = held_out if guarantee == "certified" else calibration_for_selection
    try:
        held = choose(prediction, graph, calibration, size=size, seed=seed)
        first, source = held.mask, held.source.words
    except BadInput as error:
        if error.code != "E-CALIBRATION":
            raise
        first, source = (
            np.zeros(graph.num_nodes, dtype=bool),
            "none, because the split leaves no labelled nodes for calibration",
        )
    later = graph.role("further")
    if not later.any():
        return Calibrated(first, first, source)
    later = later & held_out(prediction, graph, later).mask
    first = first & ~later
    return Calibrated(first, first | later, f"{source}, plus {counted(int(later.sum()), 'node')} labelled since")


def first_calibration(
    prediction: Prediction, graph: Graph, guarantee: GuaranteeName, *, size: int | None = None, seed: int = 0
) -> np.ndarray:
    """The calibration nodes of a first test with this guarantee.  # [N] bool"""
    return _calibration(prediction, graph, guarantee, None, size, seed).first


def _with_further(graph: Graph, further: np.ndarray | None) -> Graph:
    """``graph`` with these nodes in the role ``further``: no draw of other calibration nodes may take them."""
    if further is None:
        return graph
    later = np.asarray(further)
    later = later if later.dtype == bool else mask_of(later.astype(np.int64), graph.num_nodes)
    roles = np.zeros(graph.num_nodes, dtype=bool)
    for name, mask in graph.masks.items():
        if name != "further":
            roles |= mask
    if used := int((later & roles).sum()):
        raise BadUsage(
            f"{used} of the further calibration nodes already have a role in the split",
            code="E-CAL-USED",
            fix="draw them at random among nodes without a role: graphsde ask RUN --for calibration",
        )
    later = later | graph.role("further")
    return graph.with_masks(split=graph.split, **{**graph.masks, "further": later})


def _formerly(given: dict[str, Any]) -> dict[str, Any]:
    """Options under their present names; one that never was an option is refused."""
    names = [one.name for one in inspect.signature(decide).parameters.values() if one.kind is one.KEYWORD_ONLY]
    present = {current("option", name): value for name, value in given.items()}
    for name in present:
        if name not in names:
            raise unknown_name("option of decide", name, names)
    return present


def _require_one_of(kind: str, name: str, choices: dict[Any, str]) -> None:
    if name not in choices:
        raise BadUsage(f"unknown {kind} '{name}'", found=name, expected="one of " + ", ".join(choices))


DECIDING: Rules[Callable[..., Decisions]] = Rules("deciding")
"""How to decide on a kind of prediction; parameters with a default are its options."""


@DECIDING.register("classification")
def _decide_classes(
    prediction: ClassPrediction,
    graph: Graph,
    calibrated: Calibrated,
    terms: Terms,
    *,
    confidence_level: float,
    by: str = ACCEPT_BY,
    ood_rule: OODRule = "per-node",
    false_alarm: float = 0.05,
    ood_by: str | None = None,
    sets: SetsName = "marginal",
    sets_by: str = "aps",
    model: Predictor | None = None,
) -> ClassDecisions:
    _require_one_of("rule for OOD nodes", ood_rule, OOD_RULES)
    _require_one_of("kind of sets", sets, SETS)
    require_share("false_alarm", false_alarm)
    require_share("confidence_level", confidence_level)
    flag, notes = _flag(prediction, graph, false_alarm, ood_by, model)
    uncertain = score(by, prediction, graph, model)

    def on(calibrated: Calibrated) -> ClassDecisions:
        rule, frontier, selection = _accepting(prediction, graph, calibrated, terms, by, ood=flag, by=uncertain)
        strangeness = p_values_among(flag.by, flag.values, graph, calibrated.nodes, calibrated.source)
        group = strangeness.fdr(FDR)
        conformal, said = _sets(prediction, graph, calibrated, terms.seed, confidence_level, sets, sets_by)
        actions = np.full(graph.num_nodes, "review", dtype=object)
        actions[flag.flagged if ood_rule == "per-node" else group.flagged] = "ood"
        actions[rule.accepted] = "accept"  # last: the fdr list must not remove accepted nodes from the guarantee
        all_classes = np.ones((graph.num_nodes, prediction.num_classes), dtype=bool)
        return ClassDecisions(
            prediction=prediction,
            graph=graph,
            max_error=terms.max_error,
            abstention=rule,
            ood=flag,
            strangeness=strangeness,
            group=group,
            ood_rule=ood_rule,
            conformal=conformal,
            sets=all_classes if conformal is None else conformal.predict_set(prediction, never_empty=True),
            actions=actions,
            frontier=frontier,
            selection=selection,
            notes=(*notes, *said),
            again=lambda nodes: on(Calibrated(nodes, nodes, "the nodes given for calibration")),
        )

    return on(calibrated)


def _flag(
    prediction: ClassPrediction, graph: Graph, false_alarm: float, by: str | None, model: Predictor | None
) -> tuple[OODFlag, tuple[str, ...]]:
    """The flag, or scores alone if there are too few validation nodes for a threshold."""
    try:
        return flag_per_node(prediction, graph, false_alarm=false_alarm, by=by, model=model), ()
    except GraphsdeError as error:
        if error.code not in ("E-CAL-SMALL", "E-SPLIT-EMPTY"):
            raise
        return no_flag(prediction, graph, by, model), (f"No node is flagged as OOD: {error.message}.",)


def _sets(
    prediction: ClassPrediction,
    graph: Graph,
    calibrated: Calibrated,
    seed: int,
    confidence_level: float,
    kind: SetsName,
    by: str,
) -> tuple[Any, tuple[str, ...]]:
    options: dict[str, Any] = {"by": by, "seed": seed, "confidence_level": confidence_level}
    options["calibration"] = calibrated.nodes
    try:
        if kind == "degree":
            return conformal_by_degree(prediction, graph, **options), ()
        return conformalize(prediction, graph, class_conditional=kind == "class", **options), ()
    except BadInput as error:
        if error.code != "E-CAL-SMALL":
            raise
        return None, (f"Sets are uninformative: {error.message}.",)


@DECIDING.register("regression")
def _decide_numbers(
    prediction: RegressionPrediction,
    graph: Graph,
    calibrated: Calibrated,
    terms: Terms,
    *,
    confidence_level: float,
    tolerance: float | None = None,
    intervals_by: str = "deviations",
    model: Predictor | None = None,
) -> RegressionDecisions:
    if tolerance is None:
        raise BadUsage(
            "a regression model needs a tolerance: how far off may an accepted prediction be?",
            code="E-TARGET",
            fix="set tolerance= (--tolerance), in the target's unit",
        )
    require_share("confidence_level", confidence_level)

    def on(calibrated: Calibrated) -> RegressionDecisions:
        rule, frontier, selection = _accepting(prediction, graph, calibrated, terms, None, tolerance=tolerance)
        notes: tuple[str, ...] = ()
        try:
            intervals = conformalize(
                prediction, graph, confidence_level=confidence_level, by=intervals_by, calibration=calibrated.nodes
            )
            low, high = intervals.predict_interval(prediction)
        except BadInput as error:
            if error.code != "E-CAL-SMALL":
                raise
            intervals, notes = None, (f"Intervals are uninformative: {error.message}.",)
            low, high = (np.full(graph.num_nodes, end) for end in (-np.inf, np.inf))
        actions = np.full(graph.num_nodes, "review", dtype=object)
        actions[rule.accepted] = "accept"
        return RegressionDecisions(
            prediction=prediction,
            graph=graph,
            max_error=terms.max_error,
            abstention=rule,
            conformal=intervals,
            low=low,
            high=high,
            actions=actions,
            frontier=frontier,
            selection=selection,
            notes=notes,
            again=lambda nodes: on(Calibrated(nodes, nodes, "the nodes given for calibration")),
        )

    return on(calibrated)


def _accepting(
    prediction: Prediction,
    graph: Graph,
    calibrated: Calibrated,
    terms: Terms,
    name: str | None,
    **options: Any,
) -> tuple[Abstention, Frontier, Selection | None]:
    """The rule of acceptance behind a guarantee in the terms of :func:`graphsde.abstain`, and the frontier."""
    options["calibration"] = calibrated.first
    frontier = certify(
        prediction, graph, ladder=terms.ladder, focus=terms.focus, delta=terms.delta, anytime=terms.anytime, **options
    )
    if (calibrated.nodes & ~calibrated.first).any():
        frontier = frontier.again(prediction, graph, calibrated.nodes)
    for test in terms.earlier:
        before = certify(prediction, graph, ladder=test.limits, focus=test.focus, delta=test.delta, **options)
        frontier = frontier.keeping(before, prediction, graph)
    named: dict[str, Any] = {"calibration_source": calibrated.source} | ({} if name is None else {"by": name})
    frontier = replace(frontier, spent=frontier.spent + terms.spent, **named)
    if terms.guarantee == "certified":
        return of_frontier(frontier, terms.max_error), frontier, None
    options["calibration"] = calibrated.nodes
    if terms.guarantee == "expected":
        selection = select(prediction, graph, max_error=terms.max_error, **options)
    else:
        selection = control_risk(prediction, graph, max_share=terms.max_error, **options)
    selection = replace(selection, **named)
    return of_selection(selection, terms.delta), frontier, selection
