"""Calibration labels that a run was given since its fit: kept, never trained on, and part of every later test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage, StorageError
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate, plain_id
from graphsde.models import Model
from graphsde.runs.looks import alone, further_given, note_further
from graphsde.runs.new_labels import CHECKS, GivenLabels, NewLabels
from graphsde.runs.state import FURTHER_LABELS as FILE

FORMAT = 1
Label = str | int | float


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _KeptLabel(_Strict):
    id: int | str
    label: Label


class _Kept(_Strict):
    format: int
    labels: list[_KeptLabel]


def with_further_labels(run: Path, graph: Graph) -> Graph:
    """``graph`` with the labels that a run keeps for calibration; their nodes have the role ``further``.

    Args:
        run: the folder.
        graph: with the roles of the fit and of what was learned since: a node with a role keeps it.
    """
    path = run / FILE
    kept = _read(path)
    if not kept:
        return graph
    positions = locate([one.id for one in kept], graph.node_ids)
    if (positions < 0).any():
        raise _damaged(path, "it names nodes that the graph does not have")
    roles = np.zeros(graph.num_nodes, dtype=bool)
    for role, mask in graph.masks.items():
        if role != "further":
            roles |= mask
    free = np.flatnonzero(~roles[positions]).tolist()
    try:
        found = _labelled(graph, positions[free], [kept[row].label for row in free])
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path, f"it has a label that the run does not know, {error}") from error
    _refuse_other_labels(path, graph, found)
    return found


def require_all_further_labels(run: Path, graph: Graph) -> None:
    """Refuse to test without labels that an earlier look has counted: all of them count, not those one likes.

    Args:
        run: the folder.
        graph: with the labels to test with, also those that the run does not keep yet.
    """
    given, kept = further_given(run), max(len(_read(run / FILE)), int(graph.role("further").sum()))
    if kept < given:
        raise _damaged(run / FILE, f"it has {kept:,} of the {given:,} calibration labels that the run was given")


def _refuse_other_labels(path: Path, before: Graph, after: Graph) -> None:
    """A graph that has grown is read again, and may then have another label for a node that was calibrated on."""
    if before.labels is not None and after.labels is not None:
        other = before.labelled & (before.labels != after.labels)
    elif before.values is not None and after.values is not None:
        other = before.labelled & (before.values != after.values)
    else:
        return
    if other.any():
        node = plain_id(before.node_ids[np.flatnonzero(other)[0]])
        raise BadInput(
            f"the graph has another label than {path.name} for {int(other.sum()):,} calibration nodes",
            code="E-LABEL-CONFLICT",
            place=str(path),
            found=f"node {node}",
            expected="the label that was calibrated with",
            fix="correct the graph's files, or fit again: a new fit starts without these labels",
        )


def check_further_labels(path: Path, model: Model, graph: Graph) -> tuple[Graph, NewLabels]:
    """The graph with the labels of a file that ``ask --for calibration`` wrote, and which of them are new.

    Args:
        path: the file.
        model: the run's, which knows the classes.
        graph: with the further labels that the run has already.

    Raises:
        BadUsage: the labels are not a random sample, or belong to nodes with another role.
    """
    given = GivenLabels.read(path, role="calibration")
    new = CHECKS.of(model)(given, graph, model._require_fitted())
    given.require_random(path)
    there = locate(given.ids, graph.node_ids)
    repeated = bool(len(there)) and bool(graph.role("further")[there].all())
    if new.from_test or not (len(new.positions) or repeated):
        raise BadUsage(
            f"{new.from_test} of these are test nodes" if new.from_test else "these labels are already in use",
            code="E-CAL-USED",
            place=str(path),
            fix="label nodes from: graphsde ask RUN --for calibration",
        )
    return _labelled(graph, new.positions, list(new.labels)), new


def keep_further_labels(
    run: Path, graph: Graph, new: NewLabels, say: Callable[[str], None] = lambda text: None
) -> bool:
    """Add labels to those that the run keeps; whether they are kept.

    Args:
        run: the folder.
        graph: that they belong to.
        new: made by :func:`check_further_labels`.
        say: called with a one-line warning if the run can't be written to.
    """
    ids = [plain_id(one) for one in graph.node_ids[new.positions]]
    added = [_KeptLabel(id=node, label=label) for node, label in zip(ids, new.labels, strict=True)]
    try:
        with alone(run):
            known = _read(run / FILE)
            there = {one.id for one in known}
            labels = [*known, *(one for one in added if one.id not in there)]
            storage.write_json(run / FILE, _Kept(format=FORMAT, labels=labels).model_dump())
            note_further(run, len(labels))
    except StorageError as error:
        say(f"warning: the further labels are not kept ({error.message}); next time, give all of them in one file")
        return False
    return True


def _labelled(graph: Graph, positions: np.ndarray, labels: list[Label]) -> Graph:
    if not len(positions):
        return graph
    target = graph.target.changed(positions, labels, graph.num_nodes)
    further = graph.role("further").copy()
    further[positions] = True
    return graph.with_target(target).with_masks(split=graph.split, **{**graph.masks, "further": further})


def _read(path: Path) -> list[_KeptLabel]:
    if not path.is_file():
        return []
    try:
        kept = storage.read_document(path, _Kept)
    except BadInput as error:
        error.fix = _way_out(path)
        raise
    if kept.format != FORMAT:
        raise _damaged(path, f"format {kept.format}, but this graphsde reads {FORMAT}")
    if len({one.id for one in kept.labels}) < len(kept.labels):
        raise _damaged(path, "it names a node twice")
    return kept.labels


def _way_out(path: Path) -> str:
    again = f"graphsde decide {path.parent} --further-labels FILE"
    return f"restore the file from a backup, or remove it and give all labels again: {again}"


def _damaged(path: Path, why: str) -> BadInput:
    return storage.damaged(path, why, _way_out(path))
