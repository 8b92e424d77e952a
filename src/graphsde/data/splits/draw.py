"""Drawing nodes: quotas per class, stratified fractions."""

from __future__ import annotations

import itertools

import numpy as np

from graphsde.data.graph import Graph
from graphsde.errors import BadInput, BadUsage

STRATA = 10  # groups of nodes with similar values, where the target is numeric


def known_labels(graph: Graph) -> np.ndarray:
    if graph.target == "numeric" and graph.labelled.any():
        raise BadUsage(
            f"this split goes by classes, and the target of '{graph.name}' is numeric",
            code="E-TARGET",
            fix="use the split 'fractions', 'gpn', 'geom-48-32-20', 'uniform-10-10-80' or 'given'",
        )
    if graph.labels is None or not graph.labelled.any():
        raise BadInput(
            f"'{graph.name}' has no labels, so its nodes can't be divided into training and test",
            code="E-NO-LABELS",
            fix="give labels to some nodes",
        )
    return graph.labels


def strata(graph: Graph) -> tuple[np.ndarray, int]:
    """The group of every node that each part of a split should have its share of, and how many groups there are.

    Classes, or tenths of the nodes in the order of their values; -1 where unknown.  # [N] int64
    """
    if graph.values is None or not graph.labelled.any():
        return known_labels(graph), graph.num_classes
    known = np.flatnonzero(graph.labelled)
    order = known[np.argsort(graph.values[known], kind="stable")]
    groups = np.full(graph.num_nodes, -1, dtype=np.int64)
    count = min(STRATA, max(1, known.size // STRATA))
    groups[order] = np.arange(order.size) * count // order.size
    return groups, count


def require_whole(name: str, value: object, least: int) -> None:
    """Options may come from a command line or a file: refuse what is no whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadUsage(f"{name} can't be {value!r}", found=value, expected=f"a whole number from {least} on")


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
        rank: each one's place within its class, from 0.
        counts: candidates per class.  # [C]
    """
    shuffled = rng.permutation(candidates)
    nodes = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.bincount(labels[nodes], minlength=num_classes)
    starts = np.cumsum(counts) - counts
    return nodes, np.arange(nodes.size) - starts[labels[nodes]], counts


def per_class(
    graph: Graph, candidates: np.ndarray, quotas: tuple[int, ...], rng: np.random.Generator
) -> list[np.ndarray]:
    """For each quota a mask with that many candidates of every class; together they are disjoint."""
    labels = known_labels(graph)
    nodes, rank, counts = rank_in_class(labels, candidates, graph.num_classes, rng)
    need = sum(quotas)
    small = int(counts.argmin())
    if counts[small] < need:
        raise BadInput(
            f"class '{graph.class_names[small]}' is too small: {counts[small]} nodes to draw from, {need} wanted",
            code="E-CLASS-SMALL",
            found=f"{counts[small]} nodes of class '{graph.class_names[small]}'",
            expected=f"at least {need} ({' + '.join(map(str, quotas))}) of every class",
            fix="ask for fewer nodes per class, or use the split 'fractions'",
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
    sizes = np.append(sizes, max(nodes.size - sizes.sum(), 0))  # what no fraction claims
    # each role has its own phase, so that roles of equal size don't always meet in the same classes
    when = np.concatenate([(np.arange(size) + (role + 0.5) / sizes.size) / size for role, size in enumerate(sizes)])
    roles = np.repeat(np.arange(sizes.size), sizes)[np.argsort(when, kind="stable")]
    starts = np.cumsum(counts) - counts
    trained = np.bincount(labels[nodes[roles == 0]], minlength=groups)
    roles[starts[(counts > 0) & (trained == 0)]] = 0
    return [mask_of(nodes[roles == role], graph.num_nodes) for role in range(len(fractions))]


def mask_of(positions: np.ndarray, num_nodes: int) -> np.ndarray:
    mask = np.zeros(num_nodes, dtype=bool)
    mask[positions] = True
    return mask
