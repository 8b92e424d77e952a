"""The keep probability of Beta–Bernoulli DropConnect against torch's own distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Beta, Kumaraswamy, RelaxedBernoulli

from graphsde.models.bgcn import KeepRate, kumaraswamy_kl, log_odds, relaxed_bernoulli

SHAPES = [(0.8, 1.0), (1.5, 0.97), (0.3, 0.4), (4.0, 2.5), (0.9, 20.0)]


def grid(points: int) -> torch.Tensor:
    return (torch.arange(points, dtype=torch.float64) + 0.5) / points


def rate(a: float, b: float, alpha: float = 0.8) -> KeepRate:
    """A rate with given parameters, in double precision."""
    made = KeepRate(alpha, torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        made.raw_a.copy_(torch.tensor(a, dtype=torch.float64).expm1().log())
        made.raw_b.copy_(torch.tensor(b, dtype=torch.float64).expm1().log())
    return made


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.0, 5.0])
def test_kl_of_the_prior_itself_is_zero(alpha: float) -> None:
    """Kumaraswamy(α, 1) and Beta(α, 1) are one distribution."""
    one = torch.tensor(1.0, dtype=torch.float64)
    assert float(kumaraswamy_kl(alpha * one, one, alpha)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.8, 2.0])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_kl_is_the_integral_that_it_stands_for(a: float, b: float, alpha: float) -> None:
    posterior = Kumaraswamy(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
    prior = Beta(torch.tensor(alpha, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64))
    draws = rate(a, b).log_keep(grid(400_000)).exp().clamp(1e-300, 1 - 1e-15)
    integral = float((posterior.log_prob(draws) - prior.log_prob(draws)).mean().detach())
    closed = float(kumaraswamy_kl(posterior.concentration1, posterior.concentration0, alpha))
    assert closed == pytest.approx(integral, abs=2e-3)
    assert closed >= 0


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_draws_and_mean_are_kumaraswamys(a: float, b: float) -> None:
    made, uniform = rate(a, b), grid(1000)
    keep = made.log_keep(uniform).exp()
    # its distribution function, written out: torch's own is not implemented at the ends
    np.testing.assert_allclose((1 - (1 - keep**a) ** b).detach(), 1 - uniform, atol=1e-9)
    torch_mean = Kumaraswamy(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)).mean
    assert float(made.log_mean().exp()) == pytest.approx(float(torch_mean), rel=1e-9)


def test_the_start_keeps_six_edges_in_ten() -> None:
    means = [float(KeepRate(0.8, torch.Generator().manual_seed(seed)).log_mean().exp()) for seed in range(20)]
    assert min(means) > 0.55 and max(means) < 0.68


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.9])
def test_relaxed_masks_have_torchs_density(keep: float) -> None:
    uniform = grid(2001)[5:-5].requires_grad_()
    z = relaxed_bernoulli(log_odds(torch.tensor(keep, dtype=torch.float64).log()), uniform, 0.67)
    (slope,) = torch.autograd.grad(z.sum(), uniform)
    theirs = RelaxedBernoulli(torch.tensor(0.67), probs=torch.tensor(keep, dtype=torch.float64))
    np.testing.assert_allclose(-slope.log(), theirs.log_prob(z.detach()), atol=1e-6)
    # whatever the temperature, a mask is nearer to one with the keep probability
    assert float((z > 0.5).double().mean()) == pytest.approx(keep, abs=1e-2)


def test_rates_near_zero_and_one_are_finite_with_finite_gradients() -> None:
    for a, b in [(1e9, 1.0), (1e-4, 1.0), (1.0, 200.0), (1.0, 1e-3)]:
        made = KeepRate(0.8, torch.Generator().manual_seed(0))
        with torch.no_grad():
            made.raw_a.fill_(a if a > 20 else float(np.log(np.expm1(a))))
            made.raw_b.fill_(b if b > 20 else float(np.log(np.expm1(b))))
        for u in (0.0, 1e-7, 0.5, 1.0 - 2**-24):
            made.zero_grad()
            masks = relaxed_bernoulli(log_odds(made.log_keep(torch.tensor(u))), torch.tensor([0.0, 0.5, 1.0]), 0.67)
            (masks.sum() + made.kl()).backward()
            assert torch.isfinite(masks).all() and (masks >= 0).all() and (masks <= 1).all()
            assert torch.isfinite(made.raw_a.grad) and torch.isfinite(made.raw_b.grad)
