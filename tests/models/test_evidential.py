"""Dirichlet calculus against torch.distributions, closed forms and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from torch.distributions import Dirichlet, kl_divergence

from graphsde.models.evidential import dirichlet_entropy, dirichlet_kl, uncertain_cross_entropy

concentrations = st.lists(st.lists(st.floats(1.0, 900.0), min_size=3, max_size=3), min_size=1, max_size=4)


@settings(max_examples=30, deadline=None)
@given(concentrations, st.floats(1.0, 50.0))
def test_entropy_and_divergence_are_those_of_torch(rows: list[list[float]], other: float) -> None:
    alpha = torch.tensor(rows, dtype=torch.float64)
    prior = torch.full_like(alpha, other)
    torch.testing.assert_close(dirichlet_entropy(alpha), Dirichlet(alpha).entropy(), rtol=1e-9, atol=1e-9)
    expected = kl_divergence(Dirichlet(alpha), Dirichlet(prior))
    torch.testing.assert_close(dirichlet_kl(alpha, prior), expected, rtol=1e-9, atol=1e-8)


def test_entropy_of_no_evidence_is_that_of_the_flat_simplex() -> None:
    assert float(dirichlet_entropy(torch.ones(1, 4))) == pytest.approx(-math.log(6))
    assert float(dirichlet_kl(torch.ones(1, 4), torch.ones(1, 4))) == 0


def test_entropy_is_continuous_where_the_series_takes_over() -> None:
    alpha = torch.tensor([[1e3, 1e3, 1.5], [1e3 * (1 + 1e-12), 1e3 * (1 + 1e-12), 1.5]], dtype=torch.float64)
    below, above = dirichlet_entropy(alpha)
    assert float(above - below) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e12])
def test_entropy_of_huge_concentrations_is_that_of_a_gaussian(scale: float) -> None:
    share = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    alpha = scale * share
    gauss = 0.5 * 2 * (1 + math.log(2 * math.pi)) + 0.5 * float(alpha.log().sum()) - 2.5 * math.log(scale)
    assert float(dirichlet_entropy(alpha)) == pytest.approx(gauss, abs=10 / scale)


def test_entropy_of_one_sided_evidence_keeps_its_digits() -> None:
    """Dir(a, 1) has density a p^(a−1), so its entropy is 1 − 1/a − ln a; the textbook sum loses it in rounding."""
    for a in (10.0, 1e4, 1e9, 1e13):
        entropy = float(dirichlet_entropy(torch.tensor([[a, 1.0]], dtype=torch.float64)))
        assert entropy == pytest.approx(1 - 1 / a - math.log(a), abs=1e-9)


def test_uncertain_cross_entropy_by_hand_and_in_the_limit_of_certainty() -> None:
    alpha = torch.tensor([[3.0, 1.0, 2.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 2])
    expected = [digamma(6.0) - digamma(3.0), digamma(3.0) - digamma(1.0)]
    np.testing.assert_allclose(uncertain_cross_entropy(alpha, labels).numpy(), expected, rtol=1e-12)
    mean = alpha / alpha.sum(-1, keepdim=True)
    limit = -mean.gather(-1, labels[:, None])[:, 0].log()
    for scale in (1e3, 1e6):
        gap = (uncertain_cross_entropy(scale * alpha, labels) - limit).abs().max()
        assert float(gap) < 2 / scale
    # uncertainty about the probabilities costs: the expected loss is above that of the mean
    assert bool((uncertain_cross_entropy(alpha, labels) > limit).all())


def test_gradients_agree_with_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    alpha = (1 + 5 * torch.rand(4, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    prior = (1 + torch.rand(4, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([0, 1, 2, 0])
    assert torch.autograd.gradcheck(lambda a: uncertain_cross_entropy(a, labels), (alpha,))
    assert torch.autograd.gradcheck(dirichlet_entropy, (alpha,))
    assert torch.autograd.gradcheck(dirichlet_entropy, ((alpha.detach() * 1e4).requires_grad_(),), eps=1e-2)
    assert torch.autograd.gradcheck(dirichlet_kl, (alpha, prior))
