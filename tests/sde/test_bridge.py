"""The Brownian tree: laws of the halves, consistency with the whole, independence of the order of questions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dynamics_checks import assert_mean, assert_uncorrelated

from graphsde.base.errors import BadUsage
from graphsde.sde.adaptive import BrownianBridge
from graphsde.sde.brownian import node_keys


def bridge(nodes: int = 4000, width: int = 4, horizon: float = 2.0, path: int = 0) -> BrownianBridge:
    return BrownianBridge(7, node_keys(np.arange(nodes)), path, width, horizon, torch.float64)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_has_the_law_of_brownian_motion(level: int) -> None:
    tree, h = bridge(), 2.0 / 2**level
    steps = [tree.increment(level, index) for index in range(2**level)]
    for step in steps:
        assert step.dt == h
        assert_mean(step.dw, 0.0)
        assert_mean(step.dw.square(), h)
        assert_mean(step.levy().square(), h / 12)
        assert_uncorrelated(step.dw, step.levy())
    for k, one in enumerate(steps):
        for two in steps[k + 1 :]:
            assert_uncorrelated(one.dw, two.dw)
            assert_uncorrelated(one.levy(), two.levy())
            assert_uncorrelated(one.dw, two.levy())
            assert_uncorrelated(one.levy(), two.dw)


@pytest.mark.parametrize(("level", "index"), [(0, 0), (1, 1), (4, 5), (9, 300)])
def test_halves_make_up_the_whole(level: int, index: int) -> None:
    tree = bridge(nodes=20)
    whole = tree.increment(level, index)
    left, right = tree.increment(level + 1, 2 * index), tree.increment(level + 1, 2 * index + 1)
    assert (left.dw + right.dw - whole.dw).abs().max() <= 1e-15
    joined = 0.5 * (left.levy() + right.levy()) + 0.25 * (left.dw - right.dw)
    assert (joined - whole.levy()).abs().max() <= 1e-15


def test_the_order_of_questions_does_not_matter() -> None:
    places = [(5, 3), (0, 0), (2, 3), (5, 17), (6, 6), (6, 7), (1, 0), (5, 3)]
    tree = bridge(nodes=5)
    walked = [tree.increment(*place) for place in places]
    for place, step in zip(places, walked, strict=True):
        fresh = bridge(nodes=5).increment(*place)
        assert torch.equal(fresh.dw, step.dw)
        assert torch.equal(fresh.levy(), step.levy())


def test_a_long_walk_keeps_little() -> None:
    tree = bridge(nodes=3)
    for index in range(2**9):
        tree.increment(9, index)
    assert len(tree._kept) <= 2 * 10


def test_paths_differ() -> None:
    assert_uncorrelated(bridge(path=0).increment(1, 0).dw, bridge(path=1).increment(1, 0).dw)


@pytest.mark.parametrize(("level", "index"), [(-1, 0), (2, 4), (2, -1), (60, 0)])
def test_intervals_that_are_not_there(level: int, index: int) -> None:
    with pytest.raises(BadUsage, match="no interval"):
        bridge(nodes=2).increment(level, index)
