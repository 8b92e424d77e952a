"""Fitting, watched while it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import streamlit as st

from graphsde.datasets.source import GraphSource
from graphsde.datasets.splits import SPLITS
from graphsde.metrics.leaderboard import Leaderboard
from graphsde.models import MODELS
from graphsde.models.lgnsde.presets import PRESETS
from graphsde.view.app.jobs import Job, Progress
from graphsde.view.app.library import SAMPLES, free_name, new_run
from graphsde.view.app.panels import state
from graphsde.view.app.panels.parts import cards, chart, in_words, say_error
from graphsde.view.app.words import in_markdown, plain
from graphsde.view.figures.training_curve import TrainingCurve
from graphsde.view.report.content import number, percent

EVERY = 0.7
"""Seconds between two looks at a job."""


def panel(source: str, name: str) -> None:
    job = state.jobs().current
    if job is not None and job.request["kind"] == "fit":
        watch("fit")
        if job.running:
            return
    with st.form("fit"):
        left, middle, right = st.columns([2, 1, 2])
        models = MODELS.names()
        model = left.selectbox(
            "Model",
            models,
            index=models.index("lgnsde"),
            format_func=lambda one: f"{one}: {MODELS.entry(one).summary}",
        )
        seed = middle.number_input("Seed", 0, 2**31, 0)
        run_name = right.text_input("Name of the run", free_name(state.runs_folder(), name))
        with st.expander("More settings"):
            preset = st.selectbox("Preset (lgnsde only)", ["", *PRESETS], format_func=lambda one: one or "default")
            split = st.selectbox("Split", ["", *SPLITS.names()], format_func=lambda one: one or "the one that suits")
            epochs = st.number_input("At most so many epochs (0: the model's own)", 0, 100_000, 0)
        pressed = st.form_submit_button("Fit the model", type="primary", icon=":material/play_arrow:")
    if pressed:
        with in_words():
            settings: dict[str, Any] = {"epochs": int(epochs)} if epochs else {}
            if preset and model == "lgnsde":
                settings["preset"] = preset
            MODELS.get(model)(**settings)  # a setting that does not fit the model is told here
            out = new_run(state.runs_folder(), run_name.strip())
            request = {
                "kind": "fit",
                "name": out.name,
                "out": str(out),
                "source": asdict(GraphSource(source, split=split or None, seed=int(seed))),
                "model": model,
                "settings": settings,
                "seed": int(seed),
                "samples": SAMPLES,
            }
            state.jobs().start(request)
            st.rerun()


def watch(kind: str) -> None:
    """The job that is at work or has just ended; redraws itself while it runs."""
    job = state.jobs().current
    if job is None or job.request["kind"] != kind:
        return
    if job.running:
        _running()
    else:
        _ended(job, job.progress())


@st.fragment(run_every=EVERY)
def _running() -> None:
    job = state.jobs().current
    if job is None:
        return
    progress = job.progress()
    if progress.state != "running":
        if progress.state == "done":
            state.select_run(job.run_name)
        st.rerun()
    said = progress.said[-1] if progress.said else "Starting …"
    last = progress.history[-1] if progress.history else None
    text = plain(said, 200) if last is None else f"Epoch {last['epoch']} of at most {progress.epochs}"
    st.progress(progress.share, text=text.replace("[", "(").replace("]", ")"))
    if st.button("Cancel", icon=":material/stop_circle:", key="cancel"):
        job.cancel()
        st.rerun()
    if progress.history:
        chart(_curve(progress), key="training")


def _ended(job: Job, progress: Progress) -> None:
    if progress.state == "failed":
        say_error(progress.error or "")
    elif progress.state == "cancelled":
        st.info("Cancelled. What was reached is saved.", icon=":material/info:")
    else:
        st.success("Fitted. Look at Nodes, Graph, Decide and Label above.", icon=":material/check_circle:")
        metrics = progress.result.get("metrics", {})
        cards(figures(metrics, progress.result.get("intervals", {})))
        _beside_controls(progress.result.get("controls"))
        if progress.history:
            with st.expander("How training went"):
                chart(_curve(progress), key="training")
    if st.button("Done", key="forget"):
        state.jobs().forget()
        st.rerun()


FIRST: dict[str, tuple[str, Callable[[Any], str]]] = {
    "accuracy": ("right on test nodes", percent),
    "rmse": ("RMSE on test nodes", number),
    "nll": ("NLL", number),
    "ece": ("calibration error", percent),
    "coverage90": ("values inside 90 % intervals", percent),
    "misclassification_auroc": ("doubt finds errors (AUROC)", lambda value: number(value, 2)),
    "n_test": ("test nodes", number),
}


def figures(metrics: Mapping[str, Any], ends: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """The figures that people ask for first; the title of each has its 95 % interval over draws of test nodes."""
    shown = {}
    for name, (title, form) in FIRST.items():
        if name in metrics:
            between = f", {form(ends[name][0])} to {form(ends[name][1])}" if name in ends else ""
            shown[title + between] = form(metrics[name])
    return shown if "n_test" in metrics else {"test nodes": "none"}


def _beside_controls(kept: Mapping[str, Any] | None) -> None:
    """The leaderboard, as the terminal and the report have it."""
    if kept is None:
        return
    board = Leaderboard.model_validate(kept)
    st.subheader("Compared with controls")
    st.markdown(in_markdown(board.sentence, 1000))
    st.dataframe(board.table(), hide_index=True, width="stretch")
    for note in board.notes():
        st.caption(in_markdown(note, 400))


def _curve(progress: Progress) -> Any:
    return TrainingCurve.of([{**row, "train_loss": row["loss"]} for row in progress.history]).plotly()
