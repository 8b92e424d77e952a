"""Samples that are summed up as they are drawn say what all of them at once say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.prediction import ClassPrediction, SamplesNotKept, SummarisedPrediction, keeps_samples
from graphsde.prediction import sample_summary as sample_summary_module
from graphsde.prediction.sample_summary import SampleSums
from graphsde.uncertainty.scores.registry import available_scores, score

from support import needs_real_data

CALIBRATORS = (None, "temperature", "vector", "gats", "diffusion")


@pytest.fixture(scope="module")
def graph() -> gs.Graph:
    return gs.load("digits")


@pytest.fixture(scope="module")
def models(graph: gs.Graph) -> dict[str, gs.Model]:
    quick: dict[str, Any] = {"epochs": 3, "seed": 0}
    return {
        "paths": gs.LGNSDE(preset="universal", noise_by="paths", **quick).fit(graph),
        "marginals": gs.LGNSDE(preset="universal", noise_by="marginals", **quick).fit(graph),
        "tempered": gs.LGNSDE(preset="universal", temperature=True, **quick).fit(graph),
        "dropout": gs.MCDropout(hidden=8, **quick).fit(graph),
    }


def both(model: Any, graph: gs.Graph, **options: Any) -> tuple[ClassPrediction, SummarisedPrediction]:
    """With all samples, and with sums over them."""
    whole, summed = (model.predict(graph, samples=13, keep_samples=keep, **options) for keep in (True, False))
    assert type(whole) is ClassPrediction and isinstance(summed, SummarisedPrediction)
    return whole, summed


def assert_same_answers(whole: ClassPrediction, summed: ClassPrediction, graph: gs.Graph, *, bits: bool) -> None:
    same = np.testing.assert_array_equal if bits else lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    for name in ("mean", "total", "aleatoric", "epistemic", "confidence"):
        same(getattr(summed, name), getattr(whole, name))
    assert summed.label.tolist() == whole.label.tolist()
    assert (summed.num_samples, summed.num_classes, summed.kind) == (13, whole.num_classes, "samples")
    np.testing.assert_array_equal(summed.votes, whole.votes)
    np.testing.assert_allclose(summed.sample_variance, whole.sample_variance, rtol=0, atol=1e-13)
    np.testing.assert_allclose(summed.pairwise_kl, whole.pairwise_kl, rtol=0, atol=1e-12)
    assert summed.temperature == whole.temperature
    for one, other in ((summed.mean_logits, whole.mean_logits), (summed.free_energy(), whole.free_energy())):
        assert one is not None and other is not None
        same(one, other)
    assert summed.embedding is not None and whole.embedding is not None
    same(summed.embedding, whole.embedding)


@pytest.mark.parametrize("name", ["paths", "marginals", "tempered", "dropout"])
def test_sums_say_what_all_samples_say(name: str, models: dict[str, gs.Model], graph: gs.Graph) -> None:
    whole, summed = both(models[name], graph)
    assert_same_answers(whole, summed, graph, bits=True)
    assert_same_answers(whole.untempered(), summed.untempered(), graph, bits=True)
    for one in available_scores(whole, graph):
        np.testing.assert_allclose(score(one, summed, graph), score(one, whole, graph), rtol=0, atol=1e-12)
    rows = np.array([5, 3, 900])
    assert_same_answers(whole.subset(rows), summed.subset(rows), graph, bits=True)
    np.testing.assert_array_equal(summed.with_samples(rows).probs, whole.probs[:, rows])


def test_a_block_ends_anywhere(models: dict[str, gs.Model], graph: gs.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    _, summed = both(models["marginals"], graph)
    monkeypatch.setattr("graphsde.models.summarise.ROWS_AT_ONCE", 101)
    _, again = both(models["marginals"], graph)
    np.testing.assert_array_equal(again.mean, summed.mean)
    np.testing.assert_array_equal(again.aleatoric, summed.aleatoric)


@pytest.mark.parametrize("by", CALIBRATORS[1:])
def test_calibrators_act_on_every_sample(by: str, models: dict[str, gs.Model], graph: gs.Graph) -> None:
    model = models["tempered"]
    try:
        model.calibrate(graph, by=by, samples=13)
        whole, summed = both(model, graph)
        assert_same_answers(whole, summed, graph, bits=False)
        assert summed.uncalibrated is not None and whole.uncalibrated is not None
        assert_same_answers(whole.uncalibrated, summed.uncalibrated, graph, bits=True)
        assert_same_answers(whole.untempered(), summed.untempered(), graph, bits=True)
    finally:
        model.calibrate(graph, by=None)


@pytest.mark.parametrize("by", ["temperature", "vector"])
def test_a_calibrator_is_fitted_without_all_samples(
    by: str, models: dict[str, gs.Model], graph: gs.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["paths"]
    try:
        expected = model.calibrate(graph, by=by, samples=13).predict(graph, samples=13).mean
        monkeypatch.setenv("GRAPHSDE_SAMPLE_MEMORY", "0")
        found = model.calibrate(graph, by=by, samples=13).predict(graph, samples=13)
        assert isinstance(found, SummarisedPrediction)
        np.testing.assert_allclose(found.mean, expected, rtol=0, atol=1e-9)
    finally:
        model.calibrate(graph, by=None)


def test_the_epistemic_part_of_a_state_is_there_too(graph: gs.Graph) -> None:
    """A model with samples that knows the variance of its state besides."""
    model = gs.LGNSDE(preset="auto", race=False, epochs=3, seed=0, sigma=0.3).fit(graph)
    if model.kind != "samples":
        pytest.skip("the default preset has no noise here")
    whole, summed = both(model, graph)
    assert whole.known_state is not None and summed.known_state is not None
    np.testing.assert_allclose(summed.known_state, whole.known_state, rtol=0, atol=1e-7)
    np.testing.assert_allclose(summed.epistemic, whole.epistemic, rtol=0, atol=1e-6)
    assert_same_answers(whole.untempered(), summed.untempered(), graph, bits=False)


def test_samples_that_were_not_kept_are_asked_for_in_vain(models: dict[str, gs.Model], graph: gs.Graph) -> None:
    _, summed = both(models["paths"], graph)
    for question in (lambda: summed.probs, lambda: summed.logits, lambda: score("energy", summed, temperature=2.0)):
        with pytest.raises(SamplesNotKept, match="keep_samples=True") as caught:
            question()
        assert caught.value.code == "E-SAMPLES"
    with pytest.raises(SamplesNotKept, match=r"13 samples of 1,797 nodes"):
        gs.calibrate(summed, graph, by="gats")


def test_small_predictions_keep_their_samples(
    models: dict[str, gs.Model], graph: gs.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type(models["paths"].predict(graph, samples=64)) is ClassPrediction
    assert keeps_samples(64, 40_000, 10) and not keeps_samples(64, 10**6, 5)
    monkeypatch.setenv("GRAPHSDE_SAMPLE_MEMORY", "1")
    assert isinstance(models["paths"].predict(graph, samples=64), SummarisedPrediction)
    assert type(models["paths"].predict(graph, samples=2)) is ClassPrediction
    monkeypatch.setenv("GRAPHSDE_SAMPLE_MEMORY", "much")
    with pytest.raises(gs.GraphsdeError, match="a number of MiB"):
        models["paths"].predict(graph, samples=2)


def test_an_ensemble_of_large_members_mixes_their_samples(graph: gs.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gs.Ensemble(base="mc-dropout", members=2, base_settings={"epochs": 2, "hidden": 8}).fit(graph)
    expected = model.predict(graph, samples=6)
    monkeypatch.setenv("GRAPHSDE_SAMPLE_MEMORY", "0")
    np.testing.assert_array_equal(model.predict(graph, samples=6).probs, expected.probs)


def test_numbers_keep_their_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_SAMPLE_MEMORY", "0")
    graph = gs.load("diabetes")
    prediction = gs.LGNSDE(preset="universal", epochs=2).fit(graph).predict(graph, samples=5)
    assert prediction.means.shape == (5, graph.num_nodes)


def test_sums_of_known_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples that contradict each other, and one node that is sure."""
    monkeypatch.setattr(sample_summary_module, "ROWS_AT_ONCE", 1)
    probs = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    logits = np.log([[[1.0, 3.0], [1.0, 1.0]], [[2.0, 2.0], [1.0, 1.0]]])
    sums = SampleSums(2, 2, logits=True)
    for one, z in zip(probs, logits, strict=True):
        sums.add(one, z)
    found = sums.finished()
    assert found.count == 2
    np.testing.assert_allclose(found.mean, 0.5)
    np.testing.assert_allclose(found.entropy, [0.0, np.log(2)], atol=1e-15)
    np.testing.assert_allclose(found.gini, [0.0, 0.5])
    np.testing.assert_allclose(found.variance, [1.0, 0.0])
    np.testing.assert_allclose(found.pairwise_kl, [-np.log(1e-12), 0.0], atol=1e-12)
    assert found.votes.tolist() == [[1, 1], [2, 0]]
    np.testing.assert_allclose(found.log_sum_exp, [np.log(4), np.log(2)])
    np.testing.assert_allclose(found.logits, [[np.log(2) / 2, (np.log(3) + np.log(2)) / 2], [0.0, 0.0]])


def test_the_spread_of_samples_that_hardly_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of squares would leave nothing but rounding."""
    rng = np.random.default_rng(0)
    offsets = 1e-9 * rng.standard_normal((50, 20, 1))
    probs = np.concatenate([0.3 + offsets, 0.7 - offsets], axis=-1)
    sums = SampleSums(20, 2, logits=False)
    for one in probs:
        sums.add(one)
    expected = 2 * np.var(offsets[..., 0], axis=0, ddof=1)
    np.testing.assert_allclose(sums.finished().variance, expected, rtol=1e-5)


@needs_real_data
def test_figures_of_a_real_graph_are_the_same() -> None:
    graph = gs.load("cora")
    whole, summed = both(gs.LGNSDE(preset="universal", epochs=3, seed=0).fit(graph), graph)
    expected, found = (gs.evaluate(one, graph) for one in (whole, summed))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=0, atol=1e-12)
    assert gs.ask(summed, graph, 10).as_dict() == gs.ask(whole, graph, 10).as_dict()
