"""Rows of the solution operator against the dense operator, and what their error is bounded by."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.solution_rows import (
    LinearFilter,
    SolutionRows,
    background,
    background_sample,
    degree_roots,
    in_processes,
    in_ray,
    measured_error,
    rows_made,
    solution_rows,
)

from support import needs_real_data

FAR = LinearFilter(0.9, 0.1, 10)
FILTERS = {
    "far": FAR,
    "high-pass": LinearFilter(-0.5, 0.5, 6),
    "own": LinearFilter(0.0, 1.0, 4),
    "smoothed source": LinearFilter(0.8, 0.2, 5, smoothing=1.3),
}


def random_operator(*, directed: bool = False, nodes: int = 60, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((nodes, nodes)) < 0.06, 1) * rng.uniform(0.5, 2.0, (nodes, nodes))
    dense = dense if directed else dense + dense.T
    return Adjacency(sp.csr_array(dense.astype(np.float32)), directed=directed).normalized


def dense_solution(operator: sp.csr_array, wanted: LinearFilter) -> np.ndarray:
    """Π, step by step in float64."""
    matrix = operator.toarray().astype(np.float64)
    source = wanted.source * (wanted.smoothing * matrix if wanted.smoothing else np.eye(len(matrix)))
    found = np.eye(len(matrix))
    for _ in range(wanted.steps):
        found = wanted.kappa * matrix @ found + source
    return found


@pytest.mark.parametrize("threshold", [None, 0.0], ids=["dense", "sparse"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_rows_of_which_nothing_is_dropped_are_exact(name: str, directed: bool, threshold: float | None) -> None:
    operator, nodes = random_operator(directed=directed), np.array([0, 3, 4, 31, 59])
    rows = solution_rows(operator, FILTERS[name], nodes, neighbours=None, threshold=threshold)
    exact = dense_solution(operator, FILTERS[name])[nodes]
    assert np.abs(rows.matrix().toarray() - exact).max() < 1e-6
    assert rows.dropped.max() < 1e-6 and np.abs(rows.rest).max() < 1e-5
    root = degree_roots(operator)
    mass = (np.abs(exact) * root).sum(1) / root[nodes]
    assert (mass <= FILTERS[name].mass + 1e-6).all()
    assert np.abs((exact * root).sum(1) / root[nodes] - FILTERS[name].sum).max() < 1e-6


@pytest.mark.parametrize("threshold", [None, 0.003], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", FILTERS)
def test_the_heaviest_entries_are_kept(name: str, threshold: float | None) -> None:
    operator, nodes = random_operator(), np.arange(60)
    rows = solution_rows(operator, FILTERS[name], nodes, neighbours=7, threshold=threshold)
    assert np.diff(rows.indptr).max() <= 7
    exact = dense_solution(operator, FILTERS[name])
    error = np.abs(rows.matrix().toarray() - exact)
    if threshold is None:
        seventh = np.sort(np.abs(exact), axis=1)[:, -7]
        assert (error.max(1) <= seventh + 1e-6).all()
    root = degree_roots(operator)
    assert ((error * root).sum(1) / root <= rows.dropped + 1e-6).all()
    # a positive row without thresholds lacks exactly what is said
    if threshold is None and name == "far":
        assert np.abs((error * root).sum(1) / root - rows.dropped).max() < 1e-6


@needs_real_data
@pytest.mark.parametrize("threshold", [None, 2e-3], ids=["dense", "sparse"])
def test_the_bound_holds_and_says_something_on_cora(threshold: float | None) -> None:
    operator = gs.load("cora").adjacency.normalized
    nodes = np.sort(np.random.default_rng(0).choice(operator.shape[0], 80, replace=False))
    rows = solution_rows(operator, FAR, nodes, neighbours=64, threshold=threshold)
    exact = solution_rows(operator, FAR, nodes, neighbours=None).matrix().toarray().astype(np.float64)
    missing, root = exact - rows.matrix().toarray(), degree_roots(operator)
    rng = np.random.default_rng(1)
    for states in (rng.normal(size=(len(root), 3)), root[:, None] * np.sign(rng.normal(size=(len(root), 3)))):
        norm = (np.abs(states) / root[:, None]).max(0)
        error = np.abs(missing @ states) / root[nodes][:, None]
        assert (error <= rows.dropped[:, None] * norm + 1e-6).all()
        with_rest = np.abs(missing @ states - rows.rest[:, None] * background(operator, states)) / root[nodes][:, None]
        assert (with_rest <= (rows.dropped + np.abs(rows.rest) / root[nodes])[:, None] * norm + 1e-6).all()
    # the states that make it largest reach it: it is no overestimate
    worst = np.abs(missing * root).sum(1) / root[nodes]
    assert (worst >= 0.999 * rows.dropped - 1e-6).all()
    assert 0.05 < rows.dropped.mean() < (0.3 if threshold is None else 0.6)


def test_rows_with_their_rest_keep_what_the_operator_keeps() -> None:
    operator = random_operator()
    root = degree_roots(operator)
    for name, wanted in FILTERS.items():
        rows = solution_rows(operator, wanted, np.arange(60), neighbours=5)
        kept = rows.matrix() @ root + rows.rest * background(operator, root)
        assert np.abs(kept - dense_solution(operator, wanted) @ root).max() < 1e-5, name


def test_the_rest_makes_the_error_smaller_on_a_dense_graph() -> None:
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((150, 150)) < 0.2, 1)
    operator = Adjacency(sp.csr_array((dense + dense.T).astype(np.float32))).normalized
    states = rng.normal(size=(150, 4)) + 1.0
    rows = solution_rows(operator, FAR, np.arange(150), neighbours=10)
    bare = SolutionRows(rows.nodes, rows.indptr, rows.indices, rows.values, rows.dropped, 0 * rows.rest, rows.size)
    assert measured_error(operator, FAR, rows, states) < 0.3 * measured_error(operator, FAR, bare, states)


def test_the_measured_error_is_that_of_the_sample() -> None:
    operator, states = random_operator(), np.random.default_rng(1).normal(size=(60, 3))
    rows = solution_rows(operator, FAR, np.arange(60), neighbours=6)
    exact = dense_solution(operator, FAR) @ states
    ours = rows.matrix() @ states + rows.rest[:, None] * background(operator, states)
    expected = np.linalg.norm(ours - exact) / np.linalg.norm(exact)
    assert measured_error(operator, FAR, rows, states, sample=60) == pytest.approx(expected, rel=1e-4)
    whole = solution_rows(operator, FAR, np.arange(60), neighbours=None)
    assert measured_error(operator, FAR, whole, states) < 1e-6


def test_a_sample_of_the_background_is_right_on_average() -> None:
    operator, states = random_operator(), np.random.default_rng(1).normal(size=(60, 3))
    nodes, weights = background_sample(operator, 40_000, seed=0)
    terms = states[nodes] * weights[:, None]
    error = terms.mean(0) - background(operator, states)
    assert (np.abs(error) < 5 * terms.std(0) / 200).all()
    assert np.array_equal(nodes, background_sample(operator, 40_000, seed=0)[0])


def test_rows_are_taken_in_any_order_and_kept_in_files(tmp_path: Path) -> None:
    rows = solution_rows(random_operator(), FAR, np.array([2, 5, 9, 40]), neighbours=6)
    positions = rows.positions(np.array([9, 2, 9]))
    start, columns, values = rows.take(positions)
    taken = sp.csr_array((values, columns, start), shape=(3, 60)).toarray()
    assert np.array_equal(taken, rows.matrix().toarray()[[2, 0, 2]])
    rows.save(tmp_path / "rows")
    again = SolutionRows.open(tmp_path / "rows")
    assert isinstance(again.values, np.memmap) and again.indices.dtype == np.int32 and again.values.dtype == np.float32
    assert np.array_equal(again.take(positions)[2], values) and np.array_equal(again.rest, rows.rest)
    with pytest.raises(BadUsage, match="have no row"):
        rows.positions(np.array([3]))
    with pytest.raises(BadInput, match="E-CORRUPT"):
        SolutionRows.open(tmp_path)


@pytest.mark.parametrize("threshold", [None, 1e-3], ids=["dense", "sparse"])
def test_rows_are_the_same_however_they_are_made(threshold: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsde.graph.solution_rows._SPARSE_ROWS", 16)
    monkeypatch.setattr("graphsde.graph.solution_rows._MOST_COLUMNS", 16)
    operator, nodes = random_operator(), np.arange(0, 60)
    here = solution_rows(operator, FAR, nodes, neighbours=6, threshold=threshold)
    stub = SimpleNamespace(
        is_initialized=lambda: True,
        put=lambda value: value,
        remote=lambda work: SimpleNamespace(remote=lambda *given: (work, given)),
        get=lambda waiting: waiting[0](*waiting[1]),
    )
    monkeypatch.setitem(sys.modules, "ray", stub)
    for over in [in_ray(), in_processes(2)] if threshold else [in_ray()]:
        with rows_made(over):
            there = solution_rows(operator, FAR, nodes, neighbours=6, threshold=threshold)
        for name in ("indptr", "indices", "values", "dropped", "rest"):
            assert np.array_equal(getattr(here, name), getattr(there, name)), name


def test_ray_must_be_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with rows_made(in_ray()), pytest.raises(BadUsage, match=r"not connected to a Ray cluster.*ray\.init"):
        solution_rows(random_operator(), FAR, np.arange(3))


def test_sparse_rows_stay_as_small_as_the_threshold_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    from graphsde.graph import solution_rows as module

    real = module._without

    def watched(rows: sp.csr_array, *given: Any) -> tuple[sp.csr_array, np.ndarray]:
        found = real(rows, *given)
        seen.append(int(np.diff(found[0].indptr).max()))
        return found

    monkeypatch.setattr(module, "_without", watched)
    solution_rows(random_operator(nodes=400), FAR, np.arange(20), neighbours=8, threshold=0.02)
    assert max(seen) <= 1 / 0.02


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": np.array([3, 2])}, "must be ascending"),
        ({"nodes": np.array([60])}, "from 0 to 59"),
        ({"nodes": np.arange(3), "neighbours": 0}, "neighbours"),
        ({"nodes": np.arange(3), "threshold": 1.0}, "threshold"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadUsage, match=message):
        solution_rows(random_operator(), FAR, **given)


def test_an_operator_without_self_loops_is_refused() -> None:
    with pytest.raises(BadUsage, match="E-SELF-LOOP"):
        solution_rows(sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.float32)), FAR, np.arange(2))
