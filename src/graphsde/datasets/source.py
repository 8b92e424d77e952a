"""Resolving a graph: a benchmark's name or the user's files, with its split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.datasets.benchmarks import DATASETS, load
from graphsde.datasets.splits import default_split, make_split
from graphsde.datasets.splits.split import FILES_SPLIT, Split
from graphsde.graph.graph import Graph
from graphsde.graph.masks import lacks_training
from graphsde.io.opening import require_path
from graphsde.io.read import read as read_files

KEPT_ROLES = "kept"
"""Instead of a split: nodes keep the roles from the run's own files."""


def open_graph(text: str, **options: Any) -> Graph:
    """A benchmark by name, or a folder or file by path.

    A benchmark takes precedence over a folder of the same name; write ``./cora`` for the folder.
    """
    if is_benchmark(text):
        _refuse_options(text, options)
        return load(text)
    require_path(text)
    path = Path(text)
    if not path.exists():
        raise BadInput(
            f"'{text}' is neither a benchmark nor a path",
            code="E-NOT-A-FILE",
            found=text,
            expected="a path, or one of " + ", ".join(DATASETS),
            fix="check the spelling, or use a folder with nodes.csv and edges.csv",
        )
    return read_files(path, **options)


def _refuse_options(text: str, options: dict[str, Any]) -> None:
    if options:
        raise BadUsage(
            f"'{text}' is a benchmark, which takes no read options",
            found=", ".join(f"{name}={value}" for name, value in options.items()),
            fix=f"leave out the options, or write ./{text} for a folder of that name",
        )


def is_benchmark(text: str) -> bool:
    """Whether a graph is given by name, not by path."""
    return text.split(":")[0] in DATASETS


@dataclass(frozen=True)
class GraphSource:
    """A graph and its split, by name: enough to get the same one again.

    Args:
        graph: a benchmark's name or an absolute path.
        options: how to read it (see :class:`~graphsde.graph.raw.ReadOptions`).
        split: the split's name; ``None`` for the graph's default.
        split_options: options of the split.
        seed: of the split.
    """

    graph: str
    options: dict[str, Any] = field(default_factory=dict)
    split: str | None = None
    split_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def typed(cls, graph: str, **fields: Any) -> GraphSource:
        """From user input: a relative path is made absolute, so that the run can be read from elsewhere."""
        require_path(graph)
        if is_benchmark(graph):
            _refuse_options(graph, fields.get("options") or {})
        return cls(graph if is_benchmark(graph) else str(Path(graph).resolve()), **fields)

    def open(self) -> tuple[Graph, dict[str, Any]]:
        """The graph with its masks, and facts to check later that it is still the same."""
        # old runs may have options of a benchmark, which were never used
        graph = open_graph(self.graph, **({} if is_benchmark(self.graph) else self.options))
        name = self.split if self.split or is_benchmark(self.graph) or self.split_options else files_split(graph)
        applied, split = divided(graph, name, self.seed, self.split_options)
        facts = {
            "graph": self.graph,
            "name": graph.name,
            "options": self.options,
            "split": self.split or split.name,
            "split_options": self.split_options,
            "split_seed": self.seed,
            "fingerprint": graph.fingerprint,
            "split_hash": split.hash,
            "nodes": applied.num_nodes,
            "edges": applied.num_edges,
            "features": applied.num_features,
            "classes": list(applied.class_names),
            "sizes": {name: int(mask.sum()) for name, mask in applied.masks.items()},
        }
        if graph.target.told_in_files:
            facts["target"] = graph.target_kind
        return applied, facts


def divided(
    graph: Graph, split: str | None = None, seed: int = 0, options: Mapping[str, Any] | None = None
) -> tuple[Graph, Split]:
    """``graph`` with its roles, and the split that assigned them; used by Python and the command line.

    Args:
        graph: as loaded or read.
        split: one of :data:`SPLITS`, or :data:`KEPT_ROLES`; ``None`` for the graph's default.
        seed: of the split.
        options: of the split.
    """
    name = split or default_split(graph)
    chosen = Split(name, seed, {}) if name == KEPT_ROLES else make_split(graph, name, seed=seed, **(options or {}))
    return chosen.apply(graph), chosen


def files_split(graph: Graph) -> str:
    """Like :func:`default_split`, but without calibration nodes for files that give no roles."""
    name = default_split(graph)
    return FILES_SPLIT if name == "fractions" else name


def split(graph: Graph, name: str | None = None, *, seed: int = 0, **options: Any) -> Graph:
    """``graph`` with the roles that a split assigns.

    Args:
        graph: to split.
        name: one of ``graphsde list splits``; default: the one that :func:`read` uses. A graph with roles but
            without training nodes then keeps its roles: a new split could train on test nodes.
        seed: the same seed gives the same split.
        **options: those of the split.

    Example:
        >>> import graphsde as gs
        >>> split(gs.synthetic(100, classes=2), "fractions").role("train").sum()
        np.int64(60)
    """
    if name is None and not options and lacks_training(graph.masks):
        return graph
    return divided(graph, name or files_split(graph), seed, options)[0]


def as_graph(data: Any, *, divide: bool = True) -> Graph:
    """Convert anything that holds a graph to a ``Graph``, as ``fit`` and ``predict`` do with their first argument.

    Args:
        data: a :class:`~graphsde.graph.graph.Graph`, which is returned unchanged; a PyG ``Data``, a networkx graph, a
            DGL graph, or a pair of data frames (nodes, edges).
        divide: give the graph the split that :func:`read` would use, unless it has training nodes or no
            labels.

    Raises:
        BadUsage: it is none of these.

    Example:
        >>> import networkx
        >>> g = networkx.path_graph(3)
        >>> networkx.set_node_attributes(g, {0: 0.5, 1: 1.5, 2: 2.5}, "age")
        >>> as_graph(g)
        Graph('graph', nodes=3, edges=4, features=1, classes=0)
    """
    if isinstance(data, Graph):
        return data
    graph = _converted(data)
    return split(graph) if divide and graph.labelled.any() else graph


def _converted(data: Any) -> Graph:
    # by the module of the class, so that no library is imported unless the caller already has
    families = {cls.__module__.partition(".")[0] for cls in type(data).__mro__}
    if "networkx" in families:
        from graphsde.io.networkx_graph import from_networkx

        return from_networkx(data)
    if "torch_geometric" in families:
        from graphsde.io.pyg import from_pyg

        return from_pyg(data)
    if "dgl" in families:
        from graphsde.io.dgl_graph import from_dgl

        return from_dgl(data)
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(type(one).__name__ == "DataFrame" for one in data):
        from graphsde.io.pandas_frames import from_pandas

        return from_pandas(*data)
    raise BadUsage(
        f"a {type(data).__name__} is not a graph",
        found=type(data).__name__,
        expected="a Graph, a PyG Data, a networkx or DGL graph, or a pair of data frames (nodes, edges)",
        fix=_how_to_get_a_graph(data, families),
    )


def _how_to_get_a_graph(data: Any, families: set[str]) -> str:
    if isinstance(data, (str, os.PathLike)):
        named = is_benchmark(str(data))
        return f"load it: gs.load('{data}')" if named else f"read it: gs.read('{shorten(str(data), 60)}')"
    if isinstance(data, type) or callable(data):
        return "pass the graph itself, such as gs.read(folder)"
    if type(data).__name__ == "DataFrame":
        return "a graph also needs edges: pass the pair (nodes, edges), or use gs.from_pandas(nodes, edges, label=…)"
    if isinstance(data, (tuple, list)) and len(data) in (2, 3):
        return "name the parts: gs.from_arrays(features, edges, labels=labels); edges may be an adjacency matrix"
    if families & {"numpy", "torch", "scipy"}:
        return "a graph also needs edges: use gs.from_arrays(features, edges, labels=labels)"
    return "build a graph with gs.read, gs.from_arrays or gs.from_pandas"


def read(path: str | os.PathLike[str], *, name: str | None = None, **options: Any) -> Graph:
    """Read a graph from files, check it, clean it and give it the split that ``graphsde fit`` would use.

    A graph whose files name training nodes keeps its roles, those of labelled nodes (``given``). One that only names
    nodes for validation, calibration or test keeps these roles and can't be fitted. Any other gets
    ``stratified-60-15-25`` with seed 0: 60/15/25 % of its labelled nodes, by class, for training, validation and test;
    if labels are few, training comes first. A graph without labels gets no roles.

    Args:
        path: a folder with ``nodes`` and ``edges`` (``.csv`` or ``.parquet``), an ``.npz`` or a GraphML file.
        name: of the graph, for messages.
        **options: see :func:`graphsde.io.read.read`.

    Example:
        >>> import tempfile, graphsde as gs
        >>> folder = tempfile.mkdtemp()
        >>> _ = gs.write_tables(gs.synthetic(100, classes=2), folder)
        >>> {role: int(mask.sum()) for role, mask in gs.read(folder).masks.items()}
        {'train': 60, 'val': 15, 'test': 25}
    """
    graph = read_files(path, name=name, **options)
    return split(graph) if graph.labelled.any() else graph
