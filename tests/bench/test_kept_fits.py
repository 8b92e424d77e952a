"""Fits that tasks share: read again to the bit, never taken for another fit, never in the way of the fit itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.bench.cells import Cell
from graphsde.bench.kept_fits import COST, OPTIMISER, VARIABLE, fitted, keeping_fits
from graphsde.datasets.shifts import drop_edges
from graphsde.datasets.source import open_graph
from graphsde.models import MODELS, Model

SHORT: dict[str, dict[str, Any]] = {
    "gcn": {"epochs": 4},
    "ensemble": {"members": 2, "base_settings": {"epochs": 3}},
    "lgnsde": {"epochs": 4, "race": False},
    "gpn": {"epochs": 4},
    "graph-gp": {"epochs": 3},
}


@pytest.fixture(scope="module")
def digits() -> gs.Graph:
    return gs.load("digits")


def of(name: str, **settings: Any) -> Any:
    def make() -> Model:
        return MODELS.get(name)(**SHORT[name] | settings)

    return make


@pytest.fixture
def fits(tmp_path: Path) -> Any:
    with keeping_fits(tmp_path / "fits"):
        yield tmp_path / "fits"


@pytest.mark.parametrize("name", SHORT)
def test_a_fit_that_was_kept_predicts_the_same_bits(name: str, digits: gs.Graph, fits: Path) -> None:
    first, cost = fitted(of(name, seed=3), digits)
    again, same = fitted(of(name, seed=3), digits)
    assert again is not first and not again.history and same == cost
    one, other = (model.predict(digits, samples=4) for model in (first, again))
    np.testing.assert_array_equal(one.mean, other.mean)


def test_a_setting_that_is_left_to_the_graph_is_not_its_default(
    digits: gs.Graph, fits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some benchmarks features are not scaled unless a model is told to: scaling="auto" is another fit there."""
    monkeypatch.setattr(MODELS.get("gcn"), "defaults_for", lambda self, graph: {"scaling": "none"})
    found = [
        fitted(of("gcn", seed=0, **given), digits)[0] for given in ({}, {"scaling": "standard"}, {"scaling": "auto"})
    ]
    assert of("gcn")().settings.scaling == "auto"
    assert [model.settings.scaling for model in found] == ["none", "standard", "auto"]
    assert len(list(fits.iterdir())) == 3


@pytest.mark.parametrize("name", ["gcn", "ensemble", "lgnsde"])
def test_training_goes_on_from_a_kept_fit_as_from_the_fit_itself(name: str, digits: gs.Graph, fits: Path) -> None:
    fitted(of(name, seed=3), digits)
    for place in fits.iterdir():  # as one of a bench that did not go on
        (place / OPTIMISER).unlink()
    anew, _ = fitted(of(name, seed=3), digits, to_go_on=True)
    assert anew.history
    again, _ = fitted(of(name, seed=3), digits, to_go_on=True)
    assert not again.history
    further = [of(name, seed=4)().start_from(model, momentum=True).fit(digits) for model in (anew, again)]
    one, other, without = (
        model.predict(digits, samples=4).mean for model in (*further, of(name, seed=4)().start_from(again).fit(digits))
    )
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, without)  # without its optimiser it goes elsewhere


@pytest.mark.parametrize("change", ["seed", "setting", "masks", "edges"])
def test_what_changes_a_fit_is_another_fit(change: str, digits: gs.Graph, fits: Path) -> None:
    fitted(of("gcn", seed=0), digits)
    settings, graph = {"seed": 0}, digits
    if change == "seed":
        settings["seed"] = 1
    elif change == "setting":
        settings["hidden"] = 7
    elif change == "masks":
        assert digits.train_mask is not None
        fewer = digits.train_mask.copy()
        fewer[np.flatnonzero(fewer)[0]] = False
        graph = digits.with_masks(**{**digits.masks, "train": fewer})
    else:
        graph = drop_edges(digits, share=0.1, seed=0)
    fitted(of("gcn", **settings), graph)
    assert len(list(fits.iterdir())) == 2


@pytest.mark.parametrize("damage", ["tensors", "cost"])
def test_a_damaged_fit_is_made_again(damage: str, digits: gs.Graph, fits: Path) -> None:
    first, _ = fitted(of("gcn"), digits)
    (place,) = fits.iterdir()
    (place / ("model.safetensors" if damage == "tensors" else COST)).write_bytes(b"{")
    again, _ = fitted(of("gcn"), digits)
    assert again.history
    assert (place / COST).read_bytes() != b"{"
    np.testing.assert_array_equal(first.predict(digits).mean, again.predict(digits).mean)


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_saving(digits: gs.Graph, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with keeping_fits(tmp_path / "file" / "fits"):
        assert fitted(of("gcn"), digits)[0].history


def test_nothing_is_kept_unless_asked(digits: gs.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    fitted(of("gcn"), digits)
    assert not list(tmp_path.iterdir())
    with keeping_fits(tmp_path / "fits"):
        assert os.environ[VARIABLE] == str(tmp_path / "fits")
    assert VARIABLE not in os.environ


def test_two_questions_about_one_model_have_one_fit_and_the_figures_of_two(fits: Path) -> None:
    graph = open_graph("digits")
    asked = [("misclassification", {}), ("noise", {"severities": [0.5], "draws": 1})]

    def figures() -> list[dict[str, float]]:
        found = []
        for task_name, options in asked:
            cell = Cell(task_name, options, "digits", "gcn", {"epochs": 4}, 0)
            task = cell.make_task()
            metrics = task.measure(cell.make_model, task.prepare(graph, 0), 0).metrics
            found.append({key: value for key, value in metrics.items() if key != "fit_cpu_seconds"})
        return found

    shared = figures()
    assert len(list(fits.iterdir())) == 1
    with pytest.MonkeyPatch.context() as alone:
        alone.delenv(VARIABLE)
        assert figures() == shared
