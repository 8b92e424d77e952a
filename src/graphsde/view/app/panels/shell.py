"""The frame of the page: its parts, and which run they are about."""

from __future__ import annotations

import numpy as np
import streamlit as st
from PIL import Image

from graphsde._version import __version__
from graphsde.view.app.panels import compare, data, decide, graph, label, state
from graphsde.view.app.panels import node as nodes
from graphsde.view.app.panels.parts import STYLE, guarded
from graphsde.view.app.words import plain


def show() -> None:
    st.set_page_config(page_title="graphsde", page_icon=_icon(), layout="wide")
    st.html(STYLE)
    # a visitor finds the newest run, or data if there is none. Once said, it stays for the visit
    began_with_run = st.session_state.setdefault("began with a run", bool(state.runs()))
    pages = [
        st.Page(
            guarded(data.panel),
            title="Data and fit",
            icon=":material/database:",
            url_path="data",
            default=not began_with_run,
        ),
        st.Page(
            guarded(nodes.panel),
            title="Nodes",
            icon=":material/table_rows:",
            url_path="nodes",
            default=began_with_run,
        ),
        st.Page(guarded(graph.panel), title="Graph", icon=":material/hub:", url_path="graph"),
        st.Page(guarded(decide.panel), title="Decide", icon=":material/rule:", url_path="decide"),
        st.Page(guarded(label.panel), title="Label", icon=":material/label:", url_path="label"),
        st.Page(guarded(compare.panel), title="Compare", icon=":material/compare_arrows:", url_path="compare"),
    ]
    page = st.navigation(pages, position="top")
    guarded(_sidebar)()
    with st.container(horizontal=True, key="phone-links"):  # a phone folds the bar at the top away
        for one in pages:
            st.page_link(one)
    page.run()


def _icon() -> Image.Image:
    """Three dots of a graph; a named icon would be fetched from elsewhere."""
    y, x = np.mgrid[:32, :32]
    image = np.zeros((32, 32, 4), dtype=np.uint8)
    for (row, column), colour in zip(
        [(8, 8), (8, 24), (24, 16)], [(0, 114, 178), (230, 159, 0), (0, 158, 115)], strict=True
    ):
        image[(y - row) ** 2 + (x - column) ** 2 <= 42] = (*colour, 255)
    return Image.fromarray(image)


def _sidebar() -> None:
    names = [run.name for run in state.runs()]
    wanted = st.session_state.pop(state.NEXT_RUN, None)
    if wanted in names:
        st.session_state[state.RUN] = wanted
        st.session_state.pop(state.NODE, None)
    if st.session_state.get(state.RUN) not in names:
        st.session_state[state.RUN] = names[0] if names else None
    with st.sidebar:
        st.markdown("### graphsde")
        st.selectbox(
            "Run",
            names,
            key=state.RUN,
            format_func=plain,
            placeholder="no run yet",
            on_change=lambda: st.session_state.pop(state.NODE, None),
        )
        st.caption(f"Version {__version__}. Everything stays on this machine.")
