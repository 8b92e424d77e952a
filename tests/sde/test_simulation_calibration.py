"""Simulation-based calibration of the latent SDE where the posterior has a closed form: the study of that name."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

PATH = Path(__file__).resolve().parents[2] / "studies" / "simulation_calibration.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulation_calibration", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_posterior_paths_have_the_closed_mean_and_covariance(study: ModuleType) -> None:
    model, count = replace(study.LinearModel(), steps=24), 20_000
    _, y = study.observe(model, 1, seed=3)
    drawn = study.solve(model, count, 11, y.repeat_interleave(count, dim=1))
    for time, states in zip(drawn.times[1:], drawn.saved[1:], strict=True):
        mean, covariance = model.posterior(time, y)
        error = covariance.diagonal().sqrt()
        assert float(((states[:, :, 0].mean(1) - mean[:, 0]) / error).abs().max()) <= 4.5 / count**0.5
        scaled = torch.cov(states[:, :, 0]) / error / error[:, None]
        assert float((scaled - covariance / error / error[:, None]).abs().max()) <= 4.5 * (2 / count) ** 0.5


def test_with_the_exact_control_the_bound_is_the_evidence(study: ModuleType) -> None:
    """E ln p(y|H) − KL = ln p(y) where the posterior is the true one: the path KL against a Gaussian density."""
    model, count = study.LinearModel(), 4_000
    _, y = study.observe(model, 3, seed=5)
    drawn = study.solve(model, 3 * count, 13, y.repeat_interleave(count, dim=1))
    seen = drawn.final[list(study.OBSERVED), :, 0]
    fit = torch.distributions.Normal(seen, model.tau).log_prob(y.repeat_interleave(count, dim=1)).sum(0)
    bound = (fit - drawn.kl).view(3, count)
    error = bound.std(1) / count**0.5
    # the bias of 48 steps is below a fiftieth of a nat
    assert bool(((bound.mean(1) - model.log_evidence(y)).abs() <= 4 * error + 0.02).all())
    assert float(drawn.kl.mean()) > 0.5  # the data do pull


def test_ranks_of_the_truth_are_uniform_and_a_variance_too_large_is_noticed(study: ModuleType) -> None:
    model = replace(study.LinearModel(), steps=24)
    right = study.calibrate(model, 1000, draws=31)
    for one in right:
        assert one.ranks == 6000 and one.p_chi_square >= 1e-3 and one.p_ecdf >= 1e-3 and one.distance <= one.band
        assert one.spread == pytest.approx(1.0, abs=0.08)
    for one in study.calibrate(replace(model, variance_factor=study.PLANTED), 1000, draws=31):
        assert one.p_chi_square <= 1e-5 and one.spread == pytest.approx(1 / study.PLANTED, abs=0.07)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sra1", "heun", "euler"])
def test_ranks_of_many_simulations(study: ModuleType, solver: str) -> None:
    model = replace(study.LinearModel(), solver=solver, steps=48 if solver == "sra1" else 192)
    for one in study.calibrate(model, 5000, seed=1):
        assert one.p_chi_square >= 1e-3 and one.p_ecdf >= 1e-3 and one.distance <= one.band
    for one in study.calibrate(replace(model, variance_factor=study.PLANTED), 5000, seed=1):
        assert one.p_chi_square <= 1e-20 and one.p_ecdf <= 1e-6
