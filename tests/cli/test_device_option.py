"""``--device`` of the verbs that compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_support import answer, graphsde
from graphsde.base.device import DEVICE_VARIABLE, device_variable, on_device
from graphsde.base.errors import BadUsage
from graphsde.bench.cells import ModelSpec, plan_cells
from graphsde.bench.engines.local import WorkerProcess
from remote_device import RemoteTensor, remote_device

QUICK = ("--model", "gcn", "--set", "epochs=2", "--no-controls", "--json")


def test_a_run_is_the_same_run_on_any_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    answer("fit", "digits", "--out", here, *QUICK)
    with remote_device(monkeypatch) as name:
        answer("fit", "digits", "--out", there, "--device", name, *QUICK)
        again = answer("evaluate", there, "--device", name, "--samples", 3, "--json")
        assert graphsde("predict", there, "--device", name, "--samples", 2).exit_code == 0
    assert (here / "config.yaml").read_text() == (there / "config.yaml").read_text()
    assert json.loads((there / "environment.json").read_text())["device"] == name
    # a machine without the device reads it, and knows it for the run that it was asked for
    monkeypatch.undo()
    known = answer("fit", "digits", "--out", there, *QUICK)
    assert known["already_done"] and known["accuracy"] == pytest.approx(again["accuracy"], abs=1e-6)


def test_the_option_reaches_the_computation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: set[bool] = set()
    from graphsde.models.gcn import GCN

    forward = GCN.Module.forward

    def watched(self: object, inputs: object, *rest: object) -> object:
        seen.add(isinstance(inputs.features, RemoteTensor))  # type: ignore[attr-defined]
        return forward(self, inputs, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(GCN.Module, "forward", watched)
    with remote_device(monkeypatch) as name:
        answer("fit", "digits", "--out", tmp_path / "run", "--device", name, *QUICK)
        assert seen == {True}
        seen.clear()
        answer("bench", "misclassification", "--datasets", "digits", "--models", "gcn", "--set", "epochs=1",
               "--seeds", 1, "--engine", "serial", "--device", name, "--out", tmp_path / "bench", "--json")  # fmt: skip
        assert seen == {True}
    record = json.loads((tmp_path / "bench" / "journal.jsonl").read_text().splitlines()[-1])["record"]
    assert record["environment"]["device"] == name and "device" not in record["cell"]["settings"]


@pytest.mark.parametrize("verb", ["fit", "evaluate", "predict", "bench", "search", "learn"])
def test_every_verb_that_computes_has_it(verb: str) -> None:
    assert "--device" in graphsde(verb, "--help").stdout


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    done = graphsde("fit", "digits", "--out", tmp_path / "run", "--device", "cuda:77")
    assert done.exit_code == 2 and "E-DEVICE" in done.stderr and "one of" in done.stderr and "cpu" in done.stderr
    assert not (tmp_path / "run").exists()
    done = graphsde("bench", "misclassification", "--datasets", "digits", "--models", "gcn", "--engine", "ray",
                    "--device", "cpu", "--out", tmp_path / "bench")  # fmt: skip
    assert done.exit_code == 2 and DEVICE_VARIABLE in done.stderr


def test_workers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Popen:
        def __init__(self, *words: object, env: dict[str, str], **rest: object) -> None:
            told.append(env.get(DEVICE_VARIABLE))

    monkeypatch.setattr("subprocess.Popen", Popen)
    from graphsde.bench.engines import Limits

    WorkerProcess(Limits())
    with on_device("cpu"):
        WorkerProcess(Limits())
    assert told == [None, "cpu"] and device_variable() == {}


def test_a_cell_has_no_device() -> None:
    with pytest.raises(BadUsage, match="--device"):
        plan_cells("misclassification", {}, ["digits"], [ModelSpec("gcn", {"device": "cpu"})], [0])
