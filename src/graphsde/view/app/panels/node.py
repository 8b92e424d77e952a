"""Nodes: all of them in a table with filters, and one of them opened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import streamlit as st

from graphsde.prediction.columns import prediction_columns
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.node_table import (
    MOST_ROWS,
    OUTCOMES,
    NodeFilter,
    columns_of,
    find_node,
    matching,
    node_facts,
    pictures,
    svg_image,
)
from graphsde.view.app.panels import state
from graphsde.view.app.panels.parts import cards, chart, download, needs_run
from graphsde.view.app.words import in_html, in_markdown, plain
from graphsde.view.figures.dynamics import SamplePaths
from graphsde.view.report.uncertain_nodes import Neighbour, UncertainNode, describe

NEIGHBOUR_WIDTH = 96


def show(run: OpenRun, position: int, *, place: str, wide: bool = True) -> None:
    """Everything about the node at ``position``; ``place`` keeps the widgets of two panels apart."""
    row = describe(run.graph, run.prediction, [position])[0]
    st.html(_head(row))
    figures = {"sure of it": row.confidence, "total uncertainty": row.total, "ambiguous by itself": row.aleatoric}
    if row.epistemic != "—":
        figures["paths disagree"] = row.epistemic
    cards(figures)
    st.html(bars(row))
    features(run, row, expanded=False)
    if wide:
        left, right = st.columns(2)
    else:
        left = right = st.container()
    with left:
        _neighbours(row, place)
    with right:
        trajectories = run.paths(position)
        if trajectories is not None:
            along = "sample paths" if trajectories.probs.shape[1] > 1 else "the path"
            st.markdown(f"**How the probabilities arise along {along}**")
            chart(SamplePaths(trajectories).plotly(), key=f"paths {place}")


def picture(row: UncertainNode) -> str:
    """The node itself where its features are pixels, else the node among its neighbours."""
    if row.image:
        return f'<img class="pixels" src="{row.image}" alt="the node as a picture">'
    return f'<img src="{svg_image(row.ego)}" alt="the node and its neighbours">' if row.ego else ""


def features(run: OpenRun, row: UncertainNode, *, expanded: bool) -> None:
    """What the files say of it; a picture says it already."""
    facts = [] if row.image else node_facts(run.graph, row.position)
    if facts:
        rows = "".join(f"<tr><td>{in_html(name)}</td><td>{in_html(value)}</td></tr>" for name, value in facts)
        with st.expander("Its features", expanded=expanded):
            st.html(f'<table class="gs-facts">{rows}</table>')


def _head(row: UncertainNode) -> str:
    truth = {
        "right": "which is right",
        "wrong": f"but it is {in_html(row.truth)}",
        "ood": "but the node is OOD",
    }
    verdict = truth.get(row.verdict, "its label is not known")
    return (
        f'<div class="gs-node">{picture(row)}<div><h3>Node {in_html(row.node)}</h3>'
        f"<div>predicted as <b>{in_html(row.predicted)}</b>, {verdict}</div></div></div>"
    )


def bars(row: UncertainNode) -> str:
    """The leading classes as bars."""
    return "".join(
        f'<div class="gs-bar"><span title="{in_html(bar.label)}">{in_html(bar.label)}</span>'
        f'<i style="width:{float(bar.width):.1f}%;background:{bar.colour}"></i><span>{in_html(bar.share)}</span></div>'
        for bar in row.bars
    )


def _neighbours(row: UncertainNode, place: str) -> None:
    more = f" (the first {len(row.neighbours)} of {row.degree})" if row.more_neighbours else ""
    st.markdown(f"**Neighbours**{more}")
    with st.container(horizontal=True):  # wraps on a narrow screen
        for neighbour in row.neighbours:
            with st.container(width=NEIGHBOUR_WIDTH, gap="small"):
                st.html(_neighbour(neighbour))
                st.button(
                    f"Open {in_markdown(neighbour.node, 16)}",
                    key=f"{place} neighbour {neighbour.position}",
                    on_click=state.open_node,
                    args=(neighbour.position,),
                    width="stretch",
                )


def _neighbour(neighbour: Neighbour) -> str:
    picture = f'<img src="{neighbour.image}" alt="">' if neighbour.image else ""
    kind = "labelled" if neighbour.known else "predicted"
    return (
        f'<div class="gs-near">{picture}<div><i class="gs-dot" style="background:{neighbour.colour}"></i>'
        f"{in_html(neighbour.label, 24)}</div><small>{kind}</small></div>"
    )


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
        show(run, position, place="nodes")


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
