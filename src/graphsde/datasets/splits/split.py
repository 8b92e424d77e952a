"""A split of a graph's nodes into roles, as a value; families of splits by name; how nodes are drawn."""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.registry import Registry, refuse_unknown_options
from graphsde.base.seeds import check_seed
from graphsde.graph.graph import Graph
from graphsde.graph.masks import how_to_give_labels, lacks_training, mask_of, require_trainable
from graphsde.graph.target import UNLABELLED


@dataclass(frozen=True, eq=False)
class Split:
    """Which nodes are for training, validation, calibration and test, and which are OOD.

    Args:
        name: the family that made it, such as ``"shchur"``.
        seed: the seed it was drawn with.
        masks: disjoint boolean masks over all nodes of the graph it was made for, by role.  # each [N]
        nodes: positions of the nodes that stay in the graph; ``None`` keeps all.
        classes: positions of the classes that keep an output in the head, in order; ``None`` keeps all. Nodes of the
            other classes lose their label.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> from graphsde.datasets.splits import make_split
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
                    fix="remove them from one of the two",
                )

    @cached_property
    def hash(self) -> str:
        """sha256 of the split's content, name and seed."""
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
        """``graph`` with these roles, reduced to :attr:`nodes` and :attr:`classes` if they are set."""
        graph = graph.with_masks(split=self.name, **self.masks)
        if self.nodes is not None:
            graph = graph.subgraph(self.nodes)
        if self.classes is not None and graph.labels is not None:
            places = np.full(graph.num_classes + 1, UNLABELLED, dtype=np.int64)  # the last entry is for label -1
            places[list(self.classes)] = np.arange(len(self.classes))
            names = tuple(graph.class_names[position] for position in self.classes)
            graph = graph.with_labels(places[graph.labels], names)
        return graph


def _frozen(values: np.ndarray, dtype: type) -> np.ndarray:
    copy: np.ndarray = np.array(values, dtype=dtype)
    copy.flags.writeable = False
    return copy


SPLITS: Registry[Any] = Registry("split")
"""Makers of splits: ``maker(graph, *, seed=0, **options) -> Split``."""

PUBLIC_SIZES = {"cora": (140, 500, 1000), "citeseer": (120, 500, 1000), "pubmed": (60, 500, 1000)}
WITHOUT_MASKS = ("computers", "photo", "coauthor-cs")
FILES_SPLIT = "stratified-60-15-25"
"""The split of files that assign no roles."""


def make_split(graph: Graph, name: str, *, seed: int = 0, **options: Any) -> Split:
    """Split the nodes of ``graph``.

    Args:
        graph: to split.
        name: one of :data:`SPLITS`.
        seed: the same seed gives the same split.
        options: those of the family, e.g. ``leave="Laptops"`` for ``leave-class-out``.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> graph = synthetic(300, classes=3)
        >>> make_split(graph, "shchur", train=5, val=5, lcc=False).sizes
        {'train': 15, 'val': 15, 'test': 270}
    """
    maker = SPLITS.get(name)
    check_seed(seed)
    parameters = inspect.signature(maker).parameters.values()
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        accepted = [one.name for one in parameters if one.name not in ("graph", "seed")]
        refuse_unknown_options(f"split '{name}'", [*accepted, "seed"], options)
    return maker(graph, seed=seed, **options)


def default_split(graph: Graph) -> str:
    """The default split of a task, or of a split that starts from another one.

    ``planetoid`` if the graph has the public masks, ``given`` if the data has a training mask, ``shchur`` for
    the Amazon graphs of :func:`graphsde.load`, ``fractions`` otherwise; the graph's name does not matter.

    Raises:
        BadInput: nodes have roles, but none is for training: a new split could train on the user's test nodes.
    """
    if lacks_training(graph.masks):
        require_trainable(graph)
    if has_public_masks(graph):
        return "planetoid"
    if graph.train_mask is not None and graph.train_mask.any():
        return "given"
    return "shchur" if graph.benchmark in WITHOUT_MASKS else "fractions"


def has_public_masks(graph: Graph) -> bool:
    """Whether the masks are the ones that the three Planetoid graphs were published with."""
    if graph.split not in (None, "planetoid") or graph.benchmark not in PUBLIC_SIZES:
        return False
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    return tuple(0 if mask is None else int(mask.sum()) for mask in masks) == PUBLIC_SIZES[graph.benchmark]


def known_labels(graph: Graph) -> np.ndarray:
    if not graph.labelled.any():
        raise no_labels(graph)
    if graph.labels is None:
        raise BadUsage(
            f"this split needs classes, and '{graph.name}' is for {graph.target_kind}",
            code="E-TARGET",
            fix="use the split 'fractions', 'gpn', 'geom-48-32-20', 'uniform-10-10-80' or 'given'",
        )
    return graph.labels


def no_labels(graph: Graph) -> BadInput:
    return BadInput(
        f"'{graph.name}' has no labels, so it can't be split into training and test nodes",
        code="E-NO-LABELS",
        fix=how_to_give_labels(graph),
    )


def strata(graph: Graph) -> tuple[np.ndarray, int]:
    """The stratum of every node, and the number of strata.

    Classes, or tenths of the nodes in the order of their values; -1 where unknown.  # [N] int64
    """
    if not graph.labelled.any():
        raise no_labels(graph)
    return graph.target.strata()


def require_whole(name: str, value: object, least: int) -> None:
    """Options may come from a command line or a file: refuse anything but integers of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadUsage(f"{name} can't be {value!r}", found=value, expected=f"an integer of at least {least}")


def largest_component(graph: Graph) -> np.ndarray:
    """Positions of the nodes of the largest connected component, in ascending order."""
    components = graph.adjacency.components
    return np.flatnonzero(components == np.bincount(components).argmax())


def rank_in_class(
    labels: np.ndarray, candidates: np.ndarray, num_classes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shuffle the candidates inside their classes.

    Returns:
        nodes: the candidates, class after class, in random order within each.
        rank: position within its class, from 0.
        counts: candidates per class.  # [C]
    """
    shuffled = rng.permutation(candidates)
    nodes = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.bincount(labels[nodes], minlength=num_classes)
    return nodes, np.arange(nodes.size) - (np.cumsum(counts) - counts)[labels[nodes]], counts


def per_class(
    graph: Graph, candidates: np.ndarray, quotas: tuple[int, ...], rng: np.random.Generator
) -> list[np.ndarray]:
    """For each quota a mask with that many candidates of every class; together they are disjoint."""
    nodes, rank, counts = rank_in_class(known_labels(graph), candidates, graph.num_classes, rng)
    need = sum(quotas)
    small = int(counts.argmin())
    if counts[small] < need:
        raise BadInput(
            f"class '{graph.class_names[small]}' is too small: {counts[small]} nodes to draw from, {need} needed",
            code="E-CLASS-SMALL",
            found=f"{counts[small]} nodes of class '{graph.class_names[small]}'",
            expected=f"at least {need} ({' + '.join(map(str, quotas))}) of every class",
            fix="use fewer nodes per class, or the split 'fractions'",
        )
    edges = np.cumsum((0, *quotas))
    return [mask_of(nodes[(rank >= low) & (rank < high)], graph.num_nodes) for low, high in itertools.pairwise(edges)]


def stratified(
    graph: Graph, candidates: np.ndarray, fractions: tuple[float, ...], rng: np.random.Generator
) -> list[np.ndarray]:
    """For each fraction a mask with that share of the candidates and, within two nodes, of every class.

    The roles are laid out evenly along the candidates sorted by class, so that many tiny classes still give parts of
    the right size. A class that would have no node in the first part gets one there.
    """
    labels, groups = strata(graph)
    nodes, _, counts = rank_in_class(labels, candidates, groups, rng)
    shares = np.concatenate([[0.0], np.cumsum(fractions)])
    sizes = np.diff(np.floor(shares * nodes.size + 0.5 + 1e-9)).astype(np.int64)
    sizes = np.append(sizes, max(nodes.size - sizes.sum(), 0))  # the unassigned remainder
    # each role has its own phase, so that roles of equal size don't always fall into the same classes
    when = np.concatenate([(np.arange(size) + (role + 0.5) / sizes.size) / size for role, size in enumerate(sizes)])
    roles = np.repeat(np.arange(sizes.size), sizes)[np.argsort(when, kind="stable")]
    starts = np.cumsum(counts) - counts
    trained = np.bincount(labels[nodes[roles == 0]], minlength=groups)
    roles[starts[(counts > 0) & (trained == 0)]] = 0
    return [mask_of(nodes[roles == role], graph.num_nodes) for role in range(len(fractions))]
