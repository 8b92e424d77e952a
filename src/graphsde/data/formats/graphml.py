"""GraphML files, as networkx, Gephi and others write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphsde.data.findings import Finding
from graphsde.data.formats.bombs import refuse_bomb
from graphsde.data.formats.graphml_document import Attribute, GraphmlDocument
from graphsde.data.formats.opening import opened
from graphsde.data.formats.text_numbers import whole_numbers
from graphsde.data.raw import RawGraph, ReadOptions
from graphsde.errors import BadInput, shorten

_PIECE = 1 << 20


def read_graphml(path: Path, options: ReadOptions, name: str | None = None) -> RawGraph:
    """Read a GraphML file.

    The node attributes ``label`` and ``split`` are what they say; every other one is a feature, numeric for numbers and
    truth values, categorical for strings. The edge attribute ``weight`` is the weight.
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
    # a value takes more bytes in the file than in memory, unless it is a default
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
        findings=_findings(document),
    )


def _edges(
    document: GraphmlDocument, options: ReadOptions
) -> tuple[list[str], list[str], np.ndarray | None, np.ndarray]:
    sources, targets = document.sources, document.targets
    lines = np.array(document.edges.lines, dtype=np.int64)
    weights = _weights(document)
    if options.directed:  # an undirected edge then is one in each direction
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
        attribute.default = 1.0  # as networkx takes an edge without a weight
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


def _findings(document: GraphmlDocument) -> list[Finding]:
    unused = [name for name in document.edges.attributes if name != "weight"]
    if not unused:
        return []
    where = tuple(shorten(name, 60) for name in unused[:5])
    message = f"{len(unused):,} edge attributes are not used: {', '.join(where)}"
    return [Finding("W-EDGE-COLUMNS", "note", message, len(unused), where)]
