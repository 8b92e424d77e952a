"""One temperature for every network: the best on validation nodes, kept with the model, off unless asked for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.models import MODELS
from graphsde.models.files import load_model
from graphsde.models.neural import NeuralModel, NeuralSettings

from support import block_graph

NETWORKS = [
    name for name in MODELS if issubclass(MODELS.get(name), NeuralModel) and not issubclass(MODELS.get(name), gs.LGNSDE)
]
TEMPERED = [name for name in NETWORKS if issubclass(MODELS.get(name).Settings, NeuralSettings)]
QUICK: dict[str, dict[str, Any]] = {"gnsd": {"steps": 2}, "grand": {"steps": 2}, "gread": {"steps": 2}}


def made(name: str, **settings: Any) -> NeuralModel:
    return MODELS.get(name)(**({"epochs": 8, "seed": 1} | QUICK.get(name, {}) | settings))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def noisy() -> Graph:
    """Blocks of which a fifth have a wrong label: a model can be too sure there."""
    graph = block_graph(per_class=40)
    assert graph.labels is not None
    labels = np.where(np.arange(graph.num_nodes) % 5 == 0, (graph.labels + 1) % 3, graph.labels)
    return graph.with_target(dataclasses.replace(graph.target, labels=labels))


def test_dirichlets_and_relaxed_masks_have_none() -> None:
    assert set(NETWORKS) - set(TEMPERED) == {"bgcn", "gkde", "gpn"}
    for name in ("gkde", "gpn"):
        with pytest.raises(BadUsage, match="temperature"):
            made(name, temperature=True)
    assert not made("bgcn", temperature=0.5).fits_temperature


@pytest.mark.parametrize("name", TEMPERED)
def test_it_is_the_best_for_the_validation_nodes_and_changes_nothing_else(noisy: Graph, name: str) -> None:
    model, plain = made(name, temperature=True).fit(noisy), made(name, temperature=False).fit(noisy)
    with_it, without = model.predict(noisy, samples=4), plain.predict(noisy, samples=4)
    np.testing.assert_array_equal(with_it.logits, without.logits)
    assert without.temperature == 1.0 != with_it.temperature == model.temperature_of_logits()
    expected = torch.softmax(torch.tensor(with_it.logits).double() / with_it.temperature, -1)
    np.testing.assert_allclose(with_it.probs, expected, atol=1e-6)
    learner = model.learner(noisy)
    learner.module.load_state_dict(model.module.state_dict())
    logits = learner.validation_logits().double()  # [n, S, C]
    assert logits.shape[1] == (1 if model.kind == "deterministic" else 32)

    def nll(temperature: float) -> float:
        mean = torch.softmax(logits / temperature, -1).mean(1)
        return float(-mean[torch.arange(len(mean)), learner.val_labels].log().mean())

    best = model.temperature_of_logits()
    assert nll(best) <= min(nll(0.97 * best), nll(1.03 * best), nll(1.0)) + 1e-9


@pytest.mark.parametrize("name", ["gcn", "mc-dropout"])
def test_files_keep_it_and_old_files_have_none(noisy: Graph, name: str, tmp_path: Path) -> None:
    model = made(name, temperature=True).fit(noisy)
    model.save(tmp_path / "new")
    loaded = load_model(tmp_path / "new")
    np.testing.assert_array_equal(loaded.predict(noisy, samples=3).probs, model.predict(noisy, samples=3).probs)
    assert '"temperature"' not in json.dumps(made(name, temperature=False).fit(noisy).state()[1])
    tensors, values = model.state()
    old = made(name)
    old.class_names = noisy.class_names
    old.restore(tensors, {key: value for key, value in values.items() if key != "temperature"})
    assert old.predict(noisy, samples=3).temperature == 1.0
    with pytest.raises(ValueError, match="positive"):
        old.restore(tensors, values | {"temperature": 0.0})


def test_a_refit_without_validation_nodes_forgets_it(noisy: Graph) -> None:
    model = made("gcn", temperature=True, early_stop=False).fit(noisy)
    assert model.temperature_of_logits() != 1.0
    alone = noisy.with_masks(train=noisy.train_mask)
    assert model.fit(alone).temperature_of_logits() == 1.0


def test_numbers_are_refused_and_keep_their_recipe() -> None:
    numbers = gs.load("diabetes")
    with pytest.raises(BadUsage, match="class probabilities"):
        gs.GCN(temperature=True, epochs=2).fit(numbers)
    model = gs.GCN()
    model.resolve(numbers)
    assert not model.settings.temperature and model.settings.epochs == 400


def test_the_teacher_of_a_dirichlet_model_is_as_it_was() -> None:
    assert not gs.GKDE().teacher().settings.temperature
