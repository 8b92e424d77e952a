"""Small things that several panels draw: errors in words, figures in a row, pictures."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from graphsde.base.errors import GraphsdeError
from graphsde.io.table_export import write_table
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.panels import state
from graphsde.view.app.words import error_in_words, in_html, in_markdown

STYLE = f"<style>{Path(__file__).with_name('style.css').read_text(encoding='utf-8')}</style>"


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """Whatever goes wrong inside is said in words; a traceback goes to the terminal, and only when asked for."""
    try:
        yield
    except Exception as error:  # the framework's own control flow is no Exception and passes
        if os.environ.get("GRAPHSDE_DEBUG") and not isinstance(error, GraphsdeError):
            traceback.print_exc()
        say_error(error_in_words(error))


def say_error(text: str) -> None:
    st.error(in_markdown(text, 1500), icon=":material/error:")


def guarded(panel: Callable[[], None]) -> Callable[[], None]:
    def draw() -> None:
        with in_words():
            panel()

    draw.__name__ = panel.__name__
    return draw


def needs_run(panel: Callable[[RunFacts, OpenRun], None]) -> Callable[[], None]:
    """For panels about a run: without one they say where to get it."""

    def draw() -> None:
        facts = state.selected()
        if facts is None:
            st.info("There is no run yet. Fit a model under **Data and fit** first.", icon=":material/info:")
            return
        st.caption(f"Run **{in_markdown(facts.name)}**: {in_markdown(facts.in_words(), 200)}")
        panel(facts, state.opened(facts))

    draw.__name__ = panel.__name__
    return draw


def cards(figures: Mapping[str, str]) -> None:
    """Figures in a row that wraps on a narrow screen."""
    inside = "".join(
        f'<div class="gs-card"><b>{in_html(value, 60)}</b><span>{in_html(title, 80)}</span></div>'
        for title, value in figures.items()
    )
    st.html(f'<div class="gs-cards">{inside}</div>')


def download(label: str, columns: Callable[[], Mapping[str, Any]], name: str, *, key: str) -> None:
    """A button that makes the table only when it is pressed."""
    st.download_button(
        label,
        data=lambda: table_bytes(dict(columns()), Path(name).suffix),
        file_name=name,
        mime="text/csv",
        on_click="ignore",
        icon=":material/download:",
        key=key,
    )


def table_bytes(columns: dict[str, Any], suffix: str = ".csv") -> bytes:
    with tempfile.TemporaryDirectory(prefix="graphsde-") as folder:
        path = Path(folder) / f"table{suffix}"
        write_table(columns, path)
        return path.read_bytes()


def chart(figure: Any, key: str, **settings: Any) -> Any:
    """A plotly picture in the page's colours."""
    return st.plotly_chart(
        figure, key=key, theme=None, width="stretch", config={"displayModeBar": False, "responsive": True}, **settings
    )
