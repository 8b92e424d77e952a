"""Shifts by PageRank and by homophily: closed forms of the properties, and who ends up where."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from graphsde.base.errors import BadInput, BadUsage
from graphsde.datasets.splits import SPLITS, make_split
from graphsde.datasets.splits.structural import pagerank
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.homophily import node_homophily
from graphsde.io.read import read

from support import block_graph, more_data

NAMES = ("pagerank-shift", "homophily-shift")


def star(leaves: int) -> Graph:
    edges = np.stack([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)])
    return from_arrays(np.eye(leaves + 1), edges, labels=np.arange(leaves + 1) % 2)


@pytest.mark.parametrize(("leaves", "d"), [(4, 0.85), (9, 0.5), (30, 0.85)])
def test_pagerank_of_a_star(leaves: int, d: float) -> None:
    """Centre c and leaves l: c = (1-d)/N + d k l, l = (1-d)/N + d c/k, c + k l = 1."""
    nodes = leaves + 1
    centre = (1 - d) / nodes * (1 + d * leaves) / (1 - d**2)
    found = pagerank(star(leaves), d)
    assert found[0] == pytest.approx(centre, abs=1e-10)
    np.testing.assert_allclose(found[1:], (1 - centre) / leaves, atol=1e-10)


@pytest.mark.parametrize("directed", [False, True])
def test_pagerank_is_that_of_networkx(directed: bool) -> None:
    """Weights, directions, and nodes that point nowhere."""
    rng = np.random.default_rng(0)
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 40, (90, 2)) if a != b and (directed or a < b)}
    edges, weights = np.array(sorted(pairs)).T, rng.random(len(pairs)) + 0.1
    graph = from_arrays(np.eye(40), edges, labels=np.arange(40) % 2, weights=weights, directed=directed)
    theirs = networkx.DiGraph() if directed else networkx.Graph()
    theirs.add_nodes_from(range(40))
    theirs.add_weighted_edges_from((int(a), int(b), float(w)) for a, b, w in zip(*edges, weights, strict=True))
    expected = networkx.pagerank(theirs, tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(pagerank(graph), [expected[node] for node in range(40)], atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ascending", [False, True])
def test_ood_nodes_lie_beyond_all_others(name: str, ascending: bool) -> None:
    graph = synthetic(400, classes=3, homophily=0.6)
    split = make_split(graph, name, seed=3, ascending=ascending)
    values = pagerank(graph) if name == "pagerank-shift" else node_homophily(graph)
    inside = split.masks["train"] | split.masks["val"] | split.masks["test"]
    sign = -1 if ascending else 1
    assert (sign * values[inside]).min() >= (sign * values[split.masks["ood"]]).max() - 1e-12
    known = int((~np.isnan(values)).sum())
    assert split.sizes == pytest.approx({"train": 0.3 * known, "val": 0.1 * known, "test": 0.1 * known,
                                         "ood": 0.5 * known}, abs=4)  # fmt: skip
    applied = split.apply(graph)
    assert set(applied.labels[applied.train_mask]) == {0, 1, 2}  # every class is known
    assert split.hash == make_split(graph, name, seed=3, ascending=ascending).hash
    assert split.hash != make_split(graph, name, seed=4, ascending=ascending).hash


def test_known_homophily_decides() -> None:
    """Two cliques of one class each, and a ring of alternating classes: the ring is OOD."""
    clique = np.stack(np.nonzero(np.triu(np.ones((10, 10)), 1)))
    ring = 20 + np.stack([np.arange(20), np.roll(np.arange(20), -1)])
    labels = np.concatenate([np.zeros(10), np.ones(10), np.arange(20) % 2]).astype(int)
    graph = from_arrays(np.eye(40), np.hstack([clique, clique + 10, ring]), labels=labels)
    split = make_split(graph, "homophily-shift")
    np.testing.assert_array_equal(np.flatnonzero(split.masks["ood"]), np.arange(20, 40))
    turned = make_split(graph, "homophily-shift", ascending=True)
    np.testing.assert_array_equal(np.flatnonzero(turned.masks["ood"]), np.arange(20))
    few = make_split(graph, "homophily-shift", share=0.75, train=0.5, val=0.5)
    assert few.sizes == {"train": 15, "val": 15, "test": 0, "ood": 10}


def test_nodes_of_equal_rank_are_drawn() -> None:
    """Leaves of a star are all alike: which of them are OOD is chance, the centre never is."""
    graph = star(20)
    drawn = [make_split(graph, "pagerank-shift", seed=seed).masks["ood"] for seed in range(3)]
    assert not any(ood[0] for ood in drawn) and not np.array_equal(drawn[0], drawn[1])


def test_nodes_without_labels_or_neighbours_get_no_role() -> None:
    labels = [*["a", "b"] * 10, None, "a"]
    edges = np.stack([np.arange(20), np.arange(1, 21)])
    graph = from_arrays(np.eye(22), edges, labels=labels)
    for name, outside in (("pagerank-shift", [20]), ("homophily-shift", [20, 21])):
        taken = np.logical_or.reduce(list(make_split(graph, name).masks.values()))
        np.testing.assert_array_equal(np.flatnonzero(~taken), outside)


@pytest.mark.parametrize("name", NAMES)
def test_bad_options_are_refused(name: str) -> None:
    graph = block_graph()
    for options in ({"share": 0.0}, {"share": 1.0}, {"train": 0.9, "val": 0.2}, {"val": -0.1}, {"share": "half"}):
        with pytest.raises(BadUsage, match="shares"):
            make_split(graph, name, **options)
    with pytest.raises(BadUsage, match="ascending"):
        make_split(graph, name, ascending=1)
    tiny = from_arrays(np.eye(2), [[0], [1]], labels=[0, None], class_names=["a", "b"])
    with pytest.raises(BadInput, match="E-GRAPH-SMALL"):
        make_split(tiny, name)


def test_they_stand_after_those_of_before() -> None:
    assert list(SPLITS)[-2:] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_graph(name: str) -> None:
    graph = read(more_data("wisconsin.npz"))
    split = make_split(graph, name)
    assert split.sizes == pytest.approx({"train": 75, "val": 25, "test": 25, "ood": 125}, abs=4)
