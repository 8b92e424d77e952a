"""Parts of a graph: known best cuts, the guaranteed balance, halos counted manually, METIS if it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage, MissingExtra
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.partition import SLACK, halo_sizes, partition

from support import more_data, needs_real_data


def cliques(count: int, size: int) -> Adjacency:
    """Complete graphs in a ring, each joined to the next by one edge."""
    nodes = count * size
    dense = np.kron(np.eye(count), np.ones((size, size)) - np.eye(size))
    for one in range(count):
        i, j = one * size, (one * size + size + 1) % nodes
        dense[i, j] = dense[j, i] = 1.0
    return Adjacency(sp.csr_array(dense))


def shuffled(adjacency: Adjacency, seed: int) -> Adjacency:
    return adjacency.subgraph(np.random.default_rng(seed).permutation(adjacency.num_nodes))


def cut(adjacency: Adjacency, part: np.ndarray) -> int:
    sender, receiver = adjacency.edge_index()
    return int((part[sender] != part[receiver]).sum())


def methods() -> list[str]:
    try:
        import pymetis  # noqa: F401
    except ImportError:
        return ["stream"]
    return ["stream", "metis"]


def assert_balanced(part: np.ndarray, parts: int) -> None:
    share = len(part) / parts
    sizes = np.bincount(part, minlength=parts)
    assert len(sizes) == parts
    assert sizes.max() <= max(np.ceil(share), (1 + SLACK) * share)
    assert sizes.min() >= min(np.floor(share), (1 - SLACK) * share)


@pytest.mark.parametrize("method", methods())
def test_cliques_in_a_ring_are_found(method: str) -> None:
    adjacency = shuffled(cliques(8, 25), seed=1)
    part = partition(adjacency, 4, method=method)  # type: ignore[arg-type]
    assert part.dtype == np.int32
    assert_balanced(part, 4)
    assert cut(adjacency, part) <= 2 * 8  # some edges of the ring, each in both directions: no clique is cut


@given(
    st.integers(1, 60),
    st.integers(1, 9),
    st.floats(0, 0.4),
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from(methods()),
)
def test_every_graph_is_cut_into_equal_shares(
    nodes: int, parts: int, density: float, directed: bool, seed: int, method: str
) -> None:
    dense = np.random.default_rng(seed).random((nodes, nodes)) < density
    np.fill_diagonal(dense, False)
    adjacency = Adjacency(sp.csr_array((dense if directed else dense | dense.T).astype(np.float32)), directed=directed)
    parts = min(parts, nodes)
    part = partition(adjacency, parts, method=method, seed=seed)  # type: ignore[arg-type]
    assert_balanced(part, parts)
    assert np.array_equal(part, partition(adjacency, parts, method=method, seed=seed))  # type: ignore[arg-type]


@given(st.integers(2, 30), st.integers(1, 4), st.booleans(), st.integers(0, 5))
def test_halos_are_what_counting_gives(nodes: int, parts: int, directed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((nodes, nodes)) < 0.2
    np.fill_diagonal(dense, False)
    adjacency = Adjacency(sp.csr_array((dense if directed else dense | dense.T).astype(np.float32)), directed=directed)
    part = np.append(rng.integers(0, parts, nodes - 1), parts - 1)
    for number, size in enumerate(halo_sizes(adjacency, part)):
        heard = [(i, j) for i in range(nodes) if part[i] == number for j in adjacency.neighbours(i)]
        away = [j for _, j in heard if part[j] != number]
        assert size == ((part == number).sum(), len(set(away)), len(away))


@needs_real_data
@pytest.mark.parametrize("parts", [2, 16])
def test_far_fewer_edges_are_cut_than_by_chance_on_a_real_graph(parts: int) -> None:
    from graphsde.io.read import read

    adjacency = read(more_data("ms_academic_phy.npz")).adjacency
    for method in methods():
        part = partition(adjacency, parts, method=method)  # type: ignore[arg-type]
        assert_balanced(part, parts)
        assert cut(adjacency, part) < 0.45 * adjacency.num_edges * (1 - 1 / parts)


def test_planted_blocks_are_found() -> None:
    graph = synthetic(4000, classes=4, degree=20.0, homophily=0.95)
    part = partition(graph.adjacency, 4, method="stream")
    assert cut(graph.adjacency, part) < 0.2 * graph.adjacency.num_edges  # by chance 0.75, by the blocks 0.05


def test_bad_numbers_of_parts_are_refused() -> None:
    for parts in (0, 9, -1, True):
        with pytest.raises(BadUsage, match="E-PARTS"):
            partition(cliques(2, 4), parts)
    with pytest.raises(BadUsage, match="unknown partitioning method"):
        partition(cliques(2, 4), 2, method="random")  # type: ignore[arg-type]


def test_without_metis_auto_streams_and_metis_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    adjacency = cliques(4, 6)
    assert np.array_equal(partition(adjacency, 2), partition(adjacency, 2, method="stream"))
    with pytest.raises(MissingExtra, match=r"graphsde\[scale\]"):
        partition(adjacency, 2, method="metis")


def test_what_metis_cannot_count_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency = cliques(4, 6)
    monkeypatch.setattr("graphsde.graph.partition.MOST_ENTRIES", adjacency.num_edges - 1)
    assert np.array_equal(partition(adjacency, 2), partition(adjacency, 2, method="stream"))
    with pytest.raises(BadUsage, match="counts up to"):
        partition(adjacency, 2, method="metis")
