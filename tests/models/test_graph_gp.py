"""The graph Gaussian process: posterior against closed forms, then behaviour."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, Diverged, MissingExtra
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.graph.graph import Graph
from graphsde.graph.spectrum import graph_spectrum
from graphsde.models.files import load_model
from graphsde.models.graph_gp import GraphGP
from graphsde.models.graph_gp.kernel import NodeKernel, Places, infer
from graphsde.models.graph_gp.learner import GraphGPLearner
from graphsde.models.graph_gp.settings import GraphGPSettings
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint

from support import as_before_guards, block_graph, needs_real_data

gpytorch = pytest.importorskip("gpytorch", reason="the extra 'gp' is not installed")
from graphsde.models.graph_gp.posterior import JITTER, Posterior  # noqa: E402

D = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def kernel_on(graph: Graph, nu: float = 1.5, kappa: float = 4.0, sigma: float = 2.0) -> NodeKernel:
    spectrum = graph_spectrum(graph.adjacency, "normalised", graph.num_nodes)
    return NodeKernel(nu, kappa, sigma).on(Places.of(spectrum)).requires_grad_(False)


def some_q(classes: int, points: int) -> tuple[torch.Tensor, torch.Tensor]:
    root = (0.3 * normal(classes, points, points, seed=1)).tril() + torch.eye(points, dtype=D)
    return normal(classes, points), root


@pytest.mark.parametrize("nodes", [5, 30])  # gpytorch takes another way where there are more nodes than points
def test_marginals_are_those_of_the_formula(blocks: Graph, nodes: int) -> None:
    kernel, points, rows = kernel_on(blocks), torch.arange(0, 30, 3), torch.arange(nodes)
    mean, root = some_q(3, 10)
    f_mean, f_variance = Posterior.known(kernel, points, mean, root).marginals(rows)
    factor = torch.linalg.cholesky(kernel.between(points, points) + JITTER * torch.eye(10, dtype=D))
    a = torch.linalg.solve(factor, kernel.between(points, rows))
    covariance = kernel.between(rows, rows) - a.T @ a + a.T @ (root @ root.mT) @ a
    torch.testing.assert_close(f_mean, mean @ a)
    torch.testing.assert_close(f_variance, covariance.diagonal(dim1=1, dim2=2), atol=2 * JITTER, rtol=1e-8)


def test_gaussian_likelihood_gives_the_exact_posterior_and_evidence(blocks: Graph) -> None:
    """For y = f + noise the best q(v) is known; then q(f) is the exact posterior and the ELBO is log p(y)."""
    kernel, points, rows, noise = kernel_on(blocks), torch.arange(0, 30, 2), torch.arange(30), 0.4
    y = normal(15, seed=3)
    covariance = kernel.between(points, points) + JITTER * torch.eye(15, dtype=D)
    factor = torch.linalg.cholesky(covariance)
    precision = torch.eye(15, dtype=D) + factor.T @ factor / noise**2
    spread = torch.linalg.inv(precision)
    best = spread @ factor.T @ y / noise**2
    posterior = Posterior.known(kernel, points, best[None], torch.linalg.cholesky(spread)[None])
    mean, variance = posterior.marginals(rows)
    gain = torch.linalg.solve(covariance + noise**2 * torch.eye(15, dtype=D), kernel.between(points, rows))
    torch.testing.assert_close(mean[0], gain.T @ y, atol=1e-5, rtol=1e-5)
    exact = kernel.variance(rows) - (kernel.between(rows, points) * gain.T).sum(1)
    torch.testing.assert_close(variance[0], exact, atol=1e-5, rtol=1e-5)

    mean, variance = (part[0, points] for part in (mean, variance))
    noisy = torch.distributions.Normal(mean, noise)
    elbo = (noisy.log_prob(y) - variance / (2 * noise**2)).sum() - posterior.divergence()
    evidence = torch.distributions.MultivariateNormal(
        torch.zeros(15, dtype=D), covariance + noise**2 * torch.eye(15, dtype=D)
    ).log_prob(y)
    assert float(elbo.detach()) == pytest.approx(float(evidence), abs=1e-3)


@pytest.mark.parametrize("diagonal", [False, True])
def test_divergence_is_that_of_normal_distributions(blocks: Graph, diagonal: bool) -> None:
    posterior = Posterior(kernel_on(blocks), torch.arange(7), 3, diagonal=diagonal)
    assert float(posterior.divergence().detach()) == pytest.approx(0.0, abs=1e-12)  # it starts at the prior
    mean, root = some_q(3, 7)
    with torch.no_grad():
        posterior._q.variational_mean.copy_(mean)
        if diagonal:
            root = torch.diag_embed(root.diagonal(dim1=1, dim2=2).abs())
            posterior._q._variational_stddev.copy_(root.diagonal(dim1=1, dim2=2))
        else:
            posterior._q.chol_variational_covar.copy_(root)
    q = torch.distributions.MultivariateNormal(mean, root @ root.mT)
    prior = torch.distributions.MultivariateNormal(torch.zeros(3, 7, dtype=D), torch.eye(7, dtype=D))
    expected = torch.distributions.kl_divergence(q, prior).sum()
    torch.testing.assert_close(posterior.divergence(), expected)
    kept = posterior.knowledge(torch.zeros(7, dtype=torch.int64)).root
    torch.testing.assert_close(kept @ kept.mT, root @ root.mT)


def test_loss_is_the_negative_elbo(blocks: Graph) -> None:
    """Two classes: softmax needs only the difference of two normals, whose expectation quadrature gives."""
    labels = (np.asarray(blocks.labels) > 0).astype(np.int64)
    graph = blocks.with_labels(labels, ("a", "b"))
    wanted = GraphGPSettings(draws=4000)
    rows = torch.from_numpy(np.flatnonzero(graph.train_mask))
    posterior = Posterior.known(kernel_on(graph), rows, *some_q(2, 12))
    with torch.no_grad():
        loss = float(GraphGPLearner(posterior, wanted, graph).loss(1))
        mean, variance = posterior.marginals(rows)
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    sign = np.where(labels[rows.numpy()] == 1, 1.0, -1.0)
    difference = sign * (mean[1] - mean[0]).numpy()
    drawn = difference[:, None] + variance.sum(0).sqrt().numpy()[:, None] * points
    likelihood = -(np.logaddexp(0, -drawn) @ (weights / weights.sum()))
    expected = float(posterior.divergence().detach()) / 12 - likelihood.mean()
    assert loss == pytest.approx(expected, abs=0.05)  # 4 standard errors of 4000 draws
    assert abs(likelihood.mean()) > 0.3


def test_the_loss_of_batches_is_right_on_average(blocks: Graph) -> None:
    rows = torch.from_numpy(np.flatnonzero(blocks.train_mask))
    posterior = Posterior.known(kernel_on(blocks), rows[::2], *some_q(3, 6))
    with torch.no_grad():
        whole = GraphGPLearner(posterior, GraphGPSettings(draws=2000), blocks)
        parts = GraphGPLearner(posterior, GraphGPSettings(draws=200, batch=5), blocks)
        losses = np.array([float(parts.loss(1)) for _ in range(200)])
        assert abs(losses.mean() - float(whole.loss(1))) < 4 * losses.std() / np.sqrt(200) + 0.02
    assert losses.std() > 1e-3


def test_inference_under_a_fixed_prior_finds_what_training_finds(blocks: Graph) -> None:
    given = {"early_stop": False, "learn_kernel": False, "sigma": 3.0, "lr": 0.03, "draws": 64}
    model = GraphGP(epochs=300, **given).fit(blocks)
    mean, variance = model.latent(blocks)
    model.module.prior[0, 0] += 1.0  # now it counts as another graph
    again, spread = model.latent(blocks)
    assert float(mean.abs().max()) > 2.0
    torch.testing.assert_close(again, mean, atol=0.3, rtol=0.0)
    torch.testing.assert_close(spread, variance, atol=0.15, rtol=0.15)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_a_warm_start_is_near_its_end_and_takes_new_labels_in(blocks: Graph, covariance: str) -> None:
    short = {"lr": 1e-9, "kernel_lr": 1e-9, "epochs": 5}
    before = GraphGP(epochs=200, covariance=covariance, draws=64).fit(blocks)
    after = GraphGP(covariance=covariance, **short).start_from(before).fit(blocks)
    anew = GraphGP(covariance=covariance, **short).fit(blocks)
    truth = before.predict(blocks).mean
    near, far = (float(np.abs(model.predict(blocks).mean - truth).mean()) for model in (after, anew))
    assert near < 0.1 and 3 * near < far
    train = blocks.masks["train"].copy()
    new = np.flatnonzero(blocks.masks["test"])[:3]
    train[new] = True
    more = blocks.with_masks(split=None, train=train, val=blocks.masks["val"], test=blocks.masks["test"] & ~train)
    told = GraphGP(covariance=covariance, **short).start_from(before).fit(more)
    assert set(blocks.node_ids[new]) <= set(told.inducing) and blocks.labels is not None
    assert told.predict(more).total[new].mean() < before.predict(blocks).total[new].mean()


def test_another_graph_needs_no_labels_of_its_own(blocks: Graph) -> None:
    model = GraphGP(epochs=20).fit(blocks)
    part = blocks.subgraph(np.arange(20))
    bare = dataclasses.replace(part.without_target(), masks={})
    np.testing.assert_array_equal(model.predict(bare).probs, model.predict(part).probs)


def test_a_warm_start_from_something_else_is_refused(blocks: Graph) -> None:
    with pytest.raises(BadUsage, match="can't start"):
        GraphGP().start_from(gs.GCN(epochs=1).fit(blocks))
    with pytest.raises(BadUsage, match="uses features differently"):
        GraphGP(features="rbf").start_from(GraphGP(epochs=2).fit(blocks))


@pytest.mark.parametrize("sigma", [0.5, 5.0, 15.0])
def test_inference_ends_where_the_gradient_vanishes(blocks: Graph, sigma: float) -> None:
    """At the optimum K⁻¹ m = E_q[1_y − p] and the precision added to the prior's is E_q[p (1 − p)]."""
    rows = torch.from_numpy(np.flatnonzero(blocks.train_mask))
    labels, noise = torch.from_numpy(blocks.labels.copy())[rows], normal(400, 12, 3)
    prior = kernel_on(blocks, kappa=2.0, sigma=sigma).between(rows, rows)
    mean, root = infer(prior, labels, noise, JITTER)
    factor = torch.linalg.cholesky(prior + JITTER * torch.eye(12, dtype=D))
    f_mean, f_root = mean @ factor.T, factor @ root
    probs = torch.softmax(f_mean.T + f_root.square().sum(-1).sqrt().T * noise, -1)
    pull = torch.nn.functional.one_hot(labels, 3) - probs.mean(0)
    torch.testing.assert_close(mean, pull.T @ factor, atol=0.02, rtol=0.0)
    assert float(mean.abs().max()) > 0.4
    held = (probs * (1 - probs)).mean(0).T
    precision = torch.eye(12, dtype=D) + factor.T @ (held[..., None] * factor)
    torch.testing.assert_close(root @ root.mT @ precision, torch.eye(12, dtype=D).expand(3, 12, 12), atol=0.05, rtol=0)


def test_a_component_without_labels_gets_the_prior() -> None:
    graph = block_graph()
    far = gs.from_arrays(
        np.vstack([graph.features, np.zeros((6, 8), np.float32)]),
        np.hstack([graph.adjacency.edge_index(), [[30, 31, 32, 33], [31, 32, 33, 30]]]),  # a square and two alone
        labels=np.concatenate([graph.labels, np.full(6, -1)]),
        class_names=graph.class_names,
        train_mask=np.concatenate([graph.train_mask, np.zeros(6, bool)]),
        val_mask=np.concatenate([graph.val_mask, np.zeros(6, bool)]),
    )
    model = GraphGP(epochs=60).fit(far)
    mean, variance = model.latent(far)
    kernel = model.module.kernel.on(Places.of(graph_spectrum(far.adjacency, "normalised", 36)))
    assert float(mean[30:].abs().max()) < 1e-9
    prior = kernel.variance(torch.arange(30, 36)).detach()
    torch.testing.assert_close(variance[30:], prior[:, None].expand(-1, 3), atol=2e-6, rtol=1e-6)
    prediction = model.predict(far, samples=2000)
    np.testing.assert_allclose(prediction.mean[30:], 1 / 3, atol=0.05)
    assert prediction.epistemic[30:].min() > prediction.epistemic[np.flatnonzero(far.train_mask)].max()


def test_samples_have_the_marginals_moments(blocks: Graph) -> None:
    model = GraphGP(epochs=20).fit(blocks)
    mean, variance = model.latent(blocks)
    logits = model.predict(blocks, samples=4000).logits
    z = (logits.mean(0) - mean.numpy()) / np.sqrt(variance.numpy() / 4000)
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(logits.std(0), variance.sqrt().numpy(), rtol=0.06)


def test_a_graph_without_training_nodes_is_refused_and_one_with_some_is_not() -> None:
    graph = block_graph(per_class=40)
    model = GraphGP(epochs=30).fit(graph)
    with pytest.raises(BadInput, match="E-NO-LABELS"):
        model.predict(graph.subgraph(~graph.train_mask))
    fewer = graph.subgraph(np.setdiff1d(np.arange(120), np.flatnonzero(graph.train_mask)[::3]))
    prediction = model.predict(fewer, samples=200)
    rest = fewer.test_mask
    assert (prediction.index[rest] == fewer.labels[rest]).mean() > 0.9


def test_it_learns_and_more_settings_do_too(blocks: Graph) -> None:
    for given in (
        {},
        {"covariance": "diagonal"},
        {"laplacian": "unnormalised"},
        {"modes": 6},
        {"inducing": 6, "batch": 7},
        {"features": "linear"},
        {"features": "rbf", "hops": 0},
    ):
        prediction = GraphGP(epochs=80, **given).fit(blocks).predict(blocks)
        test = blocks.test_mask
        assert (prediction.index[test] == blocks.labels[test]).mean() >= 0.7, given


def test_inducing_nodes_are_drawn_by_their_ids(blocks: Graph) -> None:
    chosen = GraphGP(epochs=1, inducing=5).fit(blocks).inducing
    order = np.random.default_rng(0).permutation(30)
    assert len(chosen) == 5 and sorted(GraphGP(epochs=1, inducing=5).fit(blocks.subgraph(order)).inducing) == chosen
    assert GraphGP(epochs=1, inducing=5, seed=1).fit(blocks).inducing != chosen
    assert GraphGP(epochs=1).fit(blocks).inducing == blocks.node_ids[blocks.train_mask].tolist()


def test_features_are_a_setting(blocks: Graph, tmp_path: Path) -> None:
    moved = blocks.with_features(np.asarray(blocks.features)[::-1].copy())
    model = GraphGP(epochs=5, features="linear").fit(blocks)
    model.save(tmp_path)
    once = load_model(tmp_path).predict(blocks, samples=3)
    np.testing.assert_array_equal(once.probs, model.predict(blocks, samples=3).probs)
    assert np.abs(model.predict(moved, samples=3).probs - once.probs).max() > 1e-3
    with pytest.raises(BadInput, match="E-SCHEMA"):
        model.predict(blocks.with_features(np.asarray(blocks.features)[:, :4]))
    with pytest.raises(BadUsage, match="E-SETTING"):
        GraphGP(features="cosine")


def test_the_kernel_can_be_held(blocks: Graph) -> None:
    held = GraphGP(epochs=3, learn_kernel=False, nu=2.5).fit(blocks).module.kernel
    assert float(held.log_nu.detach().exp()) == pytest.approx(2.5)
    assert float(GraphGP(epochs=3, nu=2.5).fit(blocks).module.kernel.log_nu.detach().exp()) != pytest.approx(2.5)


class _InterruptAt(Callback):
    def __init__(self, guard: InterruptGuard, epoch: int) -> None:
        self.guard, self.epoch = guard, epoch

    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == self.epoch:
            self.guard.received = signal.SIGINT


def test_an_interrupted_fit_goes_on_to_the_same_bits(blocks: Graph, tmp_path: Path) -> None:
    given = {"epochs": 20, "batch": 7, "early_stop": False}  # the last epoch counts
    expected = GraphGP(**given).fit(blocks).predict(blocks, samples=3)
    guard = InterruptGuard()
    with pytest.raises(Interrupted):
        GraphGP(**given).fit(
            blocks, callbacks=[_InterruptAt(guard, 11)], checkpoint=Checkpoint(tmp_path / "state"), interrupt=guard
        )
    resumed = GraphGP(**given).fit(blocks, checkpoint=Checkpoint(tmp_path / "state"))
    np.testing.assert_array_equal(resumed.predict(blocks, samples=3).probs, expected.probs)


def test_a_model_whose_nodes_do_not_fit_its_tensors_is_refused(blocks: Graph, tmp_path: Path) -> None:
    GraphGP(epochs=1).fit(blocks).save(tmp_path)
    as_before_guards(tmp_path)
    path = tmp_path / "model.json"
    content = path.read_text()
    for name in ("1", "[1]"):
        path.write_text(content.replace('"inducing": [', f'"inducing": [{name},'))
        with pytest.raises(BadInput, match="E-CORRUPT"):
            load_model(tmp_path)


def test_a_label_that_is_no_class_is_refused(blocks: Graph) -> None:
    model = GraphGP(epochs=1).fit(blocks)
    tensors, values = model.state()
    with pytest.raises(ValueError, match="label"):
        model.restore({**tensors, "labels": tensors["labels"] + 1}, values)


def test_a_kernel_out_of_bounds_is_said_in_words(blocks: Graph) -> None:
    kernel = kernel_on(blocks)
    with torch.no_grad():
        kernel.log_nu.fill_(torch.nan)
    with pytest.raises(Diverged, match="kernel_lr"):
        Posterior(kernel, torch.arange(5), 3).marginals(torch.arange(30))


def test_without_the_extra_it_says_so(blocks: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = GraphGP(epochs=1).fit(blocks)
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    monkeypatch.delitem(sys.modules, "graphsde.models.graph_gp.posterior")
    monkeypatch.delattr("graphsde.models.graph_gp.posterior", raising=False)
    for action in (
        lambda: GraphGP().fit(blocks),
        lambda: GraphGP().estimate(blocks),
        lambda: fitted.predict(blocks),
    ):
        with pytest.raises(MissingExtra, match=r"graphsde\[gp\]"):
            action()


def test_the_extra_is_imported_only_when_used() -> None:
    script = "import sys, graphsde.models.graph_gp; print('gpytorch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def random_labels(seed: int) -> Graph:
    """Cora's largest component with 140 labels anywhere, as in the original experiment."""
    whole = gs.load("cora")
    component = whole.adjacency.components
    graph = whole.subgraph(component == np.bincount(component).argmax())
    order = np.random.default_rng(seed).permutation(graph.num_nodes)
    roles = np.zeros(graph.num_nodes, int)
    roles[order[:140]], roles[order[140:640]], roles[order[640:1640]] = 1, 2, 3
    return graph.with_masks(train=roles == 1, val=roles == 2, test=roles == 3)


@needs_real_data
def test_cora_reaches_the_measured_level() -> None:
    graph = gs.make_split(gs.load("cora"), "planetoid").apply(gs.load("cora"))
    metrics = gs.evaluate(GraphGP(epochs=100).fit(graph).predict(graph), graph)
    assert metrics["n_test"] == 1000 and metrics["accuracy"] > 0.72 and metrics["nll"] < 1.0


@pytest.mark.slow
@needs_real_data
def test_random_labels_on_the_largest_component_of_cora() -> None:
    """The original experiment printed .787."""
    metrics = [
        gs.evaluate(GraphGP(seed=s).fit(random_labels(s)).predict(random_labels(s)), random_labels(s)) for s in range(5)
    ]
    assert np.mean([m["accuracy"] for m in metrics]) >= 0.75
