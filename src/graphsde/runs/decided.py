"""Decisions on the nodes of a run: the further labels that it keeps count, and so do earlier looks at its labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphsde.acting.decide import decide, first_calibration
from graphsde.acting.decisions import Decisions
from graphsde.acting.ladder import usual_focus
from graphsde.graph.graph import Graph
from graphsde.prediction import Prediction, Predictor
from graphsde.runs.further_labels import require_all_further_labels
from graphsde.runs.looks import USUAL_DELTA, Before, Look, looks_before, remember
from graphsde.uncertainty.held_out import require_share

USUAL_LIMIT = 0.05
_NOT_OF_THE_TEST = ("guarantee", "ood_rule", "sets", "sets_by", "confidence_level")
"""Options of :func:`graphsde.decide` that change a test by its calibration nodes alone, if at all."""


def before_deciding(
    run: Path,
    prediction: Prediction,
    graph: Graph,
    samples: int,
    *,
    say: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Before:
    """Earlier looks at the calibration labels of a run, other than the one that these options make.

    Args:
        run: the folder.
        prediction, graph: the run's, with its further labels.
        samples: per node.
        say: called with a one-line warning about a record that can't be read.
        options: of :func:`graphsde.decide`.
    """
    return looks_before(run, _look(run, prediction, graph, samples, options), say)


def decide_on_run(
    run: Path,
    prediction: Prediction,
    graph: Graph,
    model: Predictor | None,
    samples: int,
    *,
    before: Before | None = None,
    say: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> tuple[Decisions, Before]:
    """:func:`graphsde.decide` with the probability that is left after earlier looks; this look is recorded.

    Args:
        run: the folder.
        prediction, graph, model: the run's, with its further labels.
        samples: per node.
        before: from :func:`before_deciding`, if it was called already.
        say: called with one-line warnings.
        options: of :func:`graphsde.decide`.
    """
    look = _look(run, prediction, graph, samples, options)
    before = looks_before(run, look, say) if before is None else before
    test: dict[str, Any] = {"anytime": look.anytime}
    if look.anytime:  # an ordinary test says itself that it is run only once
        test |= {"spent": before.spent_on_others, "earlier": before.same_rule}
    decisions = decide(prediction, graph, model=model, **{**options, **test})
    remember(run, look, decisions.frontier, say)
    return decisions, before


def _look(run: Path, prediction: Prediction, graph: Graph, samples: int, options: dict[str, Any]) -> Look:
    require_all_further_labels(run, graph)
    test = {name: value for name, value in options.items() if name not in _NOT_OF_THE_TEST}
    max_error = test.pop("max_error", USUAL_LIMIT)
    require_share("max_error", max_error)
    focus = test.pop("focus", "usual")
    drawn_for = options.get("guarantee", "certified")
    if drawn_for != "certified":
        draw: dict[str, Any] = {name: options[name] for name in ("size", "seed") if name in options}
        nodes, usual = (first_calibration(prediction, graph, one, **draw) for one in (drawn_for, "certified"))
        drawn_for = drawn_for if (nodes != usual).any() else "certified"
    anytime = bool(test.pop("anytime", False) or graph.role("further").any())
    return Look.of(
        max_error=max_error,
        delta=test.pop("delta", USUAL_DELTA),
        focus=usual_focus(max_error) if focus == "usual" else focus,
        samples=samples,
        anytime=anytime,
        drawn_for=None if drawn_for == "certified" else drawn_for,
        **test,
    )
