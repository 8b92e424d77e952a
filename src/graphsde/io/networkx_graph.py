"""Graphs from and to networkx."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.registry import unknown_name
from graphsde.graph.build import assemble, options_from
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.raw import RawGraph

if TYPE_CHECKING:
    import networkx

VECTOR = "x"  # the attribute that holds columns without names, as in PyG
LABEL = "label"
SPLIT = "split"
WEIGHT = "weight"
KINDS: dict[str, Any] = {"text": str, "number": (Real, np.bool_), "mapping": Mapping, "list": (list, tuple, np.ndarray)}

Attributes = list[dict[str, Any]]
Place = Callable[[int], str]


def from_networkx(
    graph: networkx.Graph,
    *,
    label: str = LABEL,
    features: Sequence[str] | str | None = None,
    name: str = "graph",
    **options: Any,
) -> Graph:
    """A graph from networkx.

    Numbers and booleans become numeric columns, text becomes categorical columns, lists of numbers become as many
    numeric columns. The node attribute ``split`` gives the roles, the edge attribute ``weight`` the weights (an edge
    without one counts 1).

    Args:
        graph: any networkx graph; the direction of a ``DiGraph`` is kept with ``directed=True`` only.
        label: the node attribute that holds the class.
        features: the node attributes to use, default all but label and split; ``"degree"`` for log-degrees.
        name: of the graph, for messages.
        **options: fields of :class:`~graphsde.graph.raw.ReadOptions`.

    Example:
        >>> import networkx
        >>> g = networkx.path_graph(3)
        >>> networkx.set_node_attributes(g, {0: 0.5, 1: 1.5, 2: 2.5}, "age")
        >>> networkx.set_node_attributes(g, {0: "a", 1: "b"}, "label")
        >>> from_networkx(g)
        Graph('graph', nodes=3, edges=4, features=1, classes=2)
    """
    if features == "degree":
        options["features"], features = features, []
    nodes = list(graph.nodes)
    attributes: Attributes = [graph.nodes[node] for node in nodes]

    def place(row: int) -> str:
        return f"node {shorten(str(nodes[row]), 60)}"

    present = dict.fromkeys(key for values in attributes for key in values)
    if (
        label != LABEL and label not in present
    ):  # a graph without labels is fine, a missing label attribute that was named is not
        raise unknown_name("node attribute", label, [str(one) for one in present])
    numeric, names, categorical = _columns(graph, attributes, _chosen(attributes, features, label), place)
    sources, targets, weights = _edges(graph, nodes)
    raw = RawGraph(
        num_nodes=len(nodes),
        node_ids=[node if isinstance(node, (Real, str)) else str(node) for node in nodes],
        numeric=numeric,
        feature_names=names,
        categorical=categorical,
        labels=_values(attributes, label),
        split=_values(attributes, SPLIT),
        sources=sources,
        targets=targets,
        weights=weights,
        edges_by_id=False,
        name=name,
        node_place=place,
        edge_place=lambda row: f"edge {place(int(sources[row]))} – {place(int(targets[row]))}",
    )
    return assemble(raw, options_from(options))


def to_networkx(graph: Graph) -> networkx.Graph:
    """A graph as a networkx ``Graph`` (or ``DiGraph``) over its node ids; :func:`from_networkx` reads it back.

    Dense columns with names become attributes of that name, without names the list ``x``. Sparse features become a
    mapping ``x`` from column to value; their number and names are then in ``result.graph``.
    """
    import networkx

    directed = graph.adjacency.directed
    result = networkx.DiGraph() if directed else networkx.Graph()
    ids = graph.node_ids.tolist()
    result.add_nodes_from(zip(ids, _attributes(graph), strict=True))
    result.graph["name"] = graph.name
    if graph.is_sparse:
        result.graph["num_features"] = int(graph.features.shape[1])
        result.graph["feature_names"] = None if graph.feature_names is None else list(graph.feature_names)
    entries = (graph.adjacency.matrix if directed else sp.triu(graph.adjacency.matrix)).tocoo()
    ends = [(ids[one], ids[other]) for one, other in zip(entries.row.tolist(), entries.col.tolist(), strict=True)]
    if graph.adjacency.is_weighted:
        result.add_edges_from((*pair, {WEIGHT: value}) for pair, value in zip(ends, entries.data.tolist(), strict=True))
    else:
        result.add_edges_from(ends)
    return result


def _edges(graph: networkx.Graph, nodes: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    position = {node: row for row, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    sources = np.array([position[source] for source, _, _ in edges], dtype=np.int64)
    targets = np.array([position[target] for _, target, _ in edges], dtype=np.int64)
    weights = None
    if any(WEIGHT in values for _, _, values in edges):
        weights = np.array([values.get(WEIGHT, 1) for _, _, values in edges])
    if graph.is_directed():
        return sources, targets, weights
    back = sources != targets
    both = np.concatenate([sources, targets[back]]), np.concatenate([targets, sources[back]])
    return *both, None if weights is None else np.concatenate([weights, weights[back]])


def _chosen(attributes: Attributes, features: Sequence[str] | str | None, label: str) -> list[str]:
    present = list(dict.fromkeys(key for values in attributes for key in values))
    if features is None:
        return [key for key in present if key not in (label, SPLIT)]
    wanted = [features] if isinstance(features, str) else list(features)
    for key in wanted:
        if key not in present:
            raise unknown_name("node attribute", key, [str(one) for one in present])
    return wanted


def _columns(
    graph: networkx.Graph, attributes: Attributes, chosen: list[str], place: Place
) -> tuple[Any, list[str] | None, dict[str, list[str | None]]]:
    blocks: list[Any] = []
    names: list[str] = []
    categorical: dict[str, list[str | None]] = {}
    for key in chosen:
        values = [one.get(key) for one in attributes]
        kind = _kind(key, values, place)
        if kind == "text":
            categorical[key] = values
        elif kind == "number":
            blocks.append(np.array([np.nan if value is None else value for value in values], dtype=np.float64)[:, None])
            names.append(key)
        elif kind == "list":
            blocks.append(_vectors(key, values, place))
            names += [f"{key}_{column}" for column in range(blocks[-1].shape[1])]
        else:
            width = int(graph.graph.get("num_features", 1 + max(max(value, default=-1) for value in values if value)))
            blocks.append(_mappings(values, width))
            names += graph.graph.get("feature_names") or [f"{key}_{column}" for column in range(width)]
    if not blocks:
        return None, None, categorical
    matrix = sp.csr_array(sp.hstack(blocks)) if any(map(sp.issparse, blocks)) else np.hstack(blocks)
    nameless = len(blocks) == 1 and names[:1] == [f"{VECTOR}_0"]
    return matrix, None if nameless else names, categorical


def _kind(key: str, values: list[Any], place: Place) -> str:
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            first.setdefault(next((one for one in KINDS if isinstance(value, KINDS[one])), type(value).__name__), row)
    unreadable = [kind for kind in first if kind not in KINDS]
    if len(first) > 1 or unreadable:
        row = first[unreadable[0]] if unreadable else max(first.values())
        raise BadInput(
            f"the node attribute {shorten(key, 60)} holds values of type {' and '.join(first)}",
            code="E-FEAT-TYPE",
            place=place(row),
            found=str(values[row]),
            expected="only numbers, only text, or only lists of numbers",
            fix="name the attributes to use with features=[…]",
        )
    return next(iter(first), "text")


def _vectors(key: str, values: list[Any], place: Place) -> np.ndarray:
    width = next(len(value) for value in values if value is not None)
    odd = next((row for row, value in enumerate(values) if value is not None and len(value) != width), None)
    if odd is not None:
        raise BadInput(
            f"the node attribute {shorten(key, 60)} has {len(values[odd])} entries, but the first has {width}",
            code="E-ROW-LEN",
            place=place(odd),
            expected=f"{width} entries on every node",
        )
    return np.array([np.full(width, np.nan) if value is None else value for value in values])


def _mappings(values: list[Any], width: int) -> sp.csr_array:
    rows = [row for row, value in enumerate(values) for _ in value or ()]
    columns = [column for value in values for column in value or ()]
    data = [entry for value in values for entry in (value or {}).values()]
    if not all(isinstance(column, Integral) and 0 <= int(column) < width for column in columns):
        raise BadInput(
            "a sparse feature mapping has an invalid column",
            code="E-CSR",
            expected=f"integers below {width}",
        )
    return sp.csr_array((np.array(data, dtype=np.float64), (rows, columns)), shape=(len(values), width))


def _values(attributes: Attributes, key: str) -> list[Any] | None:
    return [one.get(key) for one in attributes] if any(key in one for one in attributes) else None


def _attributes(graph: Graph) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = [{} for _ in range(graph.num_nodes)]
    columns: dict[str, list[Any]] = {}
    features: Any = graph.features
    if graph.is_sparse:
        columns[VECTOR] = [
            dict(zip(features.indices[a:b].tolist(), features.data[a:b].tolist(), strict=True))
            for a, b in pairwise(features.indptr.tolist())
        ]
    elif graph.feature_names is not None:
        columns |= {name: features[:, column].tolist() for column, name in enumerate(graph.feature_names)}
    elif features.shape[1]:
        columns[VECTOR] = features.tolist()
    columns |= {name: values.tolist() for name, values in graph.categorical.items()}
    if graph.target.given:
        columns[LABEL] = graph.target.plain()
    roles = np.full(graph.num_nodes, None, dtype=object)
    for name in MASK_NAMES:
        if name in graph.masks:
            roles[graph.masks[name]] = name
    if graph.masks:
        columns[SPLIT] = roles.tolist()
    for key, values in columns.items():
        for one, value in zip(result, values, strict=True):
            if value is not None:
                one[key] = value
    return result
