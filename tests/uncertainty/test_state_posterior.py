"""The posterior over logits against Bayesian linear regression, its dual form, and what more labels must do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphsde.base.errors import BadInput, BadUsage
from graphsde.uncertainty.state_posterior import StatePosterior

PRIOR, CURVATURE = 3.0, 0.2


def features(nodes: int = 40, width: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(nodes, width)) + 0.7)


def directions(psi: torch.Tensor, rows: torch.Tensor) -> np.ndarray:
    offset = (psi - psi[rows].mean(0)).numpy()
    return offset / np.linalg.norm(offset, axis=1, keepdims=True)


def test_it_is_the_covariance_of_bayesian_linear_regression() -> None:
    """Weights N(0, s² I), one observation of precision β per training node: the textbook posterior covariance."""
    psi, rows = features(), torch.arange(15)
    f = directions(psi, rows)
    covariance = np.linalg.inv(np.eye(6) / PRIOR + CURVATURE * f[:15].T @ f[:15])
    found = StatePosterior.of(psi, rows, prior=PRIOR, curvature=CURVATURE).variance(psi).numpy()
    np.testing.assert_allclose(found, np.diag(f @ covariance @ f.T), rtol=1e-10)


@pytest.mark.parametrize(("nodes", "width"), [(4, 9), (15, 6), (30, 30)])
def test_the_dual_form_agrees_and_so_does_conditioning_by_brute_force(nodes: int, width: int) -> None:
    psi, rows = features(width=width), torch.arange(nodes)
    f = directions(psi, rows)
    kernel = f @ f[:nodes].T
    inside = f[:nodes] @ f[:nodes].T + np.eye(nodes) / (CURVATURE * PRIOR)
    dual = PRIOR * (1.0 - np.einsum("ij,ji->i", kernel, np.linalg.solve(inside, kernel.T)))
    joint = PRIOR * f @ f.T  # of logits at all nodes, conditioned on noisy values at the training nodes
    noisy = joint[:nodes, :nodes] + np.eye(nodes) / CURVATURE
    brute = np.diag(joint - joint[:, :nodes] @ np.linalg.inv(noisy) @ joint[:nodes])
    found = StatePosterior.of(psi, rows, prior=PRIOR, curvature=CURVATURE).variance(psi).numpy()
    np.testing.assert_allclose(found, dual, rtol=1e-9)
    np.testing.assert_allclose(found, brute, rtol=1e-9)


def test_no_variance_rises_when_a_training_node_is_added() -> None:
    psi, centre = features(60, 10, seed=3), torch.full((10,), 0.7, dtype=torch.float64)
    before = torch.full((60,), PRIOR, dtype=torch.float64)
    for count in range(1, 40):
        known = StatePosterior.of(psi, torch.arange(count), prior=PRIOR, curvature=CURVATURE, centre=centre)
        after = known.variance(psi)
        assert bool((after <= before + 1e-12).all()) and float(after[count - 1]) < float(before[count - 1])
        assert bool((after >= 0).all())
        before = after


def test_bounds_and_limits() -> None:
    psi, rows = features(), torch.arange(15)
    assert bool((StatePosterior.of(psi, rows, prior=0.0, curvature=1.0).variance(psi) == 0).all())
    unread = StatePosterior.of(psi, rows, prior=PRIOR, curvature=0.0).variance(psi)
    torch.testing.assert_close(unread, torch.full_like(unread, PRIOR))
    certain = StatePosterior.of(psi, rows, prior=PRIOR, curvature=1e9).variance(psi)
    assert float(certain.max()) < 1e-6  # 15 directions span all six


def test_a_node_without_a_direction_is_as_unknown_as_before_any_label() -> None:
    psi = torch.cat([features(), torch.zeros(1, 6, dtype=torch.float64)])
    psi[-1] = psi[:15].mean(0)
    found = StatePosterior.of(psi, torch.arange(15), prior=PRIOR, curvature=CURVATURE).variance(psi)
    assert float(found[-1]) == pytest.approx(PRIOR) and float(found[:-1].max()) < PRIOR


def test_the_length_of_features_plays_no_part() -> None:
    psi, rows = features(), torch.arange(15)
    known = StatePosterior.of(psi, rows, prior=PRIOR, curvature=CURVATURE)
    farther = known.centre + 5.0 * (psi - known.centre)
    torch.testing.assert_close(known.variance(psi), known.variance(farther))


def test_kept_tensors_give_the_same_and_bad_ones_are_refused() -> None:
    psi = features()
    known = StatePosterior.of(psi.float(), torch.arange(15), prior=PRIOR, curvature=CURVATURE)
    again = StatePosterior.from_tensors(known.tensors())
    assert torch.equal(known.variance(psi), again.variance(psi))
    with pytest.raises(BadUsage, match="not those that the posterior was made from"):
        known.variance(psi[:, :3])
    with pytest.raises(BadInput) as shape:
        StatePosterior.from_tensors({**known.tensors(), "gram": torch.zeros(2, 2)})
    with pytest.raises(BadInput) as finite:
        StatePosterior.from_tensors({**known.tensors(), "centre": torch.full((6,), torch.nan)})
    assert (shape.value.code, finite.value.code) == ("E-MODEL-SHAPE", "E-MODEL-NAN")
    with pytest.raises(BadUsage):
        StatePosterior.of(psi, torch.arange(15), prior=-1.0, curvature=1.0)
