"""A bar is shown where a person waits for a fit, once, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

import graphsde as gs
from graphsde.nn import callbacks as module
from graphsde.nn.callbacks import Callback, EpochRecord, shown_progress

from support import block_graph


class Spy(Callback):
    """In place of the bar."""

    made: list[Spy]

    def __init__(self, title: str = "fitting") -> None:
        self.title, self.epochs, self.ends = title, 0, 0
        type(self).made.append(self)

    def on_epoch(self, record: EpochRecord) -> None:
        self.epochs += 1

    def on_end(self, best_epoch: int) -> None:
        self.ends += 1


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Spy]:
    Spy.made = []
    monkeypatch.setattr(module, "ProgressBar", Spy)
    monkeypatch.delenv("GRAPHSDE_PROGRESS", raising=False)
    return Spy.made


class Terminal:
    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def test_a_bar_that_nobody_sees_is_not_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    bar = gs.ProgressBar("fitting")
    bar.on_race(0, 5)
    bar.on_start(3, 1)
    bar.on_epoch(EpochRecord(1, 0.5, None, None, False, 0.1))
    bar.on_note("a word " * 30)
    bar.on_end(1)
    assert bar._bar is None and capsys.readouterr().err == "a word " * 30 + "\n"
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar.on_start(3, 1)
    assert bar._bar is not None
    bar.on_end(3)
    assert bar._bar is None


def test_nothing_is_shown_in_a_script(bars: list[Spy]) -> None:
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert not bars


def test_an_interactive_interpreter_shows_one(bars: list[Spy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert not bars  # its output goes to a file
    monkeypatch.setattr(sys, "stderr", Terminal())
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert [(one.title, one.epochs, one.ends) for one in bars] == [("fitting gcn", 2, 1)]


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_shows_one_where_it_can(bars: list[Spy], monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", module)
    monkeypatch.setattr(module, "find_spec", lambda name: object() if widgets and name == "ipywidgets" else None)
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert len(bars) == int(widgets)


def test_the_variable_decides(bars: list[Spy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_PROGRESS", "on")
    gs.Ensemble(members=2, base_settings={"epochs": 2, "hidden": 4}).fit(block_graph())
    assert [(one.title, one.epochs) for one in bars] == [("fitting ensemble", 4)]  # one for all members
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("GRAPHSDE_PROGRESS", "off")
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert len(bars) == 1


def test_who_watches_by_themselves_gets_nothing_more(bars: list[Spy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_PROGRESS", "on")
    own = Callback()
    with shown_progress([own], "fitting") as shown:
        assert list(shown) == [own]
    gs.GCN(epochs=2, hidden=4).fit(block_graph(), callbacks=[own])
    assert not bars


def test_a_fit_inside_of_a_fit_is_part_of_it(bars: list[Spy], monkeypatch: pytest.MonkeyPatch) -> None:
    class Warm(gs.GCN):
        name = "warm"

        def fit(self, graph: gs.Graph, *, callbacks: Sequence[Callback] = (), **rest: Any) -> Warm:
            gs.GCN(epochs=2, hidden=4).fit(graph)
            return super().fit(graph, callbacks=callbacks, **rest)

    monkeypatch.setenv("GRAPHSDE_PROGRESS", "on")
    Warm(epochs=2, hidden=4).fit(block_graph())
    assert [one.title for one in bars] == ["fitting warm"] and bars[0].epochs == 2
    gs.GCN(epochs=2, hidden=4).fit(block_graph())
    assert len(bars) == 2  # the next one is shown again


def test_a_model_that_knows_no_callbacks_is_left_alone(bars: list[Spy], monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(gs.LabelPropagation):
        name = "plain"

        def fit(self, graph: gs.Graph) -> Plain:  # type: ignore[override]
            return super().fit(graph)

    monkeypatch.setenv("GRAPHSDE_PROGRESS", "on")
    assert Plain().fit(block_graph()).class_names


def test_the_bar_itself_is_silent_in_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    gs.GCN(epochs=2, hidden=4).fit(block_graph(), callbacks=[gs.ProgressBar()])
    assert not capfd.readouterr().err.strip()
