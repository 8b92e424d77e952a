"""A Gaussian over every weight: its KL, its draws, and what is left without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.bgcn_meanfield import RELEASED, BGCNMeanField, BGCNMeanFieldModule, GaussianWeight
from graphsde.models.neural import Inputs
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.sde.brownian import node_keys

from support import needs_real_data


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def weight(rows: int, columns: int, mean: float = 0.3, rho: float = -1.0) -> GaussianWeight:
    return GaussianWeight(torch.full((rows, columns), mean), torch.full((rows, columns), rho))


def test_kl_equals_torchs() -> None:
    mean, rho = torch.randn(40, 30, generator=stream(0)).double(), torch.randn(40, 30, generator=stream(1)).double() * 3
    ours = GaussianWeight(mean, rho).kl()
    scale = functional.softplus(rho)
    expected = kl_divergence(Normal(mean, scale), Normal(torch.zeros_like(mean), torch.ones_like(mean))).sum()
    torch.testing.assert_close(ours, expected)
    # softplus⁻¹(1): the prior itself
    prior = GaussianWeight(torch.zeros(5, dtype=torch.float64), torch.full((5,), np.log(np.expm1(1.0))))
    assert float(prior.kl().detach()) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("source", ["training", "prediction"])
def test_draws_are_normal_with_the_right_moments(blocks: Graph, source: str) -> None:
    randomness = stream() if source == "training" else KeyedMasks(7, 0, node_keys(blocks.node_ids))
    drawn = weight(200, 200)(randomness).detach().numpy().ravel()
    scale = float(functional.softplus(torch.tensor(-1.0)))
    assert stats.kstest((drawn - 0.3) / scale, "norm").pvalue > 1e-3


def test_the_ends_of_the_uniform_grid_are_finite(blocks: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([0.0, 1.0 - 2.0**-24])
    monkeypatch.setattr(KeyedMasks, "scalars", lambda self, count: ends)
    drawn = weight(1, 2, mean=0.0)(KeyedMasks(0, 0, node_keys(blocks.node_ids))).detach()[0]
    assert torch.isfinite(drawn).all() and float(drawn[0]) == pytest.approx(-float(drawn[1]), rel=1e-6)


def test_a_sample_belongs_to_no_node_and_differs_from_the_next(blocks: Graph) -> None:
    draw = weight(5, 4)
    some, others = node_keys(blocks.node_ids), node_keys(np.arange(100, 105))
    torch.testing.assert_close(draw(KeyedMasks(0, 2, some)), draw(KeyedMasks(0, 2, others)), rtol=0, atol=0)
    assert not torch.allclose(draw(KeyedMasks(0, 2, some)), draw(KeyedMasks(0, 3, some)))
    masks = KeyedMasks(0, 2, some)
    assert not torch.allclose(draw(masks), draw(masks))  # two layers of one sample


def parts(graph: Graph, **settings: Any) -> tuple[BGCNMeanFieldModule, Inputs]:
    module = BGCNMeanField(**{"hidden": 6, "dropout": 0.0, **settings}).build(8, graph.num_classes, stream())
    assert isinstance(module, BGCNMeanFieldModule)
    return module, Inputs(torch.tensor(graph.features), graph.adjacency.operator)


@pytest.mark.parametrize("activation", ["relu", "softplus"])
def test_weights_without_spread_make_a_plain_gcn(blocks: Graph, activation: str) -> None:
    module, inputs = parts(blocks, rho=-30.0, activation=activation)
    first, second = module.first, module.second
    hidden = inputs.adjacency @ (inputs.features @ first.weight.mean) + first.bias.mean
    hidden = {"relu": torch.relu, "softplus": functional.softplus}[activation](hidden)
    expected = inputs.adjacency @ (hidden @ second.weight.mean) + second.bias.mean
    for randomness in (None, stream(), KeyedMasks(0, 0, node_keys(blocks.node_ids))):
        torch.testing.assert_close(module(inputs, randomness).logits, expected)


def test_dropout_is_for_training_only(blocks: Graph) -> None:
    module, inputs = parts(blocks, rho=-30.0, dropout=0.5)
    centre = module(inputs).logits
    torch.testing.assert_close(module(inputs, KeyedMasks(0, 0, node_keys(blocks.node_ids))).logits, centre)
    assert not torch.allclose(module(inputs, stream()).logits, centre)


@pytest.mark.parametrize(("unit", "share"), [("elbo", 12), ("weight", 8 * 6 + 6 + 6 * 3 + 3)])
def test_the_kl_enters_the_loss_in_the_documented_unit(blocks: Graph, unit: str, share: int) -> None:
    bare = BGCNMeanField(hidden=6, kl_weight=0.0).learner(blocks)
    with_kl = BGCNMeanField(hidden=6, kl_weight=0.5, kl_unit=unit).learner(blocks)
    assert len(bare.train) == 12
    assert isinstance(bare.module, BGCNMeanFieldModule)
    added = float((with_kl.loss(1) - bare.loss(1)).detach())
    assert added == pytest.approx(0.5 * float(bare.module.kl().detach()) / share, rel=1e-4)


def test_the_released_settings_start_where_the_released_code_does(blocks: Graph) -> None:
    module = BGCNMeanField(**RELEASED).build(500, 3, stream())
    assert isinstance(module, BGCNMeanFieldModule)
    first = module.first.weight
    assert first.mean.shape == (500, 64)
    assert float(first.mean.detach().std()) == pytest.approx(0.1, rel=0.05)
    assert float(first.rho.detach().mean()) == pytest.approx(-3.0, abs=0.01)
    assert float(first.rho.detach().std()) == pytest.approx(0.1, rel=0.05)
    fitted = BGCNMeanField(**{**RELEASED, "epochs": 5}).fit(blocks)
    assert fitted.predict(blocks, samples=4).num_samples == 4


def test_it_learns_and_its_weights_keep_some_spread(blocks: Graph) -> None:
    model = BGCNMeanField(hidden=16, epochs=100).fit(blocks)
    prediction = model.predict(blocks, samples=30)
    assert gs.evaluate(prediction, blocks)["accuracy"] > 0.8
    assert (prediction.epistemic > 0).all()


@pytest.mark.slow
@needs_real_data
def test_pubmed_is_learned() -> None:
    """The LGNSDE study prints .458 here, a training that failed."""
    whole = gs.load("pubmed")
    graph = gs.make_split(whole, "planetoid").apply(whole)
    reached = [gs.evaluate(BGCNMeanField(seed=s).fit(graph).predict(graph), graph)["accuracy"] for s in range(3)]
    assert np.mean(reached) > 0.77
