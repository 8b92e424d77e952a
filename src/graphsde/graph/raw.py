"""What a reader returns before any check, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from graphsde.graph.ids import CodedTexts

Level = Literal["problem", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One observation about a graph.

    Args:
        code: a stable identifier such as ``"W-ISOLATED"``.
        level: ``problem`` (training would be refused), ``warning`` (should be checked) or ``note`` (information).
        message: one sentence in plain words, with the count in it.
        count: how many rows, edges or nodes are concerned.
        where: the first few row numbers, node ids or column names.
        hint: what it means or what to do.
    """

    code: str
    level: Level
    message: str
    count: int = 0
    where: tuple[str, ...] = ()
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"where": list(self.where)}


NO_EDGES = Finding(
    "W-NO-EDGES",
    "warning",
    "the graph has no edges",
    hint="every model then uses a node's own features only",
)


def _row(row: int) -> str:
    return f"row {row}"


@dataclass
class RawGraph:
    """A graph as read. ``None`` means "the source does not say".

    Args:
        num_nodes: how many nodes the source lists.
        node_ids: ids as found (integers or text); ``None`` numbers the nodes from 0.
        node_names: display names; ``None`` entries are missing.
        numeric: numeric feature columns, dense or sparse, any dtype.  # [N, d]
        owned: nothing else uses ``numeric``, so the graph may keep it without a copy.
        dense: convert ``numeric`` to a dense matrix after the checks, although it is passed as a sparse one.
        feature_names: names of the numeric columns.
        categorical: text columns by name; ``None`` entries are missing.
        other_columns: unused text columns by name, if labels may be among them.
        labels: one value per node: text, integers, floats, ``None``.
        split: one of train/val/calibration/test (or empty) per node, as found.
        masks: boolean masks or arrays of positions by name.
        sources, targets: one entry per edge: node ids if ``edges_by_id``, else positions.
        weights: one number per edge.
        class_names: names for integer labels, if the source has them.
        node_place, edge_place: describe where row ``i`` is, e.g. ``"nodes.csv, line 17"``.
        findings: what the reader itself noticed.
    """

    num_nodes: int
    node_ids: Sequence[Any] | np.ndarray | None = None
    node_names: Sequence[Any] | np.ndarray | None = None
    numeric: np.ndarray | sp.csr_array | None = None
    owned: bool = False
    dense: bool = False
    feature_names: Sequence[str] | None = None
    categorical: Mapping[str, Sequence[str | None] | np.ndarray] = field(default_factory=dict)
    other_columns: Mapping[str, Sequence[str | None] | np.ndarray] = field(default_factory=dict)
    labels: Sequence[Any] | np.ndarray | None = None
    split: Sequence[str | None] | np.ndarray | None = None
    masks: Mapping[str, Any] = field(default_factory=dict)
    sources: Sequence[Any] | np.ndarray | CodedTexts = ()
    targets: Sequence[Any] | np.ndarray | CodedTexts = ()
    weights: np.ndarray | None = None
    edges_by_id: bool = True
    class_names: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None
    name: str = "graph"
    node_place: Callable[[int], str] = _row
    edge_place: Callable[[int], str] = _row
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class ReadOptions:
    """How to treat what is ambiguous in the user's data; the defaults refuse rather than guess.

    Args:
        directed: keep the direction of edges; otherwise each edge is made to run both ways.
        duplicates: what to do if the same edge has different weights.
        unknown_edges: what to do with an edge to a node that is not listed.
        impute: fill missing numbers with the column's mean.
        features: where features come from; ``degree`` makes one column of log-degrees.
        encoding: text encoding of CSV files.
        strict: refuse, rather than warn, if a class occurs in test but not in training.
        target: what labels are: classes (``classification``) or numbers (``regression``).
        mask: which split to use from a file with several, one per row of its masks, counted from 0.
    """

    directed: bool = False
    duplicates: Literal["error", "sum", "first"] = "error"
    unknown_edges: Literal["error", "drop"] = "error"
    impute: Literal["none", "mean"] = "none"
    features: Literal["columns", "degree"] = "columns"
    encoding: str = "utf-8"
    strict: bool = False
    target: Literal["classification", "regression"] = "classification"
    mask: int = 0
