"""The propagated variance as a temperature per node: known truths, what is kept, what the prediction says of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.metrics.calibration import nll
from graphsde.models import load_model
from graphsde.prediction import ClassPrediction
from graphsde.prediction.classification import entropy
from graphsde.sde.marginals import propagated_variance
from graphsde.uncertainty.calibration import (
    CALIBRATORS,
    DiffusionTemperature,
    Surroundings,
    covariates,
    diffusion_forms,
    fit_calibrator,
)
from graphsde.uncertainty.calibration.base import centred_logits
from graphsde.uncertainty.calibration.covariates import (
    FittedNodes,
    hops_to,
    raw_covariates,
    scale_of,
    standardised,
)
from graphsde.uncertainty.calibration.diffusion_forms import (
    FORMS,
    DiffusionData,
    FittedForm,
    fit_form,
    log_probabilities,
    noise_of,
    quasi_normal_draws,
)
from graphsde.uncertainty.scores.spread import decompose

FILTER = (0.9, 5)
CLASSES = 4
TRUE_TEMPERATURE, TRUE_VARIANCE = 0.8, math.log(0.6)


def by_number(graph: Graph) -> np.ndarray:
    return (1.0 + (np.array([int(one) for one in graph.node_ids]) * 37) % 97) / 98.0


@pytest.fixture
def no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the calibrator must not depend on the evidence."""
    monkeypatch.setattr(covariates, "evidence_tail", by_number)


def ring(nodes: int, seed: int = 0) -> Graph:
    """A ring with chords, so that degrees differ; every tenth node is a training node."""
    rng = np.random.default_rng(seed)
    around = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    chords = rng.integers(0, max(nodes // 4, 1), size=(2, nodes))
    train = np.arange(nodes) % 10 == 0
    return from_arrays(
        np.ones((nodes, 1)),
        np.concatenate([around, chords[:, chords[0] != chords[1]]], 1),
        labels=rng.integers(0, CLASSES, nodes),
        class_names=[f"class {c}" for c in range(CLASSES)],
        train_mask=train,
        val_mask=~train,
        name="ring",
    )


def planted(slopes: tuple[float, float, float], nodes: int = 3000) -> tuple[DiffusionData, Graph, Tensor, Tensor]:
    """Classes drawn from the closed form with known parameters; the scale of the noise is the data's own."""
    rng = np.random.default_rng(1)
    graph = ring(nodes)
    logits = torch.from_numpy(3 * rng.normal(size=(1, nodes, CLASSES)))
    fitted = FittedNodes(tuple(np.flatnonzero(graph.role("train")).tolist()), (0,) * int(graph.role("train").sum()))
    raw = raw_covariates(graph, fitted, by_number)
    phi = standardised(raw, *scale_of(raw))
    rows = torch.arange(nodes)
    adjacency = graph.adjacency.operator
    data = DiffusionData.of(logits, rows, torch.zeros(nodes, dtype=torch.long), phi, adjacency, FILTER)
    truth = torch.tensor([math.log(TRUE_TEMPERATURE), TRUE_VARIANCE, *slopes], dtype=torch.float64)
    variance = propagated_variance(adjacency, *FILTER, data.scale * noise_of(truth, phi))
    probs = log_probabilities("closed", truth, logits, variance, phi).exp().numpy()
    labels = (probs.cumsum(1) < rng.random(nodes)[:, None]).sum(1).clip(0, CLASSES - 1)
    classes = torch.from_numpy(labels)
    return DiffusionData.of(logits, rows, classes, phi, adjacency, FILTER), graph, phi, variance


def test_the_fit_finds_planted_slopes() -> None:
    slopes = (0.9, -0.7, 0.0)
    data, graph, phi, variance = planted(slopes)
    found = fit_form("closed", data)
    assert math.isfinite(found.ridge)
    assert np.allclose(found.parameters[2:4], slopes[:2], atol=0.35)
    # τ and a trade places where v hardly varies; what the two make together is known well
    temperature = torch.sqrt(found.parameters[0].exp() ** 2 + found.variance(phi, graph.adjacency.operator))
    truth = torch.sqrt(TRUE_TEMPERATURE**2 + variance)
    assert float((temperature / truth).log().abs().median()) < 0.06
    assert found.nll < fit_form("constant", data).nll < fit_form("temperature", data).nll


def test_distance_aware_noise_has_the_planted_size() -> None:
    """Slopes of (1, 0, 0) are given, τ and a are found; the weights of the variance are those of 1/p."""
    data, graph, phi, variance = planted((1.0, 0.0, 0.0))
    found = fit_form("distance-aware", data)
    assert found.parameters[2:].tolist() == [1.0, 0.0, 0.0] and math.isinf(found.ridge)
    temperature = torch.sqrt(found.parameters[0].exp() ** 2 + found.variance(phi, graph.adjacency.operator))
    truth = torch.sqrt(TRUE_TEMPERATURE**2 + variance)
    assert float((temperature / truth).log().abs().median()) < 0.06
    assert found.nll < fit_form("constant", data).nll
    # the same as constant noise whose weights are divided by the tail share
    scaled = replace(data, weights=data.weights * torch.exp(phi[:, 0]).to(data.weights.dtype))
    assert found.nll == pytest.approx(fit_form("constant", scaled).nll, abs=1e-5)


def test_noise_by_a_rule_needs_no_matrix_of_weights() -> None:
    """With slopes that are given, one variance per node holds all that the fit needs."""
    data, graph, phi, _ = planted((1.0, 0.0, 0.0), nodes=400)
    adjacency = graph.adjacency.operator
    unit = diffusion_forms.unit_noise("distance-aware", phi, adjacency, FILTER)
    short = DiffusionData.of(data.logits, data.rows, data.truth, phi, adjacency, FILTER, unit)
    assert short.weights is None and short.scale == pytest.approx(data.scale, rel=1e-5)
    found, other = fit_form("distance-aware", short), fit_form("distance-aware", data)
    assert torch.allclose(found.parameters, other.parameters, atol=1e-3) and found.nll == pytest.approx(other.nll)
    variance = found.variance(phi, adjacency)
    torch.testing.assert_close(variance, found.scale * found.parameters[1].exp() * unit, rtol=1e-5, atol=0.0)


@pytest.mark.usefixtures("no_evidence")
def test_only_noise_beyond_that_of_validation_nodes_is_epistemic(tmp_path: Path) -> None:
    graph = ring(200)
    logits = 3 * np.random.default_rng(0).normal(size=(1, 200, CLASSES))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    prediction = ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic")
    calibrator = fit_calibrator(prediction, graph, by="distance-aware")
    assert isinstance(calibrator, DiffusionTemperature)
    variance = calibrator.surroundings(graph).variance
    assert calibrator.familiar_variance == pytest.approx(float(variance.numpy()[graph.role("val")].mean()))
    found = calibrator.apply_to(prediction, graph)
    familiar = variance.numpy() <= calibrator.familiar_variance
    assert found.kind == "gaussian" and 0 < familiar.sum() < 200
    assert np.allclose(found.epistemic[familiar], 0.0, atol=1e-6) and (found.epistemic[~familiar] > 0).all()
    kept = calibrator.plain_values()
    again = CALIBRATORS.get("distance-aware")(CLASSES, calibrator.trained)
    again.load_state_dict(calibrator.state_dict())
    again.recall(kept)
    assert np.array_equal(again.apply_to(prediction, graph).epistemic, found.epistemic)
    kept.pop("familiar_variance")  # as in files of earlier versions, where all noise was epistemic
    again.recall(kept)
    assert (again.apply_to(prediction, graph).epistemic >= found.epistemic).all()


def test_without_slopes_few_nodes_find_none() -> None:
    """Labels drawn from constant noise: chance alone must hardly ever look like slopes."""
    data, *_ = planted((0.0, 0.0, 0.0), nodes=600)
    parts = [torch.arange(start, start + 50) for start in range(0, 600, 50)]
    found = [
        fit_form(
            "closed",
            DiffusionData(
                data.logits[:, rows],
                data.truth[rows],
                data.weights[rows],
                data.covariates,
                rows,
                data.scale,
                data.filter,
            ),
        )
        for rows in parts
    ]
    assert sum(math.isfinite(one.ridge) for one in found) <= 2
    assert all(not one.parameters[2:].any() for one in found if math.isinf(one.ridge))


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_is_a_minimum_and_its_gradient_is_exact(form: str) -> None:
    """No step along an axis lowers the regularised NLL, as far as bounds allow one."""
    from graphsde.uncertainty.calibration import diffusion_forms as forms

    data, *_ = planted((0.5, 0.0, 0.0), nodes=400)
    found = fit_form(form, data)
    objective = forms._objective(form, data, found.ridge)
    lowest = float(objective(found.parameters))
    for index in forms._FREE[form]:
        if index >= 2 and math.isinf(found.ridge):
            continue
        for step in (-0.05, 0.05):
            moved = found.parameters.clone()
            moved[index] += step
            if index == 0 and step < 0 and forms.has_state(form):
                continue  # τ may stand at its floor
            assert float(objective(moved)) >= lowest - 1e-7
    at = torch.tensor([0.1, -1.0, 0.2, -0.1, 0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(forms._objective(form, _double(data), 4.0), (at,))


def _double(data: DiffusionData) -> DiffusionData:
    return DiffusionData(
        data.logits, data.truth, data.weights.double(), data.covariates, data.rows, data.scale, data.filter
    )


def test_forms_as_they_are_written() -> None:
    """Temperatures by hand, with dense powers of the operator."""
    graph = ring(30)
    rng = np.random.default_rng(2)
    logits, phi = rng.normal(size=(30, CLASSES)), rng.normal(size=(30, 3))
    theta = np.array([0.4, -0.2, 0.1])
    parameters = torch.tensor([0.3, -0.7, *theta], dtype=torch.float64)
    dense = graph.adjacency.normalized.toarray().astype(np.float64)
    noise = 1.7 * np.exp(-0.7 + phi @ theta)
    variance = sum(0.8 ** (2 * k) * np.linalg.matrix_power(dense, k) ** 2 @ noise for k in range(4))
    temperatures = {
        "temperature": np.full(30, np.exp(0.3)),
        "covariates": np.exp(0.3 + 0.5 * phi @ theta),
        "closed": np.sqrt(np.exp(0.3) ** 2 + variance),
    }
    for form, temperature in temperatures.items():
        fitted = FittedForm(form, parameters, 1.0, 0.0, 1.7, (0.8, 4))
        found = fitted.probabilities(torch.from_numpy(logits)[None], torch.from_numpy(phi), graph.adjacency.operator)
        truth = np.exp(logits / temperature[:, None])
        assert np.allclose(found, truth / truth.sum(1, keepdims=True), rtol=1e-5), form


def test_draws_are_those_of_a_normal() -> None:
    draws = quasi_normal_draws(5)
    assert draws.shape == (64, 5) and torch.equal(draws, quasi_normal_draws(5))
    assert torch.allclose(draws.mean(0), torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(draws.square().mean(0), torch.ones(5, dtype=torch.float64), atol=0.1)


def test_sampled_is_the_mean_softmax_of_a_gaussian_state() -> None:
    """Two classes: the difference of two states is one normal number, over which quadrature is exact."""
    logits = torch.tensor([[[1.5, -1.5], [0.4, -0.4]]], dtype=torch.float64)
    parameters = torch.zeros(5, dtype=torch.float64)
    variance = torch.tensor([0.5, 2.0], dtype=torch.float64)
    sampled = log_probabilities("sampled", parameters, logits, variance, torch.zeros(2, 3).double()).exp()
    gap = (logits[0, :, 0] - logits[0, :, 1]).numpy()
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    deviation = np.sqrt(2 * variance.numpy())
    truth = (weights / weights.sum()) @ (1 / (1 + np.exp(-(gap[None] + deviation[None] * points[:, None]))))
    assert np.allclose(sampled[:, 0], truth, atol=0.01)


def test_hops_are_shortest_paths() -> None:
    from scipy.sparse.csgraph import dijkstra

    graph = ring(60)
    sources = np.arange(60) == 17
    truth = dijkstra(graph.adjacency.matrix, unweighted=True, indices=[17])[0]
    assert np.array_equal(hops_to(graph, sources), np.minimum(truth, 5))
    assert (hops_to(graph, np.zeros(60, dtype=bool)) == 5).all()


def test_covariates() -> None:
    graph = ring(60)
    nodes = FittedNodes((3, 9), (0, 1), (4,), (1,))
    seen: list[Graph] = []

    def tail(asked: Graph) -> np.ndarray:
        seen.append(asked)
        return np.full(asked.num_nodes, math.exp(-2.5))

    raw = raw_covariates(graph.with_masks(), nodes, tail)
    assert torch.allclose(raw[:, 0], torch.full((60,), 1.5, dtype=torch.float64))
    assert np.array_equal(raw[:, 1].numpy(), np.log1p(graph.adjacency.degree))
    assert raw[3, 2] == 0 and raw[9, 2] == 0 and raw[:, 2].max() <= 5
    # the evidence sees the nodes of the fit, their classes and nothing else
    (asked,) = seen
    assert np.flatnonzero(asked.role("train")).tolist() == [3, 9]
    assert np.flatnonzero(asked.role("val")).tolist() == [4]
    assert asked.labels is not None and np.flatnonzero(asked.labelled).tolist() == [3, 4, 9]
    # without any of them nothing is known of familiarity, and nobody asks
    strangers = raw_covariates(graph.subgraph(np.arange(20, 60)), nodes, tail)
    assert len(seen) == 1 and not strangers[:, 0].any() and (strangers[:, 2] == 5).all()
    wide = standardised(torch.tensor([[1.0, 90.0, 2.0]]).double(), torch.zeros(2).double(), torch.ones(2).double())
    assert wide.tolist() == [[1.0, 5.0, 2.0]]


@pytest.mark.usefixtures("no_evidence")
def test_a_model_keeps_it(blocks: Graph, tmp_path: Path) -> None:
    model = gs.APPNP(temperature=False, epochs=10, hidden=8).fit(blocks)
    plain = model.predict(blocks)
    calibrated = model.calibrate(blocks, by="diffusion").predict(blocks)
    assert isinstance(model.calibrator, DiffusionTemperature) and model.calibrator.linear_filter == (0.9, 10)
    assert not np.allclose(calibrated.probs, plain.probs)
    assert np.array_equal(calibrated.index, plain.index)
    assert np.array_equal(calibrated.untempered().probs, plain.probs)
    assert calibrated.untempered().known_state is None and calibrated.untempered().kind == "deterministic"
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    for graph in (blocks, blocks.subgraph(np.arange(0, blocks.num_nodes, 2)), blocks.without_target().with_masks()):
        before, after = model.predict(graph), loaded.predict(graph)
        assert np.array_equal(before.probs, after.probs) and np.array_equal(before.known_state, after.known_state)
    order = np.random.default_rng(0).permutation(blocks.num_nodes)
    turned = loaded.predict(blocks.subgraph(order).with_masks())
    assert np.allclose(turned.probs, calibrated.probs[:, order], atol=1e-5)


@pytest.mark.usefixtures("no_evidence")
def test_a_model_without_a_linear_drift_takes_the_usual_filter(blocks: Graph) -> None:
    model = gs.GCN(temperature=False, epochs=5, hidden=8).fit(blocks)
    assert model.linear_filter() is None
    fitted = model.calibrate(blocks, by="diffusion").calibrator
    assert isinstance(fitted, DiffusionTemperature) and fitted.linear_filter == (0.9, 10)
    assert gs.APPNP(teleport=0.3, steps=4).linear_filter() == (0.7, 4)
    assert gs.APPNP(steps=0).linear_filter() is None


@pytest.mark.usefixtures("no_evidence")
def test_entropy_has_two_parts(blocks: Graph) -> None:
    model = gs.APPNP(temperature=False, epochs=20, hidden=8).fit(blocks).calibrate(blocks, by="diffusion")
    prediction = model.predict(blocks)
    assert prediction.kind == "gaussian" and prediction.known_state is not None
    assert isinstance(model.calibrator, DiffusionTemperature)
    temperature = float(model.calibrator.log_temperature.detach().exp())
    known = torch.softmax(centred_logits(prediction.untempered()) / temperature, -1)[0].numpy()
    assert np.allclose(prediction.aleatoric, entropy(known), atol=1e-6)
    assert np.allclose(prediction.total, prediction.aleatoric + prediction.epistemic, atol=1e-12)
    assert (prediction.epistemic >= 0).all() and (prediction.epistemic > 1e-6).any()
    assert np.array_equal(gs.score("mutual-information", prediction), prediction.epistemic)
    assert np.array_equal(gs.score("epistemic", prediction), prediction.epistemic)
    by_variance = decompose(prediction, by="variance")
    assert (by_variance.epistemic >= 0).all() and np.allclose(by_variance.aleatoric, (known * (1 - known)).sum(1))
    some = np.array([4, 2])
    assert np.array_equal(prediction.subset(some).epistemic, prediction.epistemic[some])


def test_a_larger_temperature_never_lowers_the_entropy() -> None:
    """dH/dT = Var(z)/T³ ≥ 0 for H(softmax(z/T)): what known_state rests on, with equality for equal logits."""
    rng = np.random.default_rng(0)
    logits = np.concatenate([5 * rng.normal(size=(200, 6)), np.full((1, 6), 1.0)])
    temperatures = np.geomspace(0.05, 20, 40)

    def softmax(temperature: float) -> np.ndarray:
        shifted = np.exp((logits - logits.max(1, keepdims=True)) / temperature)
        return shifted / shifted.sum(1, keepdims=True)

    found = np.array([entropy(softmax(one)) for one in temperatures])  # [T, n]
    assert (np.diff(found, axis=0) >= -1e-12).all()
    one, probs, step = 0.7, softmax(0.7), 1e-5
    slope = (entropy(softmax(one + step)) - entropy(softmax(one - step))) / (2 * step)
    variance = (probs * logits**2).sum(1) - (probs * logits).sum(1) ** 2
    assert np.allclose(slope, variance / one**3, rtol=1e-4, atol=1e-8)


@pytest.mark.usefixtures("no_evidence")
def test_samples_keep_their_own_division(blocks: Graph) -> None:
    model = gs.MCDropout(epochs=10, hidden=8).fit(blocks).calibrate(blocks, by="diffusion", samples=8)
    prediction = model.predict(blocks, samples=8)
    assert prediction.kind == "samples" and prediction.known_state is not None
    assert prediction.known_state.shape == prediction.probs.shape
    among = prediction.total - np.mean([entropy(one) for one in prediction.probs], axis=0)
    assert (prediction.epistemic >= among - 1e-7).all()  # disagreement of samples, and not knowing the state
    dirichlet = gs.GPN(epochs=5).fit(blocks).calibrate(blocks, by="diffusion").predict(blocks)
    assert dirichlet.kind == "dirichlet" and dirichlet.known_state is None


def test_a_calibrator_on_top_keeps_the_parts_in_order() -> None:
    graph = ring(200)
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(1, 200, CLASSES))
    known = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    wide = np.exp(logits / 2) / np.exp(logits / 2).sum(-1, keepdims=True)
    prediction = ClassPrediction(wide, graph.node_ids, graph.class_names, "gaussian", known_state=known)
    on_top = fit_calibrator(prediction, graph, by="temperature").apply_to(prediction, graph)
    assert on_top.kind == "gaussian" and on_top.known_state is not None
    assert not np.allclose(on_top.known_state, known)
    assert np.allclose(on_top.total, on_top.aleatoric + on_top.epistemic) and (on_top.epistemic >= 0).all()


def test_bad_predictions_and_surroundings_are_refused() -> None:
    graph = ring(20)
    probs = np.full((1, 20, CLASSES), 1 / CLASSES)
    with pytest.raises(BadInput, match="known state"):
        ClassPrediction(probs, graph.node_ids, graph.class_names, "gaussian")
    with pytest.raises(BadInput, match="known_state has the shape"):
        ClassPrediction(probs, graph.node_ids, graph.class_names, "gaussian", known_state=probs[0])
    calibrator = DiffusionTemperature(CLASSES)
    with pytest.raises(BadUsage, match="covariates"):
        calibrator(torch.zeros(1, 20, CLASSES).double(), Surroundings.of(graph, np.zeros(20, dtype=bool)))
    with pytest.raises(BadUsage, match="form"):
        fit_form("closd", planted((0, 0, 0), nodes=50)[0])


def test_before_a_fit_nothing_changes() -> None:
    graph = ring(30)
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 30, CLASSES)))
    calibrator = DiffusionTemperature(CLASSES, [0, 10], tail=by_number)
    assert torch.equal(calibrator(logits, calibrator.surroundings(graph)), logits)


def test_flawless_validation_nodes_do_not_make_certainty() -> None:
    graph = ring(100)
    labels = torch.from_numpy(np.array(graph.labels))
    logits = 2.0 * torch.nn.functional.one_hot(labels, CLASSES).double()[None]
    raw = raw_covariates(graph, FittedNodes((0,), (0,)), by_number)
    phi = standardised(raw, *scale_of(raw))
    rows = torch.arange(50)
    data = DiffusionData.of(logits, rows, labels[rows], phi, graph.adjacency.operator, FILTER)
    probs = fit_form("closed", data).probabilities(logits, phi, graph.adjacency.operator)
    assert 0.9 < float(probs.max(1).values.mean()) < 0.995


def test_they_are_the_last_calibrators() -> None:
    assert list(CALIBRATORS) == ["deviation", "gats", "temperature", "vector", "diffusion", "distance-aware"]


@pytest.mark.usefixtures("no_evidence")
def test_the_verb_calibrates_a_run(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from graphsde.cli.app import app

    run = str(tmp_path / "run")
    fitted = CliRunner().invoke(app, ["fit", "digits", "--model", "appnp", "--out", run, "--set", "epochs=3"])
    assert fitted.exit_code == 0, fitted.output
    for by in ("diffusion", "distance-aware"):
        done = CliRunner().invoke(app, ["calibrate", run, "--by", by, "--json"])
        assert done.exit_code == 0 and f'"calibrator": "{by}"' in done.stdout, done.output
        calibrator = load_model(run).calibrator
        assert isinstance(calibrator, DiffusionTemperature) and float(calibrator.scale) > 0
    assert calibrator.name == "distance-aware" and calibrator.slopes.tolist() == [1.0, 0.0, 0.0]


def test_with_the_evidence_of_a_real_graph() -> None:
    reason = "the evidence is another part of the package"
    pytest.importorskip("graphsde.uncertainty.evidence", reason=reason)
    graph = gs.load("digits")
    assert graph.labels is not None and graph.val_mask is not None
    model = gs.APPNP(temperature=False, epochs=20).fit(graph)
    rows, truth = np.flatnonzero(graph.val_mask), graph.labels[graph.val_mask]

    def fitted_nll(by: str) -> float:
        return nll(model.calibrate(graph, by=by).predict(graph).mean[rows], truth)

    before = model.predict(graph)
    assert fitted_nll("diffusion") < fitted_nll("temperature") < nll(before.mean[rows], truth)
    assert np.array_equal(model.predict(graph).index, before.index)


def test_the_scale_by_hand() -> None:
    """Two pairs, Â = ½ within a pair: with κ = .8 and K = 2 each row of M sums to 1 + .8² (½² + ½²) = 1.32. One of two
    logits is 1 ± 1, the other 0: signal ½, so that c = ½/1.32 and the mean of v at a = 0 is the signal again."""
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.5))
    adjacency = SparseMatrix.from_scipy(sp.csr_array(pairs), symmetric=True, dtype=torch.float64)
    logits = torch.tensor([[[2.0, 0.0], [0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    rows, phi = torch.arange(3), torch.zeros(4, 3, dtype=torch.float64)
    data = DiffusionData.of(logits, rows, torch.zeros(3, dtype=torch.long), phi, adjacency, (0.8, 2))
    assert data.scale == pytest.approx(0.5 / 1.32, rel=1e-12)
    assert data.mean_variance(torch.zeros(5, dtype=torch.float64)) == pytest.approx(0.5, rel=1e-12)
    assert data.logits.shape == (1, 3, 2) and data.weights.shape == (3, 4)


def test_variances_of_a_large_graph_are_estimated_within_a_twentieth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of that in the temperature, which is a root of them."""
    asked: list[float] = []

    def estimate(*given: object, relative_error: float) -> Tensor:
        asked.append(relative_error)
        return torch.ones(4)

    monkeypatch.setattr(diffusion_forms, "propagated_variance", estimate)
    form = diffusion_forms.FittedForm("closed", torch.zeros(5, dtype=torch.float64), 1.0, 0.0, 1.0, (0.8, 2))
    form.variance(torch.zeros(4, 3, dtype=torch.float64), None)  # type: ignore[arg-type]
    assert asked == [0.05]
