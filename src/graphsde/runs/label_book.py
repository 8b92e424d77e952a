"""Labels that a run has learned since its first fit; the roles of nodes on a graph that has grown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from graphsde.base import storage
from graphsde.base.errors import BadInput, shorten
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.graph.target import ClassTarget, RegressionTarget
from graphsde.models import Model
from graphsde.nn.encoding import FeatureEncoder
from graphsde.uncertainty.held_out import align_labels

FILE = "labels.json"
FORMAT = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _KeptLabel(_Strict):
    id: int | str
    label: str | int | float
    round: int


class _Kept(_Strict):
    format: int
    labels: list[_KeptLabel]
    roles: dict[str, list[int | str]] | None
    classes: list[str] | None


@dataclass(frozen=True)
class LabelBook:
    """What must be applied on top of the graph's files to get the graph of the current round.

    Args:
        labels: ``(id, class name or number, round)`` in order of arrival.
        roles: ids by role if the graph differs from that of the first fit; ``None`` keeps the split's.
        classes: the model's classes, given with ``roles``; labels of other classes are hidden. ``None`` for numbers.
    """

    labels: tuple[tuple[int | str, str | float, int], ...] = ()
    roles: dict[str, list[int | str]] | None = None
    classes: tuple[str, ...] | None = None

    @classmethod
    def of_run(cls, folder: Path) -> LabelBook:
        path = folder / FILE
        if not path.is_file():
            return cls()
        kept = storage.read_document(path, _Kept)
        if kept.format != FORMAT:
            raise storage.damaged(path, f"format {kept.format}, but this graphsde reads {FORMAT}")
        labels = tuple(
            (one.id, one.label if isinstance(one.label, str) else float(one.label), one.round) for one in kept.labels
        )
        return cls(labels, kept.roles, None if kept.classes is None else tuple(kept.classes))

    def write(self, folder: Path) -> None:
        storage.write_json(folder / FILE, self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        labels = [{"id": node, "label": name, "round": number} for node, name, number in self.labels]
        classes = None if self.classes is None else list(self.classes)
        return {"format": FORMAT, "labels": labels, "roles": self.roles, "classes": classes}

    def apply(self, graph: Graph) -> Graph:
        """``graph`` with these roles, and with these labels on training nodes."""
        if self.roles is not None:
            graph = self._with_roles(graph)
        if not self.labels:
            return graph
        positions = _positions([node for node, _, _ in self.labels], graph)
        given = [label for _, label, _ in self.labels]
        numbers = isinstance(given[0], float)
        none = RegressionTarget(np.full(graph.num_nodes, np.nan)) if numbers else ClassTarget(None, graph.class_names)
        target = graph.target if graph.target_kind == none.kind else none
        graph = graph.with_target(target.changed(positions, given, graph.num_nodes))
        learned = np.zeros(graph.num_nodes, dtype=bool)
        learned[positions] = True
        masks = {role: mask & ~learned for role, mask in graph.masks.items()}
        masks["train"] = graph.masks.get("train", np.zeros(graph.num_nodes, dtype=bool)) | learned
        return graph.with_masks(split=graph.split, **masks)

    def _with_roles(self, graph: Graph) -> Graph:
        assert self.roles is not None
        masks = {}
        for role, ids in self.roles.items():
            masks[role] = np.zeros(graph.num_nodes, dtype=bool)
            masks[role][_positions(ids, graph)] = True
        if self.classes is not None:
            graph = graph.with_labels(align_labels(graph, self.classes), self.classes)
        return graph.with_masks(split=graph.split, **masks)


def _positions(ids: list[int | str], graph: Graph) -> np.ndarray:
    positions = locate(ids, graph.node_ids)
    if (positions < 0).any():
        missing = [str(node) for node, row in zip(ids, positions, strict=True) if row < 0]
        raise BadInput(
            f"{len(missing):,} nodes of the run are not in this graph: {', '.join(missing[:5])}",
            code="E-NODE-UNKNOWN",
            place=FILE,
            fix="use a graph that has all nodes of the run",
        )
    return positions


SHOWN = 5


def roles_in(predictions: Path) -> tuple[list[int | str], dict[str, list[int | str]]]:
    """Ids of all nodes of a run and ids by role, from its table of predictions: its graph may no longer exist."""
    import pyarrow as pa
    import pyarrow.parquet as pa_parquet

    try:
        table = pa_parquet.read_table(predictions).to_pydict()
        table["id"]
    except (pa.ArrowException, KeyError) as error:
        raise storage.damaged(predictions, type(error).__name__) from error
    except OSError as error:
        if error.errno is None:  # pyarrow raises this if the content is not Parquet
            raise storage.damaged(predictions, str(error)) from error
        raise storage.io_error("read", predictions, error) from error
    roles: dict[str, list[int | str]] = {}
    for node, role in zip(table["id"], table.get("split", [None] * len(table["id"])), strict=True):
        if role is not None and role != "further":  # labels for calibration are kept apart (further-labels.json)
            roles.setdefault(role, []).append(node)
    return table["id"], roles


def require_growth(known: list[int | str], graph: Graph, model: Model) -> int:
    """Refuse a graph that lacks nodes or columns of the run; returns how many nodes are new.

    Args:
        known: ids of the run's nodes.
        graph: the new one.
        model: the run's, which knows the columns.
    """
    missing = np.flatnonzero(locate(known, graph.node_ids) < 0)
    if len(missing):
        shown = ", ".join(shorten(str(known[row]), 60) for row in missing[:SHOWN])
        raise BadInput(
            f"{len(missing):,} of the {len(known):,} nodes of the run are not in {graph.name}: {shown}",
            code="E-NODE-UNKNOWN",
            expected="a graph that has all nodes of the run, under the same ids",
            fix="add them, or fit a new run on this graph",
        )
    for encoder in _encoders(model):
        encoder.transform(graph.subgraph(np.arange(min(2, graph.num_nodes))))  # refuses other columns
    return graph.num_nodes - len(known)


def _encoders(model: Any) -> list[FeatureEncoder]:
    """Of a model that reads features; an ensemble's members all have the same."""
    owners = [model, *getattr(model, "members", [])[:1]]
    found = [getattr(owner, "encoder", None) for owner in owners]
    return [encoder for encoder in found if isinstance(encoder, FeatureEncoder)]
