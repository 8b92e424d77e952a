"""Splits of the literature: the public one, 20/30 per class, 1500 development nodes, shares of nodes.

Results on different families are not comparable.
"""

from __future__ import annotations

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.seeds import numpy_stream
from graphsde.datasets.splits.split import (
    FILES_SPLIT,
    SPLITS,
    Split,
    has_public_masks,
    known_labels,
    largest_component,
    mask_of,
    per_class,
    require_whole,
    strata,
    stratified,
)
from graphsde.graph.graph import Graph

ROLES = ("train", "val", "calibration", "test")


@SPLITS.register("given", summary="the masks that came with the data")
def given(graph: Graph, *, seed: int = 0) -> Split:
    """The masks in the data; a node without a label loses roles that need one."""
    if graph.train_mask is None or not graph.train_mask.any():
        raise BadUsage(
            f"'{graph.name}' has no training mask",
            code="E-NO-MASKS",
            fix="use the split 'fractions', or 'shchur' for a fixed number of nodes per class",
        )
    masks = {role: mask & graph.labelled if role in ROLES else mask for role, mask in graph.masks.items()}
    return Split("given", seed, masks)


@SPLITS.register(
    "planetoid", summary="the public masks of cora, citeseer and pubmed: 20 per class, 500, 1000", options=("lcc",)
)
def planetoid(graph: Graph, *, seed: int = 0, lcc: bool = False) -> Split:
    """The public split (Yang, Cohen and Salakhutdinov, 2016), for the three graphs that have it.

    Args:
        lcc: keep only the largest connected component and its part of the masks, as some papers do: on CiteSeer
            that leaves out a third of the nodes, those with little neighbourhood information.
    """
    if not has_public_masks(graph):
        raise BadUsage(
            f"'{graph.name}' does not have the public Planetoid masks",
            code="E-NO-MASKS",
            expected="cora, citeseer or pubmed as loaded",
            fix="use the split 'shchur', which also trains on 20 nodes per class",
        )
    masks = {role: mask for role, mask in graph.masks.items() if role in ROLES}
    if not lcc:
        return Split("planetoid", seed, masks)
    nodes = largest_component(graph)
    inside = mask_of(nodes, graph.num_nodes)
    return Split("planetoid", seed, {role: mask & inside for role, mask in masks.items()}, _kept(graph, nodes))


@SPLITS.register(
    "shchur",
    summary="largest component; 20 per class for training, 30 per class for validation, the rest for test",
    options=("train", "val", "lcc"),
)
def shchur(graph: Graph, *, seed: int = 0, train: int = 20, val: int = 30, lcc: bool = True) -> Split:
    """Random quotas per class (Shchur et al., 2018).

    Args:
        train, val: nodes per class.
        lcc: keep only the largest connected component, as the paper does.
    """
    require_whole("train", train, 1)
    require_whole("val", val, 0)
    nodes = largest_component(graph) if lcc else np.arange(graph.num_nodes)
    candidates = nodes[known_labels(graph)[nodes] >= 0]
    chosen = per_class(graph, candidates, (train, val), numpy_stream(seed, "split", "shchur"))
    rest = mask_of(candidates, graph.num_nodes) & ~chosen[0] & ~chosen[1]
    return Split("shchur", seed, dict(zip(("train", "val", "test"), (*chosen, rest), strict=True)), _kept(graph, nodes))


@SPLITS.register(
    "lcc-1500",
    summary="largest component; of 1500 development nodes 20 per class for training and the others for validation",
    options=("development", "train"),
)
def lcc_1500(graph: Graph, *, seed: int = 0, development: int = 1500, train: int = 20) -> Split:
    """Development nodes drawn uniformly from the largest component; all others are test nodes.

    Args:
        development: number of training and validation nodes.
        train: training nodes per class; the other development nodes are for validation.
    """
    require_whole("development", development, 1)
    require_whole("train", train, 1)
    nodes = largest_component(graph)
    candidates = nodes[known_labels(graph)[nodes] >= 0]
    if candidates.size <= development:
        raise BadInput(
            f"{candidates.size} labelled nodes in the largest component of '{graph.name}' leave no test nodes",
            code="E-GRAPH-SMALL",
            found=int(candidates.size),
            expected=f"more than the {development} development nodes",
            fix="set development to a smaller number, or use the split 'shchur' or 'fractions'",
        )
    rng = numpy_stream(seed, "split", "lcc-1500")
    developing = rng.permutation(candidates)[:development]
    (training,) = per_class(graph, developing, (train,), rng)
    inside = mask_of(developing, graph.num_nodes)
    masks = {"train": training, "val": inside & ~training, "test": mask_of(candidates, graph.num_nodes) & ~inside}
    return Split("lcc-1500", seed, masks, _kept(graph, nodes))


@SPLITS.register(
    "paper-statistics",
    summary="the sizes of the LGNSDE paper's table of statistics: 20 per class train, 500 validate, 1000 are tested",
    options=("train", "val", "test"),
)
def paper_statistics(graph: Graph, *, seed: int = 0, train: int = 20, val: int = 500, test: int = 1000) -> Split:
    """All nodes stay; training nodes are drawn class by class, the others uniformly, and the rest has no role.

    Where the public masks are in place, which have these sizes, it is they: 200/500/1000 on Computers and 160/500/1000
    on Photo are random, 140, 120 and 60/500/1000 on Cora, CiteSeer and PubMed are not.

    Args:
        train: nodes per class.
        val, test: nodes in all.
    """
    for name, value, least in (("train", train, 1), ("val", val, 0), ("test", test, 1)):
        require_whole(name, value, least)
    if has_public_masks(graph) and (train, val, test) == (20, 500, 1000):
        return Split("paper-statistics", seed, planetoid(graph).masks)
    candidates = np.flatnonzero(known_labels(graph) >= 0)
    rng = numpy_stream(seed, "split", "paper-statistics")
    (training,) = per_class(graph, candidates, (train,), rng)
    others = rng.permutation(candidates[~training[candidates]])
    if others.size < val + test:
        raise BadInput(
            f"'{graph.name}' has {others.size} labelled nodes outside the training set",
            code="E-GRAPH-SMALL",
            found=int(others.size),
            expected=f"at least {val + test} ({val} to validate, {test} to test)",
            fix="set val and test to smaller numbers, or use the split 'fractions'",
        )
    drawn = {"val": others[:val], "test": others[val : val + test]}
    masks = {role: mask_of(nodes, graph.num_nodes) for role, nodes in drawn.items()}
    return Split("paper-statistics", seed, {"train": training} | masks)


@SPLITS.register(
    "fractions",
    summary="stratified shares of the labelled nodes: 60/15/15/10 train/validation/calibration/test",
    options=ROLES,
)
def fractions(
    graph: Graph,
    *,
    seed: int = 0,
    train: float = 0.60,
    val: float = 0.15,
    calibration: float = 0.15,
    test: float = 0.10,
) -> Split:
    """Shares of every class, to the nearest node; a class always has a node in training.

    Args:
        train, val, calibration, test: shares; they add up to at most 1, a share of 0 leaves the role out.
    """
    return _shares("fractions", graph, seed, (train, val, calibration, test))


@SPLITS.register(FILES_SPLIT, summary="stratified 60/15/25 train/validation/test: the default for files without roles")
def files(graph: Graph, *, seed: int = 0) -> Split:
    """60 % training, 15 % validation, 25 % test nodes of every class, to the nearest node.

    No nodes are reserved for calibration: calibration uses the test nodes, and metrics are
    cross-fitted, so that every label is used for both.
    """
    return _shares(FILES_SPLIT, graph, seed, (0.60, 0.15, 0.0, 0.25))


@SPLITS.register("gpn", summary="stratified 5/15/80, as in the graph posterior network's study")
def gpn(graph: Graph, *, seed: int = 0) -> Split:
    """5 % training, 15 % validation, 80 % test nodes of every class (Stadler et al., 2021)."""
    return _shares("gpn", graph, seed, (0.05, 0.15, 0.0, 0.80))


@SPLITS.register("geom-48-32-20", summary="stratified 48/32/20, the shares of the geom-GCN splits")
def geom(graph: Graph, *, seed: int = 0) -> Split:
    """48 % training, 32 % validation, 20 % test nodes of every class: the shares of Pei et al. (2020), redrawn."""
    return _shares("geom-48-32-20", graph, seed, (0.48, 0.32, 0.0, 0.20))


@SPLITS.register(
    "uniform-10-10-80",
    summary="10/10/80 drawn uniformly, not by class, as GNNSafe does on Amazon",
    options=("draw",),
)
def uniform(graph: Graph, *, seed: int = 0, draw: str = "seed") -> Split:
    """10 % training, 10 % validation, the rest test nodes, regardless of class (Wu et al., 2023).

    Args:
        draw: ``seed``: redrawn for every seed. ``gnsd``: the one draw of GNSD's published code (numpy's generator
            of 2011 with seed 123), the same for every seed, so that seeds differ in initialisation only.
    """
    return Split("uniform-10-10-80", seed, tenths(graph, np.flatnonzero(graph.labelled), seed, draw))


GNSD_SEED = 123


def tenths(graph: Graph, candidates: np.ndarray, seed: int, draw: str = "seed") -> dict[str, np.ndarray]:
    strata(graph)  # a graph without labels is refused
    if draw not in ("seed", "gnsd"):
        raise BadUsage(f"there is no draw '{draw}'", found=draw, expected="seed or gnsd")
    if candidates.size < 10:
        raise BadInput(
            f"10 % of {candidates.size} labelled nodes is less than one node",
            code="E-GRAPH-SMALL",
            expected="at least 10",
        )
    if draw == "gnsd":
        order = candidates[np.random.RandomState(GNSD_SEED).permutation(candidates.size)]
    else:
        order = numpy_stream(seed, "split", "uniform-10-10-80").permutation(candidates)
    tenth = candidates.size // 10
    parts = np.split(order, [tenth, 2 * tenth])
    return {role: mask_of(part, graph.num_nodes) for role, part in zip(("train", "val", "test"), parts, strict=True)}


def _shares(name: str, graph: Graph, seed: int, shares: tuple[float, ...]) -> Split:
    numbers = all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares)
    if not numbers or shares[0] == 0 or sum(shares) > 1 + 1e-9:
        raise BadUsage(
            "invalid shares for a split",
            found="/".join(map(str, shares)),
            expected="shares from 0 to 1 that add up to at most 1, with some training nodes",
        )
    masks = stratified(graph, np.flatnonzero(graph.labelled), shares, numpy_stream(seed, "split", name))
    return Split(name, seed, {role: mask for role, mask, share in zip(ROLES, masks, shares, strict=True) if share})


def _kept(graph: Graph, nodes: np.ndarray) -> np.ndarray | None:
    return nodes if nodes.size < graph.num_nodes else None
