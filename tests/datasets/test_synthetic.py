"""The synthetic graph has the properties that it was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage, NotEnoughMemory
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.graph import Graph


def homophily_of(graph: Graph) -> float:
    ends = graph.adjacency.edge_index()
    return float(np.mean(graph.labels[ends[0]] == graph.labels[ends[1]]))  # type: ignore[index]


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.8, 1.0])
def test_homophily_and_degree(homophily: float) -> None:
    graph = synthetic(4000, homophily=homophily, degree=8.0)
    assert graph.num_edges == 32000
    assert homophily_of(graph) == pytest.approx(homophily, abs=0.03)
    assert np.bincount(graph.labels).tolist() == [800] * 5  # type: ignore[arg-type]


def test_centres_are_as_far_apart_as_said() -> None:
    graph = synthetic(20_000, classes=4, features=16, signal=3.0)
    means = np.stack([graph.features[graph.labels == one].mean(axis=0) for one in range(4)])
    apart = np.linalg.norm(means[:, None] - means[None, :], axis=2)[np.triu_indices(4, 1)]
    assert apart == pytest.approx(np.full(6, 3 * np.sqrt(2)), abs=0.1)
    assert np.std(graph.features - means[graph.labels]) == pytest.approx(1.0, abs=0.01)


def test_a_smaller_power_makes_larger_hubs() -> None:
    flat, hubs = (synthetic(5000, power=power).adjacency.degree for power in (20.0, 2.1))
    assert hubs.max() > 3 * flat.max()


def test_it_is_a_function_of_the_seed() -> None:
    assert synthetic(300, seed=3).fingerprint == synthetic(300, seed=3).fingerprint
    assert synthetic(300, seed=3).fingerprint != synthetic(300, seed=4).fingerprint


@settings(max_examples=25, deadline=None)
@given(n=st.integers(8, 80), classes=st.integers(1, 4), degree=st.floats(0.5, 3.5), homophily=st.floats(0, 1))
def test_any_size_gives_a_clean_graph(n: int, classes: int, degree: float, homophily: float) -> None:
    graph = synthetic(n, classes=classes, features=4, degree=degree, homophily=homophily)
    matrix = graph.adjacency.matrix
    assert (matrix != matrix.T).nnz == 0 and matrix.diagonal().sum() == 0 and set(matrix.data) <= {1.0}
    assert graph.num_edges <= 2 * round(n * degree / 2)
    assert np.ptp(np.bincount(graph.labels, minlength=classes)) <= 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 1},
        {"n": 50.5},
        {"classes": 0},
        {"classes": 65},
        {"degree": 0},
        {"degree": 60},
        {"homophily": 1.1},
        {"power": 2.0},
    ],
)
def test_what_can_not_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadUsage):
        synthetic(**{"n": 100, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(BadUsage):
        synthetic(100, seed=seed)  # type: ignore[arg-type]


def test_a_graph_that_does_not_fit_is_refused_before_it_is_made() -> None:
    with pytest.raises(NotEnoughMemory):
        synthetic(10**11)
