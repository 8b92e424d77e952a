"""Renames: one table of former names, so that whatever was written with them can still be read.

Input (options, settings, saved runs, journals) is translated by :func:`current` and :func:`as_currently`; what goes
into a hash is first translated back by :func:`as_formerly`, so that the ids of cells survive a rename.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMER: dict[str, dict[str, str]] = {
    "drift": {"diffusion": "graph-heat"},
    "prior": {"graph-diffusion": "graph-ou"},
    "target": {"class": "classification", "numeric": "regression"},
    "groups": {"foreign": "ood"},
    "option": {"foreign_by": "ood_by"},
    "dataset": {"synthetic-values": "synthetic-regression"},
    "table": {"figure-entropy:foreign": "figure-entropy:ood"},
    "figure": {"flagged_of_foreign": "flagged_of_ood", "accepted_of_foreign": "accepted_of_ood"},
    "action": {"foreign": "ood"},
    "objective": {"mean": "elbo", "log-mean": "mixture"},
}
"""Former to current name, by kind: the kind of a registry, or ``setting`` and ``option`` for names of those.

A former name is never reused, and no two things shared one: the mapping must be unique both ways.
"""

PLACES = {
    "drift": "drift",
    "drifts": "drift",
    "force": "drift",
    "prior": "prior",
    "groups": "groups",
    "objective": "objective",
}
"""The kind of the names under a key of settings or options: ``drift: x``, ``drift: {name: x}``, a list."""

_KEYS = {"settings": "setting", "options": "option"}
_PRESENT = {kind: {new: old for old, new in names.items()} for kind, names in FORMER.items()}
Spelling = Callable[[str, str], str]


def current(kind: str, name: str) -> str:
    """The current name of something that may be given by a former one.

    Example:
        >>> current("drift", "diffusion"), current("drift", "gcn"), current("metric", "accuracy@diffusion")
        ('graph-heat', 'gcn', 'accuracy@graph-heat')
    """
    figure, at, point = name.partition("@") if kind == "metric" else (name, "", "")
    return FORMER.get(kind, {}).get(figure, figure) + at + FORMER["drift"].get(point, point)


def former(kind: str, name: str) -> str:
    """The original name of something.

    Example:
        >>> former("prior", "graph-ou"), former("prior", "ou")
        ('graph-diffusion', 'ou')
    """
    return _PRESENT.get(kind, {}).get(name, name)


def as_currently(values: dict[str, Any]) -> dict[str, Any]:
    """Settings, options, a run's configuration or a cell in current names; names that are current already stay.

    Example:
        >>> as_currently({"drift": {"name": "diffusion", "options": {"teleport": 0.1}}})
        {'drift': {'name': 'graph-heat', 'options': {'teleport': 0.1}}}
    """
    return _spelt(values, current)


def as_formerly(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`as_currently`, for what is about to be hashed.

    Example:
        >>> as_formerly({"task": "backbones", "options": {"drifts": ["gcn", "graph-heat"]}})
        {'task': 'backbones', 'options': {'drifts': ['gcn', 'diffusion']}}
    """
    return _spelt(values, former)


def _spelt(values: dict[Any, Any], spell: Spelling, keys: str = "") -> dict[Any, Any]:
    """``keys`` is the kind of the keys themselves, if they are names that may have changed."""
    return {
        (spell(keys, key) if keys and isinstance(key, str) else key): _value(value, spell, PLACES.get(key, ""), key)
        for key, value in values.items()
    }


def _value(value: Any, spell: Spelling, kind: str, key: Any = "") -> Any:
    if isinstance(value, str):
        return spell(kind, value) if kind else value
    if isinstance(value, list | tuple):
        return type(value)(_value(one, spell, kind) for one in value)
    if not isinstance(value, dict):
        return value
    within = _spelt(value, spell, _KEYS.get(key, ""))
    if kind and isinstance(within.get("name"), str):
        within["name"] = spell(kind, within["name"])
    return within
