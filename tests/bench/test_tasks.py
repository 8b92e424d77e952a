"""Tasks on small graphs: what they measure is what they say, and they look only at what they may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphsde.base.errors import BadInput, BadUsage
from graphsde.bench.tasks import TASKS, Task, cost
from graphsde.bench.tasks.cost import epochs_of
from graphsde.bench.tasks.ood import best_threshold
from graphsde.graph.graph import Graph
from graphsde.metrics import ood_auroc
from graphsde.metrics.evaluation import evaluate
from graphsde.models import GCN, LGNSDE, MLP, Model
from graphsde.models.ensemble import Ensemble
from graphsde.models.gkde import GKDE
from graphsde.models.graph_gp import GraphGP
from graphsde.models.label_propagation import LabelPropagation
from graphsde.uncertainty.scores import score

from support import block_graph

SMALL = {"epochs": 8, "hidden": 8}


def maker(cls: type[Model] = GCN, **given: Any) -> Any:
    return lambda **settings: cls(**{**SMALL, "seed": 0, **given, **settings})


def blocks() -> Graph:
    return block_graph(per_class=40)


def run(task: Task, make: Any, graph: Graph | None = None, seed: int = 0) -> Any:
    return task.measure(make, task.prepare(graph or blocks(), seed), seed)


def test_misclassification_is_evaluate() -> None:
    graph = blocks()
    found = run(TASKS.get("misclassification")(split="given"), maker(), graph)
    model = maker()().fit(graph)
    expected = evaluate(model.predict(graph), graph)
    assert {key: found.metrics[key] for key in expected} == pytest.approx(expected, nan_ok=True)
    assert found.metrics["epochs"] <= 8 and found.metrics["fit_cpu_seconds"] > 0


def test_noise_of_severity_zero_is_the_clean_graph_and_more_noise_is_worse() -> None:
    task = TASKS.get("noise")(split="given", severities=(0.0, 20.0), draws=2)
    found = run(task, maker(MLP, epochs=40))
    assert found.metrics["accuracy@0"] > found.metrics["accuracy@20"] + 0.1
    assert found.curves["severity"] == [0.0, 0.0, 20.0]
    assert found.curves["accuracy"][0] == found.curves["accuracy"][1]


def test_noise_draws_are_common_to_all_models() -> None:
    """Two models that are one must get the same figures."""
    task = TASKS.get("noise")(split="given", severities=(1.0,), draws=2)
    one, two = run(task, maker(), seed=0), run(task, maker(), seed=7)
    assert one.metrics["accuracy@1"] == two.metrics["accuracy@1"]


def test_every_class_is_left_out_in_turn() -> None:
    graph = blocks()
    task = TASKS.get("ood")(scores=("energy", "vacuity"), base="given")
    variants = task.variants(graph)
    assert [v["leave"] for v in variants] == [0, 1, 2]
    for variant in variants:
        one = TASKS.get("ood")(scores=("energy", "vacuity"), base="given", **variant)
        prepared = one.prepare(graph, 0)
        assert prepared.num_classes == 2 and graph.labels is not None
        assert set(graph.labels[prepared.ood_mask].tolist()) == {variant["leave"]}
        metrics = one.measure(maker(), prepared, 0).metrics
        assert {"ood_auroc", "ood_auroc[energy]", "ood_auroc_propagated[energy]", "ood_aurc"} <= set(metrics)
        assert "ood_auroc[vacuity]" not in metrics  # a GCN has no Dirichlet
        assert {"ood_default_auroc", "ood_default_fpr95"} <= set(metrics) and "ood_auroc[ood]" not in metrics
    with pytest.raises(BadUsage, match="only one class"):
        task.prepare(graph, 0)


def test_compat_keeps_the_left_out_class_in_validation_and_judges_all_nodes() -> None:
    graph = blocks()
    task = TASKS.get("ood")(leave="last", compat=True, base="given", scores=())
    prepared = task.prepare(graph, 0)
    assert prepared.val_mask is not None and (prepared.val_mask & ~prepared.labelled).any()
    metrics = task.measure(maker(), prepared, 0).metrics
    assert metrics["ood_base_rate_all"] == pytest.approx(2 / 3)
    assert 0 <= metrics["ood_threshold_accuracy"] <= 1
    assert graph.labels is not None
    ood = graph.labels == graph.num_classes - 1
    doubt = score("entropy", maker()().fit(prepared).predict(prepared).untempered(), prepared)
    assert metrics["ood_auroc_all"] == ood_auroc(doubt[~ood], doubt[ood])
    assert metrics["ood_auroc"] == ood_auroc(doubt[prepared.masks["test"]], doubt[prepared.masks["ood"]])


def test_compat_does_not_take_nodes_without_a_label_for_foreign_ones() -> None:
    graph = blocks()
    assert graph.labels is not None
    labels = graph.labels.copy()
    taken = np.flatnonzero(~np.logical_or.reduce([graph.masks[role] for role in ("train", "val", "test")]))[::2]
    labels[taken] = -1
    some = graph.with_labels(labels)
    task = TASKS.get("ood")(leave="last", compat=True, base="given", scores=())
    metrics = task.measure(maker(), task.prepare(some, 0), 0).metrics
    known = labels[labels >= 0]
    assert metrics["ood_base_rate_all"] == pytest.approx(np.mean(known != graph.num_classes - 1))


@pytest.mark.parametrize("protocol", ["features", "structure"])
def test_shifted_graphs_are_compared_with_the_clean_test_nodes(protocol: str) -> None:
    graph = blocks()
    task = TASKS.get("ood")(protocol=protocol, split="given")
    metrics = run(task, maker(), graph).metrics
    assert graph.test_mask is not None
    assert metrics["n_id"] == graph.test_mask.sum() and metrics["n_ood"] == graph.num_nodes
    assert 0 <= metrics["ood_auroc"] <= 1 and "ood_auroc[ood]" not in metrics
    named = run(TASKS.get("ood")(protocol=protocol, split="given", scores=("ood",)), maker(), graph).metrics
    assert metrics["ood_default_auroc"] == named["ood_auroc[ood]"] == named["ood_default_auroc"]
    assert metrics["ood_default_fpr95"] == named["ood_fpr95[ood]"]


def test_best_threshold_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        doubt, ood = rng.integers(0, 6, size=15) / 5, rng.random(15) < 0.4
        cuts = [-np.inf, *doubt]
        best = max(((doubt > cut) == ood).mean() for cut in cuts)
        assert ((doubt > best_threshold(doubt, ood)) == ood).mean() == best


def test_active_learning_buys_from_the_pool_and_leaves_test_nodes_alone() -> None:
    graph = blocks()
    assert graph.train_mask is not None and graph.val_mask is not None and graph.test_mask is not None
    task = TASKS.get("active")(split="given", batch=2, rounds=3, epochs=2, acquisition="entropy")
    found = run(task, maker(), graph)
    begin = graph.train_mask.sum()
    assert found.curves["labels"] == [begin, begin + 2, begin + 4, begin + 6]
    assert len(found.curves["accuracy"]) == 4 and found.metrics["accuracy"] == found.curves["accuracy"][-1]
    assert found.metrics["accuracy_area"] == pytest.approx(np.mean(found.curves["accuracy"]))


def test_active_learning_ends_when_the_pool_is_empty() -> None:
    graph = blocks()
    task = TASKS.get("active")(split="given", batch=50, rounds=30, epochs=1, acquisition="random")
    pool = graph.num_nodes - sum(int(graph.masks[role].sum()) for role in ("train", "val", "test"))
    found = run(task, maker(), graph)
    assert found.metrics["labels_end"] - found.metrics["labels_begin"] == pool


def test_the_printed_pool_is_judged_on_what_is_left() -> None:
    graph = blocks()
    task = TASKS.get("active")(split="given", batch=3, rounds=2, epochs=1, pool="printed", acquisition="random")
    prepared = task.prepare(graph, 0)
    _, pool = task._pool(prepared, 0)  # type: ignore[attr-defined]
    bought = np.flatnonzero(pool)[:3]
    after, left = task._buy(prepared, pool, bought)  # type: ignore[attr-defined]
    assert not left[bought].any() and after.masks["train"][bought].all()
    assert not after.masks["test"][bought].any() and not after.masks["val"][bought].any()
    assert run(task, maker(), graph).metrics["labels_end"] == prepared.masks["train"].sum() + 6


def test_the_papers_rule_buys_validation_and_test_nodes_and_no_others() -> None:
    """On the paper's split most nodes have no role: the text leaves them alone, ours buys from them and them only."""
    options: dict[str, Any] = {"split": "paper-statistics", "split_options": {"train": 3, "val": 5, "test": 8}}
    pools = {}
    for rule in ("printed", "untouched"):
        task = TASKS.get("active")(**options, pool=rule)
        prepared = task.prepare(blocks(), 0)
        pools[rule] = task._pool(prepared, 0)[1]  # type: ignore[attr-defined]
    train, val, test = (prepared.masks[role] for role in ("train", "val", "test"))
    assert np.array_equal(pools["printed"], val | test)
    assert np.array_equal(pools["untouched"], ~(train | val | test)) and pools["untouched"].any()


def test_active_learning_without_a_pool_is_refused() -> None:
    graph = blocks()
    train, val = graph.masks["train"], graph.masks["val"]
    graph = graph.with_masks(split=None, train=train, val=val, test=~(train | val))
    with pytest.raises(BadInput, match="no labelled nodes to buy"):
        TASKS.get("active")(split="given").prepare(graph, 0)


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda **own: GCN(**{"hidden": 4, "epochs": 7, **own}), [7, 2, 2]),
        (lambda **own: Ensemble(**{"members": 2, "base_settings": {"hidden": 4, "epochs": 7}, **own}), [14, 4, 4]),
        (lambda **own: GraphGP(**{"epochs": 7, **own}), [7, 2, 2]),
        (lambda **own: LabelPropagation(**own), [0, 0, 0]),
    ],
    ids=["gcn", "ensemble", "gp", "label-propagation"],
)
def test_every_system_gets_the_same_epochs_a_round(make: Any, expected: list[int]) -> None:
    fitted = []

    def watched(**settings: object) -> Model:
        fitted.append(make(**settings))
        return fitted[-1]

    task = TASKS.get("active")(split="given", batch=2, rounds=2, epochs=2, acquisition="random")
    run(task, watched, blocks())
    assert [len(model.history) for model in fitted] == expected


def test_the_optimiser_goes_on_where_it_is_asked_to() -> None:
    graph, slow = blocks(), {"lr": 1e-3, "early_stop": False, "dropout": 0.0}
    whole = maker(epochs=6, **slow)().fit(graph)
    first = maker(epochs=3, **slow)().fit(graph)
    rest = maker(epochs=3, **slow)().start_from(first, momentum=True).fit(graph)
    np.testing.assert_array_equal(rest.predict(graph).probs, whole.predict(graph).probs)
    anew = maker(epochs=3, **slow)().start_from(first).fit(graph)
    assert (anew.predict(graph).probs != whole.predict(graph).probs).any()
    again = maker(epochs=3, **slow)().start_from(first, momentum=True).fit(graph)
    np.testing.assert_array_equal(again.predict(graph).probs, rest.predict(graph).probs)


def test_a_teacher_goes_on_with_its_student() -> None:
    graph, slow = blocks(), {"lr": 1e-9, "early_stop": False}
    before = GKDE(hidden=4, epochs=20).fit(graph)
    after = GKDE(hidden=4, epochs=1, **slow).start_from(before).fit(graph)
    taught, teaching = before._taught_by, after._taught_by
    assert taught is not None and teaching is not None
    np.testing.assert_allclose(teaching.predict(graph).probs, taught.predict(graph).probs, atol=1e-5)


def test_a_warm_start_begins_where_the_last_round_ended() -> None:
    graph = blocks()
    before = maker(epochs=30)().fit(graph)
    after = maker(epochs=1, lr=1e-9)().start_from(before).fit(graph)
    np.testing.assert_allclose(after.predict(graph).probs, before.predict(graph).probs, atol=1e-5)
    with pytest.raises(BadUsage, match="can't start from"):
        maker()().start_from(maker(MLP)().fit(graph))


def test_sensitivity_changes_what_it_says() -> None:
    task = TASKS.get("sensitivity")(split="given", axis="diffusion", values=(0.0, 3.0))
    make = maker(LGNSDE, preset="paper", steps=2)
    points = task.points(make)  # type: ignore[attr-defined]
    assert [(name, settings) for name, settings, _ in points] == [("0", {"sigma": 0.0}), ("3", {"sigma": 3.0})]
    found = run(task, make)
    assert {"accuracy@0", "accuracy@3"} <= set(found.metrics) and len(found.curves["accuracy"]) == 2
    for axis, key in (("prior-drift", "prior"), ("horizon", "horizon"), ("steps", "steps"), ("kl", "kl_weight")):
        (_, settings, _), *_ = TASKS.get("sensitivity")(axis=axis).points(make)  # type: ignore[attr-defined]
        assert key in settings
    with pytest.raises(BadUsage, match="only latent SDEs"):
        run(task, maker())


def test_backbones_are_four_drifts() -> None:
    task = TASKS.get("backbones")(split="given", drifts=("gcn", "graph-heat"))
    found = run(task, maker(LGNSDE, preset="paper", steps=2, epochs=2))
    assert {"accuracy@gcn", "accuracy@graph-heat"} <= set(found.metrics)
    assert found.metrics["nll@gcn"] != found.metrics["nll@graph-heat"]


def test_cost_compares_with_a_gcn_in_the_same_process() -> None:
    found = run(TASKS.get("cost")(split="given", rounds=1, epochs=4, seconds=0.0), maker(LGNSDE))
    assert found.metrics["epoch_over_gcn"] == pytest.approx(
        found.metrics["epoch_seconds"] / found.metrics["gcn_epoch_seconds"]
    )
    assert found.metrics["predict_seconds"] > 0


def test_the_fits_of_a_fast_system_are_long_enough_to_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that ticks a sixty-fourth of a second an epoch, half a second is 32 epochs."""
    fits: list[int] = []

    def clock(work: Callable[[], Model]) -> float:
        fits.append(len(work().history))
        return 0.25 + fits[-1] / 64

    monkeypatch.setattr(cost, "cpu_seconds", clock)
    timer = TASKS.get("cost")(split="given", epochs=6)._timer(maker(), blocks())  # type: ignore[attr-defined]
    assert timer() == 1 / 64 and fits[-2:] == [34, 2]
    slow = TASKS.get("cost")(split="given", epochs=6, seconds=0.03)._timer(maker(), blocks())  # type: ignore[attr-defined]
    assert slow() == 1 / 64 and fits[-2:] == [6, 2]


@pytest.mark.parametrize("model, settings", [(LGNSDE, {}), (GCN, {}), (Ensemble, {"members": 2})])
def test_a_measured_epoch_looks_at_validation_nodes_only_where_that_is_asked(
    model: Any, settings: dict[str, Any]
) -> None:
    def make(**own: Any) -> Model:
        return model(**{**settings, **own})  # type: ignore[no-any-return]

    for validated in (False, True):
        fitted = make(**epochs_of(make, 6, validated)).fit(blocks())
        assert len(fitted.history) == 6 * settings.get("members", 1)
        assert any(record.val_nll is not None for record in fitted.history) is validated


def test_noise_on_edges_keeps_their_number_and_the_features(blocks: Graph) -> None:
    task = TASKS.get("noise")(on="edges", severities=(0.3,), draws=2)
    noisy = task._noisy(blocks, 0.3, 0)
    before, after = blocks.adjacency.matrix.toarray() > 0, noisy.adjacency.matrix.toarray() > 0
    undirected = blocks.num_edges // 2
    gone, new = int((before & ~after).sum()) // 2, int((after & ~before).sum()) // 2
    assert gone == new == round(0.3 * undirected) and np.array_equal(after, after.T)
    assert np.array_equal(noisy.features, blocks.features)
    assert (task._noisy(blocks, 0.3, 0).adjacency.matrix != noisy.adjacency.matrix).nnz == 0
    found = task.measure(lambda **s: GCN(**{"epochs": 10, "hidden": 4, **s}), blocks, 0)
    assert set(found.metrics) >= {"accuracy@0", "accuracy@0.3"} and found.curves["severity"] == [0.0, 0.3]


@pytest.mark.parametrize("protocol", ["bernoulli-features", "normal-features"])
def test_random_features_in_the_same_graph(blocks: Graph, protocol: str) -> None:
    task = TASKS.get("ood")(protocol=protocol, scores=("msp",))
    found = task.measure(lambda **s: GCN(**{"epochs": 10, "hidden": 4, **s}), block_graph(per_class=40), 0)
    assert 0 <= found.metrics["ood_auroc"] <= 1 and "ood_auroc_propagated[msp]" in found.metrics
    assert 0 <= found.metrics["ood_default_auroc"] <= 1


def test_severities_of_edges_are_shares(blocks: Graph) -> None:
    usual = TASKS.get("noise")(on="edges")
    assert usual.options.steps == (0.1, 0.25, 0.5, 1.0) and TASKS.get("noise")().options.steps[-1] == 2.0
    with pytest.raises(BadUsage, match="severities up to 1"):
        TASKS.get("noise")(on="edges", severities=(0.5, 2.0))
