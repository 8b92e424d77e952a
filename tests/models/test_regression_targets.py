"""Models of numbers: Gaussian likelihood, exact Gaussian process, and what the four that can do it have in common."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.graph.target import RegressionTarget
from graphsde.models import MODELS
from graphsde.models.base import handled_targets
from graphsde.models.graph_gp.kernel import NodeKernel, Places
from graphsde.models.graph_gp.regression import JITTER, collapsed, marginals
from graphsde.models.lgnsde.learner import path_likelihood
from graphsde.nn.likelihood import ClassLikelihood, GaussianLikelihood, TargetScale, log_density, mean_and_variance
from graphsde.prediction import Perturb, RegressionPrediction

SMALL: dict[str, dict[str, Any]] = {
    "gcn": {"hidden": 8, "epochs": 5},
    "lgnsde": {"hidden": 8, "epochs": 5, "evaluate_every": 1},
    "graph-gp": {"epochs": 5, "evaluate_every": 1},
    "ensemble": {"base": "gcn", "base_settings": {"hidden": 8, "epochs": 3}, "members": 2},
}
NAMES = list(SMALL)
UNIT = TargetScale(0.0, 1.0)


@cache
def numbers_graph() -> Graph:
    graph = gs.synthetic_regression(60, features=8, classes=3, degree=4.0, seed=2)
    return gs.make_split(graph, "fractions", train=0.5, val=0.2, calibration=0.0, test=0.3).apply(graph)


def make(name: str, **more: Any) -> gs.Model:
    return MODELS.get(name)(**{"seed": 3, **SMALL[name], **more})


@cache
def fitted(name: str) -> gs.Model:
    return make(name).fit(numbers_graph())


def said(model: gs.Model, graph: Graph, **options: Any) -> RegressionPrediction:
    prediction = model.predict(graph, **options)
    assert isinstance(prediction, RegressionPrediction)
    return prediction


# the likelihood


def test_log_density_is_the_gaussian_one() -> None:
    outputs = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.linspace(-3, 3, 20, dtype=torch.float64)
    level = torch.tensor(-0.7, dtype=torch.float64)
    mean, variance = mean_and_variance(outputs, level)
    expected = stats.norm.logpdf(targets.numpy(), mean.numpy(), variance.sqrt().numpy())
    np.testing.assert_allclose(log_density(outputs, targets, level).numpy(), expected, rtol=1e-12)
    oracle = torch.nn.functional.gaussian_nll_loss(mean, targets, variance, full=True)
    assert float(GaussianLikelihood(UNIT, level).loss(outputs, targets)) == pytest.approx(float(oracle), rel=1e-10)


def test_a_nodes_noise_stays_within_a_factor_of_ten_of_the_shared_level() -> None:
    level = torch.tensor(0.3)
    _, variance = mean_and_variance(torch.tensor([[0.0, -1e3], [0.0, 0.0], [0.0, 0.1], [0.0, 1e3]]), level)
    np.testing.assert_allclose(variance / level.exp(), [0.1, 1.0, np.exp(0.1), 10.0], rtol=1e-3)


def test_paths_are_a_mixture() -> None:
    outputs = torch.randn(6, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    targets = torch.linspace(-1, 1, 6, dtype=torch.float64)
    likelihood = GaussianLikelihood(UNIT, torch.tensor(0.2, dtype=torch.float64))
    density = log_density(outputs, targets[:, None], likelihood.log_noise).exp()
    expected = float(-density.mean(1).log().mean())
    assert likelihood.validation_of_paths(outputs, targets).nll == pytest.approx(expected, rel=1e-12)
    assert float(path_likelihood(outputs, targets, "mixture", likelihood)) == pytest.approx(expected, rel=1e-7)
    plain = float(-density.log().mean())
    assert float(path_likelihood(outputs, targets, "elbo", likelihood)) == pytest.approx(plain, rel=1e-12)
    assert likelihood.validation(outputs[:, 0], targets).accuracy is None


def test_classes_keep_their_likelihood() -> None:
    outputs = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    flat = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), labels.repeat_interleave(3), reduction="none")
    assert torch.equal(ClassLikelihood().of_paths(outputs, labels), -flat.view(6, 3))
    assert torch.equal(
        ClassLikelihood().loss(outputs[:, 0], labels), torch.nn.functional.cross_entropy(outputs[:, 0], labels)
    )


def test_the_target_is_standardised_on_training_nodes_alone() -> None:
    graph = numbers_graph()
    scale = TargetScale.of(graph)
    train = graph.values[graph.train_mask]
    assert scale.mean == pytest.approx(train.mean()) and scale.scale == pytest.approx(train.std())
    other = np.where(graph.train_mask, graph.values, 1e6)
    assert TargetScale.of(graph.with_target(RegressionTarget(other))) == scale
    for broken in ({"mean": 0.0, "scale": 0.0}, {"mean": float("nan"), "scale": 1.0}):
        with pytest.raises(ValueError, match="scale of the target"):
            TargetScale.from_dict(broken)


# the Gaussian process against linear algebra


def covariance(graph: Graph, nu: float, kappa: float, sigma: float) -> np.ndarray:
    """σ² N (I + κ² L / 2ν)^{−ν} / trace, by a dense eigendecomposition."""
    dense = graph.adjacency.matrix.toarray().astype(np.float64)
    root = np.sqrt(np.where(dense.sum(1) > 0, dense.sum(1), 1.0))
    laplacian = np.diag(dense.sum(1) > 0).astype(np.float64) - dense / root[:, None] / root  # 0 for an isolated node
    values, vectors = np.linalg.eigh(laplacian)
    weights = (1 + kappa**2 * np.maximum(values, 0) / (2 * nu)) ** -nu
    return sigma**2 * len(dense) / weights.sum() * (vectors * weights) @ vectors.T


def test_prediction_with_a_fixed_kernel_is_the_exact_posterior() -> None:
    graph = numbers_graph()
    settings = {"nu": 2.0, "kappa": 3.0, "sigma": 1.3, "learn_kernel": False, "epochs": 1, "early_stop": False}
    model = gs.GraphGP(**settings).fit(graph)
    assert model.module is not None
    noise = float(model.module.noise.detach())  # type: ignore[union-attr, operator]
    kernel, train = covariance(graph, 2.0, 3.0, 1.3), np.flatnonzero(graph.train_mask)
    mean, scale = graph.values[train].mean(), graph.values[train].std()
    gram = kernel[np.ix_(train, train)] + noise * np.eye(len(train))
    solved = np.linalg.solve(gram, kernel[train])
    exact_mean = mean + scale * solved.T @ ((graph.values[train] - mean) / scale)
    exact_variance = scale**2 * (np.diag(kernel) - np.sum(kernel[train] * solved, axis=0))
    prediction = said(model, graph)
    np.testing.assert_allclose(prediction.mean, exact_mean, atol=2e-4 * scale)
    np.testing.assert_allclose(prediction.epistemic, exact_variance, atol=2e-4 * scale**2)
    np.testing.assert_allclose(prediction.aleatoric, scale**2 * noise, rtol=1e-9)
    assert prediction.kind == "gaussian" and prediction.num_samples == 1


def test_the_bound_is_the_marginal_likelihood_and_below_it_with_fewer_inducing_nodes() -> None:
    from graphsde.graph.spectrum import graph_spectrum

    graph = numbers_graph()
    places = Places.of(graph_spectrum(graph.adjacency, "normalised", graph.num_nodes))
    kernel = NodeKernel(2.0, 3.0, 1.3).on(places)
    rows = torch.from_numpy(np.flatnonzero(graph.train_mask))
    values = torch.from_numpy(graph.values)[rows]
    noise = torch.tensor(0.4, dtype=torch.float64)
    gram = covariance(graph, 2.0, 3.0, 1.3)[np.ix_(rows, rows)]
    exact = stats.multivariate_normal(np.zeros(len(rows)), gram + 0.4 * np.eye(len(rows))).logpdf(values.numpy())
    whole, q = collapsed(kernel, rows, rows, values, noise)
    assert float(whole.detach()) == pytest.approx(exact, abs=100 * len(rows) * JITTER)
    some, _ = collapsed(kernel, rows[::3], rows, values, noise)
    more, _ = collapsed(kernel, rows[:-2], rows, values, noise)
    assert float(some.detach()) < float(more.detach()) < float(whole.detach()) + 1e-9
    _, variance = marginals(kernel, rows, q, torch.arange(graph.num_nodes))
    assert bool((variance <= kernel.variance(torch.arange(graph.num_nodes)) + 1e-9).all())


def test_few_inducing_nodes_still_learn_from_all_training_nodes() -> None:
    graph = numbers_graph()
    model = gs.GraphGP(inducing=10, epochs=3, evaluate_every=1).fit(graph)
    assert len(model.inducing) == 10
    moved = graph.values.copy()
    outside = ~np.isin(graph.node_ids, model.inducing) & graph.train_mask
    moved[outside] += np.linspace(-3, 3, outside.sum())
    other = gs.GraphGP(inducing=10, epochs=3, evaluate_every=1).fit(graph.with_target(RegressionTarget(moved)))
    assert np.abs(said(model, graph).mean - said(other, graph).mean).max() > 0.05


def test_the_process_on_another_graph_knows_what_it_finds_there() -> None:
    graph, model = numbers_graph(), fitted("graph-gp")
    part = graph.subgraph(np.arange(40))
    prediction = said(model, part)
    assert np.isfinite(prediction.mean).all() and (prediction.epistemic > 0).all()
    stranger = dataclasses.replace(graph, node_ids=graph.node_ids + 1000)
    with pytest.raises(BadInput, match="none of the training nodes"):
        model.predict(stranger)


# learning


def test_gcn_fits_a_linear_target() -> None:
    """y = Â² X w is what two convolutions can say (w x = relu(w x) − relu(−w x)): the network must find it."""
    graph = gs.synthetic(300, features=6, classes=3, seed=4)
    averaged = graph.adjacency.normalized @ (graph.adjacency.normalized @ graph.features)
    signal = averaged @ np.array([1.0, -2.0, 0.5, 0.0, 1.5, -1.0])
    graph = graph.with_target(RegressionTarget(50 + 20 * signal.astype(np.float64)))
    graph = gs.make_split(graph, "fractions", train=0.6, val=0.2, calibration=0.0, test=0.2).apply(graph)
    model = gs.GCN(hidden=32, dropout=0.0, weight_decay=0.0, lr=0.02, epochs=400, patience=400).fit(graph)
    figures = gs.evaluate(model.predict(graph), graph)
    spread = float(graph.values[graph.test_mask].std())
    assert figures["r2"] > 0.97 and figures["rmse"] < 0.17 * spread
    assert 0.8 <= figures["coverage90"] <= 1.0


def test_learned_noise_follows_the_noise() -> None:
    """Half of the nodes are three times as noisy as the others: the aleatoric part has to tell them apart."""
    graph = gs.synthetic_regression(1200, features=8, classes=3, noise=2.0, seed=7)
    graph = gs.make_split(graph, "fractions", train=0.6, val=0.2, calibration=0.0, test=0.2).apply(graph)
    averaged = np.asarray(graph.features, dtype=np.float64)
    for _ in range(2):
        averaged = graph.adjacency.normalized @ averaged
    noisy = averaged[:, 0] > np.median(averaged[:, 0])
    prediction = said(gs.GCN(hidden=32, dropout=0.1, epochs=200).fit(graph), graph)
    tested = graph.test_mask
    assert np.median(prediction.aleatoric[tested & noisy]) > 2 * np.median(prediction.aleatoric[tested & ~noisy])


def test_an_ensemble_mixes_its_members() -> None:
    model, graph = fitted("ensemble"), numbers_graph()
    members = [said(member, graph) for member in model.members]  # type: ignore[attr-defined]
    both = said(model, graph)
    assert both.kind == "samples" and both.num_samples == 2
    np.testing.assert_allclose(both.mean, np.mean([one.mean for one in members], axis=0))
    gap = (members[0].mean - members[1].mean) ** 2 / 4
    np.testing.assert_allclose(both.epistemic, gap, rtol=1e-9)
    np.testing.assert_allclose(both.aleatoric, np.mean([one.aleatoric for one in members], axis=0))


@pytest.mark.parametrize("base", ["lgnsde", "graph-gp"])
def test_an_ensemble_of_the_others(base: str) -> None:
    settings = {key: value for key, value in SMALL[base].items() if key != "seed"}
    model = gs.Ensemble(base=base, base_settings=settings, members=2).fit(numbers_graph())
    prediction = said(model, numbers_graph(), samples=6)
    assert prediction.num_samples == (6 if base == "lgnsde" else 2)
    assert (prediction.known is not None) == (base == "graph-gp")


# what all four have in common


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_it_says_the_same(name: str, tmp_path: Path) -> None:
    model, graph = fitted(name), numbers_graph()
    back = gs.load_model(model.save(tmp_path))
    one, other = said(model, graph, samples=4), said(back, graph, samples=4)
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.variances, other.variances)
    assert back._target_scale == model._target_scale


@pytest.mark.parametrize("name", NAMES)
def test_nodes_in_another_order_get_the_same_numbers(name: str) -> None:
    model, graph = fitted(name), numbers_graph()
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    one, other = said(model, graph, samples=3), said(model, graph.subgraph(order), samples=3)
    np.testing.assert_allclose(other.means, one.means[:, order], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other.total, one.total[order], rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_another_unit_gives_the_same_answer_in_it(name: str) -> None:
    graph = numbers_graph()
    other = make(name).fit(graph.with_target(RegressionTarget(1000 * graph.values - 7)))
    one, two = said(fitted(name), graph, samples=3), said(other, graph, samples=3)
    np.testing.assert_allclose(two.mean, 1000 * one.mean - 7, rtol=1e-3, atol=1.0)
    np.testing.assert_allclose(two.total, 1e6 * one.total, rtol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_a_refit_is_a_fresh_fit_and_values_outside_training_are_not_looked_at(name: str) -> None:
    graph = numbers_graph()
    hidden = graph.with_target(RegressionTarget(np.where(graph.train_mask | graph.val_mask, graph.values, np.nan)))
    np.testing.assert_array_equal(said(make(name).fit(hidden), graph).mean, said(fitted(name), graph).mean)


def test_sample_k_is_the_same_however_many_are_drawn() -> None:
    few, many = said(fitted("lgnsde"), numbers_graph(), samples=3), said(fitted("lgnsde"), numbers_graph(), samples=9)
    np.testing.assert_array_equal(few.means, many.means[:3])
    assert few.kind == "samples" and (many.epistemic > 0).all()


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(SMALL)))
def test_the_other_models_refuse_and_say_who_can(name: str) -> None:
    with pytest.raises(BadUsage, match=r"E-TARGET.*ensemble, gcn, lgnsde, graph-gp") as error:
        MODELS.get(name)().fit(numbers_graph())
    assert error.value.exit_code == 2 and "\n" not in str(error.value)
    assert handled_targets(MODELS.get(name)) == ("classification",)


def test_classes_and_numbers_are_not_mixed_up() -> None:
    classes = gs.make_split(gs.synthetic(60, features=8, classes=3, degree=4.0), "fractions")
    graph = classes.apply(gs.synthetic(60, features=8, classes=3, degree=4.0))
    with pytest.raises(BadInput, match=r"E-TARGET.*fitted on numbers"):
        fitted("gcn").predict(graph)
    with pytest.raises(BadInput, match=r"E-TARGET.*fitted on classes"):
        gs.GCN(hidden=4, epochs=2).fit(graph).predict(numbers_graph())
    with pytest.raises(BadUsage, match="E-TARGET"):
        fitted("gcn").predict(numbers_graph(), perturb=Perturb(0.01))
    again = gs.GCN(hidden=4, epochs=2).fit(numbers_graph()).fit(graph)  # refitted on classes, it forgets the numbers
    assert again._target_scale is None and again.predict(graph).num_classes == 3


@pytest.mark.parametrize("settings", [{"temperature": True}, {"consistency": {"kind": "confident"}}])
def test_lgnsde_refuses_settings_that_go_by_classes(settings: dict[str, Any]) -> None:
    with pytest.raises(BadUsage, match=r"E-TARGET.*class probabilities"):
        make("lgnsde", **settings).fit(numbers_graph())


def test_a_graph_that_nothing_can_be_learned_from_is_refused() -> None:
    graph = numbers_graph()
    same = graph.with_target(RegressionTarget(np.where(graph.train_mask, 5.0, graph.values)))
    with pytest.raises(BadInput, match="E-ONE-VALUE"):
        make("gcn").fit(same)
    first = np.arange(graph.num_nodes) == np.flatnonzero(graph.train_mask)[0]
    unknown = graph.with_target(RegressionTarget(np.where(first, np.nan, graph.values)))
    with pytest.raises(BadInput, match="E-SPLIT-UNLABELLED"):
        make("graph-gp").fit(unknown)
