"""Runs whose samples are too many to keep: every verb works on sums over them, and says what it says of all."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphsde as gs
from cli_support import graphsde
from graphsde.base.errors import BadInput
from graphsde.datasets.source import GraphSource
from graphsde.prediction import ClassPrediction, SummarisedPrediction
from graphsde.prediction.base import KEPT_VARIABLE
from graphsde.runs.bundle import Bundle, write_safetensors
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.kept_prediction import FILE, pack_prediction, unpack_prediction

from support import block_graph

SAMPLES = 9
MODEL: dict[str, Any] = {"preset": "universal", "epochs": 4, "hidden": 4, "temperature": True}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    gs.write_tables(block_graph(per_class=80), folder)
    return folder


def fitted(tables: Path, folder: Path) -> Path:
    fit_run(FitRequest(GraphSource(str(tables)), "lgnsde", MODEL, samples=SAMPLES), RunFolder(folder))
    return folder


@pytest.fixture(scope="module")
def whole(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tables, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def summed(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEPT_VARIABLE, "0")
        return fitted(tables, tmp_path_factory.mktemp("runs") / "summed")


@pytest.fixture
def own(summed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(KEPT_VARIABLE, "0")
    shutil.copytree(summed, tmp_path / "run")
    return tmp_path / "run"


def test_a_kept_summary_comes_back_to_the_bit(whole: Path, own: Path) -> None:
    run = gs.open_run(own)
    kept, solved = run.prediction(), run.model.predict(run.graph, samples=SAMPLES)
    expected = gs.open_run(whole).prediction()
    assert isinstance(kept, SummarisedPrediction) and isinstance(solved, SummarisedPrediction)
    assert type(expected) is ClassPrediction and kept.temperature == expected.temperature != 1.0
    for name, array in solved.summary.arrays().items():
        np.testing.assert_array_equal(kept.summary.arrays()[name], array)
    for name in ("mean", "total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(expected, name))
        np.testing.assert_array_equal(getattr(kept.untempered(), name), getattr(expected.untempered(), name))


def test_tables_of_both_runs_are_equal(whole: Path, summed: Path) -> None:
    one, other = (pq.read_table(run / "predictions.parquet") for run in (whole, summed))
    assert one.equals(other)


@pytest.mark.parametrize(
    "verb",
    [
        ["evaluate"],
        ["decide", "--max-error", "0.3"],
        ["ask", "--budget", "5"],
        ["ask", "--budget", "5", "--by", "bald"],
    ],
)
def test_verbs_answer_alike(whole: Path, own: Path, tmp_path: Path, verb: list[str]) -> None:
    shutil.copytree(whole, tmp_path / "whole")
    found = []
    for run in (tmp_path / "whole", own):
        name, *options = verb
        samples = [] if name == "evaluate" else ["--samples", str(SAMPLES)]
        done = graphsde(name, str(run), *options, *samples, "--json")
        assert done.exit_code == 0, done.output
        found.append(_without_places(json.loads(done.stdout)))
    assert _rounded(found[0]) == _rounded(found[1])


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(one) for key, one in value.items() if key not in ("out", "run", "seconds")}
    return [_without_places(one) for one in value] if isinstance(value, list) else value


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


def test_report_and_predict_work(own: Path) -> None:
    done = graphsde("report", str(own))
    assert done.exit_code == 0, done.output
    assert (own / "report.html").stat().st_size > 10_000
    done = graphsde("predict", str(own), "--samples", "5")
    assert done.exit_code == 0, done.output
    assert len((own / "predictions.csv").read_text().splitlines()) == 1 + gs.open_run(own).graph.num_nodes


@pytest.mark.parametrize("by", ["temperature", "vector"])
def test_calibrating_a_run_draws_its_samples_again(whole: Path, own: Path, tmp_path: Path, by: str) -> None:
    shutil.copytree(whole, tmp_path / "whole")
    means = []
    for run in (tmp_path / "whole", own):
        done = graphsde("calibrate", str(run), "--by", by, "--samples", str(SAMPLES))
        assert done.exit_code == 0, done.output
        opened = gs.open_run(run)
        prediction = opened.prediction(SAMPLES)
        assert prediction.uncalibrated is not None
        means.append(prediction.mean)
    np.testing.assert_allclose(means[1], means[0], rtol=0, atol=1e-9)
    assert isinstance(prediction, SummarisedPrediction) and isinstance(prediction.uncalibrated, SummarisedPrediction)
    solved = opened.model.predict(opened.graph, samples=SAMPLES)
    np.testing.assert_array_equal(prediction.mean, solved.mean)
    np.testing.assert_array_equal(prediction.untempered().mean, solved.untempered().mean)


@pytest.mark.parametrize("damage", ["sums.votes", "sums.mean", "embedding", "count"])
def test_sums_that_do_not_fit_are_damage(own: Path, damage: str) -> None:
    run = gs.open_run(own)
    packed = pack_prediction(run.prediction(), samples=SAMPLES, seed=0)
    assert packed is not None
    arrays, values = dict(packed.arrays), json.loads(json.dumps(packed.values))
    if damage == "count":
        values["levels"][0]["count"] = 0
    else:
        arrays[damage] = arrays[damage][:-1]
    with pytest.raises(BadInput, match=r"prediction\.safetensors is damaged"):
        unpack_prediction(Bundle(arrays, values), run.graph.node_ids, own / FILE)


def test_files_have_the_bytes_of_safetensors(monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import save

    monkeypatch.setattr("graphsde.runs.bundle._BYTES_AT_ONCE", 40)
    kinds = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    kinds += ["float64", "float32", "float16", "bool"]
    arrays = {f"{name}.{rows}": np.arange(rows * 3).reshape(rows, 3).astype(name) for name in kinds for rows in (0, 7)}
    stream = io.BytesIO()
    write_safetensors(stream, arrays)
    assert stream.getvalue() == save(arrays)


PEAK = """
import re, sys
import graphsde as gs
samples, folder = int(sys.argv[1]), sys.argv[2]
graph = gs.split(gs.synthetic(2000, classes=3))
from graphsde.base.keyed_normals import load
model = gs.LGNSDE(preset="universal", hidden=4, epochs=1).fit(graph)
large = gs.synthetic(50_000, classes=3)
load()  # else it comes with the first hundred samples, and has a hundred megabytes of its own
model.predict(graph, samples=2, keep_samples=False)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
prediction = model.predict(large, samples=samples)
from graphsde.io.table_export import write_table
from graphsde.prediction.columns import prediction_columns
from graphsde.runs.kept_prediction import pack_prediction
from pathlib import Path
write_table(prediction_columns(prediction, large), Path(folder) / "p.parquet")
pack_prediction(prediction, samples=samples, seed=0).write(Path(folder) / "p.safetensors")
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
def test_memory_does_not_depend_on_the_number_of_samples(tmp_path: Path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks of memory are read from /proc")
    peaks = []
    for samples in (16, 128):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(samples), str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            # every array is mapped by itself, so that what is freed is gone at once
            env={**os.environ, KEPT_VARIABLE: "16", "MALLOC_MMAP_THRESHOLD_": "65536"},
        )
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.1 * peaks[0]
