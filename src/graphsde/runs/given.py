"""A run from a prediction made elsewhere: every command that needs no model works on it."""

from __future__ import annotations

import io
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage
from graphsde.datasets.source import GraphSource
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.io.write import write_tables
from graphsde.models.given import GivenPrediction, content_of
from graphsde.models.wrapped import Wrapped
from graphsde.prediction import Prediction
from graphsde.runs.folder import RunContent, RunFolder, figures_of
from graphsde.runs.kept_graph import source_files
from graphsde.runs.state import NewState

TABLES = "graph"
"""The folder or ``.npz`` file in a run that holds a graph without files of its own."""


def save_run(
    prediction: Prediction | Wrapped,
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    read: dict[str, Any] | None = None,
    made_by: str = "",
    overwrite: bool = False,
) -> Path:
    """Save a prediction as a run for ``graphsde evaluate``, ``decide``, ``ask``, ``report`` and the page.

    Commands that need the model itself do not work on such a run: ``fit``, ``learn``, ``explain``, ``predict --graph``.

    Args:
        prediction: of all nodes of ``graph``, or a wrapped model, which predicts it and whose calibrator is kept.
        graph: with the roles of its nodes.
        folder: of the run.
        source: the files that ``graph`` was read from, or the name of a benchmark; the run then opens these. If
            omitted, the graph is written into the run's folder.
        read: how the files were read, see :func:`graphsde.read`.
        made_by: what made the prediction, for the report.
        overwrite: replace a run that is in the folder.

    Example:
        >>> import tempfile, graphsde as gs
        >>> graph = gs.split(gs.synthetic(100, classes=2))
        >>> prediction = gs.Prediction.from_probabilities([[0.4, 0.6]] * 100, graph)
        >>> run = save_run(prediction, graph, tempfile.mkdtemp(), made_by="a constant")
        >>> sorted(path.name for path in run.iterdir() if path.suffix == ".json")
        ['environment.json', 'graph.json', 'looks.json', 'manifest.json', 'model.json']
    """
    run = RunFolder(Path(folder))
    if isinstance(prediction, Wrapped):
        made_by = made_by or type(prediction.module).__name__
    model = _given(prediction, graph, made_by)
    with run.locked():
        if run.started and not overwrite:
            raise BadUsage(
                f"{run.path} holds another run",
                code="E-RUN-EXISTS",
                fix="choose another folder, or use overwrite=True to replace it",
            )
        if source is None:
            place, options = _write_graph(graph, run.path)
            opened = GraphSource.typed(place, options=options, split="given")
        else:
            place = str(source)
            opened = GraphSource.typed(place, options=read or {}, split=graph.split)
        files = source_files(opened.graph)
        again, facts = opened.open()
        _require_same(again, graph, place)
        found = model.predict(again)
        config = {
            "graph": asdict(opened),
            "model": {"name": model.name, "settings": model.settings.model_dump(mode="json")},
            "samples": found.num_samples,
        }
        metrics: dict[str, Any] = {"fit_seconds": 0.0, "best_epoch": None, **figures_of(found, again)}
        with NewState(run.path, fresh=True) as state:
            RunContent(config, facts, model, found, again, metrics, source=(again, files)).write(state.folder)
            state.commit()
    return run.path


def _write_graph(graph: Graph, run: Path) -> tuple[str, dict[str, Any]]:
    """Write the graph into the run, and how to read it: as arrays if features are sparse, otherwise as tables."""
    if not graph.is_sparse or graph.categorical:
        write_tables(graph, run / TABLES, format="parquet")
        return str(run / TABLES), {}
    features: Any = graph.features
    arrays: dict[str, Any] = {f"features_{part}": getattr(features, part) for part in ("data", "indices", "indptr")}
    arrays |= {"features_shape": np.array(features.shape), "edge_index": graph.adjacency.edge_index()}
    arrays |= {f"{role}_mask": mask for role, mask in graph.masks.items()}
    known = graph.target.encoded
    texts = {"node_ids": graph.node_ids, "class_names": graph.class_names or None, "feature_names": graph.feature_names}
    names = graph.node_names
    texts["node_names"] = None if names is None or any(one is None for one in names) else names
    for name, values in texts.items():
        if values is not None:
            column = np.asarray(values)
            arrays[name] = column.astype(str) if column.dtype == object else column
    if known is not None:
        arrays["labels"] = known
    if graph.adjacency.is_weighted:
        arrays["edge_weight"] = graph.adjacency.matrix.data
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # not compressed: a reader refuses files that unpack to far more than their size
    path = run / f"{TABLES}.npz"
    storage.write_bytes(path, stream.getvalue())
    options: dict[str, Any] = {"directed": True} if graph.adjacency.directed else {}
    return str(path), options | ({"target": graph.target_kind} if graph.target.told_in_files else {})


def _given(prediction: Prediction | Wrapped, graph: Graph, made_by: str) -> GivenPrediction:
    if not isinstance(prediction, Wrapped):
        return GivenPrediction.of(prediction, graph, made_by=made_by)
    calibrator, prediction.calibrator = prediction.calibrator, None
    try:
        model = GivenPrediction.of(prediction.predict(graph), graph, made_by=made_by)
    finally:
        prediction.calibrator = calibrator
    model.calibrator = calibrator
    return model


def _require_same(opened: Graph, graph: Graph, place: str) -> None:
    """The run must open the graph that was predicted, with the same roles."""
    if content_of(opened) != content_of(graph):
        raise BadInput(
            f"{place} does not hold the graph that was predicted",
            code="E-DATA-CHANGED",
            fix="pass the options it was read with (read={…}), or leave out source",
        )
    # a node without a label has no role
    if any(((opened.role(name) != graph.role(name)) & graph.labelled).any() for name in MASK_NAMES):
        raise BadInput(
            f"the nodes of {place} have other roles than in the graph that was predicted",
            code="E-DATA-CHANGED",
            fix="leave out source: the graph is then written into the run with its roles",
        )
