"""Scores by name: one call for every way of asking "how uncertain is this node?"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from graphsde.errors import BadUsage
from graphsde.prediction import Prediction, Predictor
from graphsde.registry import Entry, Registry, unknown_name
from graphsde.scores.propagation import propagate

if TYPE_CHECKING:
    from graphsde.data.graph import Graph

SCORES: Registry[Callable[..., np.ndarray]] = Registry("score")
"""Every score, higher = more uncertain.

The facts of an entry: ``paper`` and ``year``; ``needs``, what the score reads (``probs``, ``samples``, ``logits``,
``alpha``, ``embedding``, ``graph``, ``model``); ``kinds``, the kinds of prediction it is defined for (all if absent). A
score is a function of the prediction, then of the graph and of the model if these are among its needs, then of keyword
options.
"""

PROPAGATED = "propagated"
_PROPAGATION_OPTIONS = ("alpha", "steps", "isolated")


def score(
    name: str, prediction: Prediction, graph: Graph | None = None, model: Predictor | None = None, **options: Any
) -> np.ndarray:
    """The uncertainty of every node under a named score; higher always means more uncertain.

    Args:
        name: one of ``SCORES``, or one of them followed by ``+propagated`` to spread it over the graph with
            :func:`graphsde.scores.propagate`.
        prediction: what a model said.
        graph: the graph predicted on; needed by scores that look at edges or at the training nodes.
        model: who predicted; needed by scores that ask it for further predictions.
        options: settings of the score (``temperature`` of ``energy``) and of the propagation (``alpha``, ``steps``,
            ``isolated``).

    Returns:
        float64.  # [N]

    Raises:
        BadUsage: (``E-SCORE``) the score is not defined for this prediction; the message says why.

    Example:
        >>> import numpy as np
        >>> p = Prediction(np.array([[[0.9, 0.1], [0.5, 0.5]]]), np.arange(2), ("cat", "dog"), "deterministic")
        >>> score("msp", p).round(2).tolist()
        [0.1, 0.5]
    """
    base, plus, modifier = name.partition("+")
    if plus and modifier != PROPAGATED:
        raise unknown_name("score modifier", modifier, [PROPAGATED])
    if not plus:
        return _evaluate(SCORES.entry(base), prediction, graph, model, options)

    own = {key: value for key, value in options.items() if key not in _PROPAGATION_OPTIONS}
    spread = {key: value for key, value in options.items() if key in _PROPAGATION_OPTIONS}
    entry = SCORES.entry(base)
    if graph is None:
        _refuse(name, _NO_GRAPH)
    return propagate(_evaluate(entry, prediction, graph, model, own), graph, **spread)


def available_scores(prediction: Prediction, graph: Graph | None = None, model: Predictor | None = None) -> list[str]:
    """Names of the scores that are defined for this prediction."""
    return [name for name in SCORES if _obstacle(SCORES.entry(name), prediction, graph, model) is None]


def _evaluate(
    entry: Entry[Callable[..., np.ndarray]],
    prediction: Prediction,
    graph: Graph | None,
    model: Predictor | None,
    options: dict[str, Any],
) -> np.ndarray:
    obstacle = _obstacle(entry, prediction, graph, model)
    if obstacle is not None:
        _refuse(entry.name, obstacle)
    positional: tuple[Any, ...] = (prediction,)
    if "graph" in entry.facts.get("needs", ()):
        positional += (graph,)
    if "model" in entry.facts.get("needs", ()):
        positional += (model,)
    _check_options(entry, len(positional), options)
    return np.asarray(entry.item(*positional, **options), dtype=np.float64)


_NO_GRAPH = ("looks at edges, and no graph was given", "pass the graph that the prediction was made on")


def _obstacle(
    entry: Entry[Callable[..., np.ndarray]], prediction: Prediction, graph: Graph | None, model: Predictor | None
) -> tuple[str, str] | None:
    needs = entry.facts.get("needs", ("probs",))
    kinds = entry.facts.get("kinds")
    if kinds is not None and prediction.kind not in kinds:
        why = {
            "deterministic": "is not defined for a deterministic model, which gives one answer and no spread around it",
            "samples": "is not defined for a sampled model, which has no Dirichlet concentrations",
            "dirichlet": "counts the votes of samples, and a Dirichlet model has none",
        }[prediction.kind]
        return why, "use one of " + ", ".join(_unconditional()) + ", or a model of kind " + " or ".join(kinds)
    if "alpha" in needs and prediction.alpha is None:
        return "reads Dirichlet concentrations, and this prediction has none", "use a Dirichlet model"
    if "logits" in needs and prediction.logits is None:
        return (
            "reads logits, and this prediction has none",
            "use one of " + ", ".join(_unconditional()) + ", or a model that keeps its logits",
        )
    if "samples" in needs and prediction.kind == "samples" and prediction.num_samples < 2:
        return "compares samples, and this prediction has only one", "predict with samples=20 or more"
    if "embedding" in needs and prediction.embedding is None:
        return "reads embeddings, and this model gives none", "use one of " + ", ".join(_unconditional())
    if "graph" in needs and graph is None:
        return _NO_GRAPH
    if "model" in needs and model is None:
        return "asks the model for further predictions, and none was given", "pass model=..."
    return None


def _unconditional() -> list[str]:
    return [
        name
        for name in SCORES
        if "kinds" not in SCORES.entry(name).facts and set(SCORES.entry(name).facts.get("needs", ())) <= {"probs"}
    ]


def _refuse(name: str, obstacle: tuple[str, str]) -> NoReturn:
    why, fix = obstacle
    raise BadUsage(f"the score '{name}' {why}", code="E-SCORE", fix=fix)


def _check_options(entry: Entry[Callable[..., np.ndarray]], positional: int, options: dict[str, Any]) -> None:
    parameters = list(inspect.signature(entry.item).parameters.values())[positional:]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for key in options:
        if key not in known:
            raise BadUsage(
                f"the score '{entry.name}' has no option '{key}'",
                code="E-SCORE",
                found=key,
                expected="one of " + ", ".join(known) if known else "no options",
                fix=f"leave '{key}' out",
            )
