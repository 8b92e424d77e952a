"""YAML without its traps: text, lists and mappings, each key once, nothing that refers or constructs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphsde.data.formats.opening import opened
from graphsde.errors import BadInput, shorten

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
