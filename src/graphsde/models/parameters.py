"""A model's settings as others see them: a signature, a section of the docstring, scikit-learn's parameters.

All are derived from the settings' own class, so that they can't disagree with it.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from graphsde.nn.settings import Settings

_DEEPER = "__"


def signature_of(defaults: Settings) -> inspect.Signature:
    """Keyword-only parameters with what they accept and with ``defaults``, for ``help`` and completion."""
    kind, missing = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(
                name, kind, default=plain(getattr(defaults, name, missing)), annotation=accepted_type(field.annotation)
            )
            for name, field in own_first(type(defaults)).items()
        ]
    )


def own_first(settings: type[Settings]) -> dict[str, FieldInfo]:
    """The fields of a class before those that it shares with others."""
    names = (name for one in settings.__mro__ for name in inspect.get_annotations(one))
    return {name: settings.model_fields[name] for name in dict.fromkeys(names) if name in settings.model_fields}


def accepted_type(annotation: Any) -> Any:
    """What may be given for a field: nested settings may also be given as plain values."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation.spelt_as | annotation
    return annotation


def with_settings_section(docstring: str, defaults: Settings) -> str:
    """A class's docstring, followed by its settings with their meaning and default."""
    lines = [inspect.cleandoc(docstring), "", "Settings, as keywords; some defaults depend on the graph:"]
    meanings = type(defaults).meanings()
    for name in own_first(type(defaults)):
        default = f"Default: {plain(getattr(defaults, name))!r}." if hasattr(defaults, name) else "Required."
        told = f"{name}: {meanings.get(name, '')} {default}"
        lines += textwrap.wrap(told, 112, initial_indent="    ", subsequent_indent="        ", break_long_words=False)
    return "\n".join(lines) + "\n"


def plain(value: Any) -> Any:
    """Nested settings as a dictionary."""
    return value.model_dump() if isinstance(value, BaseModel) else value


def flat(params: dict[str, Any]) -> dict[str, Any]:
    """Nested values also under their own names: ``drift``, ``drift__name``, ``drift__options__heads``."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        found[name] = value
        if isinstance(value, dict):
            found |= {f"{name}{_DEEPER}{key}": inner for key, inner in flat(value).items()}
    return found


def split_params(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that are replaced, and parts of nested ones: ``drift__name="gat"`` is ``{"drift": {"name": "gat"}}``."""
    whole = {name: plain(value) for name, value in params.items() if _DEEPER not in name}
    parts: dict[str, Any] = {}
    for name in sorted(params.keys() - whole.keys(), key=lambda name: name.count(_DEEPER)):
        *above, last = name.split(_DEEPER)
        inside = parts
        for key in above:
            inside = inside.setdefault(key, {})
        inside[last] = dict(params[name]) if isinstance(params[name], dict) else params[name]
    return whole, parts


def merge_settings(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested settings, with ``above`` taking precedence value by value; a renamed part starts from scratch."""
    merged = dict(below)
    for name, value in above.items():
        known = merged.get(name)
        if (
            isinstance(known, dict)
            and isinstance(value, dict)
            and value.get("name", known.get("name")) == known.get("name")
        ):
            value = merge_settings(known, value)
        merged[name] = value
    return merged
