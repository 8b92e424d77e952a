"""All nodes in a table with filters, and one of them opened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import streamlit as st

from graphsde.runs.export import prediction_columns
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.node_table import MOST_ROWS, OUTCOMES, NodeFilter, columns_of, find_node, matching
from graphsde.view.app.panels import node, state
from graphsde.view.app.panels.parts import download, needs_run
from graphsde.view.app.pictures import pictures
from graphsde.view.app.words import plain


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Nodes")
    wanted = _filters(run)
    table = state.table(facts)
    rows = matching(table, run.prediction, wanted)
    st.caption(
        f"{len(rows):,} of {run.graph.num_nodes:,} nodes, the most uncertain first"
        + (f"; the first {MOST_ROWS:,} are shown" if len(rows) > MOST_ROWS else "")
        + ". Tick a row to open the node."
    )
    shown = rows[:MOST_ROWS]
    columns: dict[str, Any] = columns_of(table, shown)
    if (images := pictures(run.graph, shown)) is not None:
        columns = {"picture": images} | columns
    picked = st.dataframe(
        pa.table({name: pa.array(values) for name, values in columns.items()}),
        column_config=_columns(columns),
        hide_index=True,
        height=380,
        on_select="rerun",
        selection_mode="single-row",
        key=f"nodes of {facts.name}",
    )
    chosen = picked["selection"]["rows"]
    if chosen and st.session_state.get("row") != (facts.name, int(shown[chosen[0]])):
        st.session_state["row"] = (facts.name, int(shown[chosen[0]]))
        state.open_node(int(shown[chosen[0]]))
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    typed = left.text_input("Open a node by its id", key="node by id", max_chars=200)
    if typed and st.session_state.get("typed") != typed:
        st.session_state["typed"] = typed
        position = find_node(run.graph, typed)
        if position is None:
            st.warning("No node has that id.", icon=":material/search_off:")
        else:
            state.open_node(position)
    with right:
        download(
            "All predictions (CSV)",
            lambda: prediction_columns(run.prediction, run.graph),
            "predictions.csv",
            key="predictions",
        )
    position = state.chosen_node(run)
    if position is not None:
        node.show(run, position, place="nodes")


def _filters(run: OpenRun) -> NodeFilter:
    highest = float(np.ceil(run.prediction.total.max() * 100) / 100) or 0.01
    first, second, third, fourth = st.columns(4)
    roles = first.multiselect("Role in the split", [*run.graph.masks, "none"], key="roles")
    classes = second.multiselect(
        "Predicted class",
        range(run.prediction.num_classes),
        format_func=lambda index: plain(run.prediction.class_names[index]),
        key="classes",
    )
    outcomes = third.multiselect("Outcome", OUTCOMES, key="outcomes")
    least, most = fourth.slider("Uncertainty (entropy)", 0.0, highest, (0.0, highest), key="range")
    return NodeFilter(tuple(roles), tuple(classes), tuple(outcomes), least, most if most < highest else float("inf"))


def _columns(columns: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        name: st.column_config.TextColumn(name) for name in ("node", "predicted", "true", "outcome", "role")
    }
    config["picture"] = st.column_config.ImageColumn("picture", width="small")
    config["confidence"] = st.column_config.ProgressColumn("confidence", format="percent", min_value=0, max_value=1)
    for name in ("total", "aleatoric", "epistemic"):
        config[name] = st.column_config.NumberColumn(name, format="%.3f")
    return {name: config[name] for name in columns if name in config}
