"""The figures of one evaluation together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphsde import metrics
from graphsde.base.errors import BadInput, BadUsage
from graphsde.metrics import METRICS
from graphsde.uncertainty.scores import score

STANDARD = {
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "micro_auroc",
    "misclassification_auroc",
    "aupr_error",
    "aupr_success",
    "aurc",
    "aurc_entropy",
    "e_aurc",
    "augrc",
    "prr",
    "nll",
    "brier",
    "ece",
    "adaptive_ece",
}
PLAIN = {
    "ood_auroc": metrics.ood_auroc,
    "ood_aupr_in": metrics.aupr_in,
    "ood_aupr_out": metrics.aupr_out,
    "ood_fpr95": metrics.fpr95,
    "ood_detection_accuracy": metrics.detection_accuracy,
    "ood_detection_accuracy_grid": metrics.detection_accuracy_grid,
}
DETECTION = set(PLAIN) | {f"{name}_propagated" for name in PLAIN}
NUMBERS = {"rmse", "mae", "r2", "density_nll", "crps", "coverage90", "interval_width90", "calibration_error"}
SPREAD = {"miscalibration_area", "ence", "spread_spearman"}


def test_every_figure_is_registered_with_what_a_reader_needs() -> None:
    others = {"ood_default_auroc", "ood_default_fpr95", "ood_accuracy", "ood_auroc_wrong"}
    assert set(METRICS) == STANDARD | DETECTION | NUMBERS | SPREAD | others
    for facts in METRICS.describe():
        assert facts["summary"] and (facts["better"] in ("higher", "lower") or "best" in facts)
        assert len(facts["range"]) == 2 and "chance" in facts and len(facts["takes"]) == 2


def test_summary_is_its_metrics_on_the_chosen_nodes(make_prediction) -> None:
    prediction = make_prediction("samples", nodes=40)
    labels = np.random.default_rng(2).integers(0, 4, 40)
    labels[::7] = -1
    mask = np.arange(40) < 30
    figures = metrics.summarise(prediction, labels, mask)
    assert set(figures) == STANDARD | {"n_test", "n_errors"}

    kept = mask & (labels >= 0)
    errors = prediction.index[kept] != labels[kept]
    assert figures["n_test"] == kept.sum() and figures["n_errors"] == errors.sum()
    assert figures["accuracy"] == pytest.approx(1 - errors.mean(), abs=1e-12)
    assert figures["aurc"] == metrics.aurc(1 - prediction.confidence[kept], errors)
    assert figures["aurc_entropy"] == metrics.aurc(prediction.total[kept], errors)
    assert figures["nll"] == metrics.nll(prediction.mean[kept], labels[kept])
    assert figures["prr"] == metrics.prr(1 - prediction.confidence[kept], errors)
    assert figures == metrics.summarise(prediction, labels, np.flatnonzero(mask))


def test_uncertainty_by_name_by_value_and_over_the_graph(make_prediction, make_graph) -> None:
    prediction, labels = make_prediction("samples", nodes=20), np.arange(20) % 4
    everyone, ring = np.ones(20, dtype=bool), make_graph(np.roll(np.eye(20), 1, 1) + np.roll(np.eye(20), -1, 1))
    named = metrics.summarise(prediction, labels, everyone, uncertainty="mutual-information")
    assert named == metrics.summarise(prediction, labels, everyone, uncertainty=prediction.epistemic)
    assert named["aurc"] != metrics.summarise(prediction, labels, everyone)["aurc"]
    spread = metrics.summarise(prediction, labels, everyone, uncertainty="msp+propagated", graph=ring)
    values = score("msp+propagated", prediction, ring)
    assert spread == metrics.summarise(prediction, labels, everyone, uncertainty=values)


def test_summary_without_errors_has_nan_where_the_question_is_void(make_prediction) -> None:
    prediction = make_prediction("deterministic")
    figures = metrics.summarise(prediction, prediction.index, np.ones(20, dtype=bool))
    void = {name for name, value in figures.items() if np.isnan(value)}
    assert void == {"misclassification_auroc", "aupr_error", "aupr_success", "prr"}
    assert figures["accuracy"] == 1.0 and figures["aurc"] == 0.0


def test_summary_refuses_what_it_cannot_judge(make_prediction) -> None:
    prediction, labels, everyone = make_prediction("samples"), np.zeros(20, dtype=int), np.ones(20, dtype=bool)
    with pytest.raises(BadInput, match="no node"):
        metrics.summarise(prediction, labels - 1, everyone)
    with pytest.raises(BadInput, match="no node"):
        metrics.summarise(prediction, labels, ~everyone)
    with pytest.raises(BadInput, match="columns of probs"):
        metrics.summarise(prediction, labels + 4, everyone)
    for wrong in (
        {"labels": labels[:3], "mask": everyone},
        {"labels": labels, "mask": everyone[:3]},
        {"labels": labels, "mask": everyone, "uncertainty": np.zeros(3)},
    ):
        with pytest.raises(BadInput) as caught:
            metrics.summarise(prediction, **wrong)
        assert caught.value.code == "E-LEN"


def test_ood_summary_takes_its_groups_from_the_masks(make_prediction, make_graph) -> None:
    prediction = make_prediction("samples", nodes=20)
    ood, test = np.arange(20) >= 14, np.arange(20) >= 8
    ring = make_graph(np.roll(np.eye(20), 1, 1) + np.roll(np.eye(20), -1, 1), test=test, ood=ood)
    figures = metrics.summarise_ood(prediction, ring)
    assert set(figures) == DETECTION | {"n_id", "n_ood", "ood_aupr_in_chance", "ood_aupr_out_chance"}
    assert figures["n_id"] == 6 and figures["n_ood"] == 6 and figures["ood_aupr_in_chance"] == 0.5

    entropy, spread = prediction.total, score("entropy+propagated", prediction, ring)
    for name, figure in PLAIN.items():
        assert figures[name] == figure(entropy[8:14], entropy[14:])
        assert figures[f"{name}_propagated"] == figure(spread[8:14], spread[14:])
    assert metrics.summarise_ood(prediction, ring, score="msp")["ood_auroc"] == metrics.ood_auroc(
        1 - prediction.confidence[8:14], 1 - prediction.confidence[14:]
    )


def test_a_score_that_looks_at_edges_is_not_spread_twice(make_prediction, make_graph) -> None:
    prediction = make_prediction("samples", nodes=20)
    masks = {"test": np.arange(20) < 14, "ood": np.arange(20) >= 14}
    ring = make_graph(np.roll(np.eye(20), 1, 1) + np.roll(np.eye(20), -1, 1), **masks)
    energy = metrics.summarise_ood(prediction, ring, score="energy")
    for name in ("gnnsafe", "energy+propagated"):
        figures = metrics.summarise_ood(prediction, ring, score=name)
        assert figures["ood_auroc"] == figures["ood_auroc_propagated"] == energy["ood_auroc_propagated"]


def test_several_scores_side_by_side(make_prediction, make_graph) -> None:
    prediction = make_prediction("samples", nodes=20)
    masks = {"test": np.arange(20) < 14, "ood": np.arange(20) >= 14}
    ring = make_graph(np.roll(np.eye(20), 1, 1) + np.roll(np.eye(20), -1, 1), **masks)
    compared = metrics.compare_scores(prediction, ring, ["msp", "gnnsafe", "msp"])
    assert list(compared) == ["msp", "gnnsafe"]
    for name, figures in compared.items():
        alone = metrics.summarise_ood(prediction, ring, score=name)
        assert set(figures) == DETECTION
        assert figures == {key: alone[key] for key in figures}


def test_ood_summary_without_foreign_nodes(make_prediction, make_graph) -> None:
    prediction, edges = make_prediction("samples", nodes=20), np.zeros((20, 20))
    with pytest.raises(BadUsage, match="ood"):
        metrics.summarise_ood(prediction, make_graph(edges, test=np.ones(20)))
    empty = metrics.summarise_ood(prediction, make_graph(edges, test=np.ones(20), ood=np.zeros(20)))
    assert np.isnan(empty["ood_auroc"]) and empty["n_ood"] == 0
    with pytest.raises(BadUsage, match="logits"):
        graph = make_graph(edges, test=np.ones(20), ood=np.zeros(20))
        metrics.summarise_ood(replace(prediction, logits=None), graph, score="energy")
