"""What each score is worth, against closed forms and plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.scores import available_scores, score


def dirichlet(alpha: list[list[float]]) -> Prediction:
    a = np.array(alpha)
    return ClassPrediction(
        (a / a.sum(-1, keepdims=True))[None], np.arange(len(a)), tuple("abcdefgh"[: a.shape[1]]), "dirichlet", alpha=a
    )


def deterministic(probs: list[list[float]]) -> Prediction:
    p = np.array(probs)
    return ClassPrediction(p[None], np.arange(len(p)), tuple("abcdefgh"[: p.shape[1]]), "deterministic")


def test_confidence_scores_of_known_rows() -> None:
    p = deterministic([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert np.allclose(score("msp", p), [0.5, 0.0, 2 / 3], atol=1e-15)
    assert np.allclose(score("margin", p), [0.8, 0.0, 1.0], atol=1e-15)
    assert np.allclose(score("entropy", p)[1:], [0.0, np.log(3)], atol=1e-15)
    assert np.array_equal(score("expected-entropy", p), score("entropy", p))


def test_margin_of_a_single_class_is_certain() -> None:
    assert score("margin", deterministic([[1.0], [1.0]])).tolist() == [0.0, 0.0]


def test_adding_a_constant_to_logits_moves_energy_only(make_prediction) -> None:
    prediction = make_prediction("samples")
    moved = replace(prediction, logits=prediction.logits + 3.25)
    assert np.allclose(score("energy", moved), score("energy", prediction) - 3.25, atol=1e-12)
    assert np.array_equal(score("entropy", moved), score("entropy", prediction))
    assert np.array_equal(score("msp", moved), score("msp", prediction))


def test_energy_is_the_mean_over_samples_and_survives_large_logits(make_prediction) -> None:
    from scipy.special import logsumexp

    prediction = make_prediction("samples")
    for t in (1.0, 0.5, 10.0):
        expected = -t * logsumexp(prediction.logits / t, axis=-1).mean(axis=0)
        assert np.allclose(score("energy", prediction, temperature=t), expected, atol=1e-12)
    huge = replace(prediction, logits=np.float32(1e4) * prediction.logits.astype(np.float32))
    assert np.isfinite(score("energy", huge)).all()


def test_variance_and_variation_ratio_against_numpy(make_prediction) -> None:
    prediction = make_prediction("samples", samples=7)
    expected = prediction.probs.var(axis=0, ddof=1).sum(axis=-1)
    assert np.allclose(score("variance", prediction), expected, atol=1e-14)
    votes = prediction.probs.argmax(-1)  # [S, N]
    ratio = [1 - np.unique(votes[:, i], return_counts=True)[1].max() / 7 for i in range(20)]
    assert np.allclose(score("variation-ratio", prediction), ratio, atol=1e-15)


def test_pairwise_kl_against_the_double_loop(make_prediction) -> None:
    prediction = make_prediction("samples", samples=4, nodes=6)
    pairs = [(s, t) for s in range(4) for t in range(4) if s != t]
    p = prediction.probs
    expected = np.mean([np.sum(p[s] * np.log(p[s] / p[t]), axis=-1) for s, t in pairs], axis=0)
    assert np.allclose(score("expected-pairwise-kl", prediction), expected, atol=1e-12)


def test_pairwise_kl_is_finite_with_zero_probabilities() -> None:
    p = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    value = score("expected-pairwise-kl", ClassPrediction(p, np.arange(1), ("a", "b"), "samples"))
    assert np.allclose(value, -np.log(1e-12), rtol=1e-12)


@pytest.mark.parametrize("name", ["variance", "expected-pairwise-kl", "mutual-information"])
def test_dirichlet_closed_forms_are_the_limit_of_samples(name) -> None:
    closed = dirichlet([[3.0, 2.0, 4.0], [1.2, 5.0, 1.5]])
    draws = np.stack([np.random.default_rng(0).dirichlet(a, size=100_000) for a in closed.alpha], axis=1)
    sampled = replace(closed, probs=draws, alpha=None, kind="samples")
    assert np.allclose(score(name, closed), score(name, sampled), rtol=0.02)


def test_vacuity_and_dissonance_facts() -> None:
    p = dirichlet([[1, 1, 1, 1], [9, 1, 1, 1], [5, 5, 5, 5], [4, 4, 1, 1]])
    vacuity, dissonance = score("vacuity", p), score("dissonance", p)
    assert np.allclose(vacuity, [1.0, 4 / 12, 4 / 20, 4 / 10], atol=1e-15)
    assert dissonance[0] == 0.0  # no evidence, nothing to conflict
    assert dissonance[1] == 0.0  # a single belief
    assert np.allclose(dissonance[2:], 1 - vacuity[2:], atol=1e-15)  # equal beliefs, maximal conflict


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, (5, 4), elements=st.sampled_from([1.0, 1.0, 1.5, 2.0, 7.0, 1e6])))
def test_dissonance_against_its_definition(alpha: np.ndarray) -> None:
    def by_the_book(a: np.ndarray) -> float:
        b = (a - 1) / a.sum()
        total = 0.0
        for i in range(len(b)):
            others = [j for j in range(len(b)) if j != i]
            weight = sum(b[j] for j in others)
            for j in others:
                if b[i] > 0 and b[j] > 0:
                    total += b[i] * b[j] * (1 - abs(b[i] - b[j]) / (b[i] + b[j])) / weight
        return total

    values = score("dissonance", dirichlet(alpha.tolist()))
    assert np.allclose(values, [by_the_book(a) for a in alpha], atol=1e-12)
    assert np.all(values <= 1 - score("vacuity", dirichlet(alpha.tolist())) + 1e-12)


@pytest.mark.parametrize("kind", ["samples", "dirichlet", "deterministic"])
def test_scores_do_not_depend_on_the_order_of_nodes_or_samples(kind, make_prediction) -> None:
    prediction = make_prediction(kind)
    order = np.random.default_rng(1).permutation(prediction.num_items)
    turned = replace(
        prediction.subset(order),
        probs=prediction.probs[::-1][:, order],
        logits=prediction.logits[::-1][:, order],
    )
    for name in available_scores(prediction):
        assert np.allclose(score(name, turned), score(name, prediction)[order], atol=1e-12), name


def test_float32_samples_give_float64_scores_without_losing_digits(make_prediction) -> None:
    prediction = make_prediction("samples", samples=64)
    single = replace(prediction, probs=prediction.probs.astype(np.float32), logits=prediction.logits.astype(np.float32))
    for name in set(available_scores(prediction)) - {"variation-ratio"}:
        assert score(name, single).dtype == np.float64
        assert np.allclose(score(name, single), score(name, prediction), atol=2e-6), name


def test_differential_entropy_and_predicted_evidence() -> None:
    alpha = np.array([[1.0, 1.0, 1.0], [20.0, 2.0, 1.0], [2.0, 3.0, 7.5], [100.0, 100.0, 100.0]])
    p = ClassPrediction(
        (alpha / alpha.sum(-1, keepdims=True))[None], np.arange(4), ("a", "b", "c"), "dirichlet", alpha=alpha
    )
    expected = [stats.dirichlet(row).entropy() for row in alpha]
    np.testing.assert_allclose(score("differential-entropy", p), expected, rtol=1e-10)
    assert score("predicted-evidence", p).tolist() == [-1.0, -20.0, -7.5, -100.0]


def test_energy_has_the_temperature_one_unless_told_otherwise() -> None:
    """Logits 0, ln 2, ln 5: −ln(1 + 2 + 5) at T = 1, and −2 ln(1 + √2 + √5) at T = 2."""
    logits = np.log([[[1.0, 2.0, 5.0]]])
    prediction = ClassPrediction(np.exp(logits) / 8, np.arange(1), tuple("abc"), "deterministic", logits=logits)
    assert score("energy", prediction) == pytest.approx([-np.log(8)], rel=1e-12)
    assert score("energy", prediction, temperature=2.0) == pytest.approx([-2 * np.log(1 + 2**0.5 + 5**0.5)], rel=1e-12)
