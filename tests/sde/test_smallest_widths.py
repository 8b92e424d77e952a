"""A state of one channel is a state: every part takes it, and moves it to the right shape."""

from __future__ import annotations

import pytest
import torch

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.prior import PRIORS

IN_PAIRS = {"second-order", "velocity", "underdamped"}
"""Position and velocity: two channels are the fewest."""


def smallest(name: str) -> int:
    return 2 if name in IN_PAIRS else 1


@pytest.mark.parametrize("name", list(DRIFTS))
def test_drifts(name: str, blocks: Graph) -> None:
    width = smallest(name)
    h = torch.randn(blocks.num_nodes, 2, width, generator=torch.Generator().manual_seed(0))
    heads = {"heads": 1} if name == "gat" else {}
    drift = DRIFTS.get(name)(width, **heads, generator=torch.Generator().manual_seed(1))
    assert drift.bind(blocks.adjacency.operator, h)(0.0, h).shape == h.shape


@pytest.mark.parametrize("residual", ["gcn", "gat"])
def test_a_rest_of_one_channel(residual: str, blocks: Graph) -> None:
    h = torch.randn(blocks.num_nodes, 2, 1, generator=torch.Generator().manual_seed(0))
    options = {"residual": residual, "residual_width": 1, "heads": 1}
    drift = DRIFTS.get("graph-filter")(1, **options, generator=torch.Generator().manual_seed(1))
    assert drift.bind(blocks.adjacency.operator, h)(0.0, h).shape == h.shape
    with pytest.raises(BadUsage, match="residual_width"):
        DRIFTS.get("graph-filter")(1, **{**options, "residual_width": 0}, generator=torch.Generator())


def test_a_rest_by_attention_has_four_heads_of_its_own(blocks: Graph) -> None:
    """The default is part of the recipe: other heads are another model."""
    given, asked = (
        DRIFTS.get("graph-filter")(8, residual="gat", **heads, generator=torch.Generator().manual_seed(1))
        for heads in ({}, {"heads": 4})
    )
    assert given.flow is not None and asked.flow is not None
    shapes = [tuple(value.shape) for value in given.flow.parameters()]
    assert shapes == [tuple(value.shape) for value in asked.flow.parameters()]
    with pytest.raises(BadUsage, match="heads"):
        DRIFTS.get("graph-filter")(8, residual="gat", heads=5, generator=torch.Generator())


@pytest.mark.parametrize("name", list(PRIORS))
def test_priors(name: str, blocks: Graph) -> None:
    h = torch.randn(blocks.num_nodes, 2, smallest(name), generator=torch.Generator().manual_seed(0))
    assert PRIORS.get(name)(smallest(name)).bind(blocks.adjacency.operator, h)(0.0, h).shape == h.shape


@pytest.mark.parametrize("name", list(DIFFUSIONS))
def test_diffusions(name: str, blocks: Graph) -> None:
    width = smallest(name)
    bound = DIFFUSIONS.get(name)(width, sigma=0.5).bind(blocks.adjacency.operator)
    noise = torch.ones(len(bound.keys(torch.arange(blocks.num_nodes))), 2, width)
    h = torch.zeros(blocks.num_nodes, 2, width)
    assert bound.apply(0.0, h, noise).shape == h.shape


@pytest.mark.parametrize("kind", [DRIFTS, PRIORS, DIFFUSIONS], ids=lambda kind: kind.kind)
def test_no_channel_is_refused(kind: object) -> None:
    for name in kind:  # type: ignore[attr-defined]
        given = {"generator": torch.Generator()} if kind is DRIFTS else {}
        with pytest.raises(BadUsage):
            kind.get(name)(0, **given)  # type: ignore[attr-defined]
