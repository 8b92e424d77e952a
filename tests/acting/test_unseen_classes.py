"""A class that no training node has: OOD, never counted as right or wrong, and nothing is chosen by it (B27)."""

from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.decide import decide
from graphsde.acting.shifted import detect_shift
from graphsde.base.errors import BadInput
from graphsde.bench.tasks.task import validation_figures
from graphsde.datasets.shifts import normal_features
from graphsde.datasets.splits.calibration import calibration_nodes
from graphsde.graph.graph import Graph
from graphsde.graph.target import UNLABELLED
from graphsde.metrics.evaluation import judged_nodes
from graphsde.models import MODELS
from graphsde.view.report.content import judge

from support import block_graph


def with_a_stranger(per_class: int = 60) -> Graph:
    """The last class occurs among validation, calibration and test nodes, but not in training."""
    graph = block_graph(per_class=per_class)
    assert graph.labels is not None
    masks = dict(graph.masks) | {"train": graph.masks["train"] & (graph.labels != 2)}
    return graph.with_masks(split=None, **masks)


def hidden(graph: Graph) -> Graph:
    """The same graph with those labels removed."""
    assert graph.labels is not None
    labels = np.where(graph.familiar, graph.labels, UNLABELLED)
    return graph.with_labels(labels)


def test_familiar_and_foreign_by_hand() -> None:
    graph = with_a_stranger()
    assert graph.labels is not None and graph.test_mask is not None
    assert np.array_equal(graph.familiar, graph.labels != 2)
    assert np.array_equal(graph.ood_nodes, graph.test_mask & (graph.labels == 2))
    whole = block_graph()
    assert whole.familiar.all() and whole.ood_nodes is None
    bare = whole.with_masks(split=None)
    assert bare.familiar.all() and bare.ood_nodes is None


def test_metrics_are_over_seen_classes_and_strangers_are_told() -> None:
    graph = with_a_stranger()
    assert graph.labels is not None and graph.test_mask is not None
    prediction = gs.GCN(epochs=30, hidden=8).fit(graph).predict(graph)
    found = gs.evaluate(prediction, graph)
    seen = graph.test_mask & (graph.labels != 2)
    assert found["n_test"] == int(seen.sum())
    assert found["accuracy"] == pytest.approx(float((prediction.index == graph.labels)[seen].mean()))
    assert found["n_ood"] == int((graph.test_mask & ~seen).sum()) and 0 <= found["ood_auroc"] <= 1
    assert np.array_equal(judged_nodes(prediction, graph), seen)
    assert np.array_equal(judge(graph, prediction).rows, np.flatnonzero(seen))


@pytest.mark.parametrize("model", ["gcn", "lgnsde", "bgcn-meanfield", "graph-gp"])
def test_labels_of_unseen_classes_choose_nothing(model: str) -> None:
    graph = with_a_stranger(per_class=30)
    make = MODELS.get(model)
    one, other = (make(epochs=12, seed=0).fit(g) for g in (graph, hidden(graph)))
    assert [record.val_nll for record in one.history] == [record.val_nll for record in other.history]
    assert np.array_equal(one.predict(graph, samples=4).probs, other.predict(graph, samples=4).probs)


def test_nothing_is_calibrated_by_them() -> None:
    graph = with_a_stranger()
    assert graph.labels is not None
    model = gs.GCN(epochs=20, hidden=8).fit(graph)
    prediction = model.predict(graph)
    without = {role: mask for role, mask in graph.masks.items() if role != "calibration"}
    for one in (graph, graph.with_masks(split=None, **without)):
        assert not (calibration_nodes(one, size=20).mask & (graph.labels == 2)).any()
    twin = hidden(graph)
    assert validation_figures(prediction, graph) == validation_figures(prediction, twin)
    mine = model.calibrate(graph, by="temperature").predict(graph).probs
    assert np.array_equal(mine, model.calibrate(twin, by="temperature").predict(graph).probs)
    summary = decide(prediction, graph, max_error=0.5, false_alarm=0.2).summary()
    assert summary["test"]["nodes"] == int(judged_nodes(prediction, graph).sum())
    assert 0 <= summary["ood"]["flagged_of_ood"] <= 1


def test_validation_nodes_of_unseen_classes_alone_are_refused() -> None:
    graph = with_a_stranger()
    assert graph.labels is not None
    masks = dict(graph.masks) | {"val": graph.masks["val"] & (graph.labels == 2)}
    with pytest.raises(BadInput, match="no validation node has a class with training nodes"):
        gs.GCN(epochs=2).fit(graph.with_masks(split=None, **masks))


def test_a_shift_is_measured_on_what_was_shifted() -> None:
    graph = with_a_stranger()
    assert graph.labels is not None and graph.test_mask is not None
    model = gs.GCN(epochs=3, hidden=4).fit(graph)
    seen = graph.test_mask & graph.familiar
    whole = detect_shift(model, graph, "interpolate-features", ["entropy"])
    assert (whole["n_id"], whole["n_ood"]) == (int(seen.sum()), graph.num_nodes)
    some = detect_shift(model, graph, "normal-features", ["entropy"], share=0.2)
    changed = normal_features(graph, share=0.2).ood_mask
    assert changed is not None
    assert (some["n_id"], some["n_ood"]) == (int((seen & ~changed).sum()), int(changed.sum()))


def test_sets_for_every_class_that_was_trained_on() -> None:
    graph = with_a_stranger(per_class=200)
    prediction = gs.GCN(epochs=20, hidden=8).fit(graph).predict(graph)
    found = gs.conformalize(prediction, graph, class_conditional=True)
    assert np.isfinite(found.quantiles).all() and "trained on" in found.guarantee
