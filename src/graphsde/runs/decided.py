"""Decisions on the nodes of a run: the further labels that it keeps count, and so do earlier looks at its labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphsde.acting.decide import decide
from graphsde.acting.decisions import Decisions
from graphsde.acting.ladder import usual_focus
from graphsde.graph.graph import Graph
from graphsde.prediction import Prediction, Predictor
from graphsde.runs.looks import USUAL_DELTA, Before, Look, looks_before, remember
from graphsde.uncertainty.held_out import require_share

USUAL_LIMIT = 0.05
_NOT_OF_THE_TEST = ("guarantee", "ood_rule", "sets", "sets_by", "confidence_level")
"""Options of :func:`graphsde.decide` that don't change which limits are certified."""


def before_deciding(
    run: Path, graph: Graph, samples: int, *, say: Callable[[str], None] = lambda text: None, **options: Any
) -> Before:
    """Earlier looks at the calibration labels of a run, other than the one that these options make.

    Args:
        run: the folder.
        graph: the run's, with its further labels.
        samples: per node.
        say: called with a one-line warning about a record that can't be read.
        options: of :func:`graphsde.decide`.
    """
    return looks_before(run, _look(graph, samples, options), say)


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
    look = _look(graph, samples, options)
    before = looks_before(run, look, say) if before is None else before
    test: dict[str, Any] = {"anytime": look.anytime}
    if look.anytime:  # an ordinary test says itself that it is run only once
        test |= {"spent": before.spent_on_others, "earlier": before.same_rule}
    decisions = decide(prediction, graph, model=model, **{**options, **test})
    remember(run, look, decisions.frontier, say)
    return decisions, before


def _look(graph: Graph, samples: int, options: dict[str, Any]) -> Look:
    test = {name: value for name, value in options.items() if name not in _NOT_OF_THE_TEST}
    max_error = test.pop("max_error", USUAL_LIMIT)
    require_share("max_error", max_error)
    focus = test.pop("focus", "usual")
    anytime = bool(test.pop("anytime", False) or graph.role("further").any())
    return Look.of(
        max_error=max_error,
        delta=test.pop("delta", USUAL_DELTA),
        focus=usual_focus(max_error) if focus == "usual" else focus,
        samples=samples,
        anytime=anytime,
        **test,
    )
