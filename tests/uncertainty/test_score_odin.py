"""ODIN: which way it points, what it equals, what the step does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Perturb, Prediction
from graphsde.uncertainty.scores import score


class Linear:
    """z = x W: its gradient is known. Remembers what it was asked."""

    def __init__(self, weight: np.ndarray, calibration: float = 1.0) -> None:
        self.weight, self.calibration, self.asked = weight, calibration, []

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        self.asked.append((samples, seed, perturb))
        x = np.asarray(graph.features, dtype=np.float64)
        if perturb is not None:
            z = x @ self.weight / perturb.temperature
            gap = softmax(z) - np.eye(z.shape[1])[z.argmax(-1)]  # of the cross-entropy, by logits
            x = x - perturb.size * x.std() * np.sign(gap @ self.weight.T)
        logits = (x @ self.weight)[None]
        names = tuple("abcdef"[: self.weight.shape[1]])
        return ClassPrediction(
            softmax(logits / self.calibration), graph.node_ids, names, "deterministic", logits=logits,
            temperature=self.calibration,
        )  # fmt: skip


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture
def world(blocks: Graph) -> tuple[Linear, Graph]:
    return Linear(np.random.default_rng(0).normal(size=(8, 3))), blocks


@pytest.mark.parametrize("calibration", [1.0, 2.5])
def test_without_step_and_temperature_it_is_msp_exactly(blocks: Graph, calibration: float) -> None:
    model = Linear(np.random.default_rng(0).normal(size=(8, 3)), calibration)
    prediction = model.predict(blocks)
    assert np.array_equal(score("odin", prediction, blocks, model, size=0, temperature=1), score("msp", prediction))
    plain = prediction.untempered()
    got = score("odin", plain, blocks, model, size=0, temperature=1)
    np.testing.assert_allclose(got, score("msp", plain), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["GCN", "LGNSDE", "MLP"])
def test_it_is_msp_exactly_for_real_models(blocks: Graph, name: str) -> None:
    model = getattr(gs, name)(epochs=5, hidden=8).fit(blocks)
    prediction = model.predict(blocks, samples=3)
    assert np.array_equal(score("odin", prediction, blocks, model, size=0, temperature=1), score("msp", prediction))


def test_against_the_formula(world: tuple[Linear, Graph]) -> None:
    model, graph = world
    prediction = model.predict(graph)
    moved = model.predict(graph, perturb=Perturb(0.1, 5.0))
    expected = 1 - softmax(moved.logits[0] / 5.0).max(-1)
    np.testing.assert_allclose(
        score("odin", prediction, graph, model, size=0.1, temperature=5.0), expected, rtol=0, atol=1e-14
    )
    assert model.asked[-1] == (1, None, Perturb(0.1, 5.0))


def test_temperature_multiplies_the_calibration(blocks: Graph) -> None:
    model = Linear(np.random.default_rng(0).normal(size=(8, 3)), calibration=2.0)
    prediction = model.predict(blocks)
    got = score("odin", prediction, blocks, model, size=0, temperature=3.0)
    np.testing.assert_allclose(got, 1 - softmax(prediction.logits[0] / 6.0).max(-1), rtol=0, atol=1e-14)


def test_the_step_makes_every_node_surer(world: tuple[Linear, Graph]) -> None:
    model, graph = world
    prediction = model.predict(graph)
    before = score("odin", prediction, graph, model, size=0, temperature=1)
    after = score("odin", prediction, graph, model, size=0.05, temperature=1)
    assert (after < before).all()


def test_a_trained_model_is_surer_of_familiar_nodes_than_of_noise(blocks: Graph) -> None:
    model = gs.GCN(epochs=60, hidden=16).fit(blocks)
    rng = np.random.default_rng(1)
    noise = blocks.with_features(rng.normal(size=blocks.features.shape).astype(np.float32) * 0.1)
    familiar = score("odin", model.predict(blocks), blocks, model)
    ood = score("odin", model.predict(noise), noise, model)
    assert np.median(ood) > np.quantile(familiar, 0.9)


def test_samples_are_averaged_before_the_maximum(blocks: Graph, make_prediction: Any) -> None:
    drawn = make_prediction("samples", samples=4, nodes=30, classes=3)

    class Drawn:
        def predict(self, graph: Graph, **asked: Any) -> Prediction:
            assert asked["samples"] == 4 and asked["seed"] == 7
            return drawn

    expected = 1 - softmax(drawn.logits / 2.0).mean(0).max(-1)
    got = score("odin", drawn, blocks, Drawn(), temperature=2.0, seed=7)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)


def test_of_a_dirichlet_the_mean_is_tempered(blocks: Graph, make_prediction: Any) -> None:
    evidence = make_prediction("dirichlet", nodes=30, classes=3)
    evidence = replace(evidence, logits=evidence.logits * 0 + 1.0)  # whatever the model calls logits is not used

    class Evidential:
        def predict(self, graph: Graph, **asked: Any) -> Prediction:
            return evidence

    powered = evidence.mean**0.5
    expected = 1 - (powered / powered.sum(-1, keepdims=True)).max(-1)
    got = score("odin", evidence, blocks, Evidential(), temperature=2.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_wrong_arguments_are_named(world: tuple[Linear, Graph]) -> None:
    model, graph = world
    prediction = model.predict(graph)
    for wrong in ({"temperature": 0.0}, {"temperature": float("nan")}, {"size": -0.1}, {"size": float("inf")}):
        with pytest.raises(BadUsage):
            score("odin", prediction, graph, model, **wrong)
    with pytest.raises(BadInput, match="20 nodes"):
        score("odin", prediction.subset(np.arange(20)), graph, model)
    no_gradient = gs.LabelPropagation().fit(graph)
    with pytest.raises(BadUsage, match="needs a gradient"):
        score("odin", no_gradient.predict(graph), graph, no_gradient)
