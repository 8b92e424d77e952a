"""The tasks behind figures: entropies of groups, latent dynamics, adaptive depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.bench.tasks import TASKS
from graphsde.bench.tasks.adaptive_depth import adaptive_steps
from graphsde.bench.theory.measure import noise_distances

from support import block_graph


def small(**settings: Any) -> gs.LGNSDE:
    return gs.LGNSDE(**{"preset": "paper", "hidden": 4, "epochs": 3, "seed": 0, **settings})


def test_entropies_are_those_of_the_prediction() -> None:
    graph = gs.load("digits")
    task = TASKS.get("entropies")()
    found = task.measure(lambda **s: gs.GCN(epochs=5, seed=0, **s), task.prepare(graph, 0), 0)
    prepared = task.prepare(graph, 0)
    prediction = gs.GCN(epochs=5, seed=0).fit(prepared).predict(prepared)
    test = prepared.test_mask
    assert test is not None and prepared.labels is not None
    right = (prediction.index == prepared.labels)[test]
    sure, unsure = prediction.total[test][right], prediction.total[test][~right]
    assert found.metrics["entropy_gap"] == pytest.approx(unsure.mean() / sure.mean() - 1)
    assert sum(found.curves["sure"]) == right.sum() and sum(found.curves["unsure"]) == (~right).sum()
    assert found.metrics["separation"] == pytest.approx(1 - prediction_auroc(sure, unsure), abs=1e-9)


def prediction_auroc(sure: np.ndarray, unsure: np.ndarray) -> float:
    """Chance that the sure node has more entropy, pair by pair."""
    return float((sure[:, None] > unsure[None]).mean() + 0.5 * (sure[:, None] == unsure[None]).mean())


def test_foreign_entropies_leave_the_class_out() -> None:
    graph = gs.load("digits")
    task = TASKS.get("entropies")(groups="ood")
    prepared = task.prepare(graph, 0)
    found = task.measure(lambda **s: gs.MLP(epochs=3, seed=0, **s), prepared, 0)
    assert found.metrics["num_classes"] == 9
    assert prepared.ood_mask is not None and found.metrics["n_unsure"] == prepared.ood_mask.sum()


def test_dynamics_begin_and_end_where_the_model_does() -> None:
    graph = block_graph()
    task = TASKS.get("dynamics")(paths=4, grid=4)
    found = task.measure(small, graph, 0)
    assert found.curves["times"][0] == 0 and found.curves["times"][-1] == pytest.approx(1.0)
    assert len(found.curves["begin_x"]) == len(found.curves["end_y"]) == len(found.curves["class"])
    # all paths of a node begin in one point, whose mean is that point
    assert found.curves["path_low"][0] == pytest.approx(found.curves["path_high"][0])
    assert found.curves["path_0"][0] == pytest.approx(found.curves["path_mean"][0])
    assert 0 < found.metrics["explained"] <= 1


def test_dynamics_need_a_latent_sde() -> None:
    task = TASKS.get("dynamics")()
    with pytest.raises(BadUsage, match="'gcn' is not one"):
        task.measure(lambda **s: gs.GCN(epochs=1, **s), block_graph(), 0)


def test_adaptive_steps_grow_as_the_tolerance_shrinks() -> None:
    graph = block_graph()
    model = small(epochs=10).fit(graph)
    coarse, _, _ = adaptive_steps(model, graph, 1e-1, 2)
    fine, _, size = adaptive_steps(model, graph, 1e-5, 2)
    assert coarse.mean() < fine.mean() and size > 0


@pytest.mark.parametrize(("axis", "values"), [("noise", (0.0, 2.0)), ("labels", (2.0, 1.0))])
def test_adaptive_depth_measures_every_difficulty(axis: str, values: tuple[float, ...]) -> None:
    graph = block_graph()
    task = TASKS.get("adaptive-depth")(axis=axis, values=values, tolerances=(1e-2, 1e-3), samples=4)
    found = task.measure(small, graph, 0)
    assert len(found.curves["steps"]) == 2 and min(found.curves["steps"]) >= 1
    assert found.metrics["steps_easiest"] == found.curves["steps"][0]
    if axis == "labels":
        assert task._harder(graph, 1.0, 0).masks["train"].sum() == graph.num_classes  # type: ignore[attr-defined]
    with pytest.raises(BadUsage, match="a trend needs"):
        TASKS.get("adaptive-depth")(values=(1.0,)).measure(small, graph, 0)


def test_noisy_features_stay_below_the_bounds_of_proposition_2() -> None:
    graph = block_graph()
    model = gs.LGNSDE(hidden=4, epochs=3, seed=0).fit(graph)
    found = noise_distances(model, graph, [0.1, 1.0], paths=2)
    assert found.start[1] == pytest.approx(10 * found.start[0], rel=1e-3)  # the encoder is linear
    assert set(found.bounds) >= {"exponential", "chain"}
    for right in found.bounds.values():
        assert (found.moved <= right * (1 + 1e-9)).all()
    gat = small(drift={"name": "gat", "options": {"heads": 2}}).fit(graph)
    assert noise_distances(gat, graph, [0.5], paths=2).bounds == {}  # no constant, no bound
