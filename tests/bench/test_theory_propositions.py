"""Both propositions on many random networks: no violation; and violations as soon as a constant is too small."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage, NotFitted
from graphsde.bench.theory import Subject, TheoryOptions, measure_subject, measure_theory
from graphsde.bench.theory.bounds import constants_of
from graphsde.graph.adjacency import Adjacency
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.lgnsde.settings import LGNSDESettings
from graphsde.models.neural import Inputs
from graphsde.sde.brownian import node_keys

from support import block_graph

SMALL = TheoryOptions(samples=32, paths=2, epsilons=(0.01, 1.0), directions=1, power_steps=2)
TINY = replace(SMALL, epsilons=(0.3,), power_steps=1)
SOLVERS = ("euler", "heun", "sra1", "srk", "reversible-heun")


def random_subject(seed: int, edges: bool = True, **settings: Any) -> Subject:
    """A network with weights of any size on a small graph, directed or weighted now and then; nothing is fitted."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 13)), int(settings.pop("hidden", rng.integers(1, 5)))
    links = np.triu(rng.random((n, n)) < rng.uniform(0, 0.8), 1) * (rng.random((n, n)) + 0.1 if seed % 3 == 0 else 1.0)
    directed = seed % 7 == 0
    matrix = sp.csr_array((links if directed else links + links.T) * edges)
    parts: dict[str, Any] = {
        "hidden": d,
        "decoder": str(rng.choice(["linear", "gcn"])),
        "decoder_activation": str(rng.choice(["none", "relu"])),
        "prior": {"name": "ou"},
        "sigma": float(rng.uniform(0.1, 2.0)),
        "sigma_is": "absolute",
        "horizon": float(rng.uniform(0.1, 2.0)),
        "steps": int(rng.integers(1, 5)),
        **settings,
    }
    module = LGNSDEModule(3, int(rng.integers(2, 5)), LGNSDESettings(**parts), torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.startswith("diffusion"):
                parameter.mul_(float(rng.uniform(0.3, 3.0))).add_(
                    torch.from_numpy(rng.normal(size=parameter.shape)) * 0.3
                )
        module.log_temperature.fill_(float(rng.normal()))
        module.gain.fill_(float(rng.uniform(0.1, 2.0)))
    inputs = Inputs(
        torch.from_numpy(rng.normal(size=(n, 3)).astype(np.float32)), Adjacency(matrix, directed=directed).operator
    )
    return Subject.of_module(module, inputs, node_keys(np.arange(n)), seed)


def gcn(seed: int, **options: Any) -> dict[str, Any]:
    activation = ("softplus", "tanh", "relu")[seed % 3]
    options = {"layers": 1 + seed % 3, "activation": activation, "time": seed % 2 == 0, **options}
    return {
        "drift": {"name": "gcn", "options": options},
        "diffusion": {"name": ("constant", "smoothed")[seed % 2]},
        "solver": {"name": SOLVERS[seed % 5]},
    }


def diffusion(seed: int, noise: str) -> dict[str, Any]:
    teleport = seed % 11 / 10
    operator = "random-walk" if seed % 5 == 4 and seed % 3 and seed % 7 else "symmetric"
    source = ("identity", "smoothing")[seed % 2]
    options = {"teleport": teleport, "source_operator": source, "operator": operator, "rate": 0.3 + seed % 4 / 3}
    both = {"drift": {"name": "graph-heat", "options": options}, "diffusion": {"name": noise}}
    if seed % 4 == 0:
        prior = {"name": "graph-ou", "options": {"teleport": teleport}}
        return {**both, "sigma_is": "ratio", "prior": prior, "solver": {"name": "euler"}}
    return {**both, "solver": {"name": SOLVERS[seed % 5]}}


KINDS = {
    "gcn": gcn,
    "gcn, bounded": lambda seed: gcn(seed, spectral_bound=0.5 + seed % 3),
    "diffusion, constant": lambda seed: diffusion(seed, "constant"),
    "diffusion, smoothed": lambda seed: diffusion(seed, "smoothed"),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_violation_in_a_thousand_networks(kind: str) -> None:
    """250 of each of four kinds."""
    first = 1000 * list(KINDS).index(kind)
    failed = []
    for seed in range(first, first + 250):
        report = measure_subject(random_subject(seed, **KINDS[kind](seed)), TINY)
        if report.violations:
            failed.append((seed, report.solver, report.rows()))
    assert not failed


@pytest.mark.parametrize(
    "settings",
    [
        {"drift": {"name": "reaction"}, "solver": {"name": "sra1"}},
        {"drift": {"name": "reaction", "options": {"reaction": "source"}}},
        {"drift": {"name": "second-order"}, "diffusion": {"name": "velocity"}, "hidden": 4},
        {"drift": {"name": "gcn"}, "diffusion": {"name": "state-dependent"}},
        {"drift": {"name": "gcn"}, "diffusion": {"name": "per-dimension", "options": {"learn": True}}},
        {"drift": {"name": "gcn"}, "diffusion": {"name": "q-wiener", "options": {"modes": 2}}},
        {"drift": {"name": "gcn"}, "diffusion": {"name": "learned"}, "steps": 40},
        {"drift": {"name": "gcn"}, "sigma": 0.0, "solver": {"name": "rk4"}},
    ],
    ids=lambda s: " ".join(part.get("name", "") for part in s.values() if isinstance(part, dict)),
)
def test_no_violation_with_other_parts(settings: dict[str, Any]) -> None:
    for seed in (1, 2, 4, 5, 8, 10):  # undirected, where every operator is defined
        report = measure_subject(random_subject(seed, **{"solver": {"name": "euler"}, **settings}), SMALL)
        assert report.violations == 0, report.rows()
        assert report.proposition_1.n > 0 and report.proposition_2.n > 0
        assert report.proposition_2.mean_square == (settings.get("diffusion") == {"name": "state-dependent"})


def growing(steps: int = 6) -> Subject:
    """Nodes without edges and f(H) = 0.8 H: Euler's chain is known exactly, and every bound of it is reached."""
    parts = {"drift": {"name": "gcn", "options": {"layers": 1, "time": False}}, "diffusion": {"name": "constant"}}
    subject = random_subject(3, edges=False, hidden=2, steps=steps, horizon=3.0, solver={"name": "euler"}, **parts)
    with torch.no_grad():
        subject.module.drift.weights[0].copy_(0.8 * torch.eye(2))
        subject.module.drift.biases[0].zero_()
    return subject


MANY = replace(SMALL, samples=400)


def test_both_sides_agree_where_the_bound_is_exact() -> None:
    report = measure_subject(growing(), MANY)
    first, second = report.proposition_1, report.proposition_2
    assert report.constants.l_f == pytest.approx(0.8) and report.violations == 0
    assert (abs(first.latent - first.bounds.chain) <= 4 * first.latent_error + 1e-12).all()
    assert first.latent_error[-1] < 0.1 * first.latent[-1]
    np.testing.assert_allclose(second.distance, second.epsilons[:, None] * second.bounds.chain, rtol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_drift_constant_that_is_too_small_is_found_out(share: float) -> None:
    subject = growing()
    known = constants_of(subject)
    report = measure_subject(subject, MANY, replace(known, l_f=share * known.l_f))
    assert report.proposition_1.latent_violations["chain"] > 0 and report.proposition_2.violations_by_bound["chain"] > 0
    assert "FAILED" in report.proposition_2.sentence and report.as_dict()["proposition_2"]["violations"] > 0


def test_noise_that_is_larger_than_said_is_found_out() -> None:
    subject = growing()
    known = constants_of(subject)
    report = measure_subject(subject, MANY, replace(known, power=0.5 * known.power))
    assert report.proposition_1.latent_violations["chain"] > 0


def test_a_readout_constant_that_is_too_small_is_found_out() -> None:
    parts = {"drift": {"name": "gcn"}, "decoder": "linear", "decoder_activation": "none", "hidden": 1}
    subject = random_subject(5, solver={"name": "euler"}, diffusion={"name": "constant"}, **parts)
    known = constants_of(subject)
    first = measure_subject(subject, SMALL).proposition_1
    # one dimension and no relu: the readout is linear and its constant is reached
    np.testing.assert_allclose(first.logits, first.logits_right, rtol=1e-9)
    report = measure_subject(subject, SMALL, replace(known, l_h_logits=0.99 * known.l_h_logits))
    times_after_start = len(first.times) - 1
    assert report.proposition_1.output_violations["logits"] == first.pairs * times_after_start
    sure = measure_subject(subject, SMALL, replace(known, l_h_probabilities=1e-3 * known.l_h_probabilities))
    assert sure.proposition_1.output_violations["probabilities"] > 0


def test_a_source_that_is_forgotten_is_found_out() -> None:
    options = {"teleport": 0.5, "source": 3.0}
    subject = random_subject(
        1, drift={"name": "graph-heat", "options": options}, diffusion={"name": "constant"}, solver={"name": "euler"}
    )
    known = constants_of(subject)
    assert known.source == 3.0
    assert measure_subject(subject, SMALL).violations == 0
    report = measure_subject(subject, SMALL, replace(known, source=0.0))
    assert report.proposition_2.violations_by_bound["contractive"] > 0


def test_power_iteration_finds_a_worse_direction_than_chance() -> None:
    subject = random_subject(2, **gcn(2))
    chance = measure_subject(subject, replace(SMALL, power_steps=0, epsilons=(1e-3,))).proposition_2
    found = measure_subject(subject, replace(SMALL, power_steps=20, epsilons=(1e-3,))).proposition_2
    assert found.distance[0, -1] > 1.05 * chance.distance[0, -1]


@pytest.fixture(scope="module")
def fitted() -> gs.LGNSDE:
    return gs.LGNSDE(preset="universal", epochs=3, seed=1).fit(block_graph())


def test_the_states_looked_at_are_those_of_predict(fitted: gs.LGNSDE) -> None:
    """predict adds the scaled unit noise to the mean path in single precision; here the equation itself is stepped."""
    graph = block_graph()
    subject = Subject.of_model(fitted, graph)
    assert isinstance(fitted.module, LGNSDEModule)
    inputs = Inputs(subject.inputs.features.float(), graph.adjacency.operator)
    with torch.no_grad():
        superposed = fitted.module.evolve(inputs, Noise(subject.stream, subject.keys, range(4)), None).state
    stepped = subject.states(range(4))[-1]
    assert float((stepped - superposed).abs().max()) <= 1e-5 * max(1.0, float(stepped.abs().max()))
    prediction, logits = fitted.predict(graph, samples=4), subject.logits(stepped)
    assert prediction.logits is not None
    np.testing.assert_allclose(logits.transpose(0, 1), prediction.logits, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(subject.probabilities(logits).transpose(0, 1), prediction.probs, atol=1e-5)


def test_a_fitted_model_is_measured_and_left_alone(fitted: gs.LGNSDE) -> None:
    graph = block_graph()
    before = {name: value.clone() for name, value in fitted.module.state_dict().items()}  # type: ignore[union-attr]
    report = measure_theory(fitted, graph)
    assert all(torch.equal(before[name], value) for name, value in fitted.module.state_dict().items())  # type: ignore[union-attr]
    assert report.violations == 0 and report.one_sided == pytest.approx(-0.2, abs=1e-6)
    # graph diffusion: the contractive bounds say something, the exponential ones nothing
    first, second = report.proposition_1.as_dict(), report.proposition_2.as_dict()
    assert first["latent_left"] < first["latent_right_contractive"] < 10 * first["latent_left"]
    assert first["latent_right"] > 1e4 * first["latent_left"] and "not informative" in first["sentence"]
    assert second["left"] <= second["right_contractive"] * (1 + 1e-9) < second["right_chain"] < second["right"]


def test_many_steps_are_looked_at_in_part() -> None:
    report = measure_subject(random_subject(4, **{**gcn(4), "steps": 200, "horizon": 0.5}), TINY)
    assert len(report.proposition_1.times) == 33 and report.proposition_1.times[-1] == pytest.approx(0.5)
    assert report.violations == 0


def test_an_ordinary_equation_has_no_variance_to_bound() -> None:
    graph = block_graph()
    report = measure_theory(gs.GNODE(epochs=2).fit(graph), graph)
    assert report.violations == 0 and report.proposition_1.latent[-1] == 0.0
    assert "no noise" in report.proposition_1.sentence and report.proposition_2.distance[-1, -1] > 0


def test_what_is_not_a_number_is_null() -> None:
    subject = growing()
    report = measure_subject(subject, SMALL, replace(constants_of(subject), l_f=1e6))
    values = report.as_dict()["proposition_1"]
    assert values["latent_right"] is None and math.isfinite(values["latent_right_chain"])
    assert "beyond the range of numbers" in values["sentence"]


def test_what_can_not_be_measured_is_refused() -> None:
    graph = block_graph()
    with pytest.raises(BadUsage, match="'gcn' is not one"):
        measure_theory(gs.GCN(epochs=1).fit(graph), graph)
    with pytest.raises(NotFitted):
        measure_theory(gs.LGNSDE(), graph)
    with pytest.raises(BadUsage, match="spectral_bound"):
        measure_subject(
            random_subject(1, drift={"name": "gat", "options": {"heads": 1}}, solver={"name": "euler"}), SMALL
        )
    attention = {"name": "graph-heat", "options": {"attention": "linear"}}
    with pytest.raises(BadUsage, match="attention=none"):
        measure_subject(random_subject(1, drift=attention, solver={"name": "euler"}), SMALL)
    with pytest.raises(BadUsage, match="paired"):
        TheoryOptions(samples=5).check()
    with pytest.raises(BadUsage, match="positive"):
        TheoryOptions(epsilons=(0.0,)).check()
