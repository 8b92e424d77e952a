"""Shifts: what changes, what stays, and by how much."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.base.errors import BadUsage, NotEnoughMemory
from graphsde.datasets.shifts import (
    SHIFTS,
    add_edges,
    bernoulli_features,
    drop_edges,
    gaussian_noise,
    interpolate_features,
    normal_features,
    rewire_sbm,
)
from graphsde.datasets.splits import make_split
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph

from support import block_graph


def dense(graph: Graph) -> np.ndarray:
    return graph.features.toarray() if sp.issparse(graph.features) else graph.features  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def plain() -> Graph:
    graph = synthetic(400, classes=4, features=12)
    return make_split(graph, "fractions").apply(graph)


@pytest.fixture(scope="module")
def sparse(plain: Graph) -> Graph:
    values = np.where(plain.features > 0.5, plain.features, 0).astype(np.float32)
    return plain.with_features(sp.csr_array(values))


@pytest.mark.parametrize("name", SHIFTS.names())
def test_every_shift_is_seeded_and_leaves_its_input_alone(name: str, plain: Graph, sparse: Graph) -> None:
    for graph in (plain, sparse):
        before = graph.fingerprint
        maker = SHIFTS.get(name)
        one, same, other = maker(graph, seed=1), maker(graph, seed=1), maker(graph, seed=2)
        assert one.fingerprint == same.fingerprint != other.fingerprint
        del graph.__dict__["fingerprint"]
        assert graph.fingerprint == before != one.fingerprint
        assert dense(one).dtype == np.float32 and one.num_nodes == graph.num_nodes
        matrix = one.adjacency.matrix
        assert (matrix != matrix.T).nnz == 0 and matrix.diagonal().sum() == 0 and set(matrix.data) == {1.0}


def test_interpolated_rows_lie_between_two_rows() -> None:
    corners = np.eye(6, dtype=np.float32) * 5
    graph = from_arrays(sp.csr_array(corners), [[0, 1], [1, 2]], categorical={"kind": list("abcdef")})
    shifted = interpolate_features(graph, seed=0)
    assert shifted.is_sparse
    values = dense(shifted)
    assert values.sum(axis=1) == pytest.approx(np.full(6, 5.0), rel=1e-6)  # weights add up to one
    assert np.all((values > 0).sum(axis=1) <= 2) and np.all(values >= 0)
    assert set(shifted.categorical["kind"]) <= set("abcdef")
    assert shifted.adjacency is graph.adjacency


def test_interpolation_weights_are_uniform() -> None:
    n = 4000
    graph = from_arrays(np.arange(n, dtype=np.float32)[:, None] / n, [[0], [1]])
    values = dense(interpolate_features(graph, seed=0))
    # w u + (1 - w) v with independent uniforms has mean 1/2 and variance E[w² + (1 - w)²] / 12 = 1/18
    assert values.mean() == pytest.approx(0.5, abs=0.02) and values.var() == pytest.approx(1 / 18, abs=0.004)


def test_sparse_and_dense_shift_alike(sparse: Graph) -> None:
    full = sparse.with_features(dense(sparse))
    for name in ("interpolate-features", "gaussian-noise", "bernoulli-features", "normal-features"):
        one, other = (SHIFTS.get(name)(graph, seed=3) for graph in (sparse, full))
        assert dense(one) == pytest.approx(dense(other), abs=1e-6)


def test_rewired_density_follows_the_blocks() -> None:
    graph = synthetic(3000, classes=3, features=4, degree=30.0)
    rewired = rewire_sbm(graph, seed=0)
    # of all pairs a third are inside: (1.5 + 2 · 0.5) / 3 of the edges
    assert rewired.num_edges == pytest.approx(graph.num_edges * 2.5 / 3, rel=0.02)
    ends = rewired.adjacency.edge_index()
    assert np.mean(graph.labels[ends[0]] == graph.labels[ends[1]]) == pytest.approx(1 / 3, abs=0.02)  # type: ignore[index]
    assert rewired.features is graph.features


def test_rewiring_a_complete_graph_and_an_empty_one() -> None:
    full = from_arrays(np.eye(6), np.stack(np.nonzero(1 - np.eye(6))), labels=[0, 1] * 3)
    rewired = rewire_sbm(full, seed=0).adjacency.matrix.toarray()
    assert rewired.sum(axis=1).min() >= 2  # blocks of three: every pair inside is joined
    empty = from_arrays(np.eye(4), np.zeros((2, 0), dtype=np.int64))
    assert rewire_sbm(empty).num_edges == 0


def test_noise_has_the_spread_of_the_test_rows(plain: Graph, sparse: Graph) -> None:
    wide = np.where(plain.test_mask, 5, 1).astype(np.float32)[:, None]  # type: ignore[arg-type]
    for graph in (
        plain.with_features(plain.features * wide),
        sparse.with_features(sp.csr_array(sparse.features * wide)),
    ):
        sigma = dense(graph)[graph.test_mask].std()
        noise = dense(gaussian_noise(graph, severity=0.5, seed=0)) - dense(graph)
        assert noise.std() == pytest.approx(0.5 * sigma, rel=0.03)
        double = dense(gaussian_noise(graph, severity=1.0, seed=0)) - dense(graph)
        assert double == pytest.approx(2 * noise, abs=1e-4)  # the same draws for every severity
        assert np.array_equal(dense(gaussian_noise(graph, severity=0.0)), dense(graph))


def test_noise_on_test_rows_only(plain: Graph) -> None:
    everywhere, tested = gaussian_noise(plain, seed=0), gaussian_noise(plain, rows="test", seed=0)
    mask = plain.test_mask
    assert np.array_equal(tested.features[mask], everywhere.features[mask])
    assert np.array_equal(tested.features[~mask], plain.features[~mask])  # type: ignore[operator]


def test_noise_does_not_depend_on_how_many_rows_are_done_at_once(plain: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dense(gaussian_noise(plain, seed=0))
    monkeypatch.setattr("graphsde.datasets.shifts.ROWS_AT_ONCE", 7)
    assert np.array_equal(dense(gaussian_noise(plain, seed=0)), whole)


def test_noise_that_would_not_fit_is_refused(sparse: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_MEMORY_LIMIT", "0.001")
    with pytest.raises(NotEnoughMemory) as caught:
        gaussian_noise(sparse)
    assert caught.value.exit_code == 71


def test_noise_on_unknown_rows_is_refused(plain: Graph) -> None:
    with pytest.raises(BadUsage):
        gaussian_noise(plain, rows="train")  # type: ignore[arg-type]
    with pytest.raises(BadUsage):
        gaussian_noise(synthetic(50), rows="test")


@pytest.mark.parametrize("maker", [bernoulli_features, normal_features])
def test_changed_test_nodes_are_the_foreign_ones(maker: object, plain: Graph, sparse: Graph) -> None:
    for graph in (plain, sparse):
        shifted = maker(graph, share=0.25, seed=0)  # type: ignore[operator]
        changed = np.any(dense(shifted) != dense(graph), axis=1)
        assert changed.sum() == 100 and shifted.is_sparse == graph.is_sparse
        assert np.array_equal(shifted.ood_mask, changed & graph.test_mask)
        assert np.array_equal(shifted.test_mask, ~changed & graph.test_mask)
        assert np.array_equal(shifted.train_mask, graph.train_mask) and shifted.split == "fractions"
        rows = dense(shifted)[changed]
        if maker is bernoulli_features:
            assert rows.sum(axis=1) == pytest.approx(np.ones(100)) and np.mean(rows > 0) == pytest.approx(0.5, abs=0.05)
        else:
            assert rows.mean() == pytest.approx(0, abs=0.1) and rows.std() == pytest.approx(1, abs=0.1)


def test_without_masks_all_changed_nodes_are_foreign() -> None:
    assert int(normal_features(synthetic(50), share=0.2).ood_mask.sum()) == 10  # type: ignore[union-attr]


def test_edges_dropped_and_added_are_as_many_as_asked(plain: Graph) -> None:
    before = {*zip(*plain.adjacency.edge_index().tolist(), strict=True)}
    less, more = drop_edges(plain, 0.3, seed=0), add_edges(plain, 0.3, seed=0)
    assert less.num_edges == 2 * (2000 - 600) and more.num_edges == 2 * (2000 + 600)
    assert {*zip(*less.adjacency.edge_index().tolist(), strict=True)} < before
    assert {*zip(*more.adjacency.edge_index().tolist(), strict=True)} > before
    assert drop_edges(plain, 1.0).num_edges == 0
    assert drop_edges(plain, 0.0).fingerprint == plain.fingerprint == add_edges(plain, 0.0).fingerprint


def test_edge_noise_keeps_direction_and_weights() -> None:
    ends, weights = np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), np.array([1.0, 2.0, 3.0, 4.0])
    graph = from_arrays(np.eye(4), ends, weights=weights, directed=True)
    more, less = add_edges(graph, 1.0, seed=0), drop_edges(graph, 0.5, seed=0)
    assert more.num_edges == 8 and less.num_edges == 2 and more.adjacency.directed and less.adjacency.directed
    assert set(more.adjacency.matrix.data) <= {1.0, 2.0, 3.0, 4.0}
    kept = less.adjacency.matrix.toarray()
    assert np.all((kept == 0) | (kept == graph.adjacency.matrix.toarray()))


@pytest.mark.parametrize(
    ("maker", "options"),
    [
        (drop_edges, {"share": 1.5}),
        (drop_edges, {"share": -0.1}),
        (add_edges, {"share": 1000.0}),
        (add_edges, {"share": float("nan")}),
        (normal_features, {"share": 2.0}),
        (gaussian_noise, {"severity": -1.0}),
        (gaussian_noise, {"severity": float("nan")}),
        (gaussian_noise, {"severity": float("inf")}),
    ],
)
def test_strange_amounts_are_refused(maker: object, options: dict[str, float]) -> None:
    with pytest.raises(BadUsage):
        maker(block_graph(), **options)  # type: ignore[operator]
