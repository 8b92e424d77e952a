"""``graph.yaml``: settings of a folder of tables, in YAML without its pitfalls."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.renames import current
from graphsde.graph.build import options_from
from graphsde.graph.raw import ReadOptions
from graphsde.graph.target import Kind
from graphsde.io.csv_table import is_text_encoding
from graphsde.io.opening import no_utf8, opened

if TYPE_CHECKING:
    import yaml


LARGEST_FILE = 1_000_000
DEEPEST = 20
MOST_EVENTS = 120_000


@dataclass(frozen=True)
class Setting:
    """A value as written (text, a list or mapping of text, ``None`` if empty) and its place."""

    value: str | list[object] | dict[str, object] | None
    place: str


def read_strict_yaml(path: Path) -> dict[str, Setting]:
    """The mapping in a YAML file, by key.

    Every scalar is kept as the text in the file: ``yes``, ``on``, ``1e5`` and ``007`` are what a person sees
    there. Aliases, tags, repeated keys and several documents are refused.
    """
    with opened(path) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise yaml_error(f"{path.name} is larger than {LARGEST_FILE:,} bytes", path.name, "keep settings only")
    try:
        return parse_strict_yaml(content.decode("utf-8-sig"), path.name)
    except UnicodeDecodeError as error:
        raise no_utf8(path, error) from None


def parse_strict_yaml(text: str, file: str) -> dict[str, Setting]:
    import yaml

    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        _refuse_tricks(text, file, loader)
        root = yaml.compose(text, Loader=loader)
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise yaml_error(f"{file} has no keys", file, "write lines such as 'directed: true'")
        return {key: Setting(_plain(node, file), _place(node, file)) for key, node in _pairs(root, file)}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}, line {mark.line + 1}" if mark else file
        raise yaml_error(f"not valid YAML: {error.problem or error.context}", place, "correct this line") from None
    except (yaml.YAMLError, ValueError) as error:
        raise yaml_error(f"not valid YAML: {shorten(str(error))}", file, "save it as plain UTF-8 text") from None


def yaml_error(message: str, place: str, fix: str, **details: object) -> BadInput:
    return BadInput(message, code="E-YAML", place=place, fix=fix, **details)  # type: ignore[arg-type]


def _refuse_tricks(text: str, file: str, loader: type) -> None:
    """Check the events before anything is built from them."""
    import yaml

    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        place = f"{file}, line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml_error("anchors and aliases (& and *) are not supported", place, "write the value out")
        if getattr(event, "tag", None):
            raise yaml_error("tags (!) are not supported", place, "remove the tag", found=event.tag)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or count > MOST_EVENTS:
            fix = f"keep it to {DEEPEST} levels and {MOST_EVENTS:,} entries"
            raise yaml_error(f"{file} is nested too deeply or has too many entries", place, fix)


def load_plain_yaml(text: str, file: str) -> Any:
    """YAML with its numbers and booleans, as this package writes it: no aliases or tags, limited depth and size."""
    import yaml

    try:
        _refuse_tricks(text, file, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise yaml_error(f"not valid YAML: {shorten(str(error))}", file, "restore it from a backup") from None


def _plain(node: yaml.Node, file: str) -> str | list[object] | dict[str, object] | None:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return None if not node.style and node.value in ("", "~", "null") else str(node.value)
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


Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
Side = Annotated[int, Field(gt=0, lt=10**9)]


class Settings(BaseModel):
    """The content of ``graph.yaml``.

    Args:
        options: the file's :class:`~graphsde.graph.raw.ReadOptions`.
        places: where each key was found.
        name: of the graph, for messages.
        id, label, split: columns of the table of nodes.
        label_kind: what labels are; ``target: regression`` means the same, unless a column has that name.
        source, target, weight: columns of the table of edges.
        categorical: columns that are text even if their cells look like numbers.
        drop: columns to leave out.
        words: columns of lists or of text, each read as a bag of words.
        node_name: the column with display names of nodes; not a feature.
        nodes, edges, features_file: files if not named ``nodes``, ``edges`` and ``features.json``.
        classes: the classes, in order.
        image_shape: height and width, if the numeric columns are the pixels of an image.
        sparse: keep numeric columns as a sparse matrix.
    """

    model_config = ConfigDict(frozen=True)

    options: ReadOptions = ReadOptions()
    places: Mapping[str, str] = {}
    name: str | None = None
    id: str = "id"
    label: str = "label"
    label_kind: Kind = "classification"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    weight: str = "weight"
    categorical: Words = ()
    drop: Words = ()
    words: Words = ()
    node_name: str | None = None
    nodes: str | None = None
    edges: str | None = None
    features_file: str | None = None
    classes: Words | None = None
    image_shape: tuple[Side, Side] | None = None
    sparse: bool = False


# tables have one split at most, in a column
OPTION_NAMES = [option.name for option in dataclasses.fields(ReadOptions) if option.name not in ("target", "mask")]
KEYS = [*OPTION_NAMES, *(key for key in Settings.model_fields if key not in ("options", "places"))]
TABLE_KEYS = [key for key in Settings.model_fields if key not in ("options", "places", "name", "label_kind")]
"""What only tables have: columns and files by name."""


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
    for key, setting in found.items():
        if key not in KEYS:
            message, expected = f"unknown setting '{shorten(key, 60)}'", "one of " + ", ".join(KEYS)
            raise yaml_error(message, setting.place, did_you_mean(key, KEYS), expected=expected)
        if setting.value is None:
            raise yaml_error(f"'{key}' has no value", setting.place, "give it one or remove the line")
    values = _told_apart({key: setting.value for key, setting in found.items()}, ("regression",))
    places = {key: setting.place for key, setting in found.items()}
    if "target" not in values and "target" in places:
        places["label_kind"] = places.pop("target")  # it named no column
    options = {key: values.pop(key) for key in OPTION_NAMES if key in values}
    try:
        settings = Settings.model_validate({**values, "options": options, "places": places})
        checked = read_options({"target": settings.label_kind}, settings.options)
    except ValidationError as error:
        raise _in_words(error, found) from None
    except BadUsage as error:
        fix = "choose one of them"
        raise yaml_error(error.message, places["encoding"], fix, found=error.found, expected=error.expected) from None
    return settings.model_copy(update={"options": checked})


def with_given(settings: Settings, given: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Settings overridden by those given explicitly, and the given options that are not settings.

    Args:
        settings: from ``graph.yaml``.
        given: keyword arguments of ``read``, or ``--read`` of the command line.
    """
    values = _told_apart(dict(given), get_args(Kind))
    kind = values.pop("label_kind", None)
    said = {key: values.pop(key) for key in TABLE_KEYS if key in values}
    if kind is not None:
        values["target"] = kind
    try:
        # a column may be named 2019, which the command line parses as a number
        checked = Settings.model_validate({key: _as_written(value) for key, value in said.items()})
    except ValidationError as error:
        key = str(error.errors(include_url=False)[0]["loc"][0])
        expected = "a list of words" if key in ("categorical", "drop", "words", "classes") else "a word"
        raise BadUsage(f"invalid value for '{key}'", found=said[key], expected=expected) from None
    update = {key: getattr(checked, key) for key in said}
    places = {**settings.places, **dict.fromkeys(said, "the options of read")}
    return settings.model_copy(update={**update, "places": places}), values


def _as_written(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_as_written, value))
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _told_apart(values: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """``target`` is a column or the kind of labels; ``features`` is the source of features, or a file of words."""
    if isinstance(said := values.get("target"), str) and current("target", said) in kinds:
        values.setdefault("label_kind", values.pop("target"))
    if isinstance(said := values.get("label_kind"), str):
        values["label_kind"] = current("target", said)
    if isinstance(said := values.get("features"), str) and said.lower().endswith(".json"):
        values["features_file"] = values.pop("features")
    return values


def _in_words(error: ValidationError, found: Mapping[str, Setting]) -> BadInput:
    first = error.errors(include_url=False)[0]
    key = next(str(part) for part in first["loc"] if part in found)
    value, place = found[key].value, found[key].place
    if first["type"] == "literal_error":
        choices = re.findall("'(.*?)'", first["ctx"]["expected"])
        fix, expected = did_you_mean(str(value), choices), "one of " + ", ".join(choices)
        return yaml_error(f"invalid value for '{key}'", place, fix, found=value, expected=expected)
    if key == "image_shape":
        expected, example = "a height and a width", "[28, 28]"
    elif first["type"].startswith("bool"):
        expected, example = "true or false", "true"
    elif key in ("categorical", "drop", "words", "classes"):
        expected, example = "a list of words", "[one, two]"
    else:
        expected, example = "a word", "…"
    return yaml_error(f"'{key}' should be {expected}", place, f"write '{key}: {example}'", found=value)


def read_options(
    given: Mapping[str, Any], from_file: ReadOptions | None = None, further: Sequence[str] = ()
) -> ReadOptions:
    """Options from keyword arguments, which take precedence, and from the graph's own file.

    Args:
        given: the arguments.
        from_file: the options of the file.
        further: arguments that the caller also accepts, for the error about an unknown one.
    """
    options = options_from({**(dataclasses.asdict(from_file) if from_file else {}), **given}, further)
    for name in ("directed", "strict"):
        if not isinstance(getattr(options, name), bool):
            raise BadUsage(f"invalid value for '{name}'", found=getattr(options, name), expected="True or False")
    if isinstance(options.mask, bool) or not isinstance(options.mask, int) or options.mask < 0:
        raise BadUsage(
            "invalid value for 'mask'", code="E-MASK-NUMBER", found=options.mask, expected="an integer of at least 0"
        )
    if not isinstance(options.encoding, str) or not is_text_encoding(options.encoding):
        expected = "a text encoding such as utf-8, cp1252, latin-1 or utf-16"
        raise BadUsage("unknown encoding", found=options.encoding, expected=expected)
    return options


def did_you_mean(name: str, choices: Iterable[str], otherwise: str = "choose one of them") -> str:
    folded = {choice.lower()[:100]: choice for choice in list(choices)[:1000]}
    close = difflib.get_close_matches(name.strip().lower()[:100], list(folded), n=1)
    return f"did you mean '{shorten(folded[close[0]], 60)}'?" if close else otherwise
