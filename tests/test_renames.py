"""Former names: read everywhere, written nowhere, and no part of what a cell is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.interrupt import Interrupted
from graphsde.base.registry import Registry
from graphsde.base.renames import FORMER, as_currently, as_formerly, current, former
from graphsde.bench.cells import Cell
from graphsde.bench.folder import BenchFolder
from graphsde.bench.journal import Journal, Outcome, decode, encode, make_record
from graphsde.bench.tasks.task import TASKS
from graphsde.datasets.source import GraphSource
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.sde.drift import DRIFTS, SecondOrderDrift
from graphsde.sde.prior import PRIORS

from support import as_before_guards, block_graph

OLD: dict[str, Any] = {
    "drift": {"name": "diffusion", "options": {"teleport": 0.2}},
    "prior": {"name": "graph-diffusion", "options": {"teleport": 0.2}},
}
NEW: dict[str, Any] = {
    "drift": {"name": "graph-heat", "options": {"teleport": 0.2}},
    "prior": {"name": "graph-ou", "options": {"teleport": 0.2}},
}
QUICK: dict[str, Any] = {"epochs": 4, "hidden": 4, "evaluate_every": 2}
JOURNALS = sorted(Path(__file__).parents[1].glob("results/**/journal.jsonl"))


@pytest.mark.parametrize("kind", list(FORMER))
def test_both_ways_are_clear(kind: str) -> None:
    names = FORMER[kind]
    assert len(set(names.values())) == len(names) and not set(names) & set(names.values())
    assert all(former(kind, current(kind, name)) == name for name in names)


def test_names_are_changed_where_they_stand_and_nowhere_else() -> None:
    whole = {"model": {"settings": {**OLD, "diffusion": {"name": "diffusion"}, "prior-drift": "diffusion"}}}
    found = as_currently(whole)["model"]["settings"]
    assert found == {**NEW, "diffusion": {"name": "diffusion"}, "prior-drift": "diffusion"}
    assert as_currently({"drift": "diffusion", "prior": 3, "drifts": ("gcn", "diffusion")}) == {
        "drift": "graph-heat", "prior": 3, "drifts": ("gcn", "graph-heat"),
    }  # fmt: skip
    force = {"drift": {"name": "second-order", "options": {"force": "diffusion"}}}
    assert as_formerly(as_currently(force)) == force and as_formerly(NEW) == OLD
    assert OLD["drift"]["name"] == "diffusion", "what was given is left as it was"


def test_names_of_settings_and_options_can_change_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMER, "option", {"foreign": "ood"})
    assert as_currently({"options": {"foreign": 1}, "foreign": 2}) == {"options": {"ood": 1}, "foreign": 2}


def test_registries_find_former_names_and_list_present_ones() -> None:
    assert DRIFTS.get("diffusion") is DRIFTS.get("graph-heat") and PRIORS.get("graph-diffusion").name == "graph-ou"
    assert (
        "diffusion" in DRIFTS and "diffusion" not in DRIFTS.names() and DRIFTS.entry("diffusion").name == "graph-heat"
    )
    registry: Registry[int] = Registry("drift")
    with pytest.raises(BadUsage, match="once named"):
        registry.add("diffusion", 1, summary="")
    old = SecondOrderDrift(4, force="diffusion", generator=torch.Generator().manual_seed(0))
    assert old.force.name == "graph-heat" and old.stiffness == 0.0


def test_models_take_former_names_and_show_present_ones() -> None:
    short = gs.LGNSDE(drift="diffusion", prior="graph-diffusion")
    assert (short.settings.drift.name, short.settings.prior.name) == ("graph-heat", "graph-ou")
    assert short.settings == gs.LGNSDE(drift="graph-heat", prior="graph-ou").settings
    assert short.settings.preset == "universal"
    assert gs.drift.Diffusion(teleport=0.2) == gs.drift.GraphHeat(teleport=0.2) == NEW["drift"]
    assert gs.prior.GraphDiffusion(teleport=0.2) == NEW["prior"]
    graph = block_graph()
    old, new = (gs.LGNSDE(**QUICK, **given).fit(graph).predict(graph, samples=2) for given in (OLD, NEW))
    assert (old.probs == new.probs).all()
    assert not {"diffusion", "graph-diffusion"} & {*dir(gs.drift), *dir(gs.prior)}


def test_tasks_take_former_names() -> None:
    assert TASKS.get("backbones")(drifts=["gcn", "diffusion"]).options.drifts == ("gcn", "graph-heat")  # type: ignore[attr-defined]


@pytest.fixture
def tables(tmp_path: Path) -> GraphSource:
    gs.write_tables(block_graph(), tmp_path / "graph")
    return GraphSource.typed(str(tmp_path / "graph"))


def make_old(folder: Path) -> None:
    """A run's files as they were written before the names changed, where they lay before there were manifests."""
    work = folder / ".fitting"
    if work.is_dir():
        asked = json.loads((work / "request.json").read_text())
        (folder / "config.yaml").write_text(yaml.safe_dump(asked["config"]))
        (folder / "graph.json").write_text(json.dumps(asked["facts"]))
        (work / "checkpoint.safetensors").rename(folder / "checkpoint.safetensors")
        shutil.rmtree(work)
    as_before_guards(folder)
    config = as_formerly(yaml.safe_load((folder / "config.yaml").read_text()))
    assert config["model"]["settings"]["drift"]["name"] == "diffusion"
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    if (folder / "model.json").is_file():
        description = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(json.dumps(as_formerly(description)))
        assert "graph-heat" not in (folder / "model.json").read_text()


def test_a_finished_run_with_former_names_is_the_same_run(tables: GraphSource, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    first = fit_run(FitRequest(tables, "lgnsde", {**QUICK, **OLD}), folder)
    assert "graph-heat" in folder.config.read_text() and "graph-ou" in (folder.path / "model.json").read_text()
    make_old(folder.path)
    for given in (OLD, NEW):
        again = fit_run(FitRequest(tables, "lgnsde", {**QUICK, **given}), folder)
        assert again.already_done and (again.prediction.probs == first.prediction.probs).all()
    assert gs.load_model(folder.path).settings.drift.name == "graph-heat"  # type: ignore[attr-defined]
    with pytest.raises(BadUsage, match="E-RUN-EXISTS"):
        fit_run(FitRequest(tables, "lgnsde", {**QUICK, "drift": "gcn"}), folder)


class StopAt(Callback):
    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == 2:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupted_run_with_former_names_goes_on(tables: GraphSource, tmp_path: Path) -> None:
    asked = FitRequest(tables, "lgnsde", {**QUICK, **OLD})
    whole = fit_run(asked, RunFolder(tmp_path / "whole"))
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(Interrupted):
        fit_run(asked, folder, callbacks=[StopAt()])
    make_old(folder.path)
    resumed = fit_run(asked, folder)
    assert resumed.resumed and (resumed.prediction.probs == whole.prediction.probs).all()
    assert not (folder.path / "checkpoint.safetensors").exists() and folder.state().guarded


def cell(settings: dict[str, Any], **options: Any) -> Cell:
    return Cell("backbones", options, "cora", "lgnsde", settings, 0, "x", {"task": 1, "model": 1})


def test_a_name_that_changes_makes_no_other_cell() -> None:
    old, new = cell(OLD, drifts=["diffusion"]), cell(NEW, drifts=["graph-heat"])
    assert (old.id, old.address, old.label) == (new.id, new.address, new.label)
    assert old.settings == NEW and old.as_dict()["options"] == {"drifts": ["graph-heat"]}
    # as the code before the names changed made it
    assert old.id == "c6e13622c98fa820bd445ef84d973134"


def test_figures_of_old_records_have_present_names() -> None:
    outcome = Outcome("done", metrics={"accuracy@diffusion": 0.5, "accuracy": 0.4}, curves={"accuracy": [0.5]})
    found = decode(encode(make_record(cell(OLD), outcome, "serial", {}))[:-1])
    assert found is not None and found["metrics"] == {"accuracy@graph-heat": 0.5, "accuracy": 0.4}


def test_a_bench_that_asked_with_former_names_asks_the_same(tmp_path: Path) -> None:
    folder = BenchFolder(tmp_path)
    folder.write_question("backbones", {"drifts": ["gcn", "diffusion"]})
    folder.refuse_another("backbones", {"drifts": ["gcn", "graph-heat"]})
    with pytest.raises(BadUsage, match="another bench"):
        folder.refuse_another("backbones", {"drifts": ["gcn"]})


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: str(path.parent.name))
def test_cells_of_committed_journals_have_the_ids_they_had(path: Path) -> None:
    records = Journal(path.parent).read().records
    assert records
    for record in records:
        made = Cell(**record["cell"])
        assert (made.id, made.address) == (record["id"], record["address"])
