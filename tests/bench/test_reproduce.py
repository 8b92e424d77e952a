"""The paper's tables: every printed figure has a place, and ours meets the right one."""

from __future__ import annotations

import csv
import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.bench.cells import own_settings
from graphsde.bench.paper import TABLES, PaperTable, System, printed_figures
from graphsde.bench.paper.tables import Printed
from graphsde.bench.reproduce import Beside, agreement, beside, beside_table, cells_of, spec_of, with_found
from graphsde.bench.tasks import TASKS
from graphsde.nn.encoding import FeatureEncoder

from support import block_graph

GRAPH = "synthetic:2000"  # large enough for every split, and without masks
PLANS = [plan for name in TABLES for plan in TABLES.get(name)]
SOURCE = Path(__file__).resolve().parents[2] / ".." / "shared" / "paper" / "tables.csv"


def places() -> set[tuple[str, str, str, str]]:
    found = set()
    for plan in PLANS:
        for dataset in plan.datasets:
            for system in plan.systems:
                for metric in plan.metrics.keys() - plan.ratios.keys():  # ratios of figures that are in the list
                    if plan.printed_figure(dataset, system, metric) is not None:
                        row = "lgnsde" if "*" in plan.experiment else system.printed or ""
                        graph = "" if plan.name == "time" else dataset
                        found.add((plan.experiment_of(system), graph, row, metric))
    return found


def test_every_printed_figure_has_a_place() -> None:
    assert len(printed_figures()) == 757
    assert places() == set(printed_figures())


@pytest.mark.skipif(not SOURCE.is_file(), reason="the list of printed figures is not on this machine")
def test_printed_figures_are_as_listed() -> None:
    with SOURCE.open(encoding="utf-8") as file:
        listed = {(r["experiment"], r["dataset"], r["model"], r["metric"]): r["mean"] for r in csv.DictReader(file)}
    assert {key: figure.text for key, figure in printed_figures().items()} == listed


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_plans_name_tasks_options_and_models_that_exist(plan: PaperTable) -> None:
    task = TASKS.get(plan.task)(**plan.options)
    assert task.name == plan.task
    searched = [replace(system, found={GRAPH: {}}) if system.tuned else system for system in plan.systems]
    plan = replace(plan, systems=tuple(searched))
    named = {cell.model for cell in cells_of(plan, [GRAPH], [], [0])}
    assert named == {system.model.partition("@")[0] for system in plan.systems}


def record(plan: PaperTable, name: str, seed: int, metrics: dict[str, float] | None, **versions: int) -> dict[str, Any]:
    (cell,) = cells_of(plan, ["digits"], [name], [seed])
    cell = replace(cell, versions={**cell.versions, **versions})
    facts = {"id": cell.id, "address": cell.address, "cell": cell.as_dict(), "cause": "time"}
    return {**facts, "status": "done" if metrics else "failed", "metrics": metrics or {}}


def test_ours_beside_the_printed() -> None:
    (plan,) = TABLES.get("standard")
    records = [record(plan, "gcn", s, {"accuracy": 0.8 + 0.01 * s, "micro_auroc": 0.9, "aurc": 0.1}) for s in range(3)]
    records.append(record(plan, "gcn", 3, None))
    rows = {row.metric: row for row in beside(plan, records, ["digits"], ["gcn"], range(5))}
    assert (rows["accuracy"].mean, rows["accuracy"].n, rows["accuracy"].failed) == (pytest.approx(0.81), 3, 1)
    assert rows["accuracy"].printed is None and rows["accuracy"].agreement == ""
    assert rows["auroc"].mean == pytest.approx(0.9)


def test_figures_on_other_test_nodes_are_shown_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaperTable, "printed_figure", lambda *_: Printed(0.9, 0.01, "0.9"))
    (plan,) = TABLES.get("active-entropy")
    assert not plan.comparable and all(part.comparable for part in TABLES.get("active-printed"))
    found = [record(plan, "gcn", 0, {"accuracy": 0.5, "micro_auroc": 0.5, "aurc": 0.5})]
    rows = beside(plan, found, ["digits"], ["gcn"], [0])
    assert [(row.mean, row.printed, row.agreement) for row in rows] == [(0.5, 0.9, "")] * 3
    rows = beside(replace(plan, comparable=True), found, ["digits"], ["gcn"], [0])
    told = {row.metric: row.agreement for row in rows}
    assert told == {"accuracy": "worse", "auroc": "worse", "aurc": "better"}  # a lower AURC is better


def test_a_row_of_an_earlier_version_stands_until_it_is_run_again() -> None:
    (plan,) = TABLES.get("standard")
    figures = {"accuracy": 0.8, "micro_auroc": 0.9, "aurc": 0.1}
    former = [record(plan, "gcn", seed, figures, model=0) for seed in range(3)]
    row, *_ = beside(plan, former, ["digits"], ["gcn"], range(3))
    assert (row.n, row.model) == (3, "gcn (version 0 of the model)")
    # one cell of the present version, and nothing of the earlier one is in the row
    again = [*former, record(plan, "gcn", 0, figures)]
    row, *_ = beside(plan, again, ["digits"], ["gcn"], range(3))
    assert (row.n, row.model) == (1, "gcn")


def test_a_tuned_row_is_there_where_its_search_has_left_settings(tmp_path: Path) -> None:
    (plan,) = TABLES.get("standard-searched")
    plan = replace(plan, datasets=("digits", "synthetic"))
    tuned = ["gcn (tuned)", "appnp (tuned)"]
    assert cells_of(with_found(plan, tmp_path), ["digits"], tuned, [0]) == []
    text = "model: gcn\ndataset: digits\nsettings: {hidden: 5}\n"
    (tmp_path / "gcn-digits.yaml").write_text(text, encoding="utf-8")
    found = with_found(plan, tmp_path)
    (cell,) = cells_of(found, ["digits", "synthetic"], tuned, [0])
    assert (cell.label, cell.settings, cell.dataset) == ("gcn (tuned)", {"hidden": 5}, "digits")


def test_a_search_that_ended_at_the_defaults_shares_its_cells_with_the_row_that_was_not_tuned(tmp_path: Path) -> None:
    (plan,) = TABLES.get("standard")
    text = "model: lgnsde\ndataset: digits\nsettings: {preset: paper, steps: 5, evaluate_every: 5, sigma: 1.0}\n"
    (tmp_path / "lgnsde@paper-digits.yaml").write_text(text, encoding="utf-8")
    found = with_found(plan, tmp_path, ["digits"])
    assert len(cells_of(found, ["digits"], ["lgnsde@paper", "lgnsde@paper (tuned)"], [0])) == 1


def test_classes_left_out_are_one_figure_a_seed_and_only_where_all_are_there() -> None:
    (plan,) = TABLES.get("ood-every-class")
    cells = cells_of(plan, ["digits"], ["gcn"], [0, 1])
    assert len(cells) == 20
    records: list[dict[str, Any]] = [
        {"id": cell.id, "address": cell.address, "cell": cell.as_dict(), "status": "done", "metrics": {"ood_auroc": k}}
        for k, cell in enumerate(cells[:-1])
    ]
    rows = {row.metric: row for row in beside(plan, records, ["digits"], ["gcn"], [0, 1])}
    assert (rows["auroc"].n, rows["auroc"].mean) == (1, 4.5)
    begun = {row.metric: row for row in beside(plan, records[:3], ["digits"], ["gcn"], [0, 1])}
    assert (begun["auroc"].n, begun["auroc"].mean) == (0, None)


def test_printed_figures_of_lgnsde_stand_beside_the_network_of_the_text() -> None:
    for plan in PLANS:
        for system in plan.systems:
            if system.printed == "lgnsde":
                assert system.model == "lgnsde@paper", plan.name
    tables = ("standard", "ood", "noise", "active-entropy", "active-random", "extended-ood", "time")
    for plan in (plan for name in tables for plan in TABLES.get(name)):
        assert {"lgnsde", "lgnsde@released"} <= {system.name for system in plan.systems}, plan.name


def test_a_name_of_ours_goes_before_a_printed_one() -> None:
    (plan,) = TABLES.get("standard")
    assert {cell.label for cell in cells_of(plan, ["digits"], ["lgnsde"], [0])} == {"lgnsde"}
    assert {cell.label for cell in cells_of(plan, ["digits"], ["bgcn"], [0])} == {"bgcn"}


def test_metric_names_of_scores_sweeps_and_percent() -> None:
    label, *_ = TABLES.get("extended-ood")
    assert label.metric_of(System("odin", "gcn", {}, "odin"), "auroc") == "ood_auroc[odin]"
    (drift,) = TABLES.get("prior-drift")
    assert drift.metric_of(drift.systems[0], "accuracy-percent") == "accuracy@-100"
    figure = drift.printed_figure("cora", drift.systems[0], "accuracy-percent")
    assert figure is not None and figure.mean == 81.29


def test_costs_are_published_as_ratios_and_not_judged() -> None:
    (table,) = TABLES.get("time")
    ensemble = next(row for row in table.systems if row.printed == "ensemble")
    ours = next(row for row in table.systems if row.printed is None)
    figure = table.printed_figure("citeseer", ensemble, "times a GCN's")
    assert figure is not None and figure.mean == pytest.approx(1.13 / 0.19) and figure.text == "5.9"
    assert table.printed_figure("cora", ours, "times a GCN's") is None
    found = record(table, "ensemble", 0, {"epoch_seconds": 9.0, "epoch_over_gcn": 6.0})
    rows = beside(table, [found], ["digits"], ["ensemble"], [0])
    assert [row.agreement for row in rows if row.mean is not None] == ["", ""]
    assert "| 6.00 | 5.95 | 1 | 0 |" in beside_table(rows)


def test_agreement_words() -> None:
    assert agreement(0.8, 0.01, 0.805, 0.0) == "agrees"
    assert agreement(0.8, 0.001, 0.805, 0.001) == "worse"
    assert agreement(0.8, 0.001, 0.805, 0.001, higher_is_better=False) == "better"
    assert agreement(94.0, None, 92.0, None, 100.0) == "agrees"
    assert agreement(96.0, None, 92.0, None, 100.0) == "better"
    assert agreement(None, None, 0.5, None) == ""


def test_a_table_in_markdown_has_interval_print_and_agreement_in_every_cell() -> None:
    def row(system: str, metric: str, **own: Any) -> Beside:
        facts: dict[str, Any] = {"printed": None, "printed_std": None, "printed_text": "", "mean": None, "std": None}
        facts |= {"n": 0, "ci_low": None, "ci_high": None, "failed": 0, "agreement": "", "note": ""}
        return Beside("t", "cora", system, f"our {system or 'own'}", metric, **facts | own)

    ours = {"mean": 0.81, "std": 0.01, "n": 5, "ci_low": 0.801, "ci_high": 0.819}
    percent = {"mean": 88.158, "std": 0.3, "n": 4, "ci_low": 87.91, "ci_high": 88.44}
    print_of = {"printed": 0.8, "printed_std": 0.02, "printed_text": "0.8", "agreement": "agrees"}
    rows = [
        row("gcn", "accuracy", **ours, **print_of),
        row("gcn", "fpr95", **percent),
        row("", "accuracy", failed=2),
        row("", "fpr95", failed=2),
        row("gp", "accuracy", **ours, printed_text="OOM"),
        row("gp", "fpr95", **percent),
    ]
    rows += [replace(row("", "accuracy"), model="never run"), replace(row("", "fpr95"), model="never run")]
    # of published systems, a variant that was never run is left out unless it stands for the system
    for system, model in (("gcn", "gcn, never run"), ("gat", "gat to be run"), ("gat", "gat, never run")):
        told = {"accuracy": "0.7", "fpr95": ""}
        rows += [replace(row(system, metric, printed_text=told[metric]), model=model) for metric in told]
    text = beside_table(rows)
    assert "never run" not in text and "| gat | gat to be run | — |" in text
    _, first, second = text.split("\n\n")
    assert "| gcn | our gcn | 0.8100 ± 0.0100 (0.801 to 0.819) | 0.8000 ± 0.0200; ours agrees | 5 | 0 |" in first
    assert "|  | our own | — |  | 0 | 2 |" in first and "| OOM |" in first and "fpr95" not in first
    assert "| gcn | our gcn | 88.16 ± 0.30 (87.9 to 88.4), n = 4 | 5 | 0 |" in second and "printed |" not in second
    alone = beside_table([row for row in rows if row.metric == "fpr95"])  # nothing published, no column for it
    assert "| ours | fpr95 | n | failed |" in alone
    plain = beside_table(rows, intervals=False)
    assert (
        "| gcn | our gcn | 0.8100 ± 0.0100 | 0.8000 ± 0.0200; ours agrees | 5 | 0 |" in plain
        and " to " not in plain[:200]
    )
    memory = replace(rows[1], mean=9_715_712.4, std=1200.0, ci_low=9_710_000.2, ci_high=9_720_000.8, metric="bytes")
    assert "| 9,715,712 ± 1,200 (9,710,000 to 9,720,001) |" in beside_table([memory])


def test_rows_of_a_table_are_told_apart() -> None:
    for plan in PLANS:
        if "split_options" in plan.options:  # of graphs without a split of their own, which are not embedded
            continue
        rows = beside(plan, [], ["digits"], [], [0])
        assert len({(row.system, row.model, row.metric) for row in rows}) == len(rows), plan.name


def test_gnnsafes_network_takes_the_features_that_its_authors_give_it() -> None:
    """Rows that sum to 1 on every graph of words, also where a GCN takes them raw; Cora's cells stay what they were."""
    label, *_ = TABLES.get("extended-ood")
    rows = [system for system in label.systems if system.settings.get("scaling") == "auto"]
    assert {system.score for system in rows} == {None, "msp", "odin", "mahalanobis", "gnnsafe", "gebm"}
    words = (np.arange(750).reshape(30, 25) % 7 == 0).astype(np.float32)
    graph = block_graph().with_features(words)
    for name, given in (("cora", False), ("computers", True)):
        known = dataclasses.replace(graph, benchmark=name)
        model = gs.GCN(**rows[0].settings)
        model.resolve(known)
        assert FeatureEncoder.fit(known, model.settings.scaling).scaling == "row"
        assert ("scaling" in own_settings(spec_of(rows[0]), known)) == given


def test_gnsd_is_judged_by_its_own_score_and_by_entropy() -> None:
    label, *_ = TABLES.get("extended-ood")
    row, by_entropy = (system for system in label.systems if system.model == "gnsd")
    assert label.metric_of(by_entropy, "auroc") == "ood_auroc" and not by_entropy.printed
    assert label.metric_of(row, "auroc") == "ood_auroc[gnsd]" and "gnsd" not in label.options["scores"]
