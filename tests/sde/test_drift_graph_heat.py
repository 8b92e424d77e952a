"""The diffusion, reaction and second-order drifts against dense algebra and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.diffusion import SmoothedDiffusion, VelocityDiffusion
from graphsde.sde.drift import GraphHeatDrift, ReactionDrift, SecondOrderDrift
from graphsde.sde.prior import GraphOUPrior, UnderdampedPrior

D = torch.float64


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def operator(graph: Graph) -> SparseMatrix:
    return graph.adjacency.operator.to(D)


def dense(graph: Graph) -> np.ndarray:
    return graph.adjacency.normalized.toarray().astype(float)


def dense_walk(graph: Graph) -> np.ndarray:
    looped = graph.adjacency.matrix.toarray() + np.eye(graph.num_nodes)
    return looped / looped.sum(1, keepdims=True)


def state(graph: Graph, width: int = 4, paths: int = 2, seed: int = 1) -> Tensor:
    return torch.randn(graph.num_nodes, paths, width, generator=stream(seed), dtype=D)


def follow(field: Callable[[float, Tensor], Tensor], h: Tensor, horizon: float, steps: int = 200) -> Tensor:
    dt = horizon / steps
    for k in range(steps):
        t = k * dt
        a = field(t, h)
        b = field(t + dt / 2, h + dt / 2 * a)
        c = field(t + dt / 2, h + dt / 2 * b)
        d = field(t + dt, h + dt * c)
        h = h + dt / 6 * (a + 2 * b + 2 * c + d)
    return h


def apply_dense(matrix: np.ndarray, h: Tensor) -> Tensor:
    return torch.einsum("ij,jsd->isd", torch.from_numpy(matrix), h)


@pytest.mark.parametrize("attention", ["none", "linear", "nonlinear"])
def test_uniform_attention_is_the_matrix_exponential(blocks: Graph, attention: str) -> None:
    """H(T) = exp(T α (P − I)) H(0): queries start at zero, so that attention starts uniform."""
    options: dict[str, Any] = {"attention": attention, "heads": 2 if attention != "none" else 1}
    drift = GraphHeatDrift(
        4, teleport=0.0, rate=0.7, source=0.0, operator="random-walk", generator=stream(), **options
    ).double()
    h = state(blocks)
    with torch.no_grad():
        end = follow(drift.bind(operator(blocks), h), h, 2.0)
    exact = scipy.linalg.expm(2.0 * 0.7 * (dense_walk(blocks) - np.eye(blocks.num_nodes)))
    torch.testing.assert_close(end, apply_dense(exact, h), atol=2e-7, rtol=0)


def test_constant_features_are_a_fixed_point_of_stochastic_flows(blocks: Graph) -> None:
    h = torch.ones(blocks.num_nodes, 1, 4, dtype=D) * torch.arange(4)
    for options in ({"operator": "random-walk"}, {"attention": "linear"}, {"attention": "nonlinear"}):
        drift = GraphHeatDrift(4, teleport=0.0, source=0.0, generator=stream(), **options).double()  # type: ignore[arg-type]
        for parameter in drift.parameters():
            torch.nn.init.normal_(parameter, generator=stream(2))
        assert float(drift.bind(operator(blocks), h)(0.0, h).detach().abs().max()) < 1e-6


def test_the_default_is_personalised_pagerank(blocks: Graph) -> None:
    h, start, a = state(blocks), state(blocks, seed=2), 0.1
    value = GraphHeatDrift(4, teleport=a, generator=stream()).bind(operator(blocks), start)(0.0, h)
    matrix = np.eye(blocks.num_nodes) - (1 - a) * dense(blocks)
    torch.testing.assert_close(value, a * start - apply_dense(matrix, h), atol=1e-6, rtol=0)


def test_euler_with_unit_steps_is_appnp(blocks: Graph) -> None:
    start, a = state(blocks), 0.2
    field = GraphHeatDrift(4, teleport=a, generator=stream()).bind(operator(blocks), start)
    h, z = start, start
    for _ in range(6):
        h = h + field(0.0, h)
        z = apply_dense((1 - a) * dense(blocks), z) + a * start
    torch.testing.assert_close(h, z, atol=1e-6, rtol=0)


def test_settings_of_grand(blocks: Graph) -> None:
    h, start = state(blocks), state(blocks, seed=2)
    drift = GraphHeatDrift(4, teleport=0.0, rate=0.3, source=-0.4, generator=stream())
    value = drift.bind(operator(blocks), start)(0.0, h)
    expected = 0.3 * (apply_dense(dense(blocks), h) - h) - 0.4 * start
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=0)
    learned = GraphHeatDrift(4, teleport=0.0, rate=0.3, learn_rate=True, source=-0.4, generator=stream()).double()
    torch.testing.assert_close(learned.bind(operator(blocks), start)(0.0, h), value, atol=1e-6, rtol=0)
    assert [name for name, _ in learned.named_parameters()] == ["rate.raw"]


def test_the_smoothed_source_goes_through_the_channel_of_the_noise(blocks: Graph) -> None:
    """posterior − prior = g B u with u = a H(0)/g, which is what makes the path KL exact."""
    h, start, a, g = state(blocks), state(blocks, seed=2), 0.1, 0.35
    drift = GraphHeatDrift(4, teleport=a, source_operator="smoothing", generator=stream())
    posterior = drift.bind(operator(blocks), start)(0.0, h)
    prior = GraphOUPrior(4, teleport=a).bind(operator(blocks), start)(0.0, h)
    channel = SmoothedDiffusion(4, sigma=g).bind(operator(blocks))
    torch.testing.assert_close(posterior - prior, channel.apply_control(a * start / g))  # type: ignore[attr-defined]
    rho = math.sqrt(float((dense(blocks) ** 2).sum(1).mean()))
    torch.testing.assert_close(posterior - prior, a * apply_dense(dense(blocks) / rho, start), atol=1e-6, rtol=0)


def test_attention_is_scaled_dot_product_averaged_over_heads(blocks: Graph) -> None:
    drift = GraphHeatDrift(4, attention="nonlinear", heads=2, attention_width=6, generator=stream()).double()
    attention = drift.flow.attention
    assert attention is not None
    torch.nn.init.normal_(attention.query, generator=stream(3))
    h, start = state(blocks), state(blocks, seed=2)
    mask = torch.from_numpy(dense(blocks) > 0)
    expected = torch.empty_like(h)
    for path in range(2):
        q, k = ((h[:, path] @ w).view(-1, 2, 3) for w in (attention.query, attention.key))
        logits = torch.einsum("ihc,jhc->hij", q, k) / math.sqrt(3)
        weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=2).mean(0)
        expected[:, path] = 0.9 * weights @ h[:, path] - h[:, path] + 0.1 * start[:, path]
    torch.testing.assert_close(drift.bind(operator(blocks), start)(0.0, h), expected)

    linear = GraphHeatDrift(4, attention="linear", heads=2, attention_width=6, generator=stream()).double()
    linear.load_state_dict(drift.state_dict())
    torch.testing.assert_close(linear.bind(operator(blocks), h)(0.0, h) - 0.1 * h, expected - 0.1 * start)
    moved = linear.bind(operator(blocks), start)(0.0, h)  # attention of another initial state
    assert not torch.allclose(moved, expected, atol=1e-3)


def test_only_fixed_matrices_are_called_linear() -> None:
    kinds = {
        kind: GraphHeatDrift(4, attention=kind, generator=stream()).linear for kind in ("none", "linear", "nonlinear")
    }
    assert kinds == {"none": True, "linear": False, "nonlinear": False}


def test_eigenvalues_of_the_default_drift_are_stable(blocks: Graph) -> None:
    a = 0.15
    drift = GraphHeatDrift(1, teleport=a, generator=stream())
    each = torch.eye(blocks.num_nodes, dtype=D)[:, :, None]
    jacobian = drift.bind(operator(blocks), torch.zeros_like(each))(0.0, each)[..., 0]
    values = torch.linalg.eigvalsh((jacobian + jacobian.T) / 2)
    assert -2 + a <= float(values.min()) and float(values.max()) <= -a + 1e-6
    assert drift.lipschitz(operator(blocks)) == pytest.approx(2 - a, rel=1e-5)


def test_random_walk_is_refused_without_self_loops() -> None:
    walk = Adjacency(sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=np.float32))).matrix
    bare = SparseMatrix.from_scipy(walk, dtype=D)
    drift = GraphHeatDrift(2, operator="random-walk", generator=stream())
    with pytest.raises(BadUsage, match="E-OPERATOR"):
        drift.bind(bare, torch.zeros(3, 1, 2, dtype=D))


@pytest.mark.parametrize(
    "wrong",
    [{"teleport": -0.1}, {"teleport": 1.1}, {"rate": 0.0}, {"rate": 1.0, "learn_rate": True}, {"source": math.inf}],
)
def test_wrong_settings_of_diffusion_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadUsage, match=next(iter(wrong))):
        GraphHeatDrift(4, generator=stream(), **wrong)


def test_unknown_kinds_are_answered_with_the_known_ones() -> None:
    for wrong in ({"attention": "soft"}, {"operator": "laplacian"}, {"source_operator": "none"}):
        with pytest.raises(UnknownName, match="one of"):
            GraphHeatDrift(4, generator=stream(), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("operator_name", ["symmetric", "random-walk"])
@pytest.mark.parametrize("attention", ["none", "linear", "nonlinear"])
def test_a_reaction_of_no_strength_is_diffusion(blocks: Graph, attention: str, operator_name: str) -> None:
    shared: dict[str, Any] = {"rate": 0.6, "attention": attention, "operator": operator_name}
    h, start = state(blocks), state(blocks, seed=2)
    diffusion = GraphHeatDrift(4, teleport=0.0, source=0.0, generator=stream(), **shared).double()
    for reaction in ("blurring-sharpening", "fisher", "allen-cahn", "zeldovich", "source"):
        drift = ReactionDrift(4, reaction=reaction, strength=0.0, generator=stream(), **shared).double()
        for parameter, other in zip(drift.flow.parameters(), diffusion.flow.parameters(), strict=True):
            torch.nn.init.normal_(parameter, generator=stream(5))
            other.data.copy_(parameter.data)
        expected = diffusion.bind(operator(blocks), start)(0.0, h)
        torch.testing.assert_close(drift.bind(operator(blocks), start)(0.0, h), expected, atol=1e-6, rtol=0)
        assert drift.lipschitz(operator(blocks)) == diffusion.lipschitz(operator(blocks))


def test_reactions_by_hand(blocks: Graph) -> None:
    h, start = state(blocks), state(blocks, seed=2)
    a, strength = dense(blocks), torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=D)
    by_hand = {
        "blurring-sharpening": apply_dense(a - a @ a, h),
        "fisher": h - h**2,
        "allen-cahn": h - h**3,
        "zeldovich": h**2 - h**3,
        "source": start,
    }
    for reaction, expected in by_hand.items():
        drift = ReactionDrift(4, reaction=reaction, rate=0.6, generator=stream()).double()
        with torch.no_grad():
            drift.strength.copy_(strength)
        value = drift.bind(operator(blocks), start)(0.0, h)
        diffusion = 0.6 * (apply_dense(a, h) - h)
        torch.testing.assert_close(value, diffusion + strength * expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("strength", [-3.0, -0.5, 0.4, 1.0, 3.0])
def test_lipschitz_of_blurring_sharpening_is_above_the_exact_norm_and_near_it(blocks: Graph, strength: float) -> None:
    drift = ReactionDrift(1, rate=0.8, strength=strength, generator=stream())
    a = dense(blocks)
    matrix = 0.8 * (a - np.eye(len(a))) + strength * (a - a @ a)
    exact = np.linalg.norm(matrix, 2)
    bound = drift.lipschitz(blocks.adjacency.operator)
    assert exact <= bound * (1 + 1e-9)
    # the bound is the maximum over all spectra in [−1, 1], never the crude sum of norms
    assert bound < 0.8 * 2 + abs(strength) * 2 + 1e-6
    grid = np.linspace(-1, 1, 20001)
    assert bound == pytest.approx(np.abs(0.8 * (grid - 1) + strength * (grid - grid**2)).max(), rel=1e-4)


def test_pointwise_reactions_have_no_bound(blocks: Graph) -> None:
    for reaction in ("fisher", "allen-cahn", "zeldovich"):
        drift = ReactionDrift(4, reaction=reaction, generator=stream())
        assert math.isinf(drift.lipschitz(blocks.adjacency.operator)) and not drift.linear


def test_second_order_is_newton_with_friction(blocks: Graph) -> None:
    h, start = state(blocks, width=6), state(blocks, width=6, seed=2)
    drift = SecondOrderDrift(6, friction=0.3, generator=stream()).double()
    value = drift.bind(operator(blocks), start)(0.4, h)
    q, v = h[..., :3], h[..., 3:]
    force = drift.force.bind(operator(blocks), start[..., :3].contiguous())(0.4, q.contiguous())
    torch.testing.assert_close(value[..., :3], v, atol=0, rtol=0)
    torch.testing.assert_close(value[..., 3:], force - q - 0.3 * v)
    loose = SecondOrderDrift(6, force="graph-heat", settings={"teleport": 0.2}, generator=stream())
    q_only = torch.cat([q, torch.zeros_like(v)], -1)
    inner = GraphHeatDrift(3, teleport=0.2, generator=stream()).bind(operator(blocks), start[..., :3].contiguous())
    torch.testing.assert_close(loose.bind(operator(blocks), start)(0.0, q_only)[..., 3:], inner(0.0, q.contiguous()))
    assert loose.linear and not drift.linear


def test_without_force_it_is_the_damped_oscillator() -> None:
    """q̈ + γ q̇ + q = 0 from (1, 0), by the formula for γ < 2."""
    lonely = SparseMatrix.from_scipy(sp.csr_array(np.eye(2)), dtype=D)
    gamma, horizon = 0.5, 3.0
    drift = SecondOrderDrift(2, friction=gamma, generator=stream()).double()
    for parameter in drift.parameters():
        torch.nn.init.zeros_(parameter)
    h = torch.tensor([1.0, 0.0], dtype=D).expand(2, 1, 2).contiguous()
    with torch.no_grad():
        # softplus(0) is constant and its weight is zero: no force
        end = follow(drift.bind(lonely, h), h, horizon)
    omega = math.sqrt(1 - gamma**2 / 4)
    exact = math.exp(-gamma * horizon / 2) * (
        math.cos(omega * horizon) + gamma / (2 * omega) * math.sin(omega * horizon)
    )
    assert float(end[0, 0, 0]) == pytest.approx(exact, abs=1e-8)
    assert drift.lipschitz(lonely) == pytest.approx(np.linalg.norm([[0, 1], [-1, -gamma]], 2))


def test_path_kl_of_second_order_dynamics_is_that_of_the_velocities(blocks: Graph) -> None:
    h, start = state(blocks, width=6), state(blocks, width=6, seed=2)
    drift = SecondOrderDrift(6, friction=0.7, generator=stream()).double()
    prior = UnderdampedPrior(6, friction=0.7).bind(operator(blocks), start)
    noise = VelocityDiffusion(6, sigma=0.5).bind(operator(blocks))
    difference = drift.bind(operator(blocks), start)(0.1, h) - prior(0.1, h)
    u = noise.whiten(0.1, h, difference)
    assert not u[..., :3].any()
    torch.testing.assert_close(u[..., 3:], difference[..., 3:] / 0.5)
    with pytest.raises(BadUsage, match="E-KL"):
        noise.whiten(0.1, h, difference + 1e-300)


def test_wrong_settings_of_second_order_are_refused() -> None:
    for wrong in ({"width": 5}, {"friction": -1.0}, {"force": "second-order"}, {"force": "gnc"}):
        with pytest.raises(BadUsage):
            SecondOrderDrift(**{"width": 4, **wrong}, generator=stream())  # type: ignore[arg-type]
