"""A graph in files is the same graph: every array a memory map, every bit equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.datasets.synthetic import synthetic
from graphsde.graph import settled as module
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.settled import settled
from graphsde.models import GCN


def _random(*, directed: bool, weighted: bool, sparse: bool, nodes: int = 300) -> Graph:
    rng = np.random.default_rng(5)
    edges = rng.integers(0, nodes, size=(2, 5 * nodes))
    edges[:, :40] = np.stack([np.full(40, 7), np.arange(100, 140)])  # a node with more than a block of neighbours
    features: Any = rng.standard_normal((nodes, 6)).astype(np.float32)
    if sparse:
        features = sp.csr_array(np.where(features > 0.5, features, 0))
    weights = rng.random(5 * nodes) + 0.1 if weighted else None
    labels = np.arange(nodes) % 3
    return from_arrays(features, edges, weights=weights, labels=labels, directed=directed, duplicates="sum")


def _is_map(values: Any) -> bool:
    while values is not None:
        if isinstance(values, np.memmap):
            return True
        values = getattr(values, "base", None)
    return False


def _file_pages(folder: Path) -> list[tuple[int, int]]:
    """The addresses of this process where files of ``folder`` are mapped."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not tell what is mapped where")
    lines = [line.split() for line in maps.read_text().splitlines() if str(folder) in line]
    return [(int(low, 16), int(high, 16)) for low, high in (line[0].split("-") for line in lines)]


def _parts(matrix: Any) -> list[np.ndarray]:
    return [matrix.data, matrix.indices, matrix.indptr] if sp.issparse(matrix) else [matrix]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_matrix_is_a_map_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directed: bool, weighted: bool, sparse: bool
) -> None:
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 37)  # so that there are many blocks, and rows larger than one
    graph = _random(directed=directed, weighted=weighted, sparse=sparse)
    other = settled(graph, tmp_path / "graph")
    for name in ("matrix", "incoming", "normalized", "random_walk"):
        for one, two in zip(
            _parts(getattr(graph.adjacency, name)), _parts(getattr(other.adjacency, name)), strict=True
        ):
            assert _is_map(two), name
            assert one.dtype == two.dtype and np.array_equal(one, two), name
            assert not two.flags.writeable, name
    for one, two in zip(_parts(graph.features), _parts(other.features), strict=True):
        assert _is_map(two) and not two.flags.writeable
        assert one.dtype == two.dtype and np.array_equal(one, two)
    assert other.fingerprint == graph.fingerprint
    assert np.array_equal(other.adjacency.degree, graph.adjacency.degree)
    assert np.array_equal(other.adjacency.components, graph.adjacency.components)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.filterwarnings("error")
def test_the_operator_lies_in_files_and_gives_the_same_products(tmp_path: Path, directed: bool) -> None:
    import torch

    graph = _random(directed=directed, weighted=True, sparse=False)
    other = settled(graph, tmp_path)
    ours, theirs = other.adjacency.operator, graph.adjacency.operator
    mapped = {path.name for path in tmp_path.iterdir()}
    assert {"operator.indices.npy", "operator.indptr.npy", "normalized.data.npy"} <= mapped
    for name in ("crow", "col", "values"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        address = getattr(ours, name).data_ptr()
        assert any(low <= address < high for low, high in _file_pages(tmp_path)), name
    dense = torch.randn(graph.num_nodes, 4, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours @ dense, theirs @ dense)
    assert torch.equal(ours.transposed() @ dense, theirs.transposed() @ dense)


def test_a_model_does_not_notice(tmp_path: Path) -> None:
    graph = synthetic(400, classes=3)
    rng = np.random.default_rng(0)
    roles = rng.integers(0, 3, 400)
    graph = graph.with_masks(train=roles == 0, val=roles == 1, test=roles == 2)
    other = settled(graph, tmp_path)
    fitted = [GCN(epochs=5).fit(one) for one in (graph, other)]
    first, second = fitted[0].predict(graph), fitted[1].predict(other)
    assert np.array_equal(first.probs, second.probs)  # type: ignore[attr-defined]


def test_a_graph_without_edges_or_features(tmp_path: Path) -> None:
    graph = from_arrays(np.zeros((3, 1), dtype=np.float32), np.zeros((2, 0), dtype=np.int64))
    other = settled(graph, tmp_path)
    assert other.num_edges == 0 and np.array_equal(other.adjacency.normalized.toarray(), np.eye(3))
    assert other.fingerprint == graph.fingerprint


def test_files_of_an_earlier_call_are_replaced_under_whoever_reads_them(tmp_path: Path) -> None:
    first = settled(synthetic(60, classes=3, seed=1), tmp_path)
    before = np.array(first.features)
    second = settled(synthetic(80, classes=3, seed=2), tmp_path)
    assert second.features.shape[0] == 80
    assert np.array_equal(first.features, before)
