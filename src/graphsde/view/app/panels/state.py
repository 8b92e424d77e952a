"""What outlives a click: the folder of runs, opened runs, the job at work, and what the visitor has chosen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from graphsde.datasets.source import GraphSource
from graphsde.graph.checks import DataReport, check
from graphsde.view.app.comparison import RunCurves, run_curves
from graphsde.view.app.graph_view import Drawing, Part, arrange, choose_nodes
from graphsde.view.app.jobs import Jobs
from graphsde.view.app.labelling import RoundCurve, round_curve
from graphsde.view.app.library import OpenRun, RunFacts, list_runs, version_of
from graphsde.view.app.node_table import NodeFilter, NodeTable, ShownRows, node_table, shown_rows
from graphsde.view.app.serve import RUNS_VARIABLE

RUN, NEXT_RUN, NODE, SOURCE = "run", "next run", "node", "source"


def runs_folder() -> Path:
    return Path(os.environ[RUNS_VARIABLE])


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    return Jobs(runs_folder() / ".jobs")


def runs() -> list[RunFacts]:
    return list_runs(runs_folder())


def select_run(name: str) -> None:
    """From the next rerun on; the sidebar's own widget can't be changed once it is drawn."""
    st.session_state[NEXT_RUN] = name


def selected() -> RunFacts | None:
    name = st.session_state.get(RUN)
    return next((run for run in runs() if run.name == name), None)


# what is made of a run is kept until it is fitted again
VERSIONS: dict[str | type[Any], Callable[[Any], Any]] = {
    RunFacts: lambda facts: (str(facts.path), version_of(facts.path))
}


@st.cache_resource(show_spinner="Opening the run …", max_entries=6, hash_funcs=VERSIONS)
def opened(facts: RunFacts) -> OpenRun:
    run = OpenRun(facts.path)
    run.prediction  # noqa: B018 - everything slow happens here, behind the spinner
    return run


@st.cache_resource(show_spinner=False, max_entries=3, hash_funcs=VERSIONS)
def table(facts: RunFacts) -> NodeTable:
    run = opened(facts)
    return node_table(run.graph, run.prediction)


@st.cache_resource(show_spinner=False, max_entries=12, hash_funcs=VERSIONS)
def rows(facts: RunFacts, wanted: NodeFilter) -> ShownRows:
    return shown_rows(opened(facts).graph, table(facts), wanted)


@st.cache_resource(show_spinner=False, max_entries=6, hash_funcs=VERSIONS)
def rounds(facts: RunFacts) -> RoundCurve:
    return round_curve(opened(facts))


@st.cache_resource(show_spinner=False, max_entries=3, hash_funcs=VERSIONS)
def curves(facts: tuple[RunFacts, ...]) -> list[RunCurves]:
    return run_curves({one.name: opened(one) for one in facts})


@st.cache_resource(show_spinner="Arranging the nodes …", max_entries=12, hash_funcs=VERSIONS)
def drawing(facts: RunFacts, part: Part, centre: int | None) -> Drawing:
    run = opened(facts)
    return arrange(run.graph, choose_nodes(run.graph, run.prediction, part, centre))


@st.cache_resource(show_spinner="Reading and checking the graph …", max_entries=4)
def checked_graph(source: str) -> DataReport:
    graph, _ = GraphSource(source).open()
    return check(graph)


def open_node(position: int) -> None:
    st.session_state[NODE] = position


def chosen_node(run: OpenRun) -> int | None:
    node = st.session_state.get(NODE)
    return node if isinstance(node, int) and 0 <= node < run.graph.num_nodes else None
