"""The graph as a picture, with a click through to a node."""

from __future__ import annotations

from typing import Any

import streamlit as st

from graphsde.view.app.graph_view import MOST_EDGES, MOST_NODES, Part, draw
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.panels import node, state
from graphsde.view.app.panels.parts import chart, needs_run

PARTS: dict[str, Part] = {
    "the most uncertain nodes and their neighbours": "uncertain",
    "around the chosen node": "around",
    "a random sample": "random",
}


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Graph")
    position = state.chosen_node(run)
    left, right = st.columns([2, 1])
    small = run.graph.num_nodes <= MOST_NODES
    choices = ["the whole graph", *list(PARTS)[1:2]] if small else list(PARTS)
    part = PARTS.get(left.selectbox("Show", choices, key="part"), "uncertain")
    said = "predicted class" if run.class_names else "predicted value"
    colour = right.selectbox("Colour by", ["uncertainty", said], key="colour")
    if part == "around" and position is None:
        st.info("Choose a node first: click one in another view, or under Nodes.", icon=":material/info:")
        part = "uncertain"
    drawing = state.drawing(facts, part, position if part == "around" else None)
    figure = draw(
        drawing,
        run.graph,
        run.prediction,
        colour="uncertainty" if colour == "uncertainty" else "answer",
        chosen=position,
    )
    picture, detail = st.columns([3, 2])
    with picture:
        fewer = f" (a random {MOST_EDGES:,} of those among them)" if len(drawing.edges) == MOST_EDGES else ""
        st.caption(
            f"{len(drawing.nodes):,} of {run.graph.num_nodes:,} nodes are drawn, with {len(drawing.edges):,} edges"
            f"{fewer}. Click a node to see more of it."
        )
        event = chart(figure, key=f"graph {facts.name} {part}", on_select="rerun", selection_mode="points")
        clicked = _clicked(event)
        if clicked is not None and clicked != st.session_state.get("clicked"):
            st.session_state["clicked"] = clicked
            state.open_node(clicked)
            st.rerun()
    with detail:
        if position is None:
            st.caption("The node you click is described here.")
        else:
            node.show(run, position, place="graph", wide=False)


def _clicked(event: Any) -> int | None:
    points = event["selection"]["points"] if event else []
    for point in points:
        value = point.get("customdata")
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, int | float):
            return int(value)
    return None
