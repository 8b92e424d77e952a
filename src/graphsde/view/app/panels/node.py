"""Nodes: all of them in a table with filters, and one of them opened."""

from __future__ import annotations

from typing import Any

import streamlit as st

from graphsde.prediction.columns import prediction_columns
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.node_table import MOST_ROWS, NodeFilter, NodeTable, find_node
from graphsde.view.app.node_view import Guess, Near, NodeView, guess_of, view_node
from graphsde.view.app.panels import state
from graphsde.view.app.panels.parts import cards, chart, download, needs_run
from graphsde.view.app.words import in_html, in_markdown, plain, share
from graphsde.view.figures.dynamics import SamplePaths

NEIGHBOUR_WIDTH = 108


def show(run: OpenRun, position: int, *, place: str, wide: bool = True) -> None:
    """Everything about the node at ``position``; ``place`` keeps the widgets of two panels apart."""
    row = view_node(run.graph, position, run.prediction)
    guess = guess_of(run.graph, run.prediction, position)
    st.html(
        f'<div class="gs-node">{picture(row)}<div><h3>Node {in_html(row.called)}</h3>'
        f"<div>predicted as <b>{in_html(guess.said)}</b>, {in_html(guess.verdict)}</div></div></div>"
    )
    cards(guess.figures)
    st.html(bars(guess) + band(guess))
    features(row, expanded=False)
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


def picture(row: NodeView) -> str:
    """The node itself where its features are pixels, else the node among its neighbours."""
    if row.pixels:
        return f'<img class="pixels" src="{row.picture}" alt="the node as a picture">'
    return f'<img src="{row.picture}" alt="the node and its neighbours">'


def features(row: NodeView, *, expanded: bool) -> None:
    """What the files say of it; a picture says it already."""
    if row.words:
        more = f" and {row.more_words:,} more" if row.more_words else ""
        with st.expander(f"Its words ({len(row.words) + row.more_words:,})", expanded=expanded):
            st.html(f'<p class="gs-words">{"".join(f"<span>{in_html(word)}</span>" for word in row.words)}{more}</p>')
    if row.facts:
        rows = "".join(f"<div><span>{in_html(name)}</span><b>{in_html(value)}</b></div>" for name, value in row.facts)
        with st.expander("Its features", expanded=expanded):
            st.html(f'<div class="gs-facts">{rows}</div>')


def bars(guess: Guess) -> str:
    """The leading classes as bars."""
    return "".join(
        f'<div class="gs-bar"><span title="{in_html(bar.label)}">{in_html(bar.label)}</span>'
        f'<i style="width:{100 * bar.share:.1f}%;background:{bar.colour}"></i><span>{share(bar.share)}</span></div>'
        for bar in guess.bars
    )


def band(guess: Guess) -> str:
    """The interval of a number on the scale of all of them, with what is predicted and what is known."""
    if guess.band is None:
        return ""
    low, said, high, true = (100 * place for place in guess.band)
    known = f'<u style="left:{true:.1f}%"></u>' if true == true else ""
    keys = {"90 % interval": "#56b4e9", "predicted": "#0072b2"} | ({"known value": "#d55e00"} if known else {})
    words = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in keys.items())
    return (
        f'<div class="gs-band" role="img" aria-label="{", ".join(keys)}, among all values">'
        f'<i style="left:{low:.1f}%;width:{high - low:.1f}%"></i><b style="left:{said:.1f}%"></b>{known}</div>'
        f'<div class="gs-note">{words}</div>'
    )


def neighbours_title(row: NodeView) -> str:
    if not row.neighbours:
        return "It has no neighbours."
    more = f" (the first {len(row.neighbours)} of {row.degree:,})" if row.degree > len(row.neighbours) else ""
    return f"**Neighbours**{more}"


def _neighbours(row: NodeView, place: str) -> None:
    st.markdown(neighbours_title(row))
    with st.container(horizontal=True):  # wraps on a narrow screen
        for neighbour in row.neighbours:
            with st.container(width=NEIGHBOUR_WIDTH, gap="small"):
                st.html(near(neighbour))
                st.button(
                    in_markdown(neighbour.name, 24),
                    key=f"{place} neighbour {neighbour.position}",
                    help="Open this node",
                    on_click=state.open_node,
                    args=(neighbour.position,),
                    width="stretch",
                )


def near(neighbour: Near, *, named: bool = False) -> str:
    """A neighbour with what is known or said of it."""
    image = f'<img src="{neighbour.image}" alt="">' if neighbour.image else ""
    name = f"<b>{in_html(neighbour.name, 40)}</b>" if named else ""
    kind = "labelled" if neighbour.known else "predicted" if neighbour.said else "no label"
    dot = f'<i class="gs-dot" style="background:{neighbour.colour}"></i>'
    return f'<div class="gs-near">{image}{name}<div>{dot}{in_html(neighbour.said, 24)}</div><small>{kind}</small></div>'


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Nodes")
    table = state.table(facts)
    typed = st.text_input(_by_what(run), key=f"node by id {facts.name}", max_chars=200)
    if typed and st.session_state.get("typed") != (facts.name, typed):
        st.session_state["typed"] = (facts.name, typed)
        position = find_node(run.graph, typed)
        if position is None:
            st.warning("No node is called that.", icon=":material/search_off:")
        else:
            state.open_node(position)
    wanted = _filters(facts, run, table)
    rows = state.rows(facts, wanted)
    st.caption(
        f"{rows.count:,} of {run.graph.num_nodes:,} nodes, the most uncertain first"
        + (f"; the first {MOST_ROWS:,} are shown" if rows.count > MOST_ROWS else "")
        + ". Tick a row to open the node."
    )
    shown = rows.nodes
    picked = st.dataframe(
        rows.table,
        column_config=_columns(rows.table.column_names, classes=bool(run.class_names)),
        hide_index=True,
        height=317,  # nine rows, so that the node opened begins above the fold
        on_select="rerun",
        selection_mode="single-row",
        key=f"nodes of {facts.name} {wanted}",  # a ticked row of one choice is another node in the next
    )
    chosen = picked["selection"]["rows"]
    if chosen and st.session_state.get("row") != (facts.name, int(shown[chosen[0]])):
        st.session_state["row"] = (facts.name, int(shown[chosen[0]]))
        state.open_node(int(shown[chosen[0]]))
    position = state.chosen_node(run)
    if position is not None:
        show(run, position, place="nodes")
    download(
        "All predictions (CSV)",
        lambda: prediction_columns(run.prediction, run.graph),
        "predictions.csv",
        key="predictions",
    )


def _by_what(run: OpenRun) -> str:
    return "Open a node by its id" + ("" if run.graph.node_names is None else " or name")


def _filters(facts: RunFacts, run: OpenRun, table: NodeTable) -> NodeFilter:
    highest = float(f"{1.01 * table.total.max():.2g}") or 0.01
    with st.expander("Filter"):
        first, second, third, fourth = st.columns(4)
        roles = first.multiselect("Role in the split", [*run.graph.masks, "none"], key="roles")
        classes = [] if not run.class_names else second.multiselect(
            "Predicted class",
            range(len(run.class_names)),
            format_func=lambda index: plain(run.class_names[index]),
            key=f"classes {facts.name}",
        )  # fmt: skip
        outcomes = third.multiselect("Outcome", table.outcomes, key=f"outcomes {facts.name}")
        least, most = fourth.slider(
            f"Uncertainty ({table.uncertainty})", 0.0, highest, (0.0, highest), key=f"range {facts.name}"
        )
    return NodeFilter(tuple(roles), tuple(classes), tuple(outcomes), least, most if most < highest else float("inf"))


NUMBERS = {"predicted": "%.4g", "true": "%.4g", "low": "%.4g", "high": "%.4g"} | dict.fromkeys(
    ("total", "aleatoric", "epistemic"), "%.3f"
)


def _columns(columns: list[str], *, classes: bool) -> dict[str, Any]:
    texts = ("node", "outcome", "role", *(("predicted", "true") if classes else ()))
    config: dict[str, Any] = {name: st.column_config.NumberColumn(name, format=form) for name, form in NUMBERS.items()}
    config |= {name: st.column_config.TextColumn(name) for name in texts}
    config["picture"] = st.column_config.ImageColumn("picture", width="small")
    config["confidence"] = st.column_config.ProgressColumn("confidence", format="percent", min_value=0, max_value=1)
    return {name: config[name] for name in columns if name in config}
