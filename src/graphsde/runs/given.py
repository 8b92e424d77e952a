"""A run around a prediction that was made elsewhere: every verb that needs no fit works on it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
"""The folder in a run that holds the graph's tables, where the graph came from no files."""


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
    """Keep a prediction as a run, so that ``graphsde evaluate``, ``decide``, ``ask``, ``report`` and the page take it.

    What needs the model itself does not work on such a run: ``fit``, ``learn``, ``explain``, ``predict --graph``.

    Args:
        prediction: of all nodes of ``graph``, or a wrapped model, which predicts it and whose calibrator is kept.
        graph: with the roles of its nodes.
        folder: of the run.
        source: the files that ``graph`` was read from, or the name of a benchmark; the run then opens these. If left
            out, the graph is written into the run's folder as tables.
        read: how the files were read, as for :func:`graphsde.read`.
        made_by: what made the prediction, for the report.
        overwrite: replace a run that is in the folder.

    Example:
        >>> import tempfile, graphsde as gs
        >>> graph = gs.split(gs.synthetic(100, classes=2))
        >>> prediction = gs.Prediction.from_probabilities([[0.4, 0.6]] * 100, graph)
        >>> run = save_run(prediction, graph, tempfile.mkdtemp(), made_by="a constant")
        >>> sorted(path.name for path in run.iterdir() if path.suffix == ".json")
        ['environment.json', 'graph.json', 'manifest.json', 'model.json']
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
                fix="choose another folder, or give overwrite=True to replace it",
            )
        if source is None:
            write_tables(graph, run.path / TABLES, format="parquet")
        place = str(run.path / TABLES if source is None else source)
        opened = GraphSource.typed(place, options=read or {}, split="given" if source is None else graph.split)
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
        with NewState(run.path, anew=True) as state:
            RunContent(config, facts, model, found, again, metrics, source=(again, files)).write(state.folder)
            state.commit()
    return run.path


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
    """What the run will open must be what was predicted on, with the same roles."""
    if content_of(opened) != content_of(graph):
        raise BadInput(
            f"{place} holds another graph than the one that was predicted on",
            code="E-DATA-CHANGED",
            fix="give the options with which it was read (read={…}), or leave source out",
        )
    # of a node without a label no role is kept
    if any(((opened.role(name) != graph.role(name)) & graph.labelled).any() for name in MASK_NAMES):
        raise BadInput(
            f"the nodes of {place} have other roles than those of the graph that was predicted on",
            code="E-DATA-CHANGED",
            fix="leave source out: the graph is then written into the run with its roles",
        )
