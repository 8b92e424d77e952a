"""Settings found for benchmarks and for kinds of graphs: read from ``recipes.yaml``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from graphsde.graph.graph import Graph
from graphsde.io.graph_yaml import parse_strict_yaml, yaml_error
from graphsde.nn.encoding import looks_like_bag_of_words

FILE = "recipes.yaml"

Recipe = dict[str, Any]
"""Settings of a model, or recipes of its presets."""


def has_words(graph: Graph) -> bool:
    """Whether the features are a bag of words and nothing else."""
    return not graph.categorical and looks_like_bag_of_words(graph.features)


KINDS: dict[str, Callable[[Graph], bool]] = {
    "unknown-dense-regression": lambda graph: graph.target_kind == "regression" and not has_words(graph),
    "unknown-regression": lambda graph: graph.target_kind == "regression",
    "user-words": lambda graph: graph.num_classes > 0 and has_words(graph),
    "user": lambda graph: graph.num_classes > 0,
    "unknown-words": has_words,
    "unknown-dense": lambda graph: not has_words(graph),
    "unknown": lambda graph: True,
}
"""Recipes for graphs that have none of their own, in search order."""

# results of the benchmarks are published with the general defaults of these models, which must not change
NOT_FOR_BENCHMARKS = ("user-words", "user")


def recipe(model: str, graph: Graph, *, benchmark: bool = True) -> Recipe:
    """The recipe for ``graph``: that of its benchmark, otherwise of the first kind that it belongs to.

    Args:
        model: its registered name.
        graph: to fit on.
        benchmark: whether to use a benchmark's own recipe; otherwise every graph is treated as a user's,
            by its kind alone.

    Example:
        >>> import graphsde as gs
        >>> recipe("gcn", gs.synthetic_regression(100))
        {'hidden': 32, 'dropout': 0.2, 'epochs': 400}
    """
    known = graph.benchmark if benchmark else None
    if known is not None and (own := named_recipe(model, known)):
        return own
    kinds = {kind: fits for kind, fits in KINDS.items() if known is None or kind not in NOT_FOR_BENCHMARKS}
    # features are checked only if a recipe depends on them
    return next((found for kind, fits in kinds.items() if (found := named_recipe(model, kind)) and fits(graph)), {})


def named_recipe(model: str, name: str) -> Recipe:
    """The recipe under the name of a benchmark or a kind; empty if there is none."""
    return copy.deepcopy(recipes().get(name, {}).get(model, {}))


@cache
def recipes() -> dict[str, dict[str, Recipe]]:
    """The whole file, by benchmark or kind and model."""
    found = read_yaml(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"), FILE)
    for name, models in found.items():
        if not isinstance(models, dict) or not all(isinstance(one, dict) for one in models.values()):
            raise yaml_error(f"'{name}' has no recipes", FILE, "write 'model: {setting: value}' below it")
    return found


def read_yaml(text: str, file: str) -> dict[str, Any]:
    """Settings as they are written in a file of this package."""
    return {name: _values(one.value) for name, one in parse_strict_yaml(text, file).items()}


def _values(written: Any) -> Any:
    """Numbers and booleans from their text: ``1e-3`` is a number here, ``none`` a word."""
    if isinstance(written, dict):
        return {key: _values(value) for key, value in written.items()}
    if isinstance(written, list):
        return [_values(value) for value in written]
    if not isinstance(written, str):
        raise yaml_error(f"a recipe has {written!r}", FILE, "write a word or a number")
    if written in ("true", "false"):
        return written == "true"
    for number in (int, float):
        try:
            return number(written)
        except ValueError:
            continue
    return written
