"""Classification and calibration metrics against scikit-learn and plain loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from graphsde import metrics
from graphsde.base.errors import BadInput, BadUsage


def coarse_probs(seed: int, nodes: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in steps of a fifth, so that ties abound, and labels that follow them loosely."""
    rng = np.random.default_rng(seed)
    probs = rng.multinomial(5, np.full(classes, 1 / classes), size=nodes) / 5
    labels = np.where(rng.random(nodes) < 0.5, probs.argmax(-1), rng.integers(0, classes, nodes))
    return probs, labels


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(2, 6))
def test_against_scikit_learn(seed: int, nodes: int, classes: int) -> None:
    probs, labels = coarse_probs(seed, nodes, classes)
    predicted = probs.argmax(-1)
    close = {"rel": 0, "abs": 1e-12}
    onehot = np.eye(classes)[labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        balanced = sk.balanced_accuracy_score(labels, predicted)
        loss = sk.log_loss(labels, np.clip(probs, 1e-12, 1), labels=range(classes), normalize=True)
    assert metrics.accuracy(predicted, labels) == pytest.approx(sk.accuracy_score(labels, predicted), **close)
    assert metrics.balanced_accuracy(predicted, labels) == pytest.approx(balanced, **close)
    assert metrics.macro_f1(predicted, labels) == pytest.approx(
        sk.f1_score(labels, predicted, average="macro", zero_division=0), **close
    )
    assert metrics.micro_auroc(probs, labels) == pytest.approx(sk.roc_auc_score(onehot.ravel(), probs.ravel()), **close)
    assert metrics.nll(probs, labels) == pytest.approx(loss, rel=1e-9, abs=1e-9)
    assert metrics.brier(probs, labels) == pytest.approx(np.mean(((probs - onehot) ** 2).sum(-1)), **close)


def test_brier_is_scikit_learns_sum_over_columns() -> None:
    probs, labels = coarse_probs(4, 50, 3)
    columns = sum(sk.brier_score_loss(labels == c, probs[:, c]) for c in range(3))
    assert metrics.brier(probs, labels) == pytest.approx(columns, abs=1e-12)
    assert metrics.brier(np.eye(2), np.array([1, 0])) == 2.0


def test_nll_is_clamped_and_a_uniform_model_gets_its_chance_level() -> None:
    assert metrics.nll(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(-np.log(1e-12), rel=1e-12)
    uniform, labels = np.full((9, 4), 0.25), np.arange(9) % 4
    assert metrics.nll(uniform, labels) == pytest.approx(np.log(4), abs=1e-15)
    assert metrics.brier(uniform, labels) == pytest.approx(1 - 1 / 4, abs=1e-15)
    assert metrics.micro_auroc(uniform, labels) == 0.5


def test_one_class_only_has_no_micro_auroc() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(metrics.micro_auroc(np.ones((4, 1)), np.zeros(4, dtype=int)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 20))
def test_ece_against_a_loop_over_bins(seed: int, nodes: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=nodes)
    probs[rng.random(nodes) < 0.2] = np.eye(3)[0]  # saturated: confidence exactly 1
    labels = rng.integers(0, 3, nodes)
    confidence, right = probs.max(-1), probs.argmax(-1) == labels
    expected = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert metrics.ece(probs, labels, bins=bins) == pytest.approx(expected, abs=1e-12)


def test_a_confidence_on_a_cut_belongs_to_the_lower_bin() -> None:
    curve = metrics.reliability(np.array([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]), np.zeros(3, dtype=int), bins=4)
    assert curve.upper.tolist() == [0.5, 0.75, 1.0]
    curve = metrics.reliability(np.array([[0.5, 0.5], [0.6, 0.4]]), np.zeros(2, dtype=int), bins=2)
    assert curve.count.tolist() == [1, 1]


def test_adaptive_ece_against_equal_slices_and_independent_of_order() -> None:
    rng = np.random.default_rng(5)
    probs, labels = rng.dirichlet(np.ones(4), size=150), rng.integers(0, 4, 150)
    confidence, right = probs.max(-1), probs.argmax(-1) == labels
    slices = np.split(np.argsort(confidence), 15)
    expected = np.mean([abs(right[part].mean() - confidence[part].mean()) for part in slices])
    assert metrics.adaptive_ece(probs, labels) == pytest.approx(expected, abs=1e-12)
    coarse, labels = coarse_probs(1, 100, 3)
    sizes = metrics.reliability(coarse, labels, spacing="mass").count
    assert len(sizes) == 15 and set(sizes.tolist()) == {6, 7}
    assert metrics.reliability(coarse[:4], labels[:4], spacing="mass").count.tolist() == [1, 1, 1, 1]
    order = rng.permutation(100)
    assert metrics.adaptive_ece(coarse[order], labels[order]) == pytest.approx(
        metrics.adaptive_ece(coarse, labels), abs=1e-12
    )


def test_calibrated_and_overconfident_extremes() -> None:
    sure = np.tile([1.0, 0.0], (10, 1))
    right, wrong = np.zeros(10, dtype=int), np.ones(10, dtype=int)
    for metric in (metrics.ece, metrics.adaptive_ece):
        assert metric(sure, right) == 0.0 and metric(sure, wrong) == 1.0
        half = np.tile([0.5, 0.5], (10, 1))
        assert metric(half, np.repeat([0, 1], 5)) == pytest.approx(0.0, abs=1e-12)


def test_reliability_counts_every_node_once() -> None:
    probs, labels = coarse_probs(2, 83, 4)
    for spacing in ("width", "mass"):
        curve = metrics.reliability(probs, labels, spacing=spacing)
        assert curve.count.sum() == 83
        assert (np.diff(curve.confidence) >= -1e-12).all()
        assert (curve.lower <= curve.confidence + 1e-12).all() and (curve.confidence <= curve.upper + 1e-12).all()
        assert np.sum(curve.count * curve.accuracy) == pytest.approx(np.sum(probs.argmax(-1) == labels), abs=1e-9)
    with pytest.raises(BadUsage):
        metrics.reliability(probs, labels, bins=0)
    with pytest.raises(BadUsage):
        metrics.reliability(probs, labels, spacing="log")


def test_bad_arguments_are_refused() -> None:
    probs, labels = coarse_probs(2, 5, 3)
    with pytest.raises(BadInput, match="empty"):
        metrics.nll(probs[:0], labels[:0])
    with pytest.raises(BadInput, match="empty"):
        metrics.accuracy(labels[:0], labels[:0])
    with pytest.raises(BadInput, match="entries"):
        metrics.nll(probs, labels[:4])
    for wrong in (labels - 9, labels + 9, labels.astype(float)):
        with pytest.raises(BadInput):
            metrics.nll(probs, wrong)
    with pytest.raises(BadInput, match="finite"):
        metrics.nll(np.full((5, 3), np.nan), labels)
    with pytest.raises(BadInput, match="labels is not a vector"):
        metrics.macro_f1(labels, labels - 9)
    with pytest.raises(BadInput, match="predicted is not a vector"):
        metrics.macro_f1(labels - 9, labels)
