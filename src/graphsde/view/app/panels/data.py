"""A graph comes in, is checked in words, and a model is fitted to it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphsde.base.errors import StorageError
from graphsde.base.memory import human_bytes
from graphsde.datasets.benchmarks import DATASETS, where_is
from graphsde.graph.checks import DataReport
from graphsde.graph.raw import Finding
from graphsde.view.app.library import graphs_of_runs
from graphsde.view.app.panels import fit, state
from graphsde.view.app.panels.parts import cards, in_words
from graphsde.view.app.uploads import ACCEPTED, Upload, clear_uploads, keep_upload
from graphsde.view.app.words import in_html, plain
from graphsde.view.report.content import count

READY, OWN = "A ready-made graph", "My own files"


def panel() -> None:
    st.header("Data")
    kind = st.radio("Which graph?", [READY, OWN], horizontal=True, key="kind of graph")
    source = _ready_made() if kind == READY else _own_files()
    if source is None:
        return
    report = state.checked_graph(source)
    _facts(report)
    if report.problems:
        st.warning("A model can't be fitted before the problems above are solved.", icon=":material/block:")
        return
    st.header("Fit")
    fit.panel(source, plain(report.facts["name"], 40))


def _ready_made() -> str | None:
    here = [name for name in DATASETS if not where_is(name).startswith("not here")]
    name = st.selectbox("Graph", here, format_func=lambda one: f"{one}: {DATASETS.entry(one).summary}", key="benchmark")
    absent = [one for one in DATASETS if one not in here]
    if absent:
        st.caption(
            f"Not on this machine: {', '.join(absent)}. The page never goes to the network; "
            "`graphsde check NAME` in a terminal fetches one."
        )
    return name


def _own_files() -> str | None:
    files = st.file_uploader(
        "nodes.csv and edges.csv (or .parquet), a .zip of such a folder, an .npz or a .graphml file",
        type=list(ACCEPTED),
        accept_multiple_files=True,
        key="upload",
    )
    st.caption(
        "`nodes.csv`: id, label (may be empty), any other columns are features. `edges.csv`: source, target. "
        "At most 50 MB; larger graphs are fitted with `graphsde fit FOLDER --out RUN` and shown here."
    )
    if not files:
        return None
    with in_words():
        uploads = [Upload(file.name, file.getvalue()) for file in files]
        try:
            return str(keep_upload(uploads, _uploads_folder()))
        except StorageError as error:
            if error.code == "E-UPLOAD-QUOTA":
                _offer_clearing()
            raise
    return None


def _uploads_folder() -> Path:
    return state.runs_folder() / ".uploads"


def _offer_clearing() -> None:
    if st.button("Clear old uploads", help="Uploads that a run was fitted to are kept.", key="clear uploads"):
        job = state.jobs().current
        waiting = {str(job.request.get("source", {}).get("graph"))} if job is not None and job.running else set()
        freed = clear_uploads(_uploads_folder(), graphs_of_runs(state.runs_folder()) | waiting)
        st.info(f"{human_bytes(freed)} freed. Upload the files again.", icon=":material/delete:")


def _facts(report: DataReport) -> None:
    facts = report.facts
    edges = facts["edges"] if facts["directed"] else facts["edges"] // 2
    figures = {
        "nodes": f"{facts['nodes']:,}",
        "edges": f"{edges:,}",
        "features": f"{facts['features']['numeric'] + facts['features']['categorical']:,}",
        "classes": f"{len(facts['classes']):,}",
    }
    if facts["homophily"]:
        figures["edges within a class"] = f"{facts['homophily']['edge']:.0%}"
    for role, size in facts["splits"].items():
        figures[f"{role} nodes"] = f"{size:,}"
    cards(figures)
    if not report.problems:
        st.success("No problems: a model can be fitted.", icon=":material/check_circle:")
    else:
        st.html("".join(_finding(one) for one in report.problems))
    rest = [one for one in report.findings if one.level != "problem"]
    if rest:
        warned = sum(one.level == "warning" for one in rest)
        with st.expander(
            f"What was noticed: {count(warned, 'warning')}, {count(len(rest) - warned, 'note')}", expanded=warned > 0
        ):
            st.html("".join(_finding(one) for one in rest))
    with st.expander("All of the data check, as text"):
        st.text(str(report))


def _finding(finding: Finding) -> str:
    where = f"<small>where: {in_html(', '.join(finding.where), 200)}</small>" if finding.where else ""
    hint = f"<small>{in_html(finding.hint, 400)}</small>" if finding.hint else ""
    return f'<div class="gs-find {finding.level}">{in_html(finding.message, 400)}{where}{hint}</div>'
