"""Predictions from the outputs of any model: what they become, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.prediction.outputs import recognise

from support import block_graph


def random_logits(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) * 3


def softmax(values: np.ndarray) -> np.ndarray:
    return np.exp(values) / np.exp(values).sum(axis=-1, keepdims=True)


def test_logits_become_their_softmax_and_are_kept() -> None:
    logits = random_logits((5, 3))
    found = gs.Prediction.from_logits(logits)
    np.testing.assert_allclose(found.mean, softmax(logits), rtol=1e-12)
    assert found.logits is not None
    np.testing.assert_array_equal(found.logits[0], logits)
    assert found.kind == "deterministic" and np.isnan(found.epistemic).all()


def test_log_probabilities_are_logits() -> None:
    probs = softmax(random_logits((5, 3)))
    np.testing.assert_allclose(gs.Prediction.from_logits(np.log(probs)).mean, probs, rtol=1e-12)


def test_the_logarithm_of_zero_stays_a_probability_of_zero() -> None:
    found = gs.Prediction.from_logits([[0.0, -np.inf, 0.0]])
    assert found.mean.tolist() == [[0.5, 0.0, 0.5]]
    assert found.logits is not None and np.isfinite(found.logits).all()


def test_samples_have_the_mutual_information_of_the_closed_form() -> None:
    probs = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two draws that are sure of opposite classes
    found = gs.Prediction.from_probabilities(probs)
    assert found.kind == "samples" and found.num_samples == 2
    np.testing.assert_allclose(found.epistemic, np.log(2))
    np.testing.assert_allclose(found.aleatoric, 0)


def test_means_and_deviations_become_a_gaussian() -> None:
    found = gs.Prediction.from_mean_std([1.0, 2.0], [0.5, 2.0], ids=["a", "b"])
    np.testing.assert_allclose(found.total, [0.25, 4.0])
    low, high = found.interval(0.9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * np.array([0.5, 2.0]), rtol=1e-6)
    drawn = gs.Prediction.from_mean_std([[0.0, 1.0], [2.0, 1.0]], np.ones((2, 2)))
    assert drawn.kind == "samples" and drawn.epistemic.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_any_precision_with_a_gradient(dtype: torch.dtype) -> None:
    probs = torch.softmax(torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), -1).to(dtype)
    found = gs.Prediction.from_probabilities(probs.requires_grad_())
    np.testing.assert_allclose(found.probs.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(found.mean, probs.detach().double().numpy(), atol=2e-2)


def test_a_graph_gives_ids_and_classes() -> None:
    graph = block_graph()
    found = gs.Prediction.from_logits(random_logits((30, 3)), graph)
    assert found.class_names == graph.class_names
    np.testing.assert_array_equal(found.ids, graph.node_ids)


def test_classes_in_another_order_are_judged_as_they_are_named() -> None:
    graph = block_graph()
    probs = np.eye(3)[graph.labels] * 0.9 + 0.1 / 3
    turned = gs.Prediction.from_probabilities(probs[:, ::-1], graph, class_names=graph.class_names[::-1])
    assert gs.evaluate(turned, graph)["accuracy"] == 1.0


def test_the_columns_of_a_frame_are_classes() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [0.9, 0.2], "a": [0.1, 0.8]})
    assert gs.Prediction.from_probabilities(frame).label.tolist() == ["b", "a"]


def test_numbered_classes_without_any_node_keep_their_place() -> None:
    graph = gs.from_arrays(np.ones((4, 1)), [[0, 1], [1, 2]], labels=[0, 2, 2, 0])
    assert graph.class_names == ("0", "2")
    assert gs.Prediction.from_logits(random_logits((4, 3)), graph).class_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda: gs.Prediction.from_probabilities([[0.5, 0.6]]), "E-INPUT", "sums to 1.1"),
        (lambda: gs.Prediction.from_probabilities([[2.0, -1.0]]), "E-INPUT", "look like logits"),
        (lambda: gs.Prediction.from_probabilities(np.log([[0.5, 0.5]])), "E-INPUT", "look like log-probabilities"),
        (lambda: gs.Prediction.from_probabilities([[0.5, np.nan]]), "E-NAN", "1 nodes"),
        (lambda: gs.Prediction.from_logits([[0.5, np.inf]]), "E-NAN", "row 0"),
        (lambda: gs.Prediction.from_logits([[-np.inf, -np.inf]]), "E-NAN", "row 0"),
        (lambda: gs.Prediction.from_probabilities([0.5, 0.5]), "E-SHAPE", "pass both columns"),
        (lambda: gs.Prediction.from_logits(np.zeros((2, 2, 2, 2))), "E-SHAPE", "[samples, nodes, classes]"),
        (lambda: gs.Prediction.from_logits(np.zeros((0, 2))), "E-SHAPE", "(0, 2)"),
        (lambda: gs.Prediction.from_logits([["a", "b"]]), "E-DTYPE", "not numbers"),
        (lambda: gs.Prediction.from_logits(np.zeros((5, 3)), block_graph()), "E-LEN", "not only the test nodes"),
        (lambda: gs.Prediction.from_logits(np.zeros((30, 4)), block_graph()), "E-CLASS-MAP", "class_names=["),
        (lambda: gs.Prediction.from_logits([[0, 0]], class_names=["a", "a"]), "E-CLASS-NAMES", "2 columns"),
        (
            lambda: gs.Prediction.from_logits(np.zeros((30, 3)), block_graph(), class_names="abc"),
            "E-CLASS-MAP",
            "graph.class_names",
        ),
        (lambda: gs.Prediction.from_logits([[0, 0]], embedding=np.zeros((2, 3))), "E-LEN", "a row per node"),
        (lambda: gs.Prediction.from_logits([[0, 0]], embedding=[[np.nan]]), "E-NAN", "embeddings"),
        (lambda: gs.Prediction.from_logits(np.zeros((30, 3)), block_graph(), ids=range(30)), "E-USAGE", "twice"),
        (lambda: gs.Prediction.from_mean_std([1.0], [0.0]), "E-INPUT", "0 or below"),
        (lambda: gs.Prediction.from_mean_std([1.0, 2.0], [1.0]), "E-LEN", "one standard deviation per mean"),
        (lambda: gs.Prediction.from_mean_std([[1.0], [2.0], [3.0]], [1.0]), "E-SHAPE", "values[:, 0]"),
    ],
)
def test_what_does_not_fit_is_told(call: Any, code: str, words: str) -> None:
    with pytest.raises(GraphsdeError) as caught:
        call()
    assert caught.value.code == code
    assert words in str(caught.value)


def test_outputs_are_told_apart_only_where_that_is_certain() -> None:
    logits = random_logits((50, 4))
    assert recognise(logits) == "logits"
    assert recognise(np.log(softmax(logits))) == "logits"
    assert recognise(softmax(logits)) == "probabilities"
    assert recognise(np.abs(logits) + 1) == "logits"
    with pytest.raises(BadUsage, match="output='logits'"):
        recognise(1 / (1 + np.exp(-logits)))


def test_a_given_prediction_is_calibrated_on_validation_nodes() -> None:
    graph = block_graph(per_class=40)
    sure = gs.Prediction.from_logits(random_logits((120, 3)) * 20, graph)  # sure of answers that are drawn at random
    better = gs.calibrate(sure, graph)
    assert isinstance(better, gs.ClassPrediction)
    assert better.temperature > 2
    assert gs.evaluate(better, graph)["nll"] < gs.evaluate(sure, graph)["nll"]
    with pytest.raises(BadInput, match="no labelled validation nodes"):
        gs.calibrate(sure, graph.with_masks(train=graph.role("train")))
