"""Scores by name: one function for every measure of a node's uncertainty."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Entry, Registry, Rules, unknown_name
from graphsde.prediction import ClassPrediction, Prediction, Predictor
from graphsde.uncertainty.scores.propagation import propagate

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

DIRECTION = "higher = more uncertain"


class ScoreRegistry(Registry[Callable[..., np.ndarray]]):
    """Scores by name; all have the same direction, stated here once and shown with each."""

    def add(self, name: str, item: Callable[..., np.ndarray], *, summary: str, **facts: Any) -> None:
        if facts.setdefault("direction", DIRECTION) != DIRECTION:
            raise BadUsage(
                f"the score '{name}' has the wrong direction",
                found=facts["direction"],
                expected=DIRECTION,
                fix="register its negative",
            )
        super().add(name, item, summary=summary, **facts)


SCORES = ScoreRegistry("score")
"""Every score, higher = more uncertain.

The facts of an entry: ``direction``, the same for all; ``paper`` and ``year``; ``needs``, what the score reads
(``probs``, ``samples``, ``logits``, ``alpha``, ``embedding``, ``graph``, ``model``, ``gradient`` = of the model's
answers by the features, ``train`` = labelled training nodes, ``val`` = validation nodes of their classes); ``kinds``,
the kinds of prediction it is defined for (all if absent); ``spreads``, whether it averages over edges by itself, so
that propagating it would do so twice. A score is a function of the prediction, then of the graph and of the model if
these are among its needs, then of keyword options; one that needs ``train`` has the option ``reference``, the
prediction and graph whose training nodes it learns from.
"""

DEFAULT_SCORE: Rules[tuple[str, ...]] = Rules("scoring")
"""Default scores for OOD detection: the first that is defined."""
DEFAULT_SCORE.register("classification")(("ood", "entropy"))
DEFAULT_SCORE.register("regression")(("total",))

OF_CLASSES = "needs classes"
PROPAGATED = "propagated"
_PROPAGATION_OPTIONS = ("alpha", "steps", "isolated", "self_loops")


def score(
    name: str,
    prediction: Prediction,
    graph: Graph | None = None,
    model: Predictor | None = None,
    *,
    reference: tuple[Prediction, Graph] | None = None,
    **options: Any,
) -> np.ndarray:
    """The uncertainty of every node under a named score; higher always means more uncertain.

    Args:
        name: one of ``SCORES``, or one of them followed by ``+propagated`` to spread it over the graph with
            :func:`graphsde.uncertainty.scores.propagate`.
        prediction: of a model.
        graph: the graph predicted on; needed by scores that use edges or training nodes.
        model: the one that predicted; needed by scores that use further predictions of it.
        reference: where scores that learn from training nodes find them, if not in ``prediction`` and
            ``graph``: the clean graph, when a shifted one is scored. Other scores ignore it.
        options: settings of the score (``temperature`` of ``energy``) and of the propagation (``alpha``, ``steps``,
            ``isolated``, ``self_loops``).

    Returns:
        float64.  # [N]

    Raises:
        BadUsage: (``E-SCORE``) the score is not defined for this prediction; the message says why.

    Example:
        >>> import numpy as np
        >>> p = ClassPrediction(np.array([[[0.9, 0.1], [0.5, 0.5]]]), np.arange(2), ("cat", "dog"), "deterministic")
        >>> score("msp", p).round(2).tolist()
        [0.1, 0.5]
    """
    base, plus, modifier = name.partition("+")
    if plus and modifier != PROPAGATED:
        raise unknown_name("score modifier", modifier, [PROPAGATED])
    if not plus:
        return _evaluate(SCORES.entry(base), prediction, graph, model, reference, options)

    own = {key: value for key, value in options.items() if key not in _PROPAGATION_OPTIONS}
    spread = {key: value for key, value in options.items() if key in _PROPAGATION_OPTIONS}
    entry = SCORES.entry(base)
    if graph is None:
        _refuse(name, _NO_GRAPH)
    return propagate(_evaluate(entry, prediction, graph, model, reference, own), graph, **spread)


def spreads(name: str) -> bool:
    """Whether the score of this name is already an average over edges."""
    base, plus, _ = name.partition("+")
    return bool(plus) or bool(SCORES.entry(base).facts.get("spreads", False))


def available_scores(prediction: Prediction, graph: Graph | None = None, model: Predictor | None = None) -> list[str]:
    """Names of the scores that are defined for this prediction."""
    return [name for name in SCORES if _obstacle(SCORES.entry(name), prediction, graph, model) is None]


def default_score(
    prediction: Prediction,
    graph: Graph | None = None,
    model: Predictor | None = None,
    *,
    among: Sequence[str] | None = None,
    reference: tuple[Prediction, Graph] | None = None,
) -> str:
    """The first score that is defined for this prediction: for classes ``ood`` if possible, otherwise ``entropy``.

    Args:
        prediction, graph, model, reference: as for :func:`score`.
        among: names in order of preference; :data:`DEFAULT_SCORE` if not given. The last one is used without a check.
    """
    names = DEFAULT_SCORE.of(prediction) if among is None else tuple(among)
    for name in names[:-1]:
        if _obstacle(SCORES.entry(name.partition("+")[0]), prediction, graph, model, reference) is None:
            return name
    return names[-1]


def _evaluate(
    entry: Entry[Callable[..., np.ndarray]],
    prediction: Prediction,
    graph: Graph | None,
    model: Predictor | None,
    reference: tuple[Prediction, Graph] | None,
    options: dict[str, Any],
) -> np.ndarray:
    obstacle = _obstacle(entry, prediction, graph, model, reference)
    if obstacle is not None:
        _refuse(entry.name, obstacle)
    needs = entry.facts.get("needs", ())
    positional = (prediction, *(value for name, value in (("graph", graph), ("model", model)) if name in needs))
    if "train" in needs and reference is not None:
        options = {**options, "reference": reference}
    _check_options(entry, len(positional), options)
    return np.asarray(entry.item(*positional, **options), dtype=np.float64)


_NO_GRAPH = (
    "uses edges or training nodes, and no graph was given",
    "pass the graph that the prediction was made on",
)


def _obstacle(
    entry: Entry[Callable[..., np.ndarray]],
    prediction: Prediction,
    graph: Graph | None,
    model: Predictor | None,
    reference: tuple[Prediction, Graph] | None = None,
) -> tuple[str, str] | None:
    needs, kinds = entry.facts.get("needs", ("probs",)), entry.facts.get("kinds")
    if prediction.target_kind not in entry.facts.get("targets", (ClassPrediction.target_kind,)):
        own = ", ".join(
            name for name in SCORES if prediction.target_kind in SCORES.entry(name).facts.get("targets", ())
        )
        return f"{OF_CLASSES}, and this model predicts {prediction.speaks_of}", f"use one of {own}"
    if kinds is not None and prediction.kind not in kinds:
        why = {
            "deterministic": "is not defined for a deterministic model, which has no samples",
            "samples": "is not defined for a sampled model, which has no Dirichlet concentrations",
            "dirichlet": "counts the votes of samples, and a Dirichlet model has none",
            "gaussian": "counts the votes of samples, and one Gaussian has none",
        }[prediction.kind]
        return why, _others() + ", or a model of kind " + " or ".join(kinds)
    if "alpha" in needs and getattr(prediction, "alpha", None) is None:
        return "needs Dirichlet concentrations, and this prediction has none", "use a Dirichlet model"
    if "logits" in needs and not getattr(prediction, "has_logits", False):
        return "needs logits, and this prediction has none", _others() + ", or a model that keeps its logits"
    if "samples" in needs and prediction.kind == "samples" and prediction.num_samples < 2:
        return "compares samples, and this prediction has only one", "predict with samples=20 or more"
    if "embedding" in needs and prediction.embedding is None:
        return "needs embeddings, and this model has none", _others()
    if "graph" in needs and graph is None:
        return _NO_GRAPH
    if "model" in needs and model is None:
        return "needs further predictions of the model, and no model was given", "pass model=..."
    if "gradient" in needs and not getattr(
        model, "has_feature_gradient", True
    ):  # optional for a Predictor of another library
        return (
            "needs a gradient with respect to the features, and this model has none",
            "use a score that does not perturb the features, such as " + _unconditional()[0],
        )
    if "train" in needs:
        learned_from = graph if reference is None else reference[1]
        train = None if learned_from is None else learned_from.train_mask
        if learned_from is None or train is None or not (train & learned_from.labelled).any():
            return (
                "learns from labelled training nodes, and the graph has none",
                "pass reference=(prediction, graph) of the graph that the model was fitted on",
            )
    if "val" in needs:
        selected_on = graph if reference is None else reference[1]
        if selected_on is None or not _has_validation_nodes(selected_on):
            return (
                "compares nodes with validation nodes of known classes, and the graph has none",
                "reserve some nodes for validation (a val mask, or --split), or " + _others(),
            )
    return None


def _has_validation_nodes(graph: Graph) -> bool:
    return bool((graph.role("val") & graph.familiar & ~graph.role("ood")).any())


def _unconditional() -> list[str]:
    return [
        name
        for name in SCORES
        if "kinds" not in SCORES.entry(name).facts and set(SCORES.entry(name).facts.get("needs", ())) <= {"probs"}
    ]


def _others() -> str:
    return "use one of " + ", ".join(_unconditional())


def _refuse(name: str, obstacle: tuple[str, str]) -> NoReturn:
    why, fix = obstacle
    raise BadUsage(f"the score '{name}' {why}", code="E-TARGET" if why.startswith(OF_CLASSES) else "E-SCORE", fix=fix)


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
                fix=f"leave out '{key}'",
            )
