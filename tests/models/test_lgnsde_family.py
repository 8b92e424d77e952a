"""The family of the LGNSDE: what its members contain, and that exact marginals have the law of the paths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.models.appnp import personalised_pagerank
from graphsde.models.lgnsde.learner import path_likelihood
from graphsde.models.lgnsde.module import LGNSDEModule, Noise, signal_level
from graphsde.models.neural import Inputs
from graphsde.models.race import listed_candidates
from graphsde.sde.brownian import node_keys

from support import block_graph

FILTER = {"name": "graph-filter", "options": {"kappas": [0.8]}}
BASE: dict[str, Any] = {
    "preset": "auto",
    "race": False,
    "drift": FILTER,
    "horizon": 3,
    "steps": 3,
    "epochs": 4,
    "consistency": {"kind": "none"},
}


def made(graph: Graph, **settings: Any) -> tuple[gs.LGNSDE, LGNSDEModule, Inputs]:
    model = gs.LGNSDE(**{**BASE, **settings}).fit(graph)
    assert model.encoder is not None
    inputs = Inputs(torch.tensor(np.asarray(model.encoder.transform(graph))), graph.adjacency.operator)
    return model, model.module, inputs


def test_the_mean_path_is_personalised_pagerank(blocks: Graph) -> None:
    _, module, inputs = made(blocks)
    with torch.no_grad():
        start, end = module.mean_path(inputs)
        spread = personalised_pagerank(start[:, 0], inputs.adjacency, 0.2, 3)
    torch.testing.assert_close(end[:, 0], spread, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(module.decode(inputs, end)[:, 0], end[:, 0])


def test_without_listening_it_is_a_perceptron(blocks: Graph) -> None:
    _, module, inputs = made(blocks, drift={"name": "graph-filter", "options": {"kappas": [0.0]}})
    with torch.no_grad():
        start, end = module.mean_path(inputs)
    torch.testing.assert_close(start, end)


def test_blocks_of_logits_are_summed_class_by_class(blocks: Graph) -> None:
    drift = {"name": "graph-filter", "options": {"kappas": [0.9, 0.0, -0.5]}}
    _, module, inputs = made(blocks, drift=drift, hidden=3)
    classes = blocks.num_classes
    assert module.width == 3 * classes
    assert module.drift.kappa().tolist() == [0.9] * classes + [0.0] * classes + [-0.5] * classes
    with torch.no_grad():
        state = module.mean_path(inputs)[1]
        by_hand = sum(state[..., part * classes : (part + 1) * classes] for part in range(3))
    torch.testing.assert_close(module.decode(inputs, state), by_hand)


def test_own_state_reaches_the_decoder_untouched(blocks: Graph) -> None:
    _, module, inputs = made(blocks, state="wide", hidden=5, ego=True, sigma=0.4)
    noise = Noise(1, node_keys(blocks.node_ids), range(3))
    with torch.no_grad():
        read = module.evolve(inputs, noise, None).state
        start = module.initial(inputs, 1, None)
    assert read.shape[-1] == 10
    torch.testing.assert_close(read[..., 5:], start.expand(-1, 3, -1))


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_the_learned_rest_starts_at_zero(blocks: Graph, kind: str) -> None:
    options = {"kappas": [0.8], "residual": kind, "heads": 1, "residual_width": 3, "horizon": 3}
    begun = []
    for drift in (FILTER, {"name": "graph-filter", "options": options}):
        model = gs.LGNSDE(**{**BASE, "drift": drift, "sigma": 0.0, "feature_dropout": 0.0, "encoder_dropout": 0.0})
        learner = model.learner(blocks)
        begun.append(float(learner.loss(1).detach()))
    assert begun[0] == pytest.approx(begun[1], rel=1e-6)


def test_coefficients_are_learned_faster_and_do_not_decay(blocks: Graph) -> None:
    model = gs.LGNSDE(**{**BASE, "drift": {"name": "graph-filter", "options": {"kappas": [0.5], "learn": True}}})
    learner = model.learner(blocks)
    own = [group for group in learner.parameter_groups() if group.get("lr")]
    assert len(own) == 1 and own[0]["lr"] == pytest.approx(3 * model.settings.lr) and own[0]["weight_decay"] == 0.0
    counted = sum(len(group["params"]) for group in learner.parameter_groups())
    assert counted == len(list(learner.module.parameters()))


def moments(states: Tensor) -> tuple[Tensor, Tensor]:
    return states.mean(1), states.var(1)


@pytest.mark.parametrize(
    ("settings", "learned"),
    [
        ({"drift": {"name": "graph-filter", "options": {"kappas": [0.9]}}}, False),
        ({"drift": {"name": "graph-filter", "options": {"kappas": [0.7], "learn": True}}}, True),
        ({"drift": {"name": "graph-heat", "options": {"teleport": 0.3}}}, False),
        ({"drift": {"name": "graph-heat", "options": {"teleport": 0.3}}, "diffusion": "smoothed"}, False),
    ],
)
def test_marginals_have_the_law_of_the_paths(blocks: Graph, settings: dict[str, Any], learned: bool) -> None:
    """Mean and variance of every node's state, over many draws of either kind, against the closed form."""
    _, module, inputs = made(blocks, **settings, sigma=0.7, sigma_is="absolute")
    paths = 4000
    keys = node_keys(blocks.node_ids)
    with torch.no_grad():
        start, mean = module.mean_path(inputs)
        drawn = module.around(inputs, mean, Noise(5, keys, range(paths)))
        walked = module.trajectory(inputs, Noise(6, keys, range(paths)), start).final
        exact = (0.7 * module.unit_deviation(inputs)).square()
    for states in (drawn, walked):
        found, spread = moments(states)
        # a mean of so many draws is off by its standard error times a standard normal; a variance by √(2/n) of itself
        error = (found - mean[:, 0]) / (exact / paths).sqrt()
        assert float(error.abs().max()) < 5.0 and float(error.square().mean()) == pytest.approx(1.0, abs=0.35)
        ratio = (spread / exact - 1.0) / math.sqrt(2 / paths)
        assert float(ratio.abs().max()) < 5.5 and float(ratio.square().mean()) == pytest.approx(1.0, abs=0.35)


def test_a_draw_is_a_function_of_seed_path_and_node_alone(blocks: Graph) -> None:
    _, module, inputs = made(blocks, sigma=0.5)
    keys = node_keys(blocks.node_ids)
    rows = torch.tensor([3, 17, 4])
    with torch.no_grad():
        mean = module.mean_path(inputs)[1]
        all_nodes = module.around(inputs, mean, Noise(5, keys, range(6)))
        some = module.around(inputs, mean, Noise(5, keys, range(2, 4)), rows)
    assert torch.equal(all_nodes[rows][:, 2:4], some)


def test_more_samples_leave_the_first_as_they_are(blocks: Graph) -> None:
    model, _, _ = made(blocks, sigma=0.5)
    few, many = model.predict(blocks, samples=3), model.predict(blocks, samples=12)
    assert few.kind == "samples" and np.array_equal(few.probs, many.probs[:3])


@pytest.mark.parametrize("noise_by", ["marginals", "paths"])
@pytest.mark.parametrize("sigma", [0.25, 0.5])
def test_sigma_is_what_it_says(sigma: float, noise_by: str) -> None:
    """The ratio of noise to signal at the horizon of predictions, not of training with its dropout."""
    graph = block_graph(per_class=60)
    options = {"sigma": sigma, "noise_by": noise_by, "epochs": 30, "feature_dropout": 0.5, "hidden": 4}
    _, module, inputs = made(graph, **options)
    keys = node_keys(graph.node_ids)
    with torch.no_grad():
        mean = module.mean_path(inputs)[1]
        states = module.evolve(inputs, Noise(11, keys, range(64)), None).state
    ratio = float((states - mean).square().mean().sqrt() / signal_level(mean))
    assert ratio == pytest.approx(sigma, rel=0.03)


def test_marginals_are_refused_where_nobody_knows_them(blocks: Graph) -> None:
    rest = {"name": "graph-filter", "options": {"kappas": [0.8], "residual": "gcn"}}
    for settings in (
        {"drift": rest},
        {"steps": 6},
        {"solver": "heun"},
        {"state": "wide", "decoder": "gcn"},
        {"objective": "importance"},
        {"diffusion": "learned"},
    ):
        with pytest.raises(BadUsage, match="noise_by=paths"):
            made(blocks, sigma=0.3, **settings)
    made(blocks, sigma=0.0, drift=rest)  # without noise there is nothing to know
    with pytest.raises(BadUsage, match="closed_kl"):  # a term of the loss is missed however little it weighs
        made(blocks, sigma=0.3, kl_weight=1e-3, prior={"name": "graph-ou", "options": {"teleport": 0.5}})


def closed(graph: Graph, **settings: Any) -> gs.LGNSDE:
    prior = {"name": "graph-ou", "options": {"teleport": 0.2}}
    return gs.LGNSDE(
        **{**BASE, "prior": prior, "noise_by": "paths", "sigma": 0.5, "kl_weight": 1.0, "kl_unit": "elbo", **settings}
    )


def test_the_expected_log_ratio_is_minus_the_path_kl(blocks: Graph) -> None:
    model = closed(blocks, sigma_is="absolute", sigma=2.0)
    learner = model.learner(blocks)
    module, noise = learner.module.eval(), Noise(3, node_keys(blocks.node_ids), range(4000))
    with torch.no_grad():
        latent = module.evolve(learner.inputs, noise, None, kl=True, log_ratio=True)
        kl = float(module._closed_kl(module.initial(learner.inputs, 1, None), 2.0)[0])
    assert latent.log_ratio is not None
    # −u·W(T) has the variance 2 KL
    assert float(latent.log_ratio.mean()) == pytest.approx(-kl, abs=5 * math.sqrt(2 * kl / 4000))
    assert float(latent.log_ratio.var()) == pytest.approx(2 * kl, rel=0.15)
    # and E_Q dP/dQ = 1
    assert float(latent.log_ratio.exp().mean()) == pytest.approx(1.0, abs=0.2)


def test_importance_with_one_path_is_one_draw_of_the_elbo() -> None:
    logits = torch.randn(20, 1, 3, generator=torch.Generator().manual_seed(0))
    labels, ratio = torch.arange(20) % 3, torch.tensor([-4.0])
    elbo = path_likelihood(logits, labels, "elbo") + 4.0 / 20
    assert float(path_likelihood(logits, labels, "importance", log_ratio=ratio)) == pytest.approx(float(elbo), rel=1e-6)


def test_the_importance_weighted_bound_grows_towards_the_evidence_and_the_mixture_bounds_nothing() -> None:
    """Two states with prior ½ and likelihoods 1 and 0: the evidence is ½, and q = (.7, .3)."""
    q, prior = torch.tensor([0.7, 0.3]), torch.tensor([0.5, 0.5])
    evidence, tiny = math.log(0.5), 1e-30
    kl = float((q * (q / prior).log()).sum())
    assert math.log(0.7) - kl == pytest.approx(-0.439, abs=1e-3) and math.log(0.7) - kl > evidence
    bounds = []
    for paths in (2, 8, 64):
        states = torch.multinomial(q, 2000 * paths, True, generator=torch.Generator().manual_seed(paths))
        states = states.view(2000, paths)
        ratio = (prior / q).log()[states]
        logits = torch.tensor([[30.0, 0.0], [0.0, 70.0]])[states]  # p(y = 0) is 1 and 0
        found = [
            -float(path_likelihood(one[None], torch.tensor([0]), "importance", log_ratio=weight))
            for one, weight in zip(logits, ratio, strict=True)
        ]
        bounds.append(float(np.mean(np.maximum(found, math.log(tiny)))))
    assert bounds[0] < bounds[1] < bounds[2] < evidence + 0.01


@pytest.mark.parametrize("objective", ["elbo", "mixture", "importance"])
def test_every_objective_trains(blocks: Graph, objective: str) -> None:
    model = closed(blocks, objective=objective, kl_weight=1e-3).fit(blocks)
    assert math.isfinite(model.history[-1].loss)


def test_importance_needs_a_closed_kl(blocks: Graph) -> None:
    with pytest.raises(BadUsage, match="E-KL"):
        closed(blocks, objective="importance", prior="ou", kl_weight=0.0).fit(blocks)


def test_agreement_is_asked_of_nodes_that_resemble_the_classes() -> None:
    """Nodes of a class that nobody was trained on get little of it."""
    graph = block_graph(per_class=40)
    left = gs.make_split(graph, "leave-class-out", leave="last").apply(graph)
    gate = {"kind": "confident", "by_evidence": True}
    learner = gs.LGNSDE(**{**BASE, "consistency": gate}).learner(left)
    weights = learner.resemblance
    assert weights is not None and left.ood_mask is not None and left.test_mask is not None
    ood, known = torch.from_numpy(left.ood_mask.copy()), torch.from_numpy(left.test_mask & ~left.ood_mask)
    assert float(weights[known].mean()) > float(weights[ood].mean()) + 0.3
    assert float(weights.min()) > 0 and float(weights.max()) == 1.0
    plain = gs.LGNSDE(**{**BASE, "consistency": {"kind": "confident", "by_evidence": False}}).learner(left)
    assert plain.resemblance is None


def test_former_names_of_objectives_are_read(blocks: Graph) -> None:
    assert gs.LGNSDE(objective="log-mean").settings.objective == "mixture"
    assert gs.LGNSDE(objective="mean").settings.objective == "elbo"


def test_validation_draws_are_keyed_by_the_seed(blocks: Graph) -> None:
    learner = gs.LGNSDE(**{**BASE, "sigma": 0.5, "seed": 4}).learner(blocks)
    learner.loss(1)
    first, again = learner.validation_logits(), learner.validation_logits()
    assert torch.equal(first, again) and first.shape[1] == 32
    assert derive(4, "validation paths") != derive(5, "validation paths")


@pytest.mark.parametrize("member", ["far", "noisy", "wide", "rest-free"])
def test_threads_change_no_bit(member: str) -> None:
    graph = gs.synthetic(3000, features=24)
    graph = gs.make_split(graph, "fractions").apply(graph)
    chosen = next(one for one in listed_candidates("lgnsde") if one.name == member)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            model = gs.LGNSDE(race=False, epochs=3).as_candidate(chosen).fit(graph)
            found.append(model.predict(graph, samples=3).probs)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*found)
