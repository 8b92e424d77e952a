"""From records to rows: pairing, failures, variants, direction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from graphsde.base.errors import BadInput, BadUsage
from graphsde.bench.cells import Cell
from graphsde.bench.compare import collect, compare, headline, pairwise, rank_models, standings
from graphsde.bench.direction import aim_of, first_judged, in_words, turned, within_range
from graphsde.bench.tasks import TASKS
from graphsde.view.report.bench import leaders


def record(
    model: str, seed: int, *, options: dict[str, Any] | None = None, cause: str | None = None, **metrics: float | None
) -> dict[str, Any]:
    cell = Cell("misclassification", options or {}, "digits", model, {}, seed, "data", {"task": 1, "model": 1})
    status = "failed" if cause else "done"
    return {"id": cell.id, "cell": cell.as_dict(), "status": status, "cause": cause, "metrics": metrics}


def test_mean_std_rank_and_verdict() -> None:
    records = [record("gcn", s, accuracy=0.8 + 0.01 * s, nll=0.6 - 0.01 * s) for s in range(4)]
    records += [record("mlp", s, accuracy=0.6 + 0.011 * s, nll=0.9 - 0.012 * s) for s in range(4)]
    rows = {(row.model, row.metric): row for row in compare(records, ["accuracy", "nll"])}
    gcn = rows["gcn", "accuracy"]
    assert (gcn.mean, gcn.n, gcn.rank, gcn.verdict) == (pytest.approx(0.815), 4, 1.0, "best")
    assert gcn.std == pytest.approx(0.01290994)
    assert gcn.ci_low is not None and gcn.ci_low < 0.815 < gcn.ci_high  # type: ignore[operator]
    assert rows["gcn", "nll"].rank == 1.0 and rows["mlp", "nll"].verdict == "behind"


def test_one_model_among_its_rivals() -> None:
    """Each metric in its own direction, on the seeds that both have; a rival with one of them is not judged."""
    noise = (0.0, 0.004, -0.003, 0.002, -0.001)
    records = [record("gcn", s, accuracy=0.8 + e, nll=0.6 + e) for s, e in enumerate(noise)]
    records += [record("mlp", s, accuracy=0.6 - e, nll=0.9 - e) for s, e in enumerate(noise)]
    records += [record("appnp", s, accuracy=0.8 + noise[-s], nll=0.4 - noise[-s]) for s in range(1, 4)]
    records += [record("gat", 0, accuracy=0.1, nll=9.0)]
    accuracy, nll = standings(records, "gcn", ["accuracy", "nll"])
    assert (accuracy.ahead, accuracy.tied, accuracy.behind) == (["mlp"], ["appnp"], [])
    assert (nll.ahead, nll.tied, nll.behind) == (["mlp"], [], ["appnp"])
    assert (nll.dataset, nll.metric, nll.fewest, nll.most) == ("digits", "nll", 3, 5)
    assert standings(records, "gat", ["accuracy"]) == standings(records, "sgc", ["accuracy"]) == []


def test_who_is_behind_the_leader_is_behind_it_in_its_own_table() -> None:
    """The leader beats all rivals clearly, so that Holm spares the last of them; among its own rivals, to most of whom
    it is equal, the same difference would not count."""
    noise = (0.0, 0.004, -0.003, 0.002, -0.001)
    lead = (0.03, 0.002, 0.025, 0.01, 0.02)
    records = [record("gat", s, accuracy=0.82 + noise[s]) for s in range(5)]
    records += [record("gcn", s, accuracy=0.82 + noise[s] - lead[s]) for s in range(5)]
    for number, model in enumerate(("mlp", "sgc", "appnp", "gpn", "gkde", "grand", "gread", "bgcn", "gnode")):
        turned = [(-1) ** (s + number) * 0.0001 * (s + 1) for s in range(5)]
        records += [record(model, s, accuracy=0.8 + noise[s] + turned[s]) for s in range(5)]
    verdict = {row.model: row.verdict for row in compare(records, ["accuracy"])}
    assert verdict["gat"] == "best" and verdict["gcn"] == "behind"
    (own,) = standings(records, "gcn", ["accuracy"])
    assert own.behind == ["gat"] and len(own.tied) == 9


def test_failed_cells_are_counted_with_their_cause() -> None:
    records = [record("gcn", s, accuracy=0.8) for s in range(3)]
    records += [record("mlp", 0, cause="time"), record("mlp", 1, cause="error: bad"), record("mlp", 2, accuracy=0.5)]
    row = next(row for row in compare(records, ["accuracy"]) if row.model == "mlp")
    assert (row.n, row.failed, row.causes) == (1, 2, {"time": 1, "error": 1})
    assert row.mean == 0.5 and row.std is None and row.ci_low is None and row.ci_high is None


def test_the_last_record_of_a_cell_counts() -> None:
    records = [record("gcn", 0, cause="killed"), record("gcn", 0, accuracy=0.7)]
    (row,) = compare(records, ["accuracy"])
    assert (row.mean, row.failed, row.verdict) == (0.7, 0, "only")


def test_variants_are_averaged_within_a_seed_and_an_incomplete_seed_is_no_run() -> None:
    records = [record("gcn", s, options={"leave": c}, accuracy=0.1 * c) for s in range(2) for c in range(3)]
    runs = collect(records[:-1])["digits"]["gcn"]
    assert runs.values == {0: {"accuracy": pytest.approx(0.1)}}


def test_an_undefined_metric_is_no_value() -> None:
    records = [record("gcn", 0, accuracy=0.8, aurc=None), record("gcn", 1, accuracy=0.9, aurc=0.1)]
    rows = {row.metric: row for row in compare(records, ["accuracy", "aurc"])}
    assert (rows["accuracy"].n, rows["aurc"].n) == (2, 1)


def test_pairwise_tests_use_common_seeds() -> None:
    records = [record("gcn", s, accuracy=0.8 + 0.01 * s, n_test=100.0, n_train=50.0) for s in range(10)]
    records += [record("mlp", s, accuracy=0.79 + 0.012 * s, n_test=100.0, n_train=50.0) for s in range(1, 9)]
    found = pairwise(records, "digits", "accuracy", "gcn", "mlp")
    assert found.n == 8 and found.p_permutation is not None and found.p_nadeau_bengio is not None
    assert found.p_nadeau_bengio > found.p_t  # type: ignore[operator]


def test_costs_are_compared_as_factors() -> None:
    """Always at least thirty times as slow, but not always as much: as differences, three seeds prove nothing."""
    slow = (1.0, 3.0, 0.3)
    records = [record("gcn", s, epoch_seconds=0.01) for s in range(3)]
    records += [record("gnode", s, epoch_seconds=slow[s]) for s in range(3)]
    verdict = {row.model: row.verdict for row in compare(records, ["epoch_seconds"])}
    assert verdict == {"gcn": "best", "gnode": "behind"}
    found = pairwise(records, "digits", "epoch_seconds", "gcn", "gnode")
    assert found.difference == pytest.approx(0.01 - np.mean(slow)) and found.p_t == pytest.approx(
        stats.ttest_1samp(np.log(np.divide(slow, 0.01)), 0.0).pvalue
    )
    assert found.p_t < 0.05 < stats.ttest_1samp(np.subtract(slow, 0.01), 0.0).pvalue
    assert turned("epoch_seconds", 0.0) < math.inf  # where a clock did not tick


def test_directions() -> None:
    assert aim_of("accuracy@0.5") == aim_of("ood_auroc[energy]") == "higher"
    assert aim_of("aurc@0.5") == aim_of("fit_cpu_seconds") == aim_of("val_nll") == "lower"
    assert aim_of("coverage90") == 0.9 and in_words("coverage90") == "best at 0.9"
    assert aim_of("coverage[aps]") is None and aim_of("coverage") == "higher"  # a share asked for; a share accepted


def test_intervals_are_judged_by_the_distance_from_their_level() -> None:
    records = [record("wide", s, coverage90=0.99 + 0.001 * s) for s in range(5)]
    records += [record("right", s, coverage90=0.90 + 0.002 * (s % 2)) for s in range(5)]
    rows = {row.model: row for row in compare(records, ["coverage90"])}
    assert rows["right"].verdict == "best" and rows["right"].rank == 1
    assert rows["wide"].verdict == "behind" and rows["wide"].mean == pytest.approx(0.992)  # the mean is not turned


def test_coverage_of_sets_is_not_judged() -> None:
    records = [record(model, s, **{"coverage[aps]": 0.9}) for model in ("gcn", "mlp") for s in range(3)]
    assert {(row.verdict, row.rank) for row in compare(records, ["coverage[aps]"])} == {("not judged", None)}
    with pytest.raises(BadUsage, match="no better direction"):
        rank_models(records, "coverage[aps]")


def test_a_graph_is_one_block_of_a_ranking() -> None:
    def on(graph: str, better: str) -> list:
        made = [record(m, s, accuracy=0.9 if m == better else 0.5) for m in ("gcn", "mlp") for s in range(10)]
        for one in made:
            one["cell"]["dataset"], one["id"] = graph, one["id"] + graph
        return made

    alone = rank_models(on("digits", "gcn"), "accuracy")
    assert alone is not None and (alone.over, alone.blocks) == ("seeds", 10)
    both = rank_models([*on("digits", "gcn"), *on("cora", "mlp")], "accuracy")
    assert both is not None and (both.over, both.blocks) == ("graphs", 2) and both.ranks.tolist() == [1.5, 1.5]
    lower = [record("gcn", s, nll=0.1) for s in range(3)] + [record("mlp", s, nll=0.2) for s in range(2)]
    ranking = rank_models(lower, "nll")
    assert ranking is not None and ranking.blocks == 2 and ranking.ranks.tolist() == [1.0, 2.0]


def test_what_tasks_show_first_has_the_right_direction() -> None:
    lower = {"aurc", "nll", "ece", "ood_fpr95", "val_nll", "rmse", "crps", "calibration_error", "accepted_error"}
    lower |= {"epoch_seconds", "epoch_over_gcn", "predict_seconds", "peak_bytes", "set_size", "false_alarms"}
    lower |= {"error_easiest", "error_hardest", "epoch_seconds_validated", "epoch_over_gcn_validated"}
    shown = {metric.partition("@")[0].partition("[")[0] for name in TASKS for metric in TASKS.get(name).headline}
    assert lower <= shown
    assert {metric for metric in shown if aim_of(metric) == "lower"} == lower


def test_nothing_to_compare() -> None:
    with pytest.raises(BadInput, match="no finished cells"):
        compare([])
    with pytest.raises(BadUsage, match="unknown metric"):
        compare([record("gcn", 0, accuracy=1.0)], ["acuracy"])


def test_what_is_shown_of_a_sweep_are_its_own_values() -> None:
    def swept(task: str, **metrics: float) -> dict:
        one = record("lgnsde@paper", 0, **metrics)
        one["cell"]["task"] = task
        return one

    values = {"accuracy@-100": 0.2, "accuracy@1": 0.8, "accuracy@10": 0.7, "nll@1": 1.0, "fit_cpu_seconds": 3.0}
    assert headline([swept("sensitivity", **values)]) == ("accuracy@-100", "accuracy@1", "accuracy@10")
    assert headline([swept("cost", exponent_nodes=1.1, fit_cpu_seconds=3.0)]) == ("exponent_nodes",)
    ood = {"ood_auroc_all@gcn": 0.7, "ood_auroc_all@gat": 0.8, "epochs": 3.0}
    assert headline([swept("backbones", **ood)]) == ("ood_auroc_all@gcn", "ood_auroc_all@gat")
    assert headline([swept("misclassification", accuracy=0.8, nll=0.5, ece=0.1)]) == ("accuracy", "nll", "ece")
    rows = compare([swept("cost", exponent_nodes=1.1)])
    assert [(row.metric, row.mean) for row in rows] == [("exponent_nodes", 1.1)]


def test_what_is_not_judged_leads_nowhere() -> None:
    records = [
        record(model, s, **{"coverage[aps]": 0.9 + 0.01 * s, "set_size[aps]": size + 0.1 * s})
        for model, size in (("appnp", 3.0), ("gcn", 2.0)) for s in range(3)
    ]  # fmt: skip
    rows = compare(records, ["coverage[aps]", "set_size[aps]"])
    assert first_judged(row.metric for row in rows) == "set_size[aps]"
    assert leaders(rows).startswith("On digits gcn has the best set_size[aps]")
    assert leaders(compare(records, ["coverage[aps]"])) == "None of these figures says by itself who is better."
    assert aim_of("worst_class_coverage[aps]") is None and aim_of("set_coverage") is None


def test_intervals_stay_within_what_a_figure_can_be() -> None:
    records = [record("gcn", 0, accuracy=0.3, nll=-0.5), record("gcn", 1, accuracy=0.9, nll=0.4)]
    rows = {row.metric: row for row in compare(records, ["accuracy", "nll"])}
    assert (rows["accuracy"].ci_low, rows["accuracy"].ci_high) == (0.0, 1.0)
    assert rows["nll"].ci_low is not None and rows["nll"].ci_low < -0.5
    assert (
        within_range("ood_aurc_all", (-1.0, 2.0)) == within_range("ood_threshold_accuracy", (-1.0, 2.0)) == (0.0, 1.0)
    )
    assert within_range("ood_fpr95[energy]", (-5.0, 130.0), scale=100.0) == (0.0, 100.0)
