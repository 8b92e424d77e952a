"""Attention kernels, learned sources and filter banks of the diffusion drifts against dense algebra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.attention import edge_space
from graphsde.sde.drift import GraphHeatDrift, ReactionDrift
from graphsde.sde.integrate import integrate
from graphsde.testing.parts import DRIFT_CHECKS, Check, ComponentCase

D = torch.float64


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def state(graph: Graph, seed: int, width: int = 4) -> Tensor:
    return torch.randn(graph.num_nodes, 2, width, generator=stream(seed), dtype=D)


def dense_softmax(logits: Tensor, graph: Graph) -> Tensor:
    hears = torch.from_numpy(graph.adjacency.normalized.toarray() > 0)
    return torch.softmax(logits.masked_fill(~hears, -math.inf), dim=-1)


def dense_squareplus(logits: Tensor, graph: Graph) -> Tensor:
    hears = torch.from_numpy(graph.adjacency.normalized.toarray() > 0)
    weights = (logits + torch.sqrt(logits.square() + 4)) / 2 * hears
    return weights / weights.sum(-1, keepdim=True)


def by_hand(kernel: str, q: Tensor, k: Tensor, amplitude: float, length: float) -> Tensor:
    """# [N, H, c], [N, H, c] -> [H, N, N]"""
    if kernel == "scaled-dot":
        return torch.einsum("ihc,jhc->hij", q, k) / math.sqrt(q.shape[2])
    if kernel == "cosine":
        return torch.nn.functional.cosine_similarity(q[:, None], k[None], dim=3).permute(2, 0, 1)
    squares = (q[:, None] - k[None]).square().sum(3).permute(2, 0, 1)
    return amplitude**2 * torch.exp(-squares / (2 * length**2))


@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
@pytest.mark.parametrize("kernel", ["scaled-dot", "cosine", "exp-kernel"])
@pytest.mark.parametrize("sharing", ["softmax", "squareplus"])
def test_kernels_by_hand(blocks: Graph, kernel: str, kind: str, sharing: str) -> None:
    drift = GraphHeatDrift(
        4,
        teleport=0.1,
        attention=kind,
        kernel=kernel,
        sharing=sharing,
        heads=2,
        attention_width=6,
        generator=stream(),
    ).double()
    attention = drift.flow.attention
    assert attention is not None
    with torch.no_grad():
        attention.query.copy_(torch.randn(4, 6, generator=stream(3)))
        if kernel == "exp-kernel":
            attention.amplitude.fill_(1.7)  # type: ignore[union-attr,operator]
            attention.length.fill_(2.3)  # type: ignore[union-attr,operator]
    h, start = state(blocks, 1), state(blocks, 2)
    seen = start if kind == "linear" else h
    expected = torch.empty_like(h)
    for path in range(2):
        q, k = ((seen[:, path] @ w).view(-1, 2, 3) for w in (attention.query, attention.key))
        share = dense_softmax if sharing == "softmax" else dense_squareplus
        weights = share(by_hand(kernel, q, k, 1.7, 2.3), blocks).mean(0)
        expected[:, path] = 0.9 * weights @ h[:, path] - h[:, path] + 0.1 * start[:, path]
    value = drift.bind(blocks.adjacency.operator.to(D), start)(0.0, h)
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)


def test_squareplus_is_sound_at_zero_and_far_from_it(blocks: Graph) -> None:
    space = edge_space(blocks.adjacency.operator.to(D), 1)
    entries = space.col.shape[0]
    logits = torch.zeros(entries, dtype=D, requires_grad=True)  # where learning begins
    assert torch.autograd.gradcheck(space.squareplus, (logits,))
    wild = torch.linspace(-1e4, 1e4, entries, requires_grad=True)  # in single precision
    shares = space.squareplus(wild)
    (grad,) = torch.autograd.grad(shares.square().sum(), wild)
    assert bool((shares > 0).all()) and bool(torch.isfinite(grad).all())
    low = space.squareplus(torch.full((entries,), -1e4))
    torch.testing.assert_close(low, space.softmax(torch.zeros(entries)))


def test_queries_start_as_the_keys_where_zero_would_be_no_start() -> None:
    for kernel in ("cosine", "exp-kernel"):
        attention = GraphHeatDrift(4, attention="linear", kernel=kernel, generator=stream()).flow.attention
        assert attention is not None and torch.equal(attention.query, attention.key)
        assert bool(attention.query.any()) and attention.query is not attention.key


def test_an_unknown_kernel_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="squareplus"):
        GraphHeatDrift(4, attention="linear", sharing="squarplus", generator=stream())
    with pytest.raises(UnknownName, match="scaled-dot"):
        GraphHeatDrift(4, attention="linear", kernel="pearson", generator=stream())


def test_attention_without_stored_self_loops_takes_the_same_path(blocks: Graph) -> None:
    """Folding the identity into the weights needs self loops; without them the sum is written out."""
    ring = sp.csr_array(np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1))
    drift = GraphHeatDrift(3, teleport=0.0, source=0.0, rate=0.5, attention="linear", generator=stream()).double()
    h = torch.randn(5, 1, 3, generator=stream(1), dtype=D)
    value = drift.bind(SparseMatrix.from_scipy(ring, dtype=D), h)(0.0, h)
    expected = 0.5 * (torch.from_numpy(ring.toarray() / 2) @ h[:, 0] - h[:, 0])
    torch.testing.assert_close(value[:, 0], expected)


@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
def test_a_conserving_flow_keeps_sums_over_nodes(blocks: Graph, kind: str) -> None:
    drift = GraphHeatDrift(4, teleport=0.0, source=0.0, attention=kind, conserving=True, generator=stream()).double()
    h, adjacency = state(blocks, 1), blocks.adjacency.operator.to(D)
    attention = drift.flow.attention
    assert attention is not None
    uniform = blocks.adjacency.normalized.toarray() > 0
    by_hand = torch.einsum("ij,jsd->isd", torch.from_numpy(uniform / uniform.sum(0)), h) - h
    torch.testing.assert_close(drift.bind(adjacency, h)(0.0, h), by_hand)
    torch.nn.init.normal_(attention.query, generator=stream(3))
    value = drift.bind(adjacency, h)(0.0, h)
    torch.testing.assert_close(value.sum(0), torch.zeros(2, 4, dtype=D), atol=1e-10, rtol=0)
    assert not torch.allclose(value, by_hand, atol=1e-2)


def test_a_learned_source_starts_where_it_is_told_and_has_a_gradient(blocks: Graph) -> None:
    h, start = state(blocks, 1), state(blocks, 2)
    adjacency = blocks.adjacency.operator.to(D)
    for options in ({}, {"attention": "linear"}, {"attention": "nonlinear"}):
        fixed = GraphHeatDrift(4, teleport=0.0, source=0.3, generator=stream(), **options).double()  # type: ignore[arg-type]
        learned = GraphHeatDrift(
            4, teleport=0.0, source=0.3, learn_source=True, generator=stream(), **options  # type: ignore[arg-type]
        ).double()  # fmt: skip
        assert fixed.learned_source is None and learned.learned_source is not None
        value = learned.bind(adjacency, start)(0.0, h)
        torch.testing.assert_close(value, fixed.bind(adjacency, start)(0.0, h), atol=1e-6, rtol=0)
        (slope,) = torch.autograd.grad(value.sum(), learned.learned_source)
        assert float(slope) == pytest.approx(float(start.sum()), rel=1e-6)
    zero = GraphHeatDrift(4, source=0.0, learn_source=True, generator=stream())
    assert zero.source_lipschitz(adjacency) == 0.0 and zero.learned_source is not None


def test_reach_of_the_source(blocks: Graph) -> None:
    adjacency = blocks.adjacency.operator
    assert GraphHeatDrift(4, source=-0.4, generator=stream()).source_lipschitz(adjacency) == pytest.approx(0.4)
    smooth = GraphHeatDrift(4, source=0.4, source_operator="smoothing", generator=stream())
    a = blocks.adjacency.normalized.toarray().astype(float)
    exact = 0.4 * np.linalg.norm(a, 2) / math.sqrt((a**2).sum(1).mean())
    assert exact <= smooth.source_lipschitz(adjacency) * (1 + 1e-6) < 1.01 * exact
    assert math.isinf(GraphHeatDrift(4, attention="linear", generator=stream()).source_lipschitz(adjacency))


@pytest.mark.parametrize(("reaction", "own"), [("filter-bank", 0.0), ("filter-bank-identity", 1.0)])
def test_filter_banks_by_hand(blocks: Graph, reaction: str, own: float) -> None:
    drift = ReactionDrift(4, reaction=reaction, rate=0.6, generator=stream()).double()
    strength = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=D)
    with torch.no_grad():
        drift.strength.copy_(strength)
    h, start = state(blocks, 1), state(blocks, 2)
    a = blocks.adjacency.normalized.toarray().astype(float)
    rough = h - torch.einsum("ij,jsd->isd", torch.from_numpy(a), h)
    value = drift.bind(blocks.adjacency.operator.to(D), start)(0.0, h)
    torch.testing.assert_close(value, (strength - 0.6) * rough + own * strength * h, atol=1e-6, rtol=0)
    assert drift.linear
    exact = max(
        np.linalg.norm((b - 0.6) * (np.eye(len(a)) - a) + own * b * np.eye(len(a)), 2) for b in (0.5, -1.0, 2.0, 0.0)
    )
    assert exact <= drift.lipschitz(blocks.adjacency.operator) * (1 + 1e-6)


def test_strengths_are_drawn_around_the_start() -> None:
    drift = ReactionDrift(2000, strength=0.5, strength_spread=2.0, generator=stream())
    strength = drift.strength.detach()
    assert -1.5 <= float(strength.min()) < -1.4 and 2.4 < float(strength.max()) <= 2.5
    assert float(strength.mean()) == pytest.approx(0.5, abs=0.1)
    again = ReactionDrift(2000, strength=0.5, strength_spread=2.0, generator=stream())
    assert torch.equal(strength, again.strength)
    with pytest.raises(BadUsage, match="strength_spread"):
        ReactionDrift(4, strength_spread=-1.0, generator=stream())


def test_a_bounded_strength_is_a_sigmoid(blocks: Graph) -> None:
    drift = ReactionDrift(4, reaction="source", strength=0.3, bounded_strength=True, generator=stream()).double()
    h, start = state(blocks, 1), state(blocks, 2)
    free = ReactionDrift(4, reaction="source", strength=0.3, generator=stream()).double()
    adjacency = blocks.adjacency.operator.to(D)
    expected = free.bind(adjacency, start)(0.0, h)
    torch.testing.assert_close(drift.bind(adjacency, start)(0.0, h), expected, atol=1e-6, rtol=0)
    assert drift.source_lipschitz(adjacency) == pytest.approx(0.3)
    with torch.no_grad():
        drift.strength.fill_(-50.0)
    assert 0.0 <= float(drift.current_strength().detach().min()) < 1e-20
    for wrong in ({"strength": 1.0}, {"strength": 0.3, "strength_spread": 0.3}):
        with pytest.raises(BadUsage, match="strength"):
            ReactionDrift(4, bounded_strength=True, generator=stream(), **wrong)


CASES: list[tuple[type, dict[str, Any]]] = [
    (GraphHeatDrift, {"attention": "linear", "kernel": "cosine", "source": 0.2, "learn_source": True}),
    (GraphHeatDrift, {"attention": "linear", "heads": 2, "rate": 0.5, "learn_rate": True, "learn_source": True}),
    (GraphHeatDrift, {"attention": "nonlinear", "kernel": "exp-kernel", "heads": 2, "learn_source": True}),
    (GraphHeatDrift, {"attention": "linear", "conserving": True, "heads": 2}),
    (GraphHeatDrift, {"learn_source": True, "source_operator": "smoothing"}),
    (ReactionDrift, {"reaction": "filter-bank", "operator": "random-walk", "strength_spread": 1.0}),
    (ReactionDrift, {"reaction": "allen-cahn", "strength": 0.2, "bounded_strength": True}),
    (ReactionDrift, {"reaction": "filter-bank-identity", "attention": "linear", "kernel": "exp-kernel"}),
]


@pytest.mark.parametrize("check", DRIFT_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("place", range(len(CASES)))
def test_contract(place: int, check: Check) -> None:
    cls, options = CASES[place]
    check(ComponentCase(lambda width, generator: cls(width, generator=generator, **options)))


@pytest.mark.parametrize("place", range(3))
def test_checkpointed_gradients_are_the_stored_ones(blocks: Graph, place: int) -> None:
    cls, options = CASES[place]
    drift = cls(4, generator=stream(), **options).double()
    found = []
    for gradients in ("store", "checkpoint"):
        start = state(blocks, 1).requires_grad_()
        bound = drift.bind(blocks.adjacency.operator.to(D), start * 1.0)
        end = integrate(bound, start * 1.0, horizon=2.0, steps=12, solver="rk4", gradients=gradients).final  # type: ignore[arg-type]
        found.append(torch.autograd.grad(end.square().sum(), [start, *drift.parameters()]))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two)
