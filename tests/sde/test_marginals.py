"""The closed form of a linear graph SDE's marginals: against dense powers, and against the equation walked in steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats
from torch import Tensor

import graphsde.sde.marginals as marginals
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import random_walk, smoothing_scale
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.marginals import probes_for, propagated_variance, propagation_weights, row_energies, unit_variance

NODES, STEPS, KAPPA = 40, 6, 0.8


def operator(nodes: int = NODES, dtype: torch.dtype = torch.float64) -> SparseMatrix:
    rng = np.random.default_rng(3)
    edges = np.triu(rng.random((nodes, nodes)) < 4 / nodes, 1)
    adjacency = (edges | edges.T).astype(float) + np.eye(nodes)
    scale = 1 / np.sqrt(adjacency.sum(1))
    matrix = sp.csr_array(adjacency * scale[:, None] * scale[None, :])
    return SparseMatrix.from_scipy(matrix, symmetric=True, dtype=dtype)


def walk() -> SparseMatrix:
    """An operator that is not symmetric: rows and columns of its powers differ."""
    return random_walk(operator())


def powers(matrix: SparseMatrix, steps: int) -> list[Tensor]:
    dense = matrix.csr().to_dense()
    return [torch.linalg.matrix_power(dense, k) for k in range(steps)]


OPERATORS = pytest.mark.parametrize("make", [operator, walk], ids=["symmetric", "random walk"])
CHANNELS = pytest.mark.parametrize("channel", ["identity", "smoothing"])


def true_variance(matrix: SparseMatrix, kappa: float, channel: str, node_variance: Tensor) -> Tensor:
    through = torch.eye(matrix.shape[0], dtype=torch.float64)
    if channel == "smoothing":
        through = smoothing_scale(matrix) * matrix.csr().to_dense()
    return sum(
        (
            kappa ** (2 * k) * (power @ through).square() @ node_variance
            for k, power in enumerate(powers(matrix, STEPS))
        ),
        torch.zeros(matrix.shape[0], dtype=torch.float64),
    )


@OPERATORS
def test_row_energies_are_those_of_dense_powers(make: Callable[[], SparseMatrix]) -> None:
    matrix = make()
    truth = torch.stack([power.square().sum(1) for power in powers(matrix, STEPS)], 1)
    torch.testing.assert_close(row_energies(matrix, STEPS), truth, rtol=1e-12, atol=0)
    torch.testing.assert_close(row_energies(matrix, 1), truth[:, :1])
    torch.testing.assert_close(row_energies(matrix, 2), truth[:, :2])


def test_row_energies_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = row_energies(operator(), STEPS)
    monkeypatch.setattr(marginals, "_BLOCK_ENTRIES", 7 * NODES)
    torch.testing.assert_close(row_energies(operator(), STEPS), whole, rtol=1e-12, atol=0)


@OPERATORS
@CHANNELS
def test_unit_variance_is_the_propagated_one_of_ones(make: Callable[[], SparseMatrix], channel: str) -> None:
    matrix = make()
    kappa = torch.tensor([KAPPA, -0.3, 0.0], dtype=torch.float64)
    ones = torch.ones(NODES, dtype=torch.float64)
    truth = torch.stack([true_variance(matrix, float(k), channel, ones) for k in kappa], 1)
    torch.testing.assert_close(unit_variance(matrix, kappa, STEPS, channel=channel), truth, rtol=1e-12, atol=0)
    assert unit_variance(matrix, KAPPA, STEPS).shape == (NODES, 1)


@OPERATORS
@CHANNELS
def test_propagated_variance_is_that_of_dense_powers(make: Callable[[], SparseMatrix], channel: str) -> None:
    matrix = make()
    node_variance = torch.linspace(0.1, 3.0, NODES, dtype=torch.float64)
    truth = true_variance(matrix, KAPPA, channel, node_variance)
    rows = torch.tensor([5, 2, 39, 2])
    found = propagated_variance(matrix, KAPPA, STEPS, node_variance, channel=channel)
    torch.testing.assert_close(found, truth, rtol=1e-12, atol=0)
    some = propagated_variance(matrix, KAPPA, STEPS, node_variance, rows, channel=channel)
    torch.testing.assert_close(some, truth[rows], rtol=1e-12, atol=0)


def test_without_noise_on_other_nodes_their_variance_does_not_come_in() -> None:
    """κ = 0: after the last step only a node's own noise is left."""
    node_variance = torch.linspace(0.1, 3.0, NODES, dtype=torch.float64)
    torch.testing.assert_close(propagated_variance(operator(), 0.0, STEPS, node_variance), node_variance)


def test_exact_weights_are_kept_for_rows() -> None:
    matrix, rows = operator(), torch.tensor([3, 1])
    first = propagation_weights(matrix, KAPPA, STEPS, rows)
    assert propagation_weights(matrix, KAPPA, STEPS, rows.clone()) is first
    assert propagation_weights(matrix, KAPPA, STEPS, torch.tensor([1, 3])) is not first
    assert row_energies(matrix, STEPS) is row_energies(matrix, STEPS)


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a graph that is too large for exact sums."""
    monkeypatch.setattr(marginals, "EXACT_ENERGIES", 0)
    monkeypatch.setattr(marginals, "EXACT_WEIGHTS", 0)


def test_number_of_probes() -> None:
    assert [probes_for(error) for error in (0.1, 0.2, 1.0)] == [200, 50, 2]


@pytest.mark.usefixtures("probing")
@pytest.mark.parametrize("error", [0.1, 0.4])
def test_probes_have_the_stated_error(error: float) -> None:
    """Over seeds, the root mean square of the relative error of each entry is at most ε, and not far below it."""
    matrix = operator(400)
    truth = row_energies(operator(400), STEPS, relative_error=0)
    # fewer probes than nodes, or the sum would be exact
    assert probes_for(error) < 400
    off = torch.stack([row_energies(matrix, STEPS, relative_error=error, seed=seed) / truth - 1 for seed in range(30)])
    assert torch.equal(off[..., :2], torch.zeros_like(off[..., :2]))
    rms = off[..., 2:].square().mean((0, 1)).sqrt()
    assert bool((rms < error).all())
    assert bool((rms > 0.3 * error).all())
    # and no bias: the mean over seeds and nodes is well within one standard error of a seed
    assert float(off[..., 2:].mean().abs()) < 0.1 * error


@pytest.mark.usefixtures("probing")
@CHANNELS
def test_probes_of_propagated_variance(channel: str) -> None:
    matrix = operator()
    node_variance = torch.linspace(0.1, 3.0, NODES, dtype=torch.float64)
    truth = true_variance(matrix, KAPPA, channel, node_variance)
    rows = torch.tensor([5, 2, 39])
    off = torch.stack(
        [
            propagated_variance(
                matrix, KAPPA, STEPS, node_variance, rows, channel=channel, relative_error=0.2, seed=seed
            )
            / truth[rows]
            - 1
            for seed in range(60)
        ]
    )
    # most of the sum is exact, so the error is far below the limit
    assert 0.002 < float(off.square().mean().sqrt()) < 0.2
    assert float(off.mean().abs()) < 4 * 0.2 / math.sqrt(off.numel())
    again = propagated_variance(matrix, KAPPA, STEPS, node_variance, rows, channel=channel, relative_error=0.2, seed=7)
    assert torch.equal(again, propagated_variance(
        matrix, KAPPA, STEPS, node_variance, rows, channel=channel, relative_error=0.2, seed=7
    ))  # fmt: skip


@CHANNELS
def test_gradient_in_kappa(channel: str) -> None:
    matrix = operator()
    kappa = torch.tensor([0.9, 0.0, -0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: unit_variance(matrix, k, STEPS, channel=channel), (kappa,))


@pytest.mark.parametrize("exact", [True, False])
@CHANNELS
def test_gradient_in_the_nodes_variances(exact: bool, channel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr(marginals, "EXACT_WEIGHTS", 0)
    matrix, rows = operator(12), torch.tensor([0, 3, 11])
    node_variance = torch.linspace(0.3, 2.0, 12, dtype=torch.float64, requires_grad=True)

    def variance(s: Tensor) -> Tensor:
        return propagated_variance(matrix, KAPPA, STEPS, s, rows, channel=channel, relative_error=0.5)

    assert torch.autograd.gradcheck(variance, (node_variance,))


@CHANNELS
def test_the_equation_walked_in_steps_has_this_law(channel: str) -> None:
    """Euler steps with keyed noise: the mean is the solution without noise, the variance is the closed one, and the
    states are normal."""
    matrix, paths, width, gain = operator(), 500, 2, 0.7
    initial = torch.linspace(-1, 1, NODES * width, dtype=torch.float64).view(NODES, 1, width)
    noise_size = torch.linspace(0.2, 2.0, NODES, dtype=torch.float64)

    def times(state: Tensor) -> Tensor:
        return (matrix @ state.reshape(NODES, -1)).view(state.shape)

    motion = BrownianMotion(
        5, node_keys(np.arange(NODES)), range(paths), width, float(STEPS), STEPS, dtype=torch.float64
    )
    state, mean = initial.expand(NODES, paths, width), initial
    for k in range(STEPS):
        noise = gain * noise_size[:, None, None] * motion.increment(k, k + 1).dw
        noise = times(noise) * smoothing_scale(matrix) if channel == "smoothing" else noise
        state = KAPPA * times(state) + (1 - KAPPA) * initial + noise
        mean = KAPPA * times(mean) + (1 - KAPPA) * initial
    variance = gain**2 * propagated_variance(matrix, KAPPA, STEPS, noise_size.square(), channel=channel)
    white = ((state - mean) / variance.sqrt()[:, None, None]).reshape(NODES, -1).numpy()  # [N, S·d]
    draws = white.shape[1]
    # every node: sum of squares is χ² with one degree per draw, the mean is N(0, 1/draws)
    squares = stats.chi2.cdf((white**2).sum(1), draws)
    means = stats.norm.cdf(white.mean(1) * math.sqrt(draws))
    bound = 0.001 / NODES  # Bonferroni over nodes
    for shares in (squares, means):
        assert bound < shares.min() < shares.max() < 1 - bound
    assert all(stats.kstest(row, "norm").pvalue > bound for row in white)


def test_bad_arguments_are_refused() -> None:
    matrix = operator()
    with pytest.raises(BadUsage, match="node_variance"):
        propagated_variance(matrix, KAPPA, STEPS, torch.ones(3))
    with pytest.raises(BadUsage, match="node_variance"):
        propagated_variance(matrix, KAPPA, STEPS, -torch.ones(NODES))
    with pytest.raises(BadUsage, match="steps"):
        row_energies(matrix, 0)
    with pytest.raises(BadUsage, match="relative_error"):
        row_energies(matrix, 3, relative_error=-1.0)
    with pytest.raises(BadUsage, match="channel"):
        unit_variance(matrix, KAPPA, STEPS, channel="colour")
    wide = SparseMatrix.from_scipy(sp.csr_array(np.ones((2, 3))))
    with pytest.raises(BadUsage, match="square"):
        row_energies(wide, 3)


@pytest.mark.usefixtures("probing")
def test_probes_are_as_many_as_their_part_of_the_sum_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far powers that hardly count need few; where they are most of the sum, all that the error asks for."""
    drawn: list[int] = []
    signs = marginals._signs

    def counted(size: int, columns: int, *more: Any) -> Tensor:
        drawn.append(columns)
        return signs(size, columns, *more)

    monkeypatch.setattr(marginals, "_signs", counted)
    matrix, ones = operator(), torch.ones(NODES, dtype=torch.float64)
    counts = []
    for kappa in (0.01, 0.9, 3.0):
        drawn.clear()
        found = propagated_variance(matrix, kappa, STEPS, ones, relative_error=0.1)
        truth = true_variance(matrix, kappa, "identity", ones)
        assert float((found / truth - 1).square().mean().sqrt()) < 0.1
        counts.append(sum(drawn))
    assert marginals._PILOT == counts[0] <= counts[1] < counts[2] <= probes_for(0.1)
