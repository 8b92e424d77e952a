"""MATLAB files (version 5 to 7.2): numbers and sparse matrices only; objects and functions are never read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput
from graphsde.graph.edges import edges_of_matrix
from graphsde.graph.raw import RawGraph
from graphsde.io.mat_arrays import HEADER, DamagedMat, Variable, byte_order, places, read_variables
from graphsde.io.opening import opened, refuse_bomb, refuse_cost

# names of variables, in any case, the more specific ones first
ADJACENCY = ("network", "adjacency", "adj", "net", "a")
FEATURES = ("attributes", "attribute", "features", "attrb", "attr", "x")
LABELS = ("labels", "label", "class", "group", "gnd", "y")
_PER_BYTE = 8  # at the peak of reading and checking, mostly that of edges


def read_mat(path: Path, name: str | None = None) -> RawGraph:
    """Read a graph from a ``.mat`` file.

    Known variables, in any case: ``network`` (or ``A``, ``adj``), a square matrix of weights, row to column;
    ``attributes`` (or ``X``, ``features``); ``labels`` (or ``Y``, ``label``, ``group``, ``gnd``): one number per node,
    or one column per class with a single one in every row (a row of zeros is an unlabelled node).

    Args:
        path: the file.
        name: of the graph, for messages.
    """
    with opened(path) as stream:
        order = _order(stream, path)
        try:
            declared, size = sum(one.unpacked for one in places(stream, order)), stream.seek(0, 2)
            refuse_bomb(path, declared=declared, compressed=size)
            refuse_cost(path, cost=_PER_BYTE * declared, size=size, fix="keep features sparse, or save with -v6")
            variables = read_variables(stream, order, {*ADJACENCY, *FEATURES, *LABELS})
        except DamagedMat as error:
            raise _corrupt(path, str(error), "write or copy the file again") from None
    adjacency = _matrix(variables, ADJACENCY, path, required=True)
    features = _matrix(variables, FEATURES, path)
    num_nodes = int(adjacency.shape[0])
    if adjacency.shape[1] != num_nodes:
        raise BadInput(
            f"the adjacency matrix has shape {adjacency.shape}", code="E-SHAPE", place=path.name, expected="a square"
        )
    sources, targets, weights = edges_of_matrix(sp.csr_array(adjacency), num_nodes)
    return RawGraph(
        num_nodes=num_nodes,
        numeric=sp.csr_array(features) if sp.issparse(features) else features,
        labels=_labels(variables, num_nodes, path),
        sources=sources,
        targets=targets,
        weights=weights,
        edges_by_id=False,
        name=name or path.stem,
        node_place=lambda row: f"{path.name}, row {row + 1}",
        edge_place=lambda row: f"{path.name}, edge {row + 1}",
    )


def _order(stream: BinaryIO, path: Path) -> str:
    header = stream.read(HEADER)
    if header.startswith((b"\x89HDF", b"MATLAB 7.3")):
        raise _corrupt(path, "it is version 7.3 (HDF5)", "save it with save(…, '-v7')")
    order = byte_order(header)
    if order is None:
        raise _corrupt(path, "it has no version 5 to 7.2 header", "save it with save(…, '-v7')")
    return order


def _first(variables: dict[str, Variable | None], names: tuple[str, ...]) -> tuple[str, Variable | None] | None:
    for wanted in names:
        for name, value in variables.items():
            if name.lower() == wanted:
                return name, value
    return None


def _matrix(
    variables: dict[str, Variable | None], names: tuple[str, ...], path: Path, *, required: bool = False
) -> Variable:
    found = _first(variables, names)
    if found is None:
        if not required:
            return None
        raise BadInput(
            f"{path.name} has no adjacency",
            code="E-HEADER",
            place=path.name,
            found=", ".join(variables) or "no known variable",
            expected="variables such as network, attributes and labels, or A, X and Y",
            fix="rename the variables",
        )
    name, value = found
    if value is None:
        raise BadInput(
            f"the variable '{name}' is not a numeric matrix",
            code="E-DTYPE",
            place=f"{path.name}, {name}",
            expected="a matrix of numbers",
            fix="save it as a plain or sparse matrix of numbers",
        )
    return value


def _labels(variables: dict[str, Variable | None], num_nodes: int, path: Path) -> np.ndarray | None:
    values = _matrix(variables, LABELS, path)
    if values is None:
        return None
    dense = values.toarray() if sp.issparse(values) and 1 in values.shape else values
    if not sp.issparse(dense) and 1 in dense.shape:
        return dense.ravel()
    matrix = sp.csr_array(values)
    matrix.eliminate_zeros()
    several = np.flatnonzero(np.diff(matrix.indptr) > 1)
    if matrix.shape[0] != num_nodes or len(several):
        where = f"{path.name}, row {int(several[0]) + 1}" if len(several) else path.name
        raise BadInput(
            f"the labels have shape {matrix.shape}, and {len(several):,} nodes have several labels",
            code="E-SHAPE",
            place=where,
            expected="one class per node",
            fix="choose one class for every node",
        )
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[np.diff(matrix.indptr) == 1] = matrix.indices
    return labels


def _corrupt(path: Path, what: str, fix: str) -> BadInput:
    return BadInput(
        f"{path.name} can't be read as a MATLAB file: {what}",
        code="E-CORRUPT",
        place=path.name,
        expected="version 5 to 7.2",
        fix=fix,
    )
