"""Dropout at prediction: what its samples average to, and what they are chosen by."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.models.mc_dropout import MCDropout
from graphsde.models.sampled import SampledLearner
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.sde.brownian import node_keys


def test_samples_of_a_linear_network_average_to_the_network_without_dropout(blocks: Graph) -> None:
    """Masks of different layers are independent with mean one, and a linear network is linear in each of them."""
    model = MCDropout(activation="none", hidden=8, epochs=20).fit(blocks)
    logits = model.predict(blocks, samples=2000).logits
    assert logits is not None and model.module is not None and model.encoder is not None
    learner = model.learner(blocks)
    with torch.no_grad():
        centre = model.module(learner.inputs).logits.numpy()
    error = logits.std(axis=0) / np.sqrt(2000)
    gap = (logits.mean(axis=0) - centre) / error
    assert np.abs(gap).max() < 5 and float(np.mean(gap**2)) < 2
    assert float(np.median(logits.std(axis=0))) > 0.01


def test_training_is_validated_by_samples_with_dropout(blocks: Graph) -> None:
    model = MCDropout(hidden=8, seed=3, validation_samples=5)
    learner = model.learner(blocks)
    assert isinstance(learner, SampledLearner)
    seed, keys = derive(3, "validation samples"), node_keys(blocks.node_ids)
    with torch.no_grad():
        passes = [learner.module(learner.inputs, KeyedMasks(seed, k, keys)).logits for k in range(5)]
    probs = torch.stack([torch.softmax(logits, -1) for logits in passes]).mean(0)[learner.val]
    expected = -probs[torch.arange(len(probs)), learner.val_labels].log().mean()
    found = learner.validate(1)
    assert found is not None and found.nll == pytest.approx(float(expected), rel=1e-6)


def test_a_temperature_is_fitted_to_many_samples(blocks: Graph) -> None:
    learner = MCDropout(hidden=8, validation_samples=5).learner(blocks)
    assert learner.validation_logits().shape == (len(learner.val), 32, 3)
    assert MCDropout(validation_samples=40).learner(blocks).validation_logits().shape[1] == 40


def test_without_dropout_there_is_nothing_to_sample() -> None:
    with pytest.raises(BadUsage, match="dropout"):
        MCDropout(dropout=0.0)


@pytest.mark.parametrize("name", ["cora", "computers", "photo", "blocks"])
def test_the_defaults_of_the_gcn_hold_but_for_a_dropout_of_zero(
    blocks: Graph, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = dataclasses.replace(blocks, benchmark=name)
    model = MCDropout()
    model.resolve(graph)
    for setting, value in gs.GCN().defaults_for(graph).items():
        assert setting == "dropout" or getattr(model.settings, setting) == value
    monkeypatch.setattr(gs.GCN, "defaults_for", lambda self, graph: {"dropout": 0.0, "hidden": 7})
    model.resolve(graph)
    assert (model.settings.dropout, model.settings.hidden) == (0.5, 7)


def test_it_knows_what_it_does_not_know(blocks: Graph) -> None:
    prediction = MCDropout(hidden=16, epochs=100).fit(blocks).predict(blocks, samples=50)
    assert gs.evaluate(prediction, blocks)["accuracy"] > 0.8
    assert prediction.kind == "samples" and (prediction.epistemic > 0).all()
