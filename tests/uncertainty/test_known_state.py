"""The split of an entropy by how well the logits are known: limits, draws, and that the sharpened answer has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.models.ensemble import _tempered
from graphsde.prediction import ClassPrediction
from graphsde.prediction.classification import entropy
from graphsde.uncertainty.calibration.calibrators import GATS, Temperature
from graphsde.uncertainty.known_state import known_state, remaining_entropy, sharpened


def random_probs(nodes: int = 200, classes: int = 5, scale: float = 2.0, samples: int = 1) -> np.ndarray:
    return softmax(scale * np.random.default_rng(0).normal(size=(samples, nodes, classes)), axis=-1)


def split(probs: np.ndarray, variance: np.ndarray) -> ClassPrediction:
    names = tuple(f"class {c}" for c in range(probs.shape[-1]))
    kind = "gaussian" if len(probs) == 1 else "samples"
    return ClassPrediction(probs, np.arange(probs.shape[1]), names, kind, known_state=known_state(probs, variance))


def test_without_variance_nothing_is_epistemic_and_with_all_of_it_everything() -> None:
    probs = random_probs()
    assert np.abs(split(probs, np.zeros(200)).epistemic).max() < 1e-9
    unknown = split(probs, np.full(200, 1e12))
    assert unknown.aleatoric.max() < 1e-5


def test_the_first_order_is_the_fisher_information() -> None:
    probs, small = random_probs(), 1e-6
    found = split(probs, np.full(200, small)).epistemic
    np.testing.assert_allclose(found / small, 0.5 * np.sum(probs[0] * (1 - probs[0]), -1), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("variance", [0.1, 0.5, 2.0, 6.0, 40.0])
@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_it_is_close_to_the_mutual_information_of_draws(scale: float, variance: float) -> None:
    """Of class and logits N(m, v I): entropy of the mean softmax, less the mean entropy, over 4000 draws."""
    rng = np.random.default_rng(1)
    centre = scale * rng.normal(size=(20, 1, 5))
    drawn = softmax(centre + np.sqrt(variance) * rng.normal(size=(20, 4000, 5)), axis=-1)
    mean = drawn.mean(1)
    information = entropy(mean) - entropy(drawn).mean(1)
    found = split(mean[None], np.full(20, variance)).epistemic
    assert (np.abs(found - information) < 0.05 * entropy(mean)).all()


def test_flat_predictions_are_epistemic_where_nothing_is_known() -> None:
    """Where the softmax at the mean state would call all of it ambiguity."""
    flat = softmax(np.array([[[0.01, 0.0, -0.01]] * 2]), axis=-1)
    found = split(flat, np.array([0.1, 10.0]))
    assert found.epistemic[0] < 0.05 and found.epistemic[1] > 0.6


def test_more_variance_is_more_epistemic_and_parts_add_up() -> None:
    probs = random_probs()
    before = np.zeros(200)
    for variance in (0.01, 0.1, 1.0, 10.0):
        found = split(probs, np.full(200, variance))
        assert (found.epistemic > before).all() and (found.aleatoric > 0).all()
        np.testing.assert_allclose(found.aleatoric + found.epistemic, found.total)
        np.testing.assert_allclose(found.aleatoric, remaining_entropy(probs, np.full(200, variance)), atol=1e-9)
        assert np.array_equal(found.known_state[0].argmax(-1), probs[0].argmax(-1))  # type: ignore[index]
        before = found.epistemic


def test_samples_keep_their_disagreement_and_the_variance_adds_to_it() -> None:
    probs = random_probs(samples=8)
    plain = replace(split(probs, np.zeros(200)), known_state=None)
    np.testing.assert_allclose(split(probs, np.zeros(200)).epistemic, plain.epistemic, atol=1e-9)
    assert (split(probs, np.ones(200)).epistemic > plain.epistemic).all()


def test_certain_and_tied_classes_are_no_trouble() -> None:
    probs = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0 - 1e-14, 1e-14, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    found = split(probs[None], np.array([2.0, 2.0, 1e6, 0.0]))
    assert np.isfinite(found.epistemic).all() and found.epistemic[0] == 0.0
    np.testing.assert_allclose(found.known_state[0, 1, :2], 0.5)  # type: ignore[index]
    with pytest.raises(BadUsage):
        known_state(probs[None], np.array([1.0, -1.0, 0.0, 0.0]))


def test_sharpening_gives_the_entropy_asked_for() -> None:
    probs = random_probs(scale=0.3)[0]
    for share in (0.999, 0.5, 1e-3):
        wanted = share * entropy(probs)
        np.testing.assert_allclose(entropy(sharpened(probs, wanted)), wanted, atol=1e-9)


def test_calibrators_temper_the_known_state_as_they_do_the_prediction(blocks: Graph) -> None:
    probs = random_probs(blocks.num_nodes, 3, scale=1.0)
    known = known_state(probs, np.ones(blocks.num_nodes))
    prediction = ClassPrediction(probs, blocks.node_ids, blocks.class_names, "gaussian", known_state=known)
    halved = Temperature(3)
    with torch.no_grad():
        halved.log_temperature.fill_(np.log(2.0))
    for tempered in (halved.apply_to(prediction, blocks), _tempered(prediction, 2.0)):
        np.testing.assert_allclose(tempered.known_state, softmax(np.log(known) / 2.0, axis=-1), atol=1e-12)
        assert tempered.kind == "gaussian" and (tempered.epistemic > 0).all()
    attentive = GATS(3)
    with torch.no_grad():
        attentive.relative_confidence.fill_(2.0)
    by_node = attentive.apply_to(prediction, blocks)
    sure = known[0, :, :2].min(-1) > 1e-12
    powers = [np.log(after[0, :, 0] / after[0, :, 1]) / np.log(before[0, :, 0] / before[0, :, 1])
              for after, before in ((by_node.probs, probs), (by_node.known_state, known))]  # fmt: skip
    np.testing.assert_allclose(powers[0][sure], powers[1][sure])  # one temperature per node for both


def test_undoing_a_models_own_temperature_keeps_the_split() -> None:
    logits = np.random.default_rng(0).normal(size=(1, 50, 4))
    probs = softmax(logits / 0.5, axis=-1)
    known = known_state(probs, np.ones(50))
    names = tuple("abcd")
    prediction = ClassPrediction(
        probs, np.arange(50), names, "gaussian", logits=logits, temperature=0.5, known_state=known
    )
    plain = prediction.untempered()
    assert plain.kind == "gaussian" and plain.known_state is not None
    np.testing.assert_allclose(plain.probs, softmax(logits, axis=-1))
    np.testing.assert_allclose(plain.known_state, softmax(0.5 * np.log(known), axis=-1))
