"""One node: what is predicted, how sure, by which neighbours, along which paths."""

from __future__ import annotations

import streamlit as st

from graphsde.view.app.library import OpenRun
from graphsde.view.app.node_facts import node_facts
from graphsde.view.app.panels import state
from graphsde.view.app.panels.parts import cards, chart
from graphsde.view.app.pictures import svg_image
from graphsde.view.app.words import in_html, in_markdown
from graphsde.view.figures.sample_paths import sample_paths
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
            st.markdown("**How the probabilities arise along sample paths**")
            chart(sample_paths(trajectories, 0), key=f"paths {place}")


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
        "foreign": "but the node is foreign",
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
