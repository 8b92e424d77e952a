"""Splits by a property of the nodes: training nodes at one end of it, OOD nodes at the other."""

from __future__ import annotations

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.seeds import numpy_stream
from graphsde.datasets.splits.split import SPLITS, Split, known_labels, mask_of, strata, stratified
from graphsde.graph.graph import Graph
from graphsde.graph.homophily import node_homophily

# the damping of PageRank, and when its power iteration ends
DAMPING = 0.85
TOLERANCE = 1e-12
MOST_STEPS = 1000


def pagerank(graph: Graph, damping: float = DAMPING) -> np.ndarray:
    r"""PageRank of every node: :math:`r = (1 - d)/N + d P^\top r`, summing to 1.  # [N]

    Brin and Page, "The anatomy of a large-scale hypertextual web search engine" (1998). A node passes its rank on along
    its edges in proportion to their weights; a node without edges passes it on to all nodes equally.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> round(float(pagerank(synthetic(100)).sum()), 9)
        1.0
    """
    nodes = graph.num_nodes
    incoming = graph.adjacency.incoming.astype(np.float64)
    given = np.asarray(incoming.sum(axis=0)).ravel()
    share = np.divide(1.0, given, out=np.zeros(nodes), where=given > 0)
    rank = np.full(nodes, 1.0 / nodes)
    for _ in range(MOST_STEPS):
        passed = incoming @ (share * rank) + rank[given == 0].sum() / nodes
        new = (1.0 - damping) / nodes + damping * passed
        moved = float(np.abs(new - rank).sum())
        rank = new
        if moved < TOLERANCE:
            break
    return rank


@SPLITS.register(
    "pagerank-shift",
    summary="popular nodes (by PageRank) are in-distribution, less popular ones OOD",
    options=("share", "train", "val", "ascending"),
)
def pagerank_shift(
    graph: Graph, *, seed: int = 0, share: float = 0.5, train: float = 0.6, val: float = 0.2, ascending: bool = False
) -> Split:
    """The popularity shift of Bazhenov et al., "Evaluating robustness and uncertainty of graph models under structural
    distributional shifts" (NeurIPS 2023): labelled nodes in the order of their PageRank.

    Their parts are 30/10/10 % of the nodes in distribution and 50 % out of it, as here; they keep a fifth of the OOD
    nodes for validation, which is not used here.

    Args:
        share: of the labelled nodes that is in-distribution.
        train, val: shares of these, drawn by class; the others are test nodes.
        ascending: make the least popular nodes in-distribution instead.
    """
    strata(graph)  # a graph without labels is refused
    # rounded: nodes of equal rank are ties, whatever the order of summation
    ranks = np.round(graph.num_nodes * pagerank(graph), 9)
    return _by_property("pagerank-shift", graph, seed, ranks, (share, train, val), ascending=ascending)


@SPLITS.register(
    "homophily-shift",
    summary="nodes whose neighbours share their class are in-distribution, those that differ most OOD",
    options=("share", "train", "val", "ascending"),
)
def homophily_shift(
    graph: Graph, *, seed: int = 0, share: float = 0.5, train: float = 0.6, val: float = 0.2, ascending: bool = False
) -> Split:
    """Labelled nodes in the order of their homophily, the share of neighbours of their own class.

    A protocol for evaluating models, not for practice: it uses the labels of all nodes to choose the test nodes.
    Both sides have known classes; what changes is how informative neighbours are. Nodes without a labelled
    neighbour get no role.

    Args:
        share: of the nodes with a homophily that is in-distribution.
        train, val: shares of these, drawn by class; the others are test nodes.
        ascending: make the nodes whose neighbours differ in-distribution instead.
    """
    known_labels(graph)
    return _by_property("homophily-shift", graph, seed, node_homophily(graph), (share, train, val), ascending=ascending)


def _by_property(
    name: str, graph: Graph, seed: int, values: np.ndarray, shares: tuple[float, float, float], *, ascending: bool
) -> Split:
    """The nodes with the highest (or lowest) values in-distribution, the others OOD; ties in random order."""
    share, train, val = shares
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in shares)
    if not numbers or not (0 < share < 1 and 0 < train < 1 and 0 <= val < 1 and train + val <= 1 + 1e-9):
        raise BadUsage(
            "invalid shares for a split",
            found=f"share {share}, train {train}, val {val}",
            expected="a share between 0 and 1, of which train and val are parts that add up to at most 1",
        )
    if not isinstance(ascending, bool):
        raise BadUsage(f"ascending can't be {ascending!r}", found=ascending, expected="true or false")
    candidates = np.flatnonzero(graph.labelled & ~np.isnan(values))
    inside = round(share * candidates.size)
    if not 0 < inside < candidates.size:
        raise BadInput(
            f"{candidates.size} labelled nodes are too few for in-distribution and OOD nodes",
            code="E-GRAPH-SMALL",
            found=int(candidates.size),
            expected="some nodes on both sides",
        )
    rng = numpy_stream(seed, "split", name)
    shuffled = rng.permutation(candidates)
    order = shuffled[np.argsort(values[shuffled] if ascending else -values[shuffled], kind="stable")]
    familiar = np.sort(order[:inside])
    training, validating = stratified(graph, familiar, (train, val), rng)
    test = mask_of(familiar, graph.num_nodes) & ~training & ~validating
    ood = mask_of(order[inside:], graph.num_nodes)
    return Split(name, seed, {"train": training, "val": validating, "test": test, "ood": ood})
