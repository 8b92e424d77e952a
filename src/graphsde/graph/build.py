"""The only way to build a Graph: raw values in, a checked and cleaned graph out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.renames import current
from graphsde.base.suggestions import what_was_meant
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.edges import clean_edges, counted_from_elsewhere, edges_of_matrix
from graphsde.graph.features import as_array, check_matrix, degree_column, no_features
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate, parse_ids
from graphsde.graph.labels import check_class_names, clean_categories
from graphsde.graph.likely_label import likely_label
from graphsde.graph.masks import (
    masks_from_arrays,
    masks_from_words,
    name_node,
    refuse_overlap,
    refuse_unlabelled,
    require_trainable,
)
from graphsde.graph.raw import Finding, RawGraph, ReadOptions
from graphsde.graph.target import TARGETS, ClassTarget, Target

__all__ = ["assemble", "from_arrays", "options_from", "require_length", "require_trainable", "unseen_classes"]


def assemble(raw: RawGraph, options: ReadOptions = ReadOptions()) -> Graph:
    """Check and clean what a reader found.

    Args:
        raw: the values as read, and where each came from.
        options: how to treat what is ambiguous.

    Raises:
        BadInput: with a code, the place and a fix, at the first thing that can't be used.
    """
    _check_size(raw)
    node_ids = np.arange(raw.num_nodes) if raw.node_ids is None else parse_ids(raw.node_ids, raw.node_place)
    findings = [*raw.findings, *likely_label(raw)]

    def name(row: int) -> str:
        return name_node(node_ids, row)

    adjacency, noticed = _edges(raw, node_ids, options)
    findings += noticed
    features, names, noticed = _features(raw, adjacency, options)
    findings += noticed
    target: Target = ClassTarget(None, tuple(str(one) for one in raw.class_names or ()))
    check_class_names(target.class_names)
    if raw.labels is not None:
        target, noticed = TARGETS.of_kind(options.target).encode(raw.labels, raw.node_place, raw.class_names)
        findings += noticed
    masks = _masks(raw, node_ids)
    refuse_overlap(masks, name)
    known = target.known(raw.num_nodes)
    if "train" in masks and target.given:
        refuse_unlabelled(masks["train"], known, name)
        findings += unseen_classes(target, masks, strict=options.strict)
    _freeze(adjacency.matrix)
    return Graph(
        adjacency=adjacency,
        features=_freeze(features),
        target=target.frozen(),
        node_ids=_freeze(node_ids),
        feature_names=names,
        categorical=_categorical(raw, names, options),
        masks=MappingProxyType({role: _freeze(mask) for role, mask in masks.items()}),
        name=raw.name,
        image_shape=raw.image_shape,
        notes=tuple(findings),
        node_names=_node_names(raw),
    )


def from_arrays(
    features: Any,
    edges: Any,
    *,
    labels: Any = None,
    node_ids: Any = None,
    node_names: Any = None,
    feature_names: Sequence[str] | None = None,
    categorical: Mapping[str, Sequence[str | None] | np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
    weights: Any = None,
    train_mask: Any = None,
    val_mask: Any = None,
    calibration_mask: Any = None,
    test_mask: Any = None,
    name: str = "graph",
    image_shape: tuple[int, int] | None = None,
    **options: Any,
) -> Graph:
    """A graph from arrays in memory.

    Args:
        features: numbers, dense or scipy sparse; ``None`` with categorical columns only; ``"degree"`` for log-degrees.
            # [N, d]
        edges: positions of source and target, or an adjacency matrix, dense or scipy sparse (row = source). Text is
            read as ids, if ``node_ids`` are given.  # [2, E] or [N, N]
        labels: text or integers; ``None``, NaN and ``-1`` are unlabelled. With ``target="regression"``, numbers;
            ``None`` and NaN are unknown.  # [N]
        node_ids: your own ids of the nodes; default: numbers from 0.  # [N]
        node_names: display names; ``None`` for a node without one.  # [N]
        feature_names: one per numeric column.
        categorical: text columns by name.
        class_names: the classes in order, if labels are positions.
        weights: positive edge weights.  # [E]
        train_mask, val_mask, calibration_mask, test_mask: booleans or positions.
        name: of the graph, for messages.
        image_shape: height and width, if the features are the pixels of an image.
        **options: fields of :class:`~graphsde.graph.raw.ReadOptions`, such as ``directed=True``.

    Example:
        >>> graph = from_arrays([[0.0], [1.0], [2.0]], [[0, 1], [1, 2]], labels=["a", "b", None])
        >>> graph
        Graph('graph', nodes=3, edges=4, features=1, classes=2)
    """
    if isinstance(features, str):
        options["features"], features = features, None
    features, labels, node_ids = _plain(features), _plain(labels), _plain(node_ids)
    read_options = options_from(options)
    num_nodes = _count_nodes(features, edges, labels, node_ids, categorical)
    by_id = node_ids is not None and _are_text(edges)
    sources, targets, edge_weights = _read_edges(edges, weights, num_nodes, by_id)
    masks = {"train": train_mask, "val": val_mask, "calibration": calibration_mask, "test": test_mask}
    raw = RawGraph(
        num_nodes=num_nodes,
        node_ids=node_ids,
        node_names=_plain(node_names),
        numeric=features,
        feature_names=feature_names,
        categorical=categorical or {},
        labels=labels,
        masks={role: mask for role, mask in masks.items() if mask is not None},
        sources=sources,
        targets=targets,
        weights=edge_weights,
        edges_by_id=by_id,
        class_names=class_names,
        image_shape=image_shape,
        name=name,
        node_place=lambda row: f"row {row + 1}",
        edge_place=lambda row: f"edge {row + 1}",
    )
    return assemble(raw, read_options)


def options_from(options: Mapping[str, Any], further: Sequence[str] = ()) -> ReadOptions:
    """Keyword arguments as ReadOptions; the error for a wrong name or value lists the choices.

    Args:
        options: the arguments.
        further: arguments that the caller also accepts, so that they are listed and suggested.
    """
    options = {name: current("target", value) if name == "target" else value for name, value in options.items()}
    hints = get_type_hints(ReadOptions)
    for option, value in options.items():
        if option not in hints:
            choices = list(dict.fromkeys([*further, *hints]))
            fix = what_was_meant(option, choices, "leave it out")
            raise BadUsage(f"unknown option '{shorten(option, 60)}'", expected="one of " + ", ".join(choices), fix=fix)
        if (allowed := get_args(hints[option])) and value not in allowed:
            raise BadUsage(f"invalid value for '{option}'", found=value, expected="one of " + ", ".join(allowed))
    return ReadOptions(**options)


def unseen_classes(target: Target, masks: Mapping[str, np.ndarray], *, strict: bool = False) -> list[Finding]:
    """Classes that occur among the test nodes but not among the training nodes."""
    labels, class_names = target.labels, target.class_names
    if labels is None or "test" not in masks or "train" not in masks:
        return []
    seen = np.bincount(labels[masks["train"] & (labels >= 0)], minlength=len(class_names))
    tested = np.bincount(labels[masks["test"] & (labels >= 0)], minlength=len(class_names))
    unseen = np.flatnonzero((tested > 0) & (seen == 0))
    if not len(unseen):
        return []
    count = int(tested[unseen].sum())
    where = tuple(shorten(class_names[one], 60) for one in unseen[:5])
    shown = ", ".join(where) + (", …" if len(unseen) > 5 else "")
    plural = "classes occur" if len(unseen) > 1 else "class occurs"
    message = f"{len(unseen):,} {plural} in test but not in training: {shown} ({count:,} test nodes)"
    hint = "no model can predict a class it has never seen: these nodes count as OOD, not as right or wrong"
    if strict:
        raise BadInput(message, code="E-CLASS-UNSEEN", fix="put some of these nodes into the train split")
    return [Finding("W-CLASS-UNSEEN", "warning", message, count, where, hint)]


def _check_size(raw: RawGraph) -> None:
    if raw.num_nodes == 0:
        raise BadInput("the graph has no nodes", code="E-EMPTY", expected="at least two nodes")
    if raw.num_nodes == 1:
        raise BadInput("the graph has a single node", code="E-TOO-SMALL", expected="at least two nodes")
    columns: dict[str, Any] = {"node ids": raw.node_ids, "labels": raw.labels, "split column": raw.split}
    columns["node names"] = raw.node_names
    columns |= {f"categorical column '{shorten(name, 60)}'": column for name, column in raw.categorical.items()}
    for what, column in columns.items():
        if column is not None:
            require_length(what, _rows(column, what), raw.num_nodes)
    if raw.numeric is not None:
        require_length("features", _rows(raw.numeric, "features"), raw.num_nodes)


def _rows(values: Any, what: str) -> int:
    shape = values.shape if hasattr(values, "shape") else (len(values),) if hasattr(values, "__len__") else ()
    if not shape or isinstance(values, (str, bytes)):
        raise BadInput(f"{what}: a single value", code="E-SHAPE", found=values, expected="one per node")
    return int(shape[0])


def require_length(what: str, length: int, num_nodes: int) -> None:
    if length != num_nodes:
        raise BadInput(
            f"the {what} and the nodes differ in length: {length} vs {num_nodes}",
            code="E-LEN",
            found=length,
            expected=f"{num_nodes}, one per node",
        )


def _edges(raw: RawGraph, node_ids: np.ndarray, options: ReadOptions) -> tuple[Adjacency, list[Finding]]:
    written = (raw.sources, raw.targets) if raw.edges_by_id else None
    ends = [locate(end, node_ids) if raw.edges_by_id else np.asarray(end) for end in (raw.targets, raw.sources)]
    if raw.owned and all(len(end) and int(end.min()) >= 0 for end in ends):
        # the original spelling of unknown ends is no longer needed
        written, raw.sources, raw.targets = None, (), ()
    try:
        return clean_edges(
            ends.pop(),  # released here, so that it is freed as soon as it is no longer needed there
            ends.pop(),
            raw.weights,
            raw.num_nodes,
            options,
            raw.edge_place,
            lambda row: shorten(str(node_ids[row]), 60),
            written=written,
        )
    except BadInput as error:
        if error.code == "E-EDGE-UNKNOWN":
            known = node_ids if raw.edges_by_id else np.arange(raw.num_nodes)
            error.fix = counted_from_elsewhere(raw.sources, raw.targets, known) or error.fix
        raise


def _features(
    raw: RawGraph, adjacency: Adjacency, options: ReadOptions
) -> tuple[np.ndarray | sp.csr_array, tuple[str, ...] | None, list[Finding]]:
    if options.features == "degree":
        return degree_column(adjacency), ("log_degree",), []
    numeric = np.zeros((raw.num_nodes, 0), dtype=np.float32) if raw.numeric is None else raw.numeric
    features, findings = check_matrix(numeric, raw.feature_names, raw.node_place, options.impute, copy=not raw.owned)
    if raw.dense and not isinstance(features, np.ndarray):
        features = features.toarray()
    if features.shape[1] == 0 and not raw.categorical:
        raise no_features()
    if raw.image_shape is not None and raw.image_shape[0] * raw.image_shape[1] != features.shape[1]:
        raise BadInput(
            f"images of {raw.image_shape[0]}×{raw.image_shape[1]} pixels don't match {features.shape[1]} columns",
            code="E-SHAPE",
            found=str(raw.image_shape),
            expected="height times width columns",
        )
    return features, None if raw.feature_names is None else tuple(str(one) for one in raw.feature_names), findings


def _masks(raw: RawGraph, node_ids: np.ndarray) -> dict[str, np.ndarray]:
    masks = masks_from_arrays(raw.masks, raw.num_nodes, node_ids)
    if raw.split is None:
        return masks
    if masks:
        raise BadInput("the source has both a split column and masks", code="E-SPLIT-OVERLAP", fix="keep one of them")
    return masks_from_words(raw.split, raw.node_place)


def _categorical(
    raw: RawGraph, feature_names: tuple[str, ...] | None, options: ReadOptions
) -> Mapping[str, np.ndarray]:
    if options.features == "degree":
        return MappingProxyType({})
    columns = clean_categories(raw.categorical, raw.node_place)
    twice = set(columns) & set(feature_names or ())
    if twice:
        raise BadInput(
            "two columns have the same name", code="E-COLUMN-DUP", found=min(twice), fix="rename one of them"
        )
    return MappingProxyType({name: _freeze(column) for name, column in columns.items()})


def _node_names(raw: RawGraph) -> np.ndarray | None:
    if raw.node_names is None:
        return None
    names: np.ndarray = clean_categories({"of node names": raw.node_names}, raw.node_place)["of node names"]
    return _freeze(names)


def _freeze(values: Any) -> Any:
    for part in (values.data, values.indices, values.indptr) if sp.issparse(values) else (values,):
        part.setflags(write=False)
    return values


def _plain(values: Any) -> Any:
    """Tensors and data frames as numpy arrays; lists, arrays and sparse matrices unchanged."""
    if isinstance(values, (list, tuple, np.ndarray)) or not hasattr(values, "__array__"):
        return values
    return as_array(values, "values")


def _count_nodes(features: Any, edges: Any, labels: Any, node_ids: Any, categorical: Mapping[str, Any] | None) -> int:
    columns = {"features": features, "node ids": node_ids, "labels": labels, **(categorical or {})}
    for what, column in columns.items():
        if column is not None:
            return _rows(column, what)
    if sp.issparse(edges):
        return int(edges.shape[0])
    raise BadUsage("the number of nodes is unknown", fix="pass features, labels, node_ids or a sparse adjacency")


def _are_text(edges: Any) -> bool:
    """Whether edges use ids: positions are not text."""
    if sp.issparse(edges):
        return False
    array = as_array(edges, "edges")
    return array.dtype.kind == "U" or (array.dtype == object and all(isinstance(one, str) for one in array.ravel()))


def _read_edges(
    edges: Any, weights: Any, num_nodes: int, by_id: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    if sp.issparse(edges):
        if weights is not None:
            raise BadUsage("weights given twice", fix="leave out weights: the sparse adjacency has its own")
        return edges_of_matrix(edges, num_nodes)
    array = as_array(edges, "edges")
    if num_nodes > 2 and array.shape == (num_nodes, num_nodes) and array.dtype.kind in "biuf":
        return _read_edges(sp.csr_array(array), weights, num_nodes)  # pairs would have two rows
    if array.size == 0:
        array = np.zeros((2, 0), dtype=np.int64)
    if array.ndim != 2 or array.shape[0] != 2:
        turned = array.ndim == 2 and array.shape[1] == 2
        raise BadInput(
            f"edges have shape {array.shape}",
            code="E-SHAPE",
            expected="[2, E]: a row of sources and a row of targets",
            fix="use edges.T"
            if turned
            else f"stack sources and targets, or pass an adjacency matrix of shape ({num_nodes}, {num_nodes})",
        )
    if array.dtype.kind not in "iu" and not by_id:
        raise BadInput(
            f"edges have dtype {array.dtype}",
            code="E-DTYPE",
            found=array.ravel()[0],
            expected="integers: the positions of the two ends",
            fix="also pass node_ids=[…], then edges may use ids" if _are_text(edges) else "use .astype(int)",
        )
    if by_id:
        array = array.astype(object)
    return array[0], array[1], None if weights is None else as_array(weights, "weights")
