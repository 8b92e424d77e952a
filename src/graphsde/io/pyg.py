"""Graphs from and to PyTorch Geometric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, MissingExtra
from graphsde.graph.build import assemble, options_from
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.raw import Finding, RawGraph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_pyg(data: Data, *, split_index: int = 0, name: str = "graph", **options: Any) -> Graph:
    """A graph from a PyG ``Data`` object.

    Uses ``x`` (a sparse tensor stays sparse), ``edge_index``, ``edge_weight`` or a one-column ``edge_attr``,
    ``y``, the masks, and ``node_id``, ``feature_names``, ``class_names`` and ``categorical`` where they exist.

    Args:
        data: one homogeneous graph.
        split_index: which column to use if masks hold several splits, as in Geom-GCN.
        name: of the graph, for messages.
        **options: fields of :class:`~graphsde.graph.raw.ReadOptions`, such as ``directed=True``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from_pyg(Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1])))
        Graph('graph', nodes=3, edges=4, features=3, classes=2)
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise BadInput(
            f"a {type(data).__name__} without edge_index can't be read",
            code="E-SHAPE",
            expected="a homogeneous Data object",
            fix="use data.to_homogeneous() on a heterogeneous graph",
        )
    features = _matrix(getattr(data, "x", None))
    labels = _array(getattr(data, "y", None))
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:  # OGB writes labels as a column
        labels = labels[:, 0]
    weights, findings = _weights(data)
    ends = _array(edge_index)
    raw = RawGraph(
        num_nodes=int(features.shape[0] if features is not None else data.num_nodes),
        node_ids=_values(getattr(data, "node_id", None)),
        numeric=features,
        feature_names=getattr(data, "feature_names", None),
        categorical=getattr(data, "categorical", None) or {},
        labels=labels,
        masks=_masks(data, split_index),
        sources=ends[0],
        targets=ends[1],
        weights=weights,
        edges_by_id=False,
        class_names=getattr(data, "class_names", None),
        name=name,
        node_place=lambda row: f"node {row}",
        edge_place=lambda row: f"edge_index column {row}",
        findings=findings,
    )
    return assemble(raw, options_from(options))


def to_pyg(graph: Graph) -> Data:
    """A graph as a PyG ``Data`` object; :func:`from_pyg` reads it back.

    Sparse features become a sparse CSR tensor. An unlabelled node has ``y == -1``. Edges run both ways in an undirected
    graph, and ``edge_weight`` exists only if weights differ from 1.
    """
    try:
        from torch_geometric.data import Data
    except ImportError:
        raise MissingExtra("torch_geometric", "pyg") from None
    import torch

    data = Data(
        x=_tensor(graph.features),
        edge_index=torch.from_numpy(graph.adjacency.edge_index()),
        y=None if (known := graph.target.encoded) is None else torch.tensor(known),
    )
    data.num_nodes = graph.num_nodes
    if graph.adjacency.is_weighted:
        data.edge_weight = torch.tensor(graph.adjacency.matrix.data)
    for name, mask in graph.masks.items():
        data[f"{name}_mask"] = torch.tensor(mask)
    data.node_id = graph.node_ids.tolist() if graph.node_ids.dtype == object else torch.tensor(graph.node_ids)
    if graph.class_names:
        data.class_names = list(graph.class_names)
    if graph.feature_names is not None:
        data.feature_names = list(graph.feature_names)
    if graph.categorical:
        data.categorical = {column: values.tolist() for column, values in graph.categorical.items()}
    return data


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else None if value is None else np.asarray(value)


def _values(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else _array(value)


def _matrix(x: Any) -> Any:
    if x is None or sp.issparse(x):
        return x
    if not hasattr(x, "detach"):
        return np.asarray(x)
    import torch

    x = x.detach().cpu()
    if x.layout is torch.strided:
        return x.numpy()
    if x.layout is not torch.sparse_csr:
        x = (x.coalesce() if x.layout is torch.sparse_coo else x).to_sparse_csr()
    return sp.csr_array((x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), shape=tuple(x.shape))


def _tensor(features: Any) -> Any:
    import torch

    from graphsde.graph.sparse import SparseMatrix

    return SparseMatrix.from_scipy(features).csr() if sp.issparse(features) else torch.tensor(features)


def _weights(data: Any) -> tuple[np.ndarray | None, list[Finding]]:
    weights = _array(getattr(data, "edge_weight", None))
    if weights is None:
        weights = _array(getattr(data, "edge_attr", None))
        if weights is not None and weights.ndim == 2 and weights.shape[1] != 1:
            message = f"edge_attr has {weights.shape[1]} columns and was ignored: an edge can only have one weight"
            return None, [Finding("W-EDGE-ATTR", "warning", message, int(weights.shape[1]))]
    return None if weights is None else weights.reshape(len(weights), -1)[:, 0], []


def _masks(data: Any, split_index: int) -> dict[str, np.ndarray]:
    masks = {}
    several = False
    for name in MASK_NAMES:
        mask = _array(getattr(data, f"{name}_mask", None))
        if mask is None:
            continue
        if mask.ndim == 2:
            if not 0 <= split_index < mask.shape[1]:
                raise BadUsage(
                    f"no split {split_index}", expected=f"0 to {mask.shape[1] - 1}", fix="choose split_index"
                )
            mask, several = mask[:, split_index], True
        masks[name] = mask
    if split_index and not several:
        raise BadUsage(
            f"no split {split_index}: no mask has several columns",
            code="E-MASK-NUMBER",
            found=split_index,
            expected="0",
            fix="leave out split_index",
        )
    return masks
