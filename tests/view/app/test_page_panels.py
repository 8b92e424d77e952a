"""The panels as the framework runs them, without a browser: what they send, and what they keep back."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from graphsde.datasets.source import GraphSource
from graphsde.runs import decided
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.looks import Before
from graphsde.view.app.labelling import LabelQueue
from graphsde.view.app.library import OpenRun
from graphsde.view.app.node_table import MOST_ROWS
from graphsde.view.app.node_view import UNKNOWN
from graphsde.view.app.panels import decide as decide_panel
from graphsde.view.app.serve import RUNS_VARIABLE

PANELS = ("node", "graph", "decide", "label", "compare")
MOST_SENT = 250_000
"""Bytes of a whole panel, however large the graph."""


def script(panel: str) -> None:
    import importlib

    importlib.import_module(f"graphsde.view.app.panels.{panel}").panel()


def shown(panel: str, run: Path, monkeypatch: pytest.MonkeyPatch, **chosen: Any) -> AppTest:
    """A panel drawn about a run; ``chosen`` is what the visitor has chosen before."""
    monkeypatch.setenv(RUNS_VARIABLE, str(run.parent))
    app = AppTest.from_function(script, kwargs={"panel": panel}, default_timeout=600)
    for name, value in {"run": run.name, **chosen}.items():
        app.session_state[name.replace("_", " ")] = value
    app.run()
    assert not app.exception and not app.error
    return app


def elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield from elements(child) if hasattr(child, "children") else [child]


def sent(app: AppTest) -> int:
    return sum(one.proto.ByteSize() for one in elements(app.main) if getattr(one, "proto", None) is not None)


def texts(app: AppTest) -> str:
    return " ".join(str(one.proto) for one in elements(app.main) if getattr(one, "proto", None) is not None)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of which all rows would be more than a megabyte."""
    path = tmp_path_factory.mktemp("large") / "runs" / "large"
    fit_run(FitRequest(GraphSource("synthetic:20000"), "label-propagation"), RunFolder(path), with_controls=False)
    return path


@pytest.mark.parametrize("panel", PANELS)
def test_of_a_large_graph_little_is_sent(panel: str, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(panel, large, monkeypatch, node=7, known_too=True, max_error=0.01)
    assert 1_000 < sent(app) <= MOST_SENT
    assert all(len(table.value) <= MOST_ROWS for table in app.dataframe)
    if panel == "decide":
        assert f"The first {MOST_ROWS:,} are shown; the file has all." in texts(app)
    if panel in ("node", "graph"):
        assert "of 20,000 nodes" in texts(app), "what is left out is said"


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_shows_numbers(panel: str, numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(panel, numbers, monkeypatch, node=17)
    assert sent(app) > 1_000


def test_no_guess_before_an_answer_unless_asked(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "paths"
    shutil.copytree(runs / "paths", run)
    app = shown("label", run, monkeypatch)
    asked = app.session_state["questions"][1]
    first = asked.items[0]
    assert not app.toggle(key="show guess").value
    before = texts(app)
    assert f"node {first.id}?" in before and "Question 1 of 10" in before
    assert first.reason not in before and "The model says" not in before and "gs-bar" not in before
    assert "%)" not in before and "had said" not in before
    buttons = {one.key: one for one in app.button if one.key and one.key.startswith("class ")}
    assert [one.label for one in buttons.values()] == list(asked.classes), "all classes, in their own order"
    assert len({one.proto.type for one in buttons.values()}) == 1, "none stands out"
    # asked for
    app.toggle(key="show guess").set_value(True).run()
    assert "The model says" in texts(app) and "gs-bar" in texts(app) and first.reason in texts(app)
    # answered
    app.toggle(key="show guess").set_value(False).run()
    app.button(key="class 3").click().run()
    assert LabelQueue.of_run(run).given == {first.id: "3"}
    given = app.dataframe[0].value.iloc[0].to_dict()
    assert given["you said"] == "3" and given["the model had said"].startswith(f"{first.predicted} (")
    assert f"node {asked.items[1].id}?" in texts(app)


def test_the_node_asked_about_has_no_colour_before_the_guess(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs" / "shop"
    shutil.copytree(shop, run)
    app = shown("label", run, monkeypatch)
    kept_back = re.search(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", texts(app))
    app.toggle(key="show guess").set_value(True).run()
    told = re.search(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", texts(app))
    assert kept_back is not None and told is not None
    before, after = (base64.b64decode(one[1]).decode() for one in (kept_back, told))
    assert before.rpartition("<circle")[2].count(UNKNOWN) == 1 and UNKNOWN not in after
    row = app.session_state["questions"][1].items[0]
    assert f"(Product {row.id.removeprefix('p')})?" in texts(app) and "gs-words" in texts(app)


def test_a_number_can_be_given(numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "patients"
    shutil.copytree(numbers, run)
    app = shown("label", run, monkeypatch)
    first = app.session_state["questions"][1].items[0]
    assert f"What is the value of node {first.id}?" in texts(app) and first.predicted not in texts(app)
    next(one for one in app.button if one.label == "Give this value").click().run()
    assert LabelQueue.of_run(run).given == {}, "nothing was typed in"
    app.number_input(key=f"value {first.id}").set_value(151.5)
    next(one for one in app.button if one.label == "Give this value").click().run()
    assert not app.exception and LabelQueue.of_run(run).given == {first.id: 151.5}


def test_a_limit_is_not_tested_twice(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    kept = decided.decide
    monkeypatch.setattr(decided, "decide", lambda *given, **named: calls.append(named) or kept(*given, **named))
    decide_panel._decided.cache_clear()
    decide_panel._tested.cache_clear()
    run = OpenRun(numbers)
    never = Before(0.0, 0)
    shares = [decide_panel._decided(run, limit, 0.05, "certified", 100.0, never)[2].share for limit in (0.3, 0.1, 0.3)]
    assert len(calls) == 1 and shares[0] == shares[2] >= shares[1]
    decide_panel._decided(run, 0.3, 0.05, "expected", 100.0, never)
    assert len(calls) == 2 and np.isfinite(shares).all()


def test_a_test_states_what_earlier_ones_leave(numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "patients"
    shutil.copytree(numbers, run)
    (run / "looks.json").unlink()
    assert "other test" not in texts(shown("decide", run, monkeypatch))
    words = texts(shown("decide", run, monkeypatch, confidence=0.99)).replace("\\", "")
    assert "1 other test was made on these calibration labels; choosing among their results lowers the 99%" in words
    (run / "looks.json").write_text("{")
    assert "looks.json is damaged" in texts(shown("decide", run, monkeypatch))
