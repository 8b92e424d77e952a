"""What may be searched: the paper's grid, in the words of each model."""

from __future__ import annotations

from typing import Any

from graphsde.models import MODELS

GRID: dict[str, tuple[Any, ...]] = {
    "lr": (0.001, 0.005, 0.01, 0.1),
    "weight_decay": (0.01, 0.001, 5e-4, 1e-4),
    "epochs": (15, 100, 200, 300),
    "dropout": (0.0, 0.1, 0.3, 0.5),
    "hidden": (16, 32, 64, 128, 256),
    "step": (0.01, 0.05, 0.1, 0.2),
}
"""The grid of the LGNSDE study (its appendix)."""

# what a model calls the thing, in the order of preference
WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "dropout": (("dropout",), ("feature_dropout", "decoder_dropout")),
}


def space_of(model: str, settings: dict[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
    """The grid's parameters that a model has.

    Example:
        >>> sorted(space_of("gcn"))
        ['dropout', 'epochs', 'hidden', 'lr', 'weight_decay']
    """
    fields = _fields(model, settings)
    space = {}
    for name, values in GRID.items():
        if name == "step":
            if {"steps", "horizon"} <= fields:
                space[name] = values
        elif any(set(words) <= fields for words in WORDS.get(name, ((name,),))):
            space[name] = values
    return space


def settings_of(model: str, chosen: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A point of the space as settings of the model (of the members, for an ensemble)."""
    fields = _fields(model, base)
    found: dict[str, Any] = {}
    for name, value in chosen.items():
        if name == "step":
            horizon = MODELS.get(model)(**base).settings.model_dump().get("horizon", 1.0)
            found["steps"] = max(1, round(horizon / value))
        else:
            words = next(words for words in WORDS.get(name, ((name,),)) if set(words) <= fields)
            found |= dict.fromkeys(words, value)
    if "base_settings" in MODELS.get(model).Settings.model_fields:
        return {**base, "base_settings": {**base.get("base_settings", {}), **found}}
    return {**base, **found}


def _fields(model: str, settings: dict[str, Any] | None) -> set[str]:
    cls = MODELS.get(model)
    if "base_settings" in cls.Settings.model_fields:
        member = (settings or {}).get("base", cls.Settings.model_fields["base"].default)
        return set(MODELS.get(member).Settings.model_fields)
    return set(cls.Settings.model_fields)
