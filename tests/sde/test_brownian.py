"""Brownian motion on a grid: laws, exact coarsening, replay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from dynamics_cases import DOUBLE, motion
from dynamics_checks import assert_mean, check_increment_variances, check_noise_is_independent
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage
from graphsde.sde.brownian import BrownianMotion, node_keys


def test_variances_of_increment_and_area() -> None:
    check_increment_variances()


def test_steps_paths_nodes_and_dimensions_are_independent() -> None:
    check_noise_is_independent()


def test_coarse_steps_are_sums_of_cells() -> None:
    draws = motion((7, 3, 5), 16)
    cells = [draws.increment(k, k + 1, area=True) for k in range(16)]
    coarse = draws.increment(3, 13, area=True)
    total = sum(cell.dw for cell in cells[3:13])
    assert (coarse.dw - total).abs().max() <= 1e-14
    assert torch.equal(draws.increment(3, 13).dw, coarse.dw)
    assert draws.increment(3, 13).area is None


@settings(max_examples=30, deadline=None)
@given(cut=st.lists(st.integers(0, 24), min_size=2, max_size=6, unique=True), seed=st.integers(0, 1000))
def test_increment_and_area_of_joined_steps(cut: list[int], seed: int) -> None:
    """Chasles: W adds; ∫W adds with the height that a part starts from."""
    draws, cut = motion((2, 2, 3), 24, horizon=1.7, seed=seed), sorted(cut)
    whole = draws.increment(cut[0], cut[-1], area=True)
    height, integral = torch.zeros(2, 2, 3, dtype=DOUBLE), torch.zeros(2, 2, 3, dtype=DOUBLE)
    for first, last in pairwise(cut):
        part = draws.increment(first, last, area=True)
        integral += part.dt * (height + 0.5 * part.dw + part.levy())
        height += part.dw
    assert torch.allclose(whole.dw, height, rtol=0, atol=1e-13)
    assert torch.allclose(whole.dt * (0.5 * whole.dw + whole.levy()), integral, rtol=0, atol=1e-13)


def test_area_is_what_a_fine_path_encloses() -> None:
    """The law of H against its definition: the integral over 200 cells without any area of their own."""
    draws = motion((2000, 1, 2), 200)
    dw = torch.stack([draws.cell_increment(k) for k in range(200)])
    w = dw.cumsum(0)
    by_definition = (w - dw / 2).mean(0) - 0.5 * w[-1]
    assert_mean(by_definition.square(), 1 / 12, bias=1e-4)
    assert (by_definition - draws.increment(0, 200, area=True).levy()).abs().max() < 0.03


def test_a_path_is_the_same_among_ten_or_a_thousand() -> None:
    keys = node_keys(np.arange(4))
    ten = BrownianMotion(3, keys, range(10), 5, 1.0, 4).increment(1, 3, area=True)
    thousand = BrownianMotion(3, keys, range(1000), 5, 1.0, 4).increment(1, 3, area=True)
    assert torch.equal(ten.dw, thousand.dw[:, :10])
    assert torch.equal(ten.levy(), thousand.levy()[:, :10])


def test_drawing_changes_nothing_that_was_drawn() -> None:
    draws = motion((3, 2, 2), 4)
    one = draws.increment(0, 4, area=True)
    kept = one.dw.clone()
    draws.increment(0, 1, area=True).dw.fill_(9.0)
    assert torch.equal(draws.increment(0, 4, area=True).dw, kept)
    assert torch.equal(one.dw, kept)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (2, 1), (-1, 2), (0, 5)])
def test_steps_outside_the_grid_are_refused(first: int, last: int) -> None:
    with pytest.raises(BadUsage, match="no step"):
        motion((2, 1, 1), 4).increment(first, last)


def test_area_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(BadUsage, match="area=True"):
        motion((2, 1, 1), 4).increment(0, 1).levy()


@pytest.mark.parametrize("horizon", [0.0, -1.0, float("nan"), float("inf")])
def test_no_length_of_time_is_refused(horizon: float) -> None:
    with pytest.raises(BadUsage, match="horizon"):
        motion((2, 1, 1), 4, horizon=horizon)
