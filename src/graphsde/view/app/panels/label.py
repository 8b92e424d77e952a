"""Labels, one question at a time: suggested, given, learned, and what it brought."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphsde.acting.acquisition import ACQUISITIONS
from graphsde.acting.ask import Question, Questions
from graphsde.view.app.labelling import LabelQueue, label_columns, next_questions
from graphsde.view.app.library import OpenRun, RunFacts, version_of
from graphsde.view.app.panels import fit, state
from graphsde.view.app.panels.node import bars, features, picture
from graphsde.view.app.panels.parts import cards, chart, download, in_words, needs_run
from graphsde.view.app.words import in_html, in_markdown, plain
from graphsde.view.report.uncertain_nodes import describe

MOST_BUTTONS = 12
BUTTON_WIDTH = 84
SHORT_NAME = 6


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Label")
    if _learning():
        return
    queue = LabelQueue.of_run(facts.path)
    left, right = st.columns([3, 2])
    with left, in_words():
        by = st.selectbox(
            "Who chooses",
            ACQUISITIONS.names(),
            index=ACQUISITIONS.names().index("entropy"),
            format_func=lambda name: f"{name}: {ACQUISITIONS.entry(name).summary}",
            key="acquisition",
        )
        _question(facts, run, queue, _questions(facts, run, by, queue))
    with right:
        _given(facts, run, queue)


def _learning() -> bool:
    """Shows a refit while it runs; once it is done, takes its labels out of the queue of its run."""
    job = state.jobs().current
    if job is None or job.request["kind"] != "learn":
        return False
    progress = job.progress()
    if progress.state == "done":
        LabelQueue.of_run(Path(job.request["run"])).learned(node for node, _ in job.request["labels"])
        st.session_state["learned"] = progress.result["words"]
        state.jobs().forget()
        return False
    fit.watch("learn")
    return job.running


def _questions(facts: RunFacts, run: OpenRun, by: str, queue: LabelQueue) -> Questions:
    """Kept until all of a batch are answered: a visitor should not see the list change under the hand."""
    key = (str(facts.path), version_of(facts.path), by)
    kept = st.session_state.get("questions")
    if kept is not None and kept[0] == key and _open_questions(kept[1], queue):
        return kept[1]
    questions = next_questions(run.prediction, run.graph, by, queue)
    st.session_state["questions"] = (key, questions)
    return questions


def _open_questions(questions: Questions, queue: LabelQueue) -> list[Question]:
    return [one for one in questions if one.id not in queue.given and one.id not in queue.skipped]


def _question(facts: RunFacts, run: OpenRun, queue: LabelQueue, questions: Questions) -> None:
    question = _open_questions(questions, queue)[0]
    row = describe(run.graph, run.prediction, [question.position])[0]
    st.html(
        f'<div class="gs-node">{picture(row)}<div><h3>Which class is node {in_html(row.node)}?</h3>'
        f"<div>{in_html(question.reason, 400)}</div></div></div>{bars(row)}"
    )
    features(run, row, expanded=True)
    _answers(run.prediction.class_names, question, queue)
    st.button("Skip this node", key="skip", on_click=queue.skip, args=(question.id,), icon=":material/skip_next:")
    if questions.note is not None:
        st.caption(questions.note)


def _answers(classes: tuple[str, ...], question: Question, queue: LabelQueue) -> None:
    if len(classes) > MOST_BUTTONS:
        with st.form("answer"):
            index = st.selectbox(
                "Class", range(len(classes)), format_func=lambda i: plain(classes[i]), index=None, key="class"
            )
            if st.form_submit_button("Give this label", type="primary") and index is not None:
                queue.give(question.id, classes[index], classes)
                st.rerun()
        return
    with st.container(horizontal=True):  # wraps on a narrow screen
        for index, name in enumerate(classes):
            st.button(
                in_markdown(name, 40),
                key=f"class {index}",
                on_click=queue.give,
                args=(question.id, name, classes),
                type="primary" if name == question.predicted else "secondary",
                width=BUTTON_WIDTH if max(map(len, classes)) <= SHORT_NAME else "content",
            )


def _called(run: OpenRun, node: int | str) -> str:
    """With its name; a node that has left the graph has its id alone."""
    row = run.graph.position.get(node)
    return str(node) if row is None else run.graph.called(row)


def _given(facts: RunFacts, run: OpenRun, queue: LabelQueue) -> None:
    said = st.session_state.pop("learned", None)
    if said:
        st.success(in_markdown(said, 400), icon=":material/check_circle:")
    st.markdown(f"**Labels given: {len(queue.given)}**")
    if queue.given:
        rows = [{"node": plain(_called(run, node)), "label": plain(name)} for node, name in queue.given.items()]
        st.dataframe(rows, hide_index=True, height=min(38 * (len(rows) + 1), 240), key="given")
        last = list(queue.given)[-1]
        st.button("Take the last one back", on_click=queue.take_back, args=(last,), key="back", icon=":material/undo:")
    if st.button(
        f"Learn from {len(queue.given)} labels",
        type="primary",
        disabled=not queue.given,
        key="learn",
        icon=":material/school:",
    ):
        with in_words():
            labels = [[node, name] for node, name in queue.given.items()]
            state.jobs().start({"kind": "learn", "name": facts.name, "run": str(facts.path), "labels": labels})
            st.rerun()
    columns = label_columns(facts.path, queue)
    if len(columns["id"]):
        download("All labels (labels.csv)", lambda: columns, "labels.csv", key="labels")
    curve = state.rounds(facts)
    newest = curve.rounds[-1]
    figures = {"training labels": f"{newest.labels:,}", "mean uncertainty": f"{newest.entropy:.3f}"}
    if newest.accuracy is not None:
        figures["right on test nodes"] = f"{newest.accuracy:.2%}"
    cards(figures)
    if len(curve.rounds) > 1:
        chart(curve.plotly(), key="rounds")
        st.caption("Every point is measured on the nodes that are still for testing.")
    else:
        st.caption("A curve of accuracy and uncertainty over labels begins here once the model has learned some.")
