"""Under a limit of memory a run says the same, with its graph in files; what can't be kept within it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from cli_support import graphsde
from graphsde.acting.ask import ask
from graphsde.acting.decide import decide
from graphsde.base.memory import within_memory
from graphsde.datasets.source import GraphSource
from graphsde.graph import settled
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.settled import SettledAdjacency
from graphsde.metrics.evaluation import evaluate
from graphsde.prediction import keeps_samples
from graphsde.runs import bundle
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder

NODES = 400


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs on a graph that is made anew and on one that was kept."""
    place = tmp_path_factory.mktemp("runs")
    gs.write_tables(gs.synthetic(NODES, classes=3), place / "tables")
    sources = {"made": f"synthetic:{NODES}", "kept": str(place / "tables")}
    for name, source in sources.items():
        settings = {"epochs": 3, "race": False}
        fit_run(FitRequest(GraphSource.typed(source), "lgnsde", settings, samples=8), RunFolder(place / name))
    return {name: place / name for name in sources}


@pytest.mark.parametrize("source", ["made", "kept"])
def test_a_run_says_the_same_with_its_graph_in_files(
    source: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = RunFolder(folders[source]).opened()
    assert type(plain.graph.adjacency) is Adjacency  # read before there is a limit
    monkeypatch.setattr(settled, "SHARE_OF_LIMIT", 10**9)
    monkeypatch.setattr(bundle, "MAPPED", 0)
    with within_memory(2**40):
        limited = RunFolder(folders[source]).opened()
        adjacency = limited.graph.adjacency
        assert isinstance(adjacency, SettledAdjacency)
        assert settled._is_map(limited.graph.features) and settled._is_map(adjacency.matrix.indices)
        assert limited.graph.fingerprint == plain.graph.fingerprint
        for samples in (8, 5):  # what was kept, and what is solved for
            one, other = plain.prediction(samples), limited.prediction(samples)
            np.testing.assert_array_equal(one.mean, other.mean)
            np.testing.assert_array_equal(one.total, other.total)
        assert evaluate(other, limited.graph) == evaluate(one, plain.graph)
        decided = [decide(run.prediction(8), run.graph, model=run.model) for run in (plain, limited)]
        assert decided[0].summary() == decided[1].summary()
        assert [one.id for one in ask(other, limited.graph, 5)] == [one.id for one in ask(one, plain.graph, 5)]


def test_a_temporary_folder_is_gone_with_the_graph() -> None:
    graph = settled.settled(gs.synthetic(50, classes=2))
    assert isinstance(graph.adjacency, SettledAdjacency)
    folder = graph.adjacency.store.folder
    assert graph.adjacency.operator.nnz and folder.is_dir()
    assert os.name != "posix" or not list(folder.iterdir())  # nor is anything left if the process is killed
    kept = graph.features
    del graph
    assert not folder.exists()
    assert np.isfinite(kept).all()  # what is still looked at stays readable


def test_samples_may_take_an_eighth_of_a_limit() -> None:
    assert keeps_samples(64, 100_000, 5)
    with within_memory(2**30):
        assert keeps_samples(8, 100_000, 5) and not keeps_samples(64, 100_000, 5)


@pytest.mark.parametrize("verb", ["predict", "evaluate", "decide", "ask", "report", "plan", "explain", "calibrate"])
def test_every_verb_that_reads_a_run_knows_the_option(verb: str, folders: dict[str, Path]) -> None:
    arguments = [verb, folders["made"], *(["0"] if verb == "explain" else [])]
    told = graphsde(*arguments, "--memory", "plenty")
    assert told.exit_code == 2 and "not an amount of memory" in told.output


def test_what_does_not_fit_is_refused_in_words(folders: dict[str, Path]) -> None:
    told = graphsde("evaluate", folders["made"], "--memory", "1M")
    assert told.exit_code == 71 and "E-MEM" in told.output


@pytest.mark.slow
def test_two_hundred_thousand_nodes_stay_within_half_a_gibibyte_more_than_the_libraries(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not say which memory is anonymous")
    run = tmp_path / "run"
    source = "synthetic:200000"
    fitted = graphsde("fit", source, "--model", "sgc", "--set", "epochs=2", "--no-controls", "--out", run)
    assert fitted.exit_code == 0, fitted.output
    for arguments in (["predict", run], ["evaluate", run], ["decide", run], ["report", run]):
        assert _anonymous_peak([*map(str, arguments), "--memory", "1G"]) < 700 * 2**20


def _anonymous_peak(arguments: list[str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "graphsde", *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    most = 0
    while process.poll() is None:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                most = max(most, int(line.split()[1]) * 1024)
        time.sleep(0.02)
    assert process.returncode == 0
    return most
