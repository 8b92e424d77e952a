"""What the page shows of a fit that has ended: figures with their intervals, and controls beside it."""

from __future__ import annotations

import pytest

import graphsde as gs
from graphsde.metrics.leaderboard import HOW_TO_CHOOSE

testing = pytest.importorskip("streamlit.testing.v1", reason="streamlit is not installed")


def show(kept: dict) -> None:  # type: ignore[type-arg]  # streamlit runs its source by itself, without our imports
    from graphsde.view.app.panels.fit import _beside_controls

    _beside_controls(kept)


def test_figures_have_their_intervals() -> None:
    from graphsde.view.app.panels.fit import figures

    metrics = {"accuracy": 0.9, "nll": 0.25, "n_test": 400, "macro_f1": 0.8}
    shown = figures(metrics, {"accuracy": [0.87, 0.93]})
    assert shown == {"right on test nodes, 87.0 % to 93.0 %": "90.0 %", "NLL": "0.250", "test nodes": "400"}
    assert figures({}, {}) == {"test nodes": "none"}


def test_the_board_is_that_of_the_terminal() -> None:
    graph = gs.load("digits")
    board = gs.controls(graph, gs.LabelPropagation().fit(graph).predict(graph), name="label-propagation")
    page = testing.AppTest.from_function(show, kwargs={"kept": board.model_dump(mode="json")}).run(timeout=60)
    assert not page.exception
    rows = page.dataframe[0].value.to_dict("records")
    assert rows == board.table()
    assert page.subheader[0].value == "Compared with controls"
    assert page.caption[-1].value.replace("\\", "") == HOW_TO_CHOOSE
    nothing = testing.AppTest.from_function(show, kwargs={"kept": None}).run(timeout=60)
    assert not nothing.exception and not nothing.dataframe
