"""``graphsde theory`` as people and programs use it, and its picture."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pytest

import graphsde as gs
from cli_support import graphsde
from graphsde.bench.theory import TheoryOptions, measure_theory
from graphsde.view.figures.theory import MEASURED, PropositionPanel, TheoryPanel, theory_panels, theory_png

from support import block_graph


def fit(folder: Path, *words: object) -> Path:
    gs.write_tables(block_graph(), folder / "graph")
    result = graphsde("fit", folder / "graph", "--out", folder / "run", "--set", "epochs=3", *words)
    assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(tmp_path_factory.mktemp("theory"), "--model", "lgnsde", "--preset", "universal")


def test_json_is_one_object_with_both_propositions(run: Path) -> None:
    result = graphsde("theory", run, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["l_f"] > 0 and values["l_h_probabilities"] == pytest.approx(
        0.5 * values["l_h_logits"] / values["temperature"]
    )
    first, second = values["proposition_1"], values["proposition_2"]
    assert first["violations"] == second["violations"] == 0 and first["n"] > 300 and second["n"] > 300
    assert 0 < first["left"] < first["right"] and 0 < first["latent_left"] < first["latent_right_contractive"]
    assert first["latent_right_contractive"] < first["latent_right_chain"] < first["latent_right"]
    assert len(second["by_epsilon"]) == 3 and 0 < second["left"] < second["right"]


def test_words_table_and_files(run: Path, tmp_path: Path) -> None:
    result = graphsde("theory", run, "--samples", 8, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    words = result.stdout
    assert "L_f = 1.8" in words and "contractive" in words and "Proposition 1 held in all" in words
    assert "not informative" in words  # the exponential bounds of this model are
    columns = pa_csv.read_csv(tmp_path / "out" / "theory.csv").to_pydict()
    assert set(columns["proposition"]) == {1, 2} and len(columns["time"]) == 5 * (2 + 3 + 3 * 3)
    image = (tmp_path / "out" / "theory.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", image[16:24])
    assert width > 1500 and height > 800


def test_another_model_is_refused_in_words(tmp_path: Path) -> None:
    result = graphsde("theory", fit(tmp_path, "--model", "gcn"))
    assert result.exit_code == 2 and "'gcn' is not one" in result.stderr and "--model lgnsde" in result.stderr


def test_a_drift_without_a_constant_is_refused_in_words(tmp_path: Path) -> None:
    words = ("--preset", "paper", "--set", "drift={name: gat, options: {heads: 4}}")
    result = graphsde("theory", fit(tmp_path, "--model", "lgnsde", *words))
    assert result.exit_code == 2 and "spectral_bound" in result.stderr and "attention=none" in result.stderr


def test_odd_samples_are_refused_in_words(run: Path) -> None:
    result = graphsde("theory", run, "--samples", 7)
    assert result.exit_code == 2 and "even number" in result.stderr


@pytest.mark.parametrize(("model", "panels"), [(gs.LGNSDE, 5), (gs.GNODE, 2)])
def test_both_pictures_show_the_same_panels(model: type[gs.LGNSDE], panels: int) -> None:
    graph = block_graph()
    options = TheoryOptions(samples=4, paths=2, directions=1, power_steps=1)
    report = measure_theory(model(epochs=1, hidden=4).fit(graph), graph, options)
    drawn = theory_panels(report)
    assert len(drawn) == panels
    figure = TheoryPanel(report).plotly()
    assert len(figure.data) == sum(len(panel.lines) for panel in drawn)
    assert len({trace.xaxis for trace in figure.data}) == panels
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown))
    for panel in drawn:
        for name in panel.lines:
            x, y = panel.points(name)
            assert len(x) == len(y) > 0 and (y > 0).all()
    assert theory_png(report).startswith(b"\x89PNG")


def test_rounding_at_the_start_is_not_drawn() -> None:
    lines = {MEASURED: np.array([1e-32, 2.0, 3.0]), "chain": np.array([0.0, 1e25, np.inf])}
    panel = PropositionPanel("title", "t", "variance", np.arange(3.0), lines)
    assert panel.points(MEASURED)[1].tolist() == [2.0, 3.0]
    assert panel.points("chain")[0].tolist() == [1.0]
