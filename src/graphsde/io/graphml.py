"""GraphML files, as networkx, Gephi and others write them.

defusedxml refuses document types and entities; we read the elements ourselves, one by one. networkx's reader
is not enough: it drops defaults (``test_missing_values_and_defaults``), takes nested graphs and nodes without an id
(``bad_files.py``), invents nodes that only edges mention, and keeps no line numbers for messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from graphsde.base.errors import BadInput, shorten
from graphsde.graph.raw import RawGraph, ReadOptions
from graphsde.io.columns import unused_columns, whole_numbers
from graphsde.io.opening import opened, refuse_bomb

DEEPEST = 64
LONGEST_TEXT = 1_000_000
LONGEST_TAG = 2_000_000
MOST_UNRELATED = 1_000_000
MOST_KEYS = 20_000
_CHILDREN: dict[str | None, frozenset[str]] = {
    None: frozenset({"graphml"}),
    "graphml": frozenset({"key", "graph"}),
    "key": frozenset({"default"}),
    "graph": frozenset({"node", "edge"}),
    "node": frozenset({"data"}),
    "edge": frozenset({"data"}),
}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _number(text: str, kind: Callable[[str], float], longest: int = LONGEST_TEXT) -> float:
    if "_" in text or len(text) > longest:
        raise ValueError
    return kind(text)


_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int", "long"), lambda text: _number(text, int, longest=30)),
    **dict.fromkeys(("float", "double"), lambda text: _number(text, float)),
    "boolean": lambda text: _TRUTH[text.lower()],
    "string": str,
}


@dataclass
class Key:
    name: str
    kind: str
    default: Any = None


@dataclass
class Attribute:
    """Values of one attribute, where given; keys of different types may share its name."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    values: list[Any] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    default: Any = None

    def column(self, num_rows: int) -> list[Any]:
        values = [self.default] * num_rows
        for row, value in zip(self.rows, self.values, strict=True):
            values[row] = value
        return values


@dataclass
class Elements:
    """All nodes, or all edges: the line of each, and their attributes by name."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    keys: dict[str, Key] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def add(self, key: Key, value: Any) -> None:
        attribute = self.attributes.setdefault(key.name, Attribute())
        attribute.rows.append(len(self.lines) - 1)
        attribute.values.append(value)
        attribute.kinds.add(key.kind)

    def fill_defaults(self) -> None:
        for key in self.keys.values():
            if key.default is not None:
                attribute = self.attributes.setdefault(key.name, Attribute())
                attribute.default = key.default
                attribute.kinds.add(key.kind)


class GraphmlDocument:
    """Feed it bytes, then look at ``nodes``, ``edges``, ``ids``, ``sources``, ``targets`` and ``one_way``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes, self.edges = Elements(), Elements()
        self.ids: list[str] = []
        self.sources: list[str] = []
        self.targets: list[str] = []
        self.one_way = bytearray()
        self._stack: list[str] = []
        self._unrelated = self._passed_over = self._fed = 0
        self._directed: bool | None = None
        self._key: Key | None = None
        self._text: list[str] | None = None
        self._text_size = 0
        self._xml = DefusedXMLParser(target=self, forbid_dtd=True)
        self._parser = self._xml.parser  # expat, which knows the line

    def feed(self, piece: bytes, last: bool = False) -> None:
        try:
            self._xml.feed(piece)
            if last:
                self._xml.close()
        except ParseError as error:
            raise self._error("E-CORRUPT", f"not a complete XML file: {str(error).partition(':')[0]}") from None
        except DefusedXmlException:
            raise self._error(
                "E-XML-DTD",
                "the file defines a document type or entities, which could expand without limit",
                expected="plain GraphML",
                fix="remove the <!DOCTYPE …> part",
            ) from None
        except (ValueError, LookupError) as error:  # an encoding that the parser does not support
            raise self._error("E-ENCODING", f"its encoding is not supported: {shorten(str(error), 100)}") from None
        self._fed += len(piece)
        if self._fed - self._parser.CurrentByteIndex > LONGEST_TAG:
            raise self._error("E-LINE-LEN", f"a tag is longer than {LONGEST_TAG:,} bytes")
        if last:
            self.nodes.fill_defaults()
            self.edges.fill_defaults()

    def start(self, qualified: str, attributes: dict[str, str]) -> None:
        name = qualified.rpartition("}")[2]
        if len(self._stack) + self._unrelated >= DEEPEST:
            raise self._error("E-CORRUPT", f"elements are nested more than {DEEPEST} deep")
        parent = self._stack[-1] if self._stack else None
        if self._unrelated or name not in _CHILDREN.get(parent, ()):
            self._start_unrelated(name, parent)
            return
        self._stack.append(name)
        if name == "node":
            self.ids.append(self._required(attributes, "id"))
            self.nodes.lines.append(self._parser.CurrentLineNumber)
        elif name == "edge":
            self.sources.append(self._required(attributes, "source"))
            self.targets.append(self._required(attributes, "target"))
            self.one_way.append(_TRUTH.get(attributes.get("directed", "").lower(), bool(self._directed)))
            self.edges.lines.append(self._parser.CurrentLineNumber)
        elif name == "data":
            owner = self.nodes if self._stack[-2] == "node" else self.edges
            self._key = owner.keys.get(self._required(attributes, "key"))
            self._text, self._text_size = [], 0
        elif name == "default":
            self._text, self._text_size = [], 0
        elif name == "key":
            self._start_key(attributes)
        elif name == "graph":
            if self._directed is not None:
                raise self._error("E-FORMAT", "the file contains several graphs", expected="one graph")
            self._directed = attributes.get("edgedefault") == "directed"

    def _start_unrelated(self, name: str, parent: str | None) -> None:
        """Descriptions, ports and drawings of editors are skipped; anything that changes the graph is not."""
        if parent is None:
            raise self._error("E-FORMAT", "this is XML but not GraphML", found=name, expected="<graphml>")
        if not self._unrelated and name in ("graph", "hyperedge"):
            raise self._error("E-FORMAT", "nested graphs and hyperedges are not supported", found=name)
        self._unrelated += 1
        self._passed_over += 1
        if self._passed_over > MOST_UNRELATED:
            raise self._error("E-BOMB", f"more than {MOST_UNRELATED:,} elements are unrelated to the graph")

    def _start_key(self, attributes: dict[str, str]) -> None:
        kind = attributes.get("attr.type", "string").lower()
        identity, scope = self._required(attributes, "id"), attributes.get("for", "all")
        if kind not in _PARSERS:
            return
        if len(self.nodes.keys) + len(self.edges.keys) >= MOST_KEYS:
            raise self._error(
                "E-LINE-LEN",
                f"the file declares more than {MOST_KEYS:,} attributes",
                expected=f"at most {MOST_KEYS:,}",
                fix="store features as wide as this in an .npz file",
            )
        self._key = Key(attributes.get("attr.name", identity), kind)
        for one, elements in (("node", self.nodes), ("edge", self.edges)):
            if scope in (one, "all"):
                elements.keys[identity] = self._key

    def end(self, qualified: str) -> None:
        if self._unrelated:
            self._unrelated -= 1
            return
        name = self._stack.pop()
        if self._key is not None and self._text is not None:
            value = self._parse(self._key, "".join(self._text))
            if name == "default":
                self._key.default = value
            elif value is not None:
                (self.nodes if self._stack[-1] == "node" else self.edges).add(self._key, value)
        self._text = None
        if name != "default":
            self._key = None

    def data(self, text: str) -> None:
        if self._text is not None and not self._unrelated:
            self._text.append(text)
            self._text_size += len(text)
            if self._text_size > LONGEST_TEXT:
                raise self._error("E-LINE-LEN", f"a value is longer than {LONGEST_TEXT:,} characters")

    def _parse(self, key: Key, text: str) -> Any:
        if key.kind == "string":
            return text
        try:
            return _PARSERS[key.kind](text.strip()) if text.strip() else None
        except (ValueError, KeyError):
            raise self._error(
                "E-FEAT-TYPE",
                f"the value of '{shorten(key.name, 60)}' is not a {key.kind}",
                found=text,
                expected=f"a value of the type {key.kind}",
                fix="correct the value, or the attr.type of its key",
            ) from None

    def _required(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise self._error("E-CORRUPT", f"a <{self._stack[-1]}> has no {name}")
        return attributes[name]

    def _error(self, code: str, message: str, **details: Any) -> BadInput:
        details.setdefault("expected", "one plain graph in GraphML, as networkx.write_graphml writes it")
        return BadInput(message, code=code, place=f"{self.path.name}, line {self._parser.CurrentLineNumber}", **details)


_PIECE = 1 << 20


def read_graphml(path: Path, options: ReadOptions, name: str | None = None) -> RawGraph:
    """Read a GraphML file.

    The node attributes ``label`` and ``split`` are labels and roles; all others are features, numeric for numbers and
    booleans, categorical for strings. The edge attribute ``weight`` is the weight.
    """
    document = GraphmlDocument(path)
    with opened(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        while piece := stream.read(_PIECE):
            document.feed(piece)
        if size:
            document.feed(b"", last=True)
    num_nodes = len(document.ids)
    if not num_nodes:
        raise BadInput(f"{path.name} has no nodes", code="E-EMPTY", place=path.name, expected="at least two nodes")
    attributes = dict(document.nodes.attributes)
    # a value needs more bytes in the file than in memory, unless it is a default
    refuse_bomb(path, declared=8 * num_nodes * len(attributes), compressed=size, moderate=50_000_000, ratio=5)
    labels, split = attributes.pop("label", None), attributes.pop("split", None)
    numeric = [one for one, attribute in attributes.items() if "string" not in attribute.kinds]
    text = [one for one in attributes if one not in set(numeric)]
    sources, targets, weights, lines = _edges(document, options)
    return RawGraph(
        num_nodes=num_nodes,
        node_ids=_ids(document.ids),
        numeric=_matrix([attributes[one] for one in numeric], num_nodes) if numeric else None,
        feature_names=numeric or None,
        categorical={one: _texts(attributes[one], num_nodes) for one in text},
        labels=None if labels is None else labels.column(num_nodes),
        split=None if split is None else _texts(split, num_nodes),
        sources=_ids(sources),
        targets=_ids(targets),
        weights=weights,
        name=name or path.stem,
        node_place=lambda row: f"{path.name}, line {document.nodes.lines[row]}",
        edge_place=lambda row: f"{path.name}, line {lines[row]}",
        findings=unused_columns([one for one in document.edges.attributes if one != "weight"], "edge attribute"),
    )


def _edges(
    document: GraphmlDocument, options: ReadOptions
) -> tuple[list[str], list[str], np.ndarray | None, np.ndarray]:
    sources, targets = document.sources, document.targets
    lines = np.array(document.edges.lines, dtype=np.int64)
    weights = _weights(document)
    if options.directed:  # an undirected edge is then one in each direction
        both = np.flatnonzero(np.frombuffer(document.one_way, dtype=np.uint8) == 0)
        sources = sources + [document.targets[row] for row in both]
        targets = targets + [document.sources[row] for row in both]
        lines = np.concatenate([lines, lines[both]])
        weights = None if weights is None else np.concatenate([weights, weights[both]])
    return sources, targets, weights, lines


def _ids(texts: list[str]) -> np.ndarray | list[str]:
    import pyarrow as pa

    numbers = whole_numbers(pa.array(texts, pa.string()))
    return texts if numbers is None else numbers


def _weights(document: GraphmlDocument) -> np.ndarray | None:
    attribute = document.edges.attributes.get("weight")
    if attribute is None:
        return None
    if "string" in attribute.kinds:
        row = attribute.rows[0] if attribute.rows else 0
        raise BadInput(
            "the edge weights are declared as strings",
            code="E-WEIGHT",
            place=f"{document.path.name}, line {document.edges.lines[row]}",
            expected='attr.type="double"',
            fix="write the weights as numbers",
        )
    if attribute.default is None:
        attribute.default = 1.0  # as networkx treats an edge without a weight
    return _matrix([attribute], len(document.sources))[:, 0]


def _matrix(attributes: list[Attribute], num_rows: int) -> np.ndarray:
    values = np.full((num_rows, len(attributes)), np.nan)
    for position, attribute in enumerate(attributes):
        if attribute.default is not None:
            values[:, position] = attribute.default
        values[np.array(attribute.rows, dtype=np.int64), position] = attribute.values
    return values


def _texts(attribute: Attribute, num_rows: int) -> list[str | None]:
    return [None if value is None else str(value) for value in attribute.column(num_rows)]
