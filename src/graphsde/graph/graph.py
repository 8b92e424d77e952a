"""The graph as the rest of the package sees it: checked, cleaned, immutable."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.html import card, table
from graphsde.graph.adjacency import Adjacency, update_digest
from graphsde.graph.raw import Finding
from graphsde.graph.target import ClassTarget, Target

MASK_NAMES = ("train", "val", "calibration", "test", "ood", "exposure", "left", "further")


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes with features, edges, labels and roles.

    Build one with :func:`graphsde.read`, :func:`graphsde.load`, :func:`graphsde.from_arrays` or a converter: these
    check and clean. The constructor itself trusts its arguments.

    Args:
        adjacency: the edges.
        features: numeric columns, dense ``[N, d]`` or sparse CSR, float32.
        node_ids: int64 or ``str`` (dtype object), in the user's own naming.  # [N]
        node_names: display names, ``None`` for a node without one; ``None`` if the graph has none. They are
            not features, and not part of the fingerprint.  # [N]
        feature_names: names of the numeric columns, ``None`` if they have none.
        categorical: text columns by name, each an object array of ``str`` (``None`` = missing).
        masks: boolean arrays under ``train``, ``val``, ``calibration``, ``test`` and, on a split that makes
            OOD nodes, ``ood`` (to be detected), ``exposure`` (OOD nodes that a model may train on) and ``left``
            (OOD nodes without any other role); ``further`` are nodes drawn for calibration after the fit.
        name: of the graph, for messages.
        image_shape: height and width, if the numeric columns are the pixels of an image.
        split: the name of the split that made the masks, ``None`` if they came with the data.
        notes: what was noticed while reading (merged duplicates, casts, …).
        target: what to predict, and its known values.
        benchmark: which published graph this is, by its name in :data:`~graphsde.datasets.benchmarks.DATASETS`. Only
            :func:`graphsde.load` sets it, after comparing the fingerprint; settings and splits of a benchmark depend
            on it, never on ``name``.
    """

    adjacency: Adjacency
    features: np.ndarray | sp.csr_array
    node_ids: np.ndarray
    target: Target = field(default_factory=ClassTarget)
    feature_names: tuple[str, ...] | None = None
    categorical: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    masks: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    name: str = "graph"
    image_shape: tuple[int, int] | None = None
    split: str | None = None
    notes: tuple[Finding, ...] = ()
    benchmark: str | None = None
    node_names: np.ndarray | None = None

    @property
    def target_kind(self) -> str:
        return self.target.kind

    @property
    def labels(self) -> np.ndarray | None:
        """Class positions, ``-1`` for unlabelled nodes; ``None`` if nodes have no classes.  # [N] int64"""
        return self.target.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name per class position."""
        return self.target.class_names

    @property
    def values(self) -> np.ndarray | None:
        """Numbers to predict instead of classes, NaN if unknown; ``None`` if there are none.  # [N]"""
        return self.target.values

    @property
    def num_nodes(self) -> int:
        return self.adjacency.num_nodes

    @property
    def num_edges(self) -> int:
        return self.adjacency.num_edges

    @property
    def num_features(self) -> int:
        """Columns as the user sees them: a categorical column counts once."""
        return int(self.features.shape[1]) + len(self.categorical)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.features)

    def node_name(self, row: int) -> str | None:
        """The display name of the node in a row, if it has one."""
        return None if self.node_names is None else self.node_names[row]

    def called(self, row: int) -> str:
        """A node as shown to people: its id, and its name in brackets if it has one."""
        name = self.node_name(row)
        return str(self.node_ids[row]) if name is None else f"{self.node_ids[row]} ({name})"

    def role(self, name: str) -> np.ndarray:
        """The mask of a role; all ``False`` if the graph has no such mask.  # [N] bool"""
        mask = self.masks.get(name)
        return np.zeros(self.num_nodes, dtype=bool) if mask is None else mask

    @property
    def train_mask(self) -> np.ndarray | None:
        return self.masks.get("train")

    @property
    def val_mask(self) -> np.ndarray | None:
        return self.masks.get("val")

    @property
    def test_mask(self) -> np.ndarray | None:
        return self.masks.get("test")

    @property
    def calibration_mask(self) -> np.ndarray | None:
        return self.masks.get("calibration")

    @property
    def ood_mask(self) -> np.ndarray | None:
        return self.masks.get("ood")

    @property
    def exposure_mask(self) -> np.ndarray | None:
        return self.masks.get("exposure")

    @cached_property
    def labelled(self) -> np.ndarray:
        """Nodes whose class, or value, is known.  # [N] bool"""
        return self.target.known(self.num_nodes)

    @cached_property
    def familiar(self) -> np.ndarray:
        """Labelled nodes of classes that a training node has; all labelled ones without training nodes.  # [N] bool

        Other classes are not used for selection, calibration or evaluation: no model can know them.
        """
        return self.labelled if self.train_mask is None else self.target.familiar(self.train_mask)

    @cached_property
    def ood_nodes(self) -> np.ndarray | None:
        """Nodes to detect as OOD: those of the ``ood`` mask, and test nodes of classes without training nodes.

        ``None`` if there are neither.  # [N] bool
        """
        ood, test = self.ood_mask, self.test_mask
        if test is None or not (unseen := test & self.labelled & ~self.familiar).any():
            return ood
        return unseen if ood is None else ood | unseen

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of features, edges, labels and ids; masks are not part of it."""
        digest = hashlib.sha256(self.adjacency.fingerprint.encode())
        features: Any = self.features
        if sp.issparse(features):
            parts = [(features.indptr, "<i8"), (features.indices, "<i8"), (features.data, None)]
        else:
            parts = [(features, None)]
        parts += [(answers, None) for answers in (self.labels, self.values) if answers is not None]
        for part, kind in parts:
            digest.update(repr(part.shape).encode())
            update_digest(digest, part, kind)
        for texts in (self.node_ids, np.array(self.class_names, dtype=object), *self.categorical.values()):
            for text in texts:
                encoded = str(text).encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()

    @cached_property
    def position(self) -> Mapping[object, int]:
        """From node id to row."""
        return MappingProxyType({node: row for row, node in enumerate(self.node_ids.tolist())})

    def with_masks(self, *, split: str | None = None, **masks: np.ndarray) -> Graph:
        """The same graph with other roles; features and adjacency are shared, not copied."""
        for name, mask in masks.items():
            if name not in MASK_NAMES:
                raise BadInput(f"'{name}' is not a mask", expected="one of " + ", ".join(MASK_NAMES))
            if mask.shape != (self.num_nodes,):
                raise BadInput(
                    f"the {name} mask has {mask.shape} entries",
                    code="E-LEN",
                    expected=f"{self.num_nodes}, one per node",
                )
        clean = {name: np.asarray(mask, dtype=bool) for name, mask in masks.items()}
        return dataclasses.replace(self, masks=MappingProxyType(clean), split=split)

    def with_features(self, features: np.ndarray | sp.csr_array) -> Graph:
        """The same nodes and edges with other numeric features (shifts, noise)."""
        return dataclasses.replace(self, features=features)

    def with_target(self, target: Target) -> Graph:
        """The same graph with another target."""
        return dataclasses.replace(self, target=target)

    def with_labels(self, labels: np.ndarray, class_names: tuple[str, ...] | None = None) -> Graph:
        """The same graph with other class positions, and other classes if given.  # [N] int64"""
        return self.with_target(ClassTarget(labels, self.class_names if class_names is None else class_names))

    def without_target(self) -> Graph:
        """The same graph without labels."""
        return self.with_target(ClassTarget())

    def with_adjacency(self, adjacency: Adjacency) -> Graph:
        return dataclasses.replace(self, adjacency=adjacency)

    def subgraph(self, nodes: np.ndarray) -> Graph:
        """The graph among ``nodes`` (positions or a boolean mask), with everything that belongs to them."""
        rows = np.flatnonzero(nodes) if nodes.dtype == bool else nodes
        return dataclasses.replace(
            self,
            adjacency=self.adjacency.subgraph(rows),
            features=self.features[rows],
            target=self.target.take(rows),
            node_ids=self.node_ids[rows],
            node_names=None if self.node_names is None else self.node_names[rows],
            categorical=MappingProxyType({name: column[rows] for name, column in self.categorical.items()}),
            masks=MappingProxyType({name: mask[rows] for name, mask in self.masks.items()}),
        )

    def __repr__(self) -> str:
        return (
            f"Graph({shorten(repr(self.name), 60)}, nodes={self.num_nodes}, edges={self.num_edges}, "
            f"features={self.num_features}, {self.target.describe()})"
        )

    def _repr_html_(self) -> str:
        edges = self.num_edges if self.adjacency.directed else self.num_edges // 2
        kind = "directed edges" if self.adjacency.directed else "edges"
        facts: dict[str, object] = {"nodes": self.num_nodes, kind: edges, "features": self.num_features}
        if self.split is not None:
            facts["split"] = self.split
        roles: list[dict[str, object]] = [
            {"role": name, "nodes": int(mask.sum()), "labelled": int((mask & self.labelled).sum())}
            for name, mask in self.masks.items()
        ]
        return card(f"Graph {self.name}", facts | self.target.facts(self.num_nodes), table(roles))
