"""``graph.yaml``: what a folder of tables says about itself, in YAML without its traps."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.renames import current
from graphsde.graph.build import options_from
from graphsde.graph.raw import ReadOptions
from graphsde.graph.target import TARGETS
from graphsde.io.csv_table import is_text_encoding
from graphsde.io.opening import opened

if TYPE_CHECKING:
    import yaml


LARGEST_FILE = 1_000_000
DEEPEST = 20
MOST_EVENTS = 120_000


@dataclass(frozen=True)
class Setting:
    """A value as written (text, a list or a mapping of such, ``None`` if nothing is written) and its place."""

    value: str | list[object] | dict[str, object] | None
    place: str


def read_strict_yaml(path: Path) -> dict[str, Setting]:
    """The mapping in a YAML file, by key.

    Every scalar is handed over as the text that is written: ``yes``, ``on``, ``1e5`` and ``007`` are what a person sees
    in the file. Aliases, tags, repeated keys and several documents are refused.
    """
    with opened(path) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise yaml_error(f"{path.name} is larger than {LARGEST_FILE:,} bytes", path.name, "keep settings only")
    try:
        return parse_strict_yaml(content.decode("utf-8-sig"), path.name)
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path.name} is no utf-8 text: {error.reason} at byte {error.start}",
            code="E-ENCODING",
            place=f"{path.name}, byte {error.start}",
            fix="save it as UTF-8",
        ) from None


def parse_strict_yaml(text: str, file: str) -> dict[str, Setting]:
    import yaml

    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        _refuse_tricks(text, file, loader)
        root = yaml.compose(text, Loader=loader)
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise yaml_error(f"{file} holds no keys", file, "write lines such as 'directed: true'")
        return {key: Setting(_plain(node, file), _place(node, file)) for key, node in _pairs(root, file)}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}, line {mark.line + 1}" if mark else file
        raise yaml_error(f"this is no YAML: {error.problem or error.context}", place, "correct this line") from None
    except (yaml.YAMLError, ValueError) as error:
        raise yaml_error(f"this is no YAML: {shorten(str(error))}", file, "save it as plain UTF-8 text") from None


def yaml_error(message: str, place: str, fix: str, **details: object) -> BadInput:
    return BadInput(message, code="E-YAML", place=place, fix=fix, **details)  # type: ignore[arg-type]


def _refuse_tricks(text: str, file: str, loader: type) -> None:
    """Look at the events before anything is built from them."""
    import yaml

    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        place = f"{file}, line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml_error("anchors and aliases (& and *) are not read", place, "write the value out")
        if getattr(event, "tag", None):
            raise yaml_error("tags (!) are not read", place, "remove the tag", found=event.tag)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or count > MOST_EVENTS:
            fix = f"keep it to {DEEPEST} levels and {MOST_EVENTS:,} entries"
            raise yaml_error(f"{file} is nested too deeply or has too many entries", place, fix)


def _plain(node: yaml.Node, file: str) -> str | list[object] | dict[str, object] | None:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        empty = not node.style and node.value in ("", "~", "null")
        return None if empty else str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, file) for item in node.value]
    return {key: _plain(value, file) for key, value in _pairs(node, file)}


def _pairs(node: yaml.Node, file: str) -> list[tuple[str, yaml.Node]]:
    import yaml

    seen: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml_error("a key must be a word", _place(key, file), "write 'key: value'")
        if key.value in seen:
            fix = "keep one of the two lines"
            raise yaml_error(f"the key '{shorten(key.value, 60)}' occurs twice", _place(key, file), fix)
        seen[key.value] = value
    return list(seen.items())


def _place(node: yaml.Node, file: str) -> str:
    return f"{file}, line {node.start_mark.line + 1}"


OPTION_NAMES = tuple(option.name for option in dataclasses.fields(ReadOptions))
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Settings:
    """The content of ``graph.yaml``.

    Args:
        name: how messages call the graph.
        options: fields of :class:`~graphsde.graph.raw.ReadOptions` that the file sets.
        id, label, split: columns of the table of nodes.
        source, target, weight: columns of the table of edges. ``target: regression`` names no column but says that
            labels are numbers to be predicted; where the column of targets has another name as well,
            ``label_kind: regression`` says so.
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
        # target: regression    # labels are numbers to be predicted, not classes
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
        kind = current("target", setting.value) if isinstance(setting.value, str) else ""
        if (key == "target" and kind == "regression") or (key == "label_kind" and kind in TARGETS.kinds()):
            options["target"] = kind
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
        did_you_mean(_text(key, setting), TARGETS.kinds()),
        found=setting.value,
        expected="one of " + ", ".join(TARGETS.kinds()),
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
