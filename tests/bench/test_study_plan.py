"""A plan: what it asks for, what of it is missing, what is run next, and that a second start does nothing twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_support import answer, graphsde
from graphsde.base.errors import BadUsage
from graphsde.base.storage import read_json
from graphsde.bench.cells import Cell
from graphsde.bench.folder import BenchFolder
from graphsde.bench.journal import Journal, Outcome, make_record
from graphsde.bench.paper import TABLES
from graphsde.bench.plan import Costs, Plan, Step, Study, next_cells, read_plan
from graphsde.bench.reproduce import cells_of
from graphsde.bench.search import read_settings

FEW = {"epochs": 3, "hidden": 4}
PLAN = Path(__file__).resolve().parents[2] / "studies" / "paper.yaml"


def cell(label: str, seed: int, task: str = "misclassification", graph: str = "cora") -> Cell:
    return Cell(task, {}, graph, "gcn", {}, seed, called=label)


def write(folder: Path, *cells: tuple[Cell, float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(folder).appending() as journal:
        for one, seconds in cells:
            outcome = Outcome("done", metrics={"accuracy": 0.5}, seconds={"cpu": seconds})
            journal.append(make_record(one, outcome, "serial", {}))


def test_whole_seeds_are_run_for_as_long_as_they_fit() -> None:
    missing = [cell(label, seed) for seed in range(4) for label in ("a", "b")]
    seconds = {"a": 10.0, "b": 30.0}

    def cost(one: Cell) -> float:
        return seconds[one.label]

    assert next_cells(missing, cost, 1000) == ([0, 1, 2, 3], ["a", "b"])
    assert next_cells(missing, cost, 90) == ([0, 1], ["a", "b"])
    assert next_cells(missing, cost, 20) == ([0], ["a"])
    assert next_cells(missing, cost, 1) == ([0], ["a"])  # one is always begun
    assert next_cells(missing[1:], cost, 1000) == ([0], ["b"])  # seed 0 lacks less than the others


def test_what_cells_will_take_is_what_such_cells_took(tmp_path: Path) -> None:
    write(
        tmp_path / "standard",
        (cell("gcn", 0), 1.0), (cell("gcn", 1), 3.0), (cell("gcn", 0, graph="photo"), 20.0), (cell("slow", 0), 8.0),
    )  # fmt: skip
    write(tmp_path / "active", (cell("gcn", 0, "active"), 10.0))
    costs = Costs(tmp_path, {"hinted": {"photo": 7.0}})
    assert costs.of("misclassification", "cora", "gcn") == 2.0
    assert costs.of("misclassification", "photo", "slow") == 80.0  # as much dearer as a GCN
    near = [(cell("gcn", 0, graph="computers"), 25.0), (cell("slow", 0, graph="computers"), 5.0)]
    write(tmp_path / "more" / "standard", *near)
    assert Costs(tmp_path, {}).of("misclassification", "photo", "slow") == 4.0  # by the graph that is most like it
    assert costs.of("active", "cora", "slow (tuned)") == 40.0  # as much dearer as the task
    assert costs.of("misclassification", "photo", "hinted") == 7.0
    write(tmp_path / "more", (cell("gcn[steps=1]", 0), 9.0))
    costs = Costs(tmp_path, {})
    assert costs.of("misclassification", "cora", "gcn[steps=1]") == 9.0
    assert costs.of("misclassification", "cora", "gcn[steps=2]") == pytest.approx(13 / 3)  # all that is known of it


def test_what_earlier_versions_of_a_model_took_is_not_counted(tmp_path: Path) -> None:
    old, new = (replace(cell("gcn", 0), versions={"model": version}) for version in (1, 2))
    for order in ((old, new), (new, old)):
        folder = tmp_path / str(order[0].versions["model"])
        write(folder / "standard", *((one, 100.0 if one is old else 4.0) for one in order))
        assert Costs(folder, {}).of("misclassification", "cora", "gcn") == 4.0


def test_a_fit_that_several_tables_ask_for_is_counted_once(tmp_path: Path) -> None:
    """Half of a cell of noise is the fit, as the journal has it, whether it was made there or read."""
    for number, (seconds, fit) in enumerate([(20.0, 10.0), (10.0, 10.5)]):  # the second was read
        folder = tmp_path / "noise"
        folder.mkdir(exist_ok=True)
        with Journal(folder).appending() as journal:
            outcome = Outcome("done", metrics={"fit_cpu_seconds": fit}, seconds={"cpu": seconds})
            journal.append(make_record(cell("gcn", number, "noise", "digits"), outcome, "serial", {}))
    costs = Costs(tmp_path, {})
    assert costs.of("noise", "digits", "gcn") == pytest.approx((20 + 20.5) / 2)
    assert costs.without_fit("noise", "digits", "gcn") == pytest.approx(
        costs.of("noise", "digits", "gcn") / 2, rel=0.02
    )
    steps = [{"table": name, "graphs": ["digits"], "systems": ["gcn"], "seeds": 2} for name in ("noise", "noise-edges")]
    lines = Study(Plan.parse({"steps": steps}, "plan"), tmp_path / "none", tmp_path).status()
    assert lines[0].hours == lines[1].hours  # nothing is known: nothing is saved
    first, second = Study(Plan.parse({"steps": steps}, "plan"), tmp_path, tmp_path).status()
    assert second.hours == pytest.approx(first.hours / 2, rel=0.02) and second.missing == first.missing == 2


def small(**step: Any) -> Plan:
    given = {"table": "standard", "graphs": ["digits"], "systems": ["quick"], "seeds": 2, **step}
    return Plan.parse({"groups": {"quick": ["gcn", "lgnsde@paper (tuned)"]}, "steps": [given]}, "plan")


def test_a_plan_runs_what_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    study = Study(small(systems=["gcn"]), tmp_path / "results", tmp_path / "configs")
    (line,) = study.status()
    assert (line.wanted, line.missing, line.seeds) == (2, 2, "0 to 0 of 2")
    assert study.run(0.0, 1, lambda text: None) == []  # no time, nothing begun
    ((_, table),) = study.run(0.1, 1, lambda text: None)
    assert table.name == "standard" and len(BenchFolder(tmp_path / "results" / "standard").journal.read().records) == 2
    (line,) = study.status()
    assert (line.missing, line.seeds, line.hours) == (0, "2 to 2 of 2", 0.0)
    assert study.run(0.1, 1, lambda text: None) == []


def test_a_row_that_waits_for_its_search_is_counted(tmp_path: Path) -> None:
    (line,) = Study(small(), tmp_path, tmp_path / "configs").status()
    assert (line.systems, line.missing, line.seeds) == (2, 4, "0 to 0 of 2; 1 to be searched first")
    assert line.hours == pytest.approx(4 * 60 / 3600)


def test_rows_of_an_earlier_version_are_set_aside_and_run_again(tmp_path: Path) -> None:
    (table,) = TABLES.get("standard")
    plan, results = small(systems=["gcn"], seeds=1), tmp_path / "results"
    folder = results / "standard"
    gcn, appnp = (cells_of(table, ["digits"], [name], [0])[0] for name in ("gcn", "appnp"))
    old = [replace(one, versions={**one.versions, "model": 0}) for one in (gcn, appnp)]
    write(folder, *((one, 1.0) for one in old))
    study = Study(plan, results, tmp_path / "configs")
    assert study.status()[0].missing == 1
    study.run(0.1, 1, lambda text: None)
    assert [Cell(**record["cell"]) for record in Journal(folder).read().records] == [old[1], gcn]
    assert (folder / "journal.former.jsonl").read_bytes().count(b"\n") == 1


def test_rows_whose_settings_a_search_has_replaced_are_run_again(tmp_path: Path) -> None:
    results, configs = tmp_path / "results", tmp_path / "configs"
    rows = {"table": "standard-searched", "graphs": ["digits"], "systems": ["gcn (tuned)"], "seeds": 1}
    configs.mkdir()
    for hidden in (4, 5):
        found = f"model: gcn\ndataset: digits\nsettings: {{epochs: 3, hidden: {hidden}}}\n"
        (configs / "gcn-digits.yaml").write_text(found)
        Study(Plan.parse({"steps": [rows]}, "plan"), results, configs).run(0.1, 1, lambda text: None)
        records = Journal(results / "standard-searched").read().records
        assert [record["cell"]["settings"]["hidden"] for record in records] == [hidden]
    assert (results / "standard-searched" / "journal.former.jsonl").read_bytes().count(b"\n") == 1
    study = Study(Plan.parse({"steps": [rows]}, "plan"), results, configs)
    assert study.status()[0].missing == 0
    (configs / "gcn-digits.yaml").write_text("model: gcn\ndataset: digits\nsettings: {epochs: 3, hidden: 6}\n")
    assert study.status()[0].missing == 1  # what was planned before is not remembered


def test_the_plan_of_the_paper_names_tables_and_systems_that_exist() -> None:
    plan = read_plan(PLAN)
    rows = [step for step in plan.steps if isinstance(step, Step)]
    for step in rows:
        known = {system.name for table in TABLES.get(step.table) for system in table.systems}
        assert set(plan.systems_of(step)) <= known, step.table
    told = {step.table for step in rows}
    assert set(TABLES) - told == {"figure-active"}  # which is drawn from the journals of two other tables
    with pytest.raises(BadUsage):
        Plan.parse({"steps": [{"tabel": "standard"}]}, "plan")


def test_a_plan_is_run_on_some_of_its_graphs(tmp_path: Path) -> None:
    plan = Plan.parse({"steps": [{"table": "standard", "graphs": ["digits", "cora"], "seeds": 1}]}, "plan")
    assert [step.graphs for step in plan.on(["cora"]).steps] == [("cora",)]
    with pytest.raises(BadUsage, match="no such graph"):
        plan.on(["karate"])


def test_a_row_takes_its_settings_from_a_search_that_comes_before_it(tmp_path: Path) -> None:
    rows = {"table": "standard-searched", "graphs": ["digits"], "systems": ["gcn (tuned)"], "seeds": 1}
    search = {"graphs": ["digits"], "models": ["gcn"], "trials": 1, "around": 0, "runs": 1, "held": {"gcn": FEW}}
    for steps, found in (([rows, search], 0), ([search, rows], 1)):
        place = tmp_path / str(found)
        study = Study(Plan.parse({"steps": steps}, "plan"), place / "results", place / "configs")
        assert [line.table == "search" for line in study.status()] == ["models" in step for step in steps]
        study.run(0.1, 1, lambda text: None)
        journal = BenchFolder(place / "results" / "standard-searched").journal
        assert len(journal.read().records) == found
    assert journal.read().records[0]["cell"]["settings"] == FEW


def test_an_ensemble_takes_what_the_search_of_its_member_found(tmp_path: Path) -> None:
    """Settings held and parameters left out are those of every trial."""
    searches = {
        "graphs": ["digits"],
        "models": ["gcn"],
        "members": {"ensemble": "gcn"},
        "trials": 2,
        "around": 0,
        "runs": 1,
        "without": ["hidden", "epochs"],
        "held": {"gcn": FEW},
    }
    configs = tmp_path / "configs"
    study = Study(Plan.parse({"steps": [searches]}, "plan"), tmp_path / "results", configs)
    study.run(0.1, 1, lambda text: None)
    gcn = read_settings(configs / "gcn-digits.yaml")
    assert (gcn["epochs"], gcn["hidden"]) == (3, 4)
    trial = tmp_path / "results" / "search-equal" / "gcn-digits" / "trial-001" / "choice.json"
    assert not {"epochs", "hidden"} & set(read_json(trial)["chosen"])
    member = read_settings(configs / "ensemble-digits.yaml")["base_settings"]
    assert member == gcn
    assert not study.status()[0].missing


def test_part_of_a_plan_can_be_named() -> None:
    plan = read_plan(PLAN)
    some = plan.of(["search", "noise"])
    assert {one.table for one in some.steps} == {"search", "noise"} and some.groups == plan.groups
    assert [one for one in plan.steps if one.table in ("search", "noise")] == list(some.steps)
    with pytest.raises(BadUsage, match=r"no such table.*Found: nope, none.*Expected: .*standard"):
        plan.of(["nope", "standard", "none"])


def test_what_a_plan_says_itself_is_not_ignored_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    rows = "graphs: [digits], systems: [gcn], seeds: 1"
    file.write_text(f"steps:\n  - {{table: standard, {rows}}}\n  - {{table: ood, {rows}}}\n")
    asked = ("--plan", file, "--out", tmp_path / "results", "--json")
    assert [line["table"] for line in answer("reproduce", "ood", *asked)] == ["ood"]
    assert [line["table"] for line in answer("reproduce", *asked)] == ["standard", "ood"]
    for words, told in (
        ((*asked, "--seeds", 3, "--renew"), "--seeds, --renew"),
        (("standard", "--hours", 1), "--hours"),
    ):
        refused = graphsde("reproduce", *words)
        assert refused.exit_code == 2 and told in refused.output and not (tmp_path / "results").exists()
