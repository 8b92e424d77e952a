"""The scale of noise, signal and path KL in an LGNSDE, against numbers worked out by hand.

With κ = 0 an Euler step of length one leaves H(0) where it is and forgets all earlier noise: the state at the horizon
is H(0) + g ξ with ξ standard normal, whatever the graph. So signal, gain and KL can be written down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde.module import LGNSDEModule, Noise, signal_level
from graphsde.models.neural import Inputs
from graphsde.sde.brownian import node_keys

HEAT = {"name": "graph-heat", "options": {"teleport": 1.0, "source_operator": "identity"}}
OU = {"name": "graph-ou", "options": {"teleport": 1.0}}


COMMON: dict[str, Any] = {
    "preset": "universal", "drift": HEAT, "prior": OU, "diffusion": "constant", "horizon": 2, "steps": 2, "hidden": 2,
    "epochs": 1, "feature_dropout": 0.0, "node_dropout": 0.0, "latent_dropout": 0.0, "kl_weight": 1.0, "ego": False,
    "consistency": {"kind": "none"}, "noise_by": "marginals", "solver": "euler", "encoder": "linear", "state": "wide",
    "encoder_activation": "none", "encoder_norm": "none", "sigma_is": "ratio", "signal": "prediction",
}  # fmt: skip


def as_input(module: LGNSDEModule, graph: Graph) -> Inputs:
    """Make H(0) the input, and that two columns: half of the nodes at (1, 0), the others at (3, 0)."""
    x = torch.zeros(graph.num_nodes, 2)
    x[:, 0] = torch.where(torch.arange(graph.num_nodes) % 2 == 0, 1.0, 3.0)
    with torch.no_grad():
        module.encoder.weight.copy_(torch.eye(2))
        module.encoder.bias.zero_()
        module.signal.zero_()
    return Inputs(x, graph.adjacency.operator)


def forgetful(graph: Graph, **settings: Any) -> tuple[LGNSDEModule, Inputs, Noise]:
    module = gs.LGNSDE(**{**COMMON, **settings}).fit(graph).module
    return module, as_input(module, graph), Noise(3, node_keys(graph.node_ids), range(2))


@pytest.fixture(scope="module")
def even() -> Graph:
    from support import block_graph

    return block_graph(features=2)  # 30 nodes: fifteen at 1, fifteen at 3


def test_the_signal_is_the_spread_around_the_mean_over_nodes() -> None:
    """1 and 3 are ±1 around 2, not √5 from 0; a column that is the same everywhere has no signal, and halves it."""
    assert float(signal_level(torch.tensor([[[1.0]], [[3.0]]]))) == 1.0
    assert float(signal_level(torch.tensor([[[1.0, 7.0]], [[3.0, 7.0]]]))) == pytest.approx(math.sqrt(0.5))
    # each path around its own mean
    assert float(signal_level(torch.tensor([[[1.0], [101.0]], [[3.0], [103.0]]]))) == 1.0
    assert float(signal_level(torch.full((4, 1, 2), 5.0))) == 0.0
    # a difference in the seventh digit is rounding, one in the fifth is not
    assert float(signal_level(torch.tensor([[[1.0]], [[1.0 + 1e-6]]]))) == 0.0
    assert float(signal_level(torch.tensor([[[1.0]], [[1.0 + 1e-4]]]))) > 0.0


def test_noise_is_sigma_times_the_signal(even: Graph) -> None:
    """Signal √½ over both columns, unit noise of size 1: g = σ √½."""
    for sigma in (0.5, 1.0):
        module, inputs, noise = forgetful(even, sigma=sigma)
        module.measure_signal(inputs, noise)
        assert float(module.signal) == pytest.approx(math.sqrt(0.5), rel=1e-6)
        assert float(module.gain) == pytest.approx(sigma * math.sqrt(0.5), rel=1e-6)


def test_the_running_signal_keeps_nineteen_twentieths(even: Graph) -> None:
    """From 1 towards 3: .95 · 1 + .05 · 3 = 1.1, then .95 · 1.1 + .05 · 3 = 1.195; the first is taken as it is."""
    module, inputs, noise = forgetful(even, signal="training", sigma=0.5)
    for shown, expected in ((1.0, 1.0), (3.0, 1.1), (3.0, 1.195)):
        mean = 10.0 + shown * torch.where(torch.arange(even.num_nodes) % 2 == 0, -1.0, 1.0)[:, None, None]
        module._learn_signal(inputs, noise, mean.expand(-1, 1, 2))
        assert float(module.signal) == pytest.approx(expected, rel=1e-5)
        assert float(module.gain) == pytest.approx(0.5 * expected, rel=1e-5)


def test_a_signal_of_predictions_is_learned_in_training_only_once(even: Graph) -> None:
    module, inputs, noise = forgetful(even, signal="prediction", sigma=0.5)
    for shown in (1.0, 3.0):
        mean = shown * torch.where(torch.arange(even.num_nodes) % 2 == 0, -1.0, 1.0)[:, None, None]
        module._learn_signal(inputs, noise, mean.expand(-1, 1, 2))
        assert float(module.signal) == pytest.approx(1.0)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_the_path_kl_falls_with_the_square_of_sigma(even: Graph, sigma: float) -> None:
    """½ T ‖H(0)‖²/g² with T = 2, ‖H(0)‖² = 15 · 1 + 15 · 9 = 150 and g² = σ²/2: 300/σ²."""
    module, inputs, noise = forgetful(even, sigma=sigma)
    module.measure_signal(inputs, noise)
    with torch.no_grad():
        kl = module.evolve(inputs, noise, None, kl=True).kl
    assert kl is not None
    np.testing.assert_allclose(kl.numpy(), 300.0 / sigma**2, rtol=1e-5)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_an_absolute_sigma_stands_in_the_path_kl_as_it_is(even: Graph, sigma: float) -> None:
    """Along simulated paths, and by marginals: ½ · 2 · 150/σ²."""
    for noise_by in ("paths", "marginals"):
        module, inputs, noise = forgetful(even, sigma=sigma, sigma_is="absolute", noise_by=noise_by)
        with torch.no_grad():
            kl = module.evolve(inputs, noise, None, kl=True).kl
        assert kl is not None
        np.testing.assert_allclose(kl.numpy(), 150.0 / sigma**2, rtol=1e-4)


def test_the_log_ratio_of_a_path_by_hand(even: Graph) -> None:
    """ln dP/dQ = −u·W(T) − ½T‖u‖² with u = H(0)/g, and W(T) from the increments themselves."""
    from graphsde.sde.brownian import BrownianMotion

    module, inputs, noise = forgetful(even, sigma=2.0, sigma_is="absolute", noise_by="paths")
    with torch.no_grad():
        ratio = module.evolve(inputs, noise, None, log_ratio=True).log_ratio
    motion = BrownianMotion(3, noise.keys, range(2), 2, 2.0, 2)
    ends = (motion.cell_increment(0) + motion.cell_increment(1)).double()
    u = inputs.features.double() / 2.0
    assert ratio is not None
    for path in range(2):
        by_hand = -float((u * ends[:, path]).sum()) - 150.0 / 4
        assert float(ratio[path]) == pytest.approx(by_hand, rel=1e-5)


def test_the_spread_of_the_state_is_the_gain(even: Graph) -> None:
    """H(T) = H(0) + g ξ: 4,000 paths of 60 entries have the standard deviation g within 4 standard errors."""
    module, inputs, _ = forgetful(even, sigma=2.0)
    noise = Noise(5, node_keys(even.node_ids), range(4000))
    module.measure_signal(inputs, noise)
    with torch.no_grad():
        around = module.evolve(inputs, noise, None).state - inputs.features[:, None]
    count = around.numel()
    assert float(around.std()) == pytest.approx(math.sqrt(2.0), rel=4 / math.sqrt(2 * count))
    assert abs(float(around.mean())) <= 4 * math.sqrt(2.0 / count)


@pytest.mark.parametrize(("unit", "share"), [("node", 30), ("elbo", 12)])
def test_what_the_loss_adds_for_the_path_kl(even: Graph, unit: str, share: int) -> None:
    """weight · warm-up · KL / nodes, of all 30 or of the 12 in training: ½ · 25/100 · (300/2²) / share at epoch 25."""
    losses = []
    for weight in (0.0, 0.5):
        settings = {**COMMON, "sigma": 2.0, "kl_weight": weight, "kl_unit": unit, "kl_warmup": 100, "objective": "elbo"}
        learner = gs.LGNSDE(**settings, decoder_dropout=0.0).learner(even)
        learner.inputs = as_input(learner.module, even)
        losses.append(float(learner.loss(25).detach()))
    assert losses[1] - losses[0] == pytest.approx(0.5 * 0.25 * 75.0 / share, rel=1e-4)


def test_the_loss_of_paths_by_hand() -> None:
    """One node, two paths that give its class ½ and ⅛: ELBO −½(ln ½ + ln ⅛) = ln 4, mixture −ln 5/16."""
    from graphsde.models.lgnsde.learner import path_likelihood

    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.125, 0.875]]], dtype=torch.float64))
    label = torch.zeros(1, dtype=torch.int64)
    assert float(path_likelihood(logits, label, "elbo")) == pytest.approx(math.log(4))
    assert float(path_likelihood(logits, label, "mixture")) == pytest.approx(-math.log(5 / 16))
    # weights 2 and ½ in place of 1: −ln ½(2 · ½ + ½ · ⅛)
    ratio = torch.log(torch.tensor([2.0, 0.5], dtype=torch.float64))
    by_hand = -math.log(0.5 * (1 + 1 / 16))
    assert float(path_likelihood(logits, label, "importance", log_ratio=ratio)) == pytest.approx(by_hand)


def test_noise_is_measured_by_what_becomes_of_unit_noise() -> None:
    """Nodes in pairs: Â is ½ everywhere within a pair and its own square. With κ = .8 two steps make of unit noise the
    variance 1 + .8² (½² + ½²) = 1.32, and of a pair (1, 3) the mean path .8 · 2 + .2 · (1, 3) = (1.8, 2.2): signal ±.2
    in one of two columns. So g = σ · .2 √½ / √1.32, and the KL is ½ · 2 · .2² · 150/g²."""
    from graphsde.graph.build import from_arrays

    nodes = np.arange(30)
    graph = from_arrays(
        np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32), nodes.reshape(15, 2).T, labels=nodes % 3,
        class_names=["a", "b", "c"], train_mask=nodes < 18, val_mask=(nodes >= 18) & (nodes < 24),
    )  # fmt: skip
    drift = {"name": "graph-heat", "options": {"teleport": 0.2, "source_operator": "identity"}}
    module, inputs, _ = forgetful(
        graph, sigma=0.5, drift=drift, prior={"name": "graph-ou", "options": {"teleport": 0.2}}
    )
    noise = Noise(5, node_keys(graph.node_ids), range(4000))
    module.measure_signal(inputs, noise)
    signal = 0.2 * math.sqrt(0.5)
    assert float(module.signal) == pytest.approx(signal, rel=1e-5)
    assert float(module.gain) == pytest.approx(0.5 * signal / math.sqrt(1.32), rel=1e-5)
    with torch.no_grad():
        latent = module.evolve(inputs, noise, None, kl=True)
        around = latent.state - module.mean_path(inputs)[1]
    assert latent.kl is not None
    np.testing.assert_allclose(latent.kl.numpy(), 0.04 * 150 / (0.25 * signal**2 / 1.32), rtol=1e-4)
    assert float(around.std()) == pytest.approx(0.5 * signal, rel=4 / math.sqrt(2 * around.numel()))


@pytest.mark.parametrize("kind", ["sharpen", "confident"])
def test_what_the_loss_adds_for_agreement(even: Graph, kind: str) -> None:
    """In proportion to weight and warm-up: twice the weight at the same epoch, or the same at twice the epoch."""
    added = {}
    for weight, warmup in ((0.0, 100), (0.4, 100), (0.8, 100), (0.4, 50)):
        agreement = {"kind": kind, "weight": weight, "warmup": warmup, "begin": 1, "gated": False}
        settings = {**COMMON, "sigma": 2.0, "kl_weight": 0.0, "consistency": agreement, "paths": 3}
        learner = gs.LGNSDE(**settings, decoder_dropout=0.0).learner(even)
        learner.inputs = as_input(learner.module, even)
        added[weight, warmup] = float(learner.loss(25).detach())
    one, two, sooner = (added[key] - added[0.0, 100] for key in ((0.4, 100), (0.8, 100), (0.4, 50)))
    assert one > 1e-4 and two == pytest.approx(2 * one, rel=1e-3) and sooner == pytest.approx(2 * one, rel=1e-3)


def test_agreement_of_paths_by_hand() -> None:
    """Node a: paths (¾, ¼) and (¼, ¾), 2 · ¼² = ⅛ from their mean; node b: twice (.9, .1), 0 from it. Entropies .562335
    and .325083 count by half where the mean is at least as sure as the median of the validation nodes."""
    from graphsde.models.lgnsde.learner import consistency
    from graphsde.models.lgnsde.settings import ConsistencySettings

    probs = torch.tensor([[[0.75, 0.25], [0.25, 0.75]], [[0.9, 0.1], [0.9, 0.1]]], dtype=torch.float64)
    confident = ConsistencySettings(kind="confident")
    a, b = 0.125 + 0.5 * 0.562335, 0.5 * 0.325083
    for validation, by_hand in (([0, 1], (a + b) / 2), ([1], (0.125 + b) / 2)):
        assert float(consistency(probs.log(), confident, torch.tensor(validation))) == pytest.approx(by_hand, rel=1e-5)
    weights = torch.tensor([1.0, 0.5], dtype=torch.float64)
    found = consistency(probs.log(), confident, torch.tensor([0, 1]), weights)
    assert float(found) == pytest.approx((a + 0.5 * b) / 2, rel=1e-5)
    # squares at τ = ½: (.81, .01)/.82 for b, and still ½ for a
    sharpen = ConsistencySettings(kind="sharpen", temperature=0.5)
    b = 2 * (0.9 - 0.81 / 0.82) ** 2
    assert float(consistency(probs.log(), sharpen, torch.tensor([0]))) == pytest.approx((0.125 + b) / 2, rel=1e-9)
    found = consistency(probs.log(), sharpen, torch.tensor([0]), weights)
    assert float(found) == pytest.approx((0.125 + 0.5 * b) / 2, rel=1e-9)
