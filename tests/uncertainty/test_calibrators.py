"""Calibrators: known answers, an oracle for attention, what is kept and what is undone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

import graphsde as gs
from graphsde.base.errors import BadInput, UnknownName
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.metrics.calibration import nll
from graphsde.models import load_model
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.calibration import CALIBRATORS, Surroundings, fit_calibrator
from graphsde.uncertainty.calibration.base import centred_logits
from graphsde.uncertainty.calibration.calibrators import GATS, best_temperature

from support import as_before_guards

NAMES = ("temperature", "vector", "gats")


def overconfident(
    factor: float, nodes: int = 4000, classes: int = 4, seed: int = 0, offset: tuple[float, ...] = ()
) -> tuple[Graph, Prediction]:
    """Classes drawn from ``softmax(z + offset)``, of which the prediction says ``softmax(factor · z)``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(nodes, classes)) * 2
    truth = np.exp(z + np.array(offset or [0.0] * classes))
    truth /= truth.sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random(nodes)[:, None]).sum(axis=1)
    said = np.exp(factor * (z - z.max(axis=1, keepdims=True)))
    graph = from_arrays(
        np.ones((nodes, 1)),
        np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes]),
        labels=labels,
        class_names=[f"class {c}" for c in range(classes)],
        train_mask=np.arange(nodes) < 10,
        val_mask=(np.arange(nodes) >= 10) & (np.arange(nodes) < nodes // 2),
        test_mask=np.arange(nodes) >= nodes // 2,
        name="ring",
    )
    probs = said / said.sum(axis=1, keepdims=True)
    return graph, ClassPrediction(
        probs[None], graph.node_ids, graph.class_names, "deterministic", logits=factor * z[None]
    )


def test_the_temperature_undoes_overconfidence() -> None:
    graph, prediction = overconfident(3.0)
    fitted = fit_calibrator(prediction, graph, by="temperature")
    assert fitted.common_temperature == pytest.approx(3.0, rel=0.06)
    calibrated = fitted.apply_to(prediction, graph)
    assert calibrated.temperature == fitted.common_temperature
    expected = torch.softmax(torch.from_numpy(prediction.logits) / fitted.common_temperature, -1).numpy()  # type: ignore[arg-type]
    assert np.allclose(calibrated.probs, expected, atol=1e-6)


def test_vector_scaling_finds_factor_and_offset() -> None:
    offset = (1.0, 0.0, -1.0, 0.0)
    graph, prediction = overconfident(2.0, nodes=8000, offset=offset)
    fitted = dict(fit_calibrator(prediction, graph, by="vector").named_parameters())
    assert np.allclose(fitted["factor"].detach(), 0.5, atol=0.06)
    assert np.allclose(fitted["offset"].detach(), offset, atol=0.25)


@pytest.mark.parametrize("by", NAMES)
def test_test_nodes_become_more_likely(by: str) -> None:
    graph, prediction = overconfident(3.0)
    assert graph.labels is not None and graph.test_mask is not None
    calibrated = fit_calibrator(prediction, graph, by=by).apply_to(prediction, graph)
    truth = graph.labels[graph.test_mask]
    gain = nll(prediction.mean[graph.test_mask], truth) - nll(calibrated.mean[graph.test_mask], truth)
    assert gain > 0.3
    if by != "vector":
        assert np.array_equal(calibrated.index, prediction.index)


def test_attention_temperatures_node_by_node() -> None:
    """The formula written out with loops, on a graph with a training node, its neighbour and a lonely node."""
    rng = np.random.default_rng(1)
    edges = np.array([[0, 1, 1, 2], [1, 2, 3, 3]])
    graph = from_arrays(np.ones((5, 1)), edges, labels=np.zeros(5, dtype=int), class_names=["a", "b", "c"])
    layer = GATS(3, trained=[0])
    with torch.no_grad():
        layer.relative_confidence.fill_(0.7)
        layer.near_training.copy_(torch.tensor([0.5, 1.5]))
    z = rng.normal(size=(5, 3))
    found = layer.temperatures(torch.from_numpy(z), layer.surroundings(graph)).detach().numpy()

    gamma = np.array([0.5, 1.5, 1.0, 1.0, 1.0])
    hears = {0: [1, 0], 1: [0, 2, 3, 1], 2: [1, 3, 2], 3: [1, 2, 3], 4: [4]}
    confidence = np.exp(z).max(1) / np.exp(z).sum(1)
    theta = layer.shape_weight.detach().numpy()
    for i, heard in hears.items():
        alike = np.array([z[i] @ z[j] / (gamma[i] * gamma[j]) for j in heard])
        alike = np.where(alike > 0, alike, 0.2 * alike)
        alpha = np.exp(alike) / np.exp(alike).sum()
        total = np.zeros(8)
        for a, j in zip(alpha, heard, strict=True):
            scaled = np.sort((z[j] - z[j].min()) / (z[j].max() - z[j].min()))
            total += a * gamma[j] * (scaled @ theta)
        total += 0.7 * np.mean([confidence[i] - confidence[j] for j in heard])
        expected = np.log1p(np.exp(total)).mean() + float(layer.base.detach())
        assert found[i] == pytest.approx(expected, rel=1e-12)


def test_at_rest_every_temperature_is_one() -> None:
    graph, prediction = overconfident(2.0, nodes=50)
    layer = GATS(4)
    with torch.no_grad():
        layer.shape_weight.zero_()
    logits = centred_logits(prediction)
    assert torch.allclose(layer(logits, layer.surroundings(graph)), logits, atol=1e-12)


def test_distances_to_training_nodes() -> None:
    graph, _ = overconfident(1.0, nodes=40)
    trained = np.arange(40) == 5
    distance = Surroundings.of(graph, trained).distance.numpy()
    assert distance[5] == 0 and distance[4] == distance[6] == 1 and (distance == 2).sum() == 37


@pytest.mark.parametrize("by", NAMES)
def test_a_model_keeps_its_calibrator(by: str, blocks: Graph, tmp_path: Path) -> None:
    model = gs.GCN(epochs=10, hidden=8, temperature=False).fit(blocks)
    plain = model.predict(blocks)
    calibrated = model.calibrate(blocks, by=by).predict(blocks)
    assert not np.allclose(calibrated.probs, plain.probs)
    assert np.array_equal(calibrated.untempered().probs, plain.probs)
    some = np.array([3, 1])
    assert np.array_equal(calibrated.subset(some).untempered().probs, plain.probs[:, some])
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert np.array_equal(loaded.predict(blocks).probs, calibrated.probs)
    order = np.random.default_rng(0).permutation(blocks.num_nodes)
    turned = loaded.predict(blocks.subgraph(order).with_masks())
    assert np.allclose(turned.probs, calibrated.probs[:, order], atol=1e-6)
    # again: replaced, not added to; a new fit starts without; None takes it away
    assert np.array_equal(model.calibrate(blocks, by=by).predict(blocks).probs, calibrated.probs)
    assert np.array_equal(model.calibrate(blocks, by=None).predict(blocks).probs, plain.probs)
    model.calibrate(blocks, by=by)
    assert np.array_equal(model.fit(blocks).predict(blocks).probs, plain.probs)


def test_samples_and_concentrations_stay_what_they_are(blocks: Graph) -> None:
    sampled = gs.MCDropout(epochs=10, hidden=8).fit(blocks).calibrate(blocks, by="gats", samples=8)
    prediction = sampled.predict(blocks, samples=8)
    assert prediction.kind == "samples" and prediction.probs.shape[0] == 8
    assert np.allclose(prediction.probs.sum(-1), 1, atol=1e-5)
    model = gs.GPN(epochs=5).fit(blocks)
    before = model.predict(blocks)
    after = model.calibrate(blocks, by="temperature").predict(blocks)
    assert before.alpha is not None and after.alpha is not None
    assert np.allclose(after.alpha.sum(-1), before.alpha.sum(-1))
    assert np.allclose(after.alpha / after.alpha.sum(-1, keepdims=True), after.mean, atol=1e-6)


def test_what_is_refused(blocks: Graph, tmp_path: Path) -> None:
    model = gs.LabelPropagation().fit(blocks)
    with pytest.raises(UnknownName, match="calibrator"):
        model.calibrate(blocks, by="tempreature")
    masks = {role: mask for role, mask in blocks.masks.items() if role != "val"}
    with pytest.raises(BadInput, match="no labelled validation nodes"):
        model.calibrate(blocks.with_masks(**masks))
    model.calibrate(blocks, by="vector").save(tmp_path)
    as_before_guards(tmp_path)
    description = tmp_path / "model.json"
    description.write_text(description.read_text().replace('"factor"', '"fractor"'))
    with pytest.raises(BadInput):
        load_model(tmp_path)
    assert {*NAMES, "deviation", "diffusion", "distance-aware"} == set(CALIBRATORS)


def test_flawless_validation_nodes_do_not_make_certainty() -> None:
    gap = torch.tensor([[[2.0, 0.0]]]).double().repeat(50, 3, 1)  # [n, S, C]: 50 nodes, all right
    labels = torch.zeros(50, dtype=torch.long)
    temperature = best_temperature(gap, labels)
    confidence = float(torch.softmax(gap / temperature, -1)[0, 0, 0])
    assert confidence == pytest.approx(50 / 51, abs=1e-3)  # one error among 51, as in the rule of succession
    labels[0] = 1
    assert float(torch.softmax(gap / best_temperature(gap, labels), -1)[0, 0, 0]) == pytest.approx(49 / 50, abs=1e-3)


def test_few_validation_nodes_move_the_temperature_only_a_little() -> None:
    """n right answers with a gap of 2 between the logits: the fit alone makes them n/(n+1) sure, at T = 2 / log n."""
    for nodes in (2, 5, 19, 20, 40):
        gap = torch.tensor([[[2.0, 0.0]]]).double().repeat(nodes, 1, 1)
        labels = torch.zeros(nodes, dtype=torch.long)
        alone = 2.0 / np.log(nodes)
        assert best_temperature(gap, labels) == pytest.approx(alone ** min(1.0, nodes / 20), rel=1e-4)
    two = torch.tensor([[[2.0, 0.0]], [[2.0, 0.0]]]).double()
    assert 1.0 < best_temperature(two, torch.tensor([0, 0])) < 1.2  # alone: 2.9
    assert 1.0 < best_temperature(two, torch.tensor([0, 1])) < 1.4  # alone: 20, the largest there is
    assert 0.7 < best_temperature(0.01 * two, torch.tensor([0, 0])) < 1.0  # alone: 0.05, the smallest


def test_from_twenty_validation_nodes_on_the_fit_stands_for_itself() -> None:
    rng = np.random.default_rng(2)
    logits = torch.from_numpy(rng.normal(size=(20, 4, 3)) * 3)
    labels = torch.from_numpy(rng.integers(0, 3, 20))
    rows = torch.arange(20)

    def nll(log_temperature: float) -> float:
        right = torch.softmax(logits / math.exp(log_temperature), -1).mean(1)[rows, labels]
        return float(-right.clamp_min(1e-12).log().mean())

    found = minimize_scalar(nll, bounds=(math.log(0.05), math.log(20.0)), method="bounded").x
    assert best_temperature(logits, labels) == math.exp(float(found))  # the same bits
    fewer = best_temperature(logits[:19], labels[:19])
    assert fewer != best_temperature(logits, labels) and fewer > 1.0
