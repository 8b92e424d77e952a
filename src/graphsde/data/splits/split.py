"""A division of a graph's nodes into roles, as a value: comparable by hash, applied when wanted."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from graphsde.data.graph import UNLABELLED, Graph
from graphsde.errors import BadInput


@dataclass(frozen=True, eq=False)
class Split:
    """Who trains, who validates, who calibrates, who is tested, who is foreign.

    Args:
        name: the family that made it, such as ``"shchur"``.
        seed: the seed it was drawn with.
        masks: disjoint boolean masks over all nodes of the graph it was made for, by role.  # each [N]
        nodes: positions of the nodes that stay in the graph; ``None`` keeps all.
        classes: positions of the classes that keep a place in the head, in order; ``None`` keeps all. Nodes of the
            other classes lose their label.

    Example:
        >>> from graphsde.data.synthetic import synthetic
        >>> from graphsde.data.splits import make_split
        >>> graph = synthetic(200, classes=3)
        >>> make_split(graph, "fractions", seed=1).apply(graph).split
        'fractions'
    """

    name: str
    seed: int
    masks: Mapping[str, np.ndarray]
    nodes: np.ndarray | None = None
    classes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "masks", MappingProxyType({role: _frozen(m, bool) for role, m in self.masks.items()}))
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _frozen(self.nodes, np.int64))
        for (first, one), (second, other) in itertools.combinations(self.masks.items(), 2):
            if common := int(np.count_nonzero(one & other)):
                raise BadInput(
                    f"{common} nodes are in the {first} mask and in the {second} mask",
                    code="E-MASK-OVERLAP",
                    expected="at most one role per node",
                    fix="take them out of one of the two",
                )

    @cached_property
    def hash(self) -> str:
        """sha256 of everything that the split does, and of its name and seed."""
        digest = hashlib.sha256(repr((self.name, self.seed, self.classes, self.nodes is None)).encode())
        if self.nodes is not None:
            digest.update(self.nodes.astype("<i8").tobytes())
        for role in sorted(self.masks):
            digest.update(f"{role} {self.masks[role].size} ".encode())
            digest.update(np.packbits(self.masks[role]).tobytes())
        return digest.hexdigest()

    @property
    def sizes(self) -> dict[str, int]:
        """Nodes per role."""
        return {role: int(np.count_nonzero(mask)) for role, mask in self.masks.items()}

    def apply(self, graph: Graph) -> Graph:
        """``graph`` with these roles, cut down to :attr:`nodes` and :attr:`classes` where they are set."""
        graph = graph.with_masks(split=self.name, **self.masks)
        if self.nodes is not None:
            graph = graph.subgraph(self.nodes)
        if self.classes is not None and graph.labels is not None:
            places = np.full(graph.num_classes + 1, UNLABELLED, dtype=np.int64)  # the last entry serves label -1
            places[list(self.classes)] = np.arange(len(self.classes))
            names = tuple(graph.class_names[position] for position in self.classes)
            graph = dataclasses.replace(graph, labels=places[graph.labels], class_names=names)
        return graph


def _frozen(values: np.ndarray, dtype: type) -> np.ndarray:
    copy: np.ndarray = np.array(values, dtype=dtype)
    copy.flags.writeable = False
    return copy
