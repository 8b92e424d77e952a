"""Runs side by side."""

from __future__ import annotations

from typing import Any

import streamlit as st

from graphsde.view.app.comparison import compare_runs
from graphsde.view.app.panels import state
from graphsde.view.app.panels.parts import chart, download
from graphsde.view.app.words import plain
from graphsde.view.report.content import NOTHING, number

MOST_CURVES = 5


def panel() -> None:
    st.header("Compare runs")
    runs = state.runs()
    if not runs:
        st.info("There is no run yet. Fit a model under **Data and fit** first.", icon=":material/info:")
        return
    names = [run.name for run in runs]
    wanted = st.multiselect("Runs", names, default=names[:MOST_CURVES], format_func=plain, key="compared")
    chosen = [run for run in runs if run.name in wanted]
    if not chosen:
        return
    found = compare_runs(chosen)
    for text in found.caution:
        st.caption(text)
    st.dataframe(_rows(found.columns, found.best), hide_index=True, key="comparison")
    if found.best:
        st.caption("★ marks the best of a column.")
    download("This table (CSV)", lambda: found.columns, "comparison.csv", key="comparison table")
    curves = state.curves(tuple(chosen[:MOST_CURVES]))
    if curves:
        st.subheader("Errors that remain when only the surest nodes are answered")
    if len(chosen) > MOST_CURVES:
        st.caption(f"Of the newest {MOST_CURVES} of the runs chosen.")
    for place, picture in enumerate(curves):
        chart(picture.plotly(), key=f"risk curves {place}")


def _rows(columns: dict[str, list[Any]], best: dict[str, list[int]]) -> list[dict[str, Any]]:
    count = len(columns["run"])
    return [
        {
            name.replace("_", " "): f"{_cell(values[row])}{' ★' if row in best.get(name, ()) else ''}"
            for name, values in columns.items()
        }
        for row in range(count)
    ]


def _cell(value: Any) -> str:
    if value is None:
        return NOTHING
    return number(value) if isinstance(value, float) else str(value)
