"""``graph.yaml``: what a folder of tables says about itself."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsde.data.build import options_from
from graphsde.data.formats.csv_bytes import is_text_encoding
from graphsde.data.formats.strict_yaml import Setting, read_strict_yaml, yaml_error
from graphsde.data.raw import ReadOptions
from graphsde.errors import BadUsage, shorten

OPTION_NAMES = tuple(option.name for option in dataclasses.fields(ReadOptions))
TARGETS = ("class", "numeric")
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Settings:
    """The content of ``graph.yaml``.

    Args:
        name: how messages call the graph.
        options: fields of :class:`~graphsde.data.raw.ReadOptions` that the file sets.
        id, label, split: columns of the table of nodes.
        source, target, weight: columns of the table of edges. ``target: numeric`` names no column but says that labels
            are numbers to be predicted; where the column of targets has another name as well, ``label_kind: numeric``
            says so.
        categorical: columns that are text even where their cells look like numbers.
        drop: columns to leave out.
        classes: the classes in their order.
        image_shape: height and width, where the numeric columns are the pixels of a picture.
        sparse: keep numeric columns as a sparse matrix.
        places: where each key was found.
    """

    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    id: str = "id"
    label: str = "label"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    weight: str = "weight"
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    sparse: bool = False
    places: Mapping[str, str] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """Read ``graph.yaml``.

    Example of a file::

        name: my papers
        label: topic            # the column with the classes
        categorical: [venue]    # numbers that are names
        drop: [comment]
        impute: mean
        # target: numeric       # labels are numbers to be predicted, not classes
    """
    found = read_strict_yaml(path)
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for key, setting in found.items():
        if key not in _READERS:
            raise yaml_error(
                f"there is no setting '{shorten(key, 60)}'",
                setting.place,
                did_you_mean(key, _READERS),
                expected="one of " + ", ".join(_READERS),
            )
        if setting.value is None:
            raise yaml_error(f"'{key}' has no value", setting.place, "give it one or remove the line")
        if (key, setting.value) == ("target", "numeric") or (key == "label_kind" and setting.value in TARGETS):
            options["target"] = setting.value
            continue
        role = options if key in OPTION_NAMES and key != "target" else values
        role[key] = _READERS[key](key, setting)
    return Settings(**values, options=options, places={key: setting.place for key, setting in found.items()})


def read_options(given: Mapping[str, Any], from_file: Mapping[str, Any] | None = None) -> ReadOptions:
    """Options from keyword arguments, which win, and from the graph's own file."""
    options = options_from({**(from_file or {}), **given})
    for name in ("directed", "strict"):
        if not isinstance(getattr(options, name), bool):
            raise BadUsage(f"'{name}' can't be that", found=getattr(options, name), expected="True or False")
    if not isinstance(options.encoding, str) or not is_text_encoding(options.encoding):
        expected = "a text encoding such as utf-8, cp1252, latin-1 or utf-16"
        raise BadUsage("there is no such encoding", found=options.encoding, expected=expected)
    return options


def did_you_mean(name: str, choices: Iterable[str], otherwise: str = "choose one of them") -> str:
    folded = {choice.lower()[:100]: choice for choice in list(choices)[:1000]}
    close = difflib.get_close_matches(name.strip().lower()[:100], list(folded), n=1)
    return f"did you mean '{shorten(folded[close[0]], 60)}'?" if close else otherwise


def _text(key: str, setting: Setting) -> str:
    if not isinstance(setting.value, str):
        raise yaml_error(f"'{key}' should be a word", setting.place, f"write '{key}: …'", found=setting.value)
    return setting.value


def _texts(key: str, setting: Setting) -> tuple[str, ...]:
    value = [setting.value] if isinstance(setting.value, str) else setting.value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        fix = f"write '{key}: [one, two]'"
        raise yaml_error(f"'{key}' should be a list of words", setting.place, fix, found=setting.value)
    return tuple(str(item) for item in value)


def _truth(key: str, setting: Setting) -> bool:
    word = _text(key, setting).lower()
    if word not in _TRUTH:
        raise yaml_error(f"'{key}' is true or false", setting.place, f"write '{key}: true'", found=word)
    return _TRUTH[word]


def _shape(key: str, setting: Setting) -> tuple[int, int]:
    sides = _texts(key, setting)
    if len(sides) != 2 or not all(side.isascii() and side.isdigit() and int(side[:9]) > 0 for side in sides):
        fix = f"write '{key}: [28, 28]'"
        raise yaml_error(f"'{key}' should be a height and a width", setting.place, fix, found=setting.value)
    return int(sides[0][:9]), int(sides[1][:9])


def _target(key: str, setting: Setting) -> str:
    raise yaml_error(
        f"'{key}' can't be that",
        setting.place,
        did_you_mean(_text(key, setting), TARGETS),
        found=setting.value,
        expected="one of " + ", ".join(TARGETS),
    )


def _choice(key: str, setting: Setting) -> str:
    word = _text(key, setting)
    try:
        read_options({key: word})
    except BadUsage as error:
        raise yaml_error(
            error.message, setting.place, error.fix or "choose one of them", found=word, expected=error.expected
        ) from None
    return word


_READERS: dict[str, Callable[[str, Setting], Any]] = {
    "name": _text,
    "directed": _truth,
    "duplicates": _choice,
    "unknown_edges": _choice,
    "impute": _choice,
    "features": _choice,
    "encoding": _choice,
    "strict": _truth,
    "id": _text,
    "label": _text,
    "label_kind": _target,
    "split": _text,
    "source": _text,
    "target": _text,
    "weight": _text,
    "categorical": _texts,
    "drop": _texts,
    "classes": _texts,
    "image_shape": _shape,
    "sparse": _truth,
}
