"""Labels, one question at a time: suggested, given, learned, and what it brought."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphsde.acting.acquisition import ACQUISITIONS
from graphsde.acting.ask import OF_THE_ACQUISITION, Question, Questions
from graphsde.view.app.labelling import LabelQueue, answered, label_columns, next_questions
from graphsde.view.app.library import OpenRun, RunFacts, version_of
from graphsde.view.app.node_view import guess_of, view_node
from graphsde.view.app.panels import fit, state
from graphsde.view.app.panels.node import band, bars, features, near, neighbours_title, picture
from graphsde.view.app.panels.parts import cards, chart, download, in_words, needs_run
from graphsde.view.app.words import in_html, in_markdown, plain
from graphsde.view.report.content import count

MOST_BUTTONS = 12
BUTTON_WIDTH = 84
SHORT_NAME = 6
UNSURE = "the model is unsure here"


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Label")
    if _learning():
        return
    queue = LabelQueue.of_run(facts.path)
    left, right = st.columns([3, 2], gap="medium")
    with left, in_words():
        question = st.container()
        with st.expander("How nodes are chosen"):
            by = st.selectbox(
                "Who chooses",
                ACQUISITIONS.names(),
                index=ACQUISITIONS.names().index("entropy"),
                format_func=lambda name: f"{name}: {ACQUISITIONS.entry(name).summary}",
                key="acquisition",
            )
        with question, in_words():
            _question(run, queue, _questions(facts, run, by, queue))
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
    with st.spinner("Choosing nodes …"):
        questions = next_questions(run.prediction, run.graph, by, queue)
    st.session_state["questions"] = (key, questions)
    return questions


def _open_questions(questions: Questions, queue: LabelQueue) -> list[Question]:
    return [one for one in questions if one.id not in queue.given and one.id not in queue.skipped]


def _question(run: OpenRun, queue: LabelQueue, questions: Questions) -> None:
    """One node to judge. What the model thinks is kept back: people who see it first tend to agree with it."""
    question = _open_questions(questions, queue)[0]
    told = bool(st.session_state.get("show guess"))
    row = view_node(run.graph, question.position, run.prediction if told else None)
    what = "Which class is" if run.class_names else "What is the value of"
    st.html(
        f'<div class="gs-node">{picture(row)}<div><h3>{what} node {in_html(row.called)}?</h3>'
        f"<div>{in_html(_why(question, questions, told), 400)}</div></div></div>"
    )
    _answers(run.class_names, question, queue)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Skip this node", key="skip", on_click=queue.skip, args=(question.id,), icon=":material/skip_next:")
        st.toggle(
            "Show what the model thinks",
            key="show guess",
            help="If off, its guess is shown after you have answered: seen before, it would sway you.",
        )
    if told:
        guess = guess_of(run.graph, run.prediction, question.position)
        st.html(f"<div>The model says <b>{in_html(guess.short)}</b>.</div>{bars(guess)}{band(guess)}")
    features(row, expanded=True)
    st.markdown(neighbours_title(row))
    if row.neighbours:
        st.html(f'<div class="gs-around">{"".join(near(one, named=True) for one in row.neighbours)}</div>')
    if questions.note is not None:
        st.caption(questions.note)


def _why(question: Question, questions: Questions, told: bool) -> str:
    """The reason of a question names classes and shares; without the guess only that of the acquisition is shown."""
    place = f"Question {question.rank} of {len(questions)}"
    return f"{place}: {question.reason}" if told else f"{place}: {OF_THE_ACQUISITION.get(questions.by, UNSURE)}"


def _answers(classes: tuple[str, ...], question: Question, queue: LabelQueue) -> None:
    """All classes, in the order of the files; a field for a number where there are none."""
    if not classes:
        with st.form(f"answer {question.id}", border=False):
            value = st.number_input(
                "Value", value=None, format="%g", placeholder="a number", key=f"value {question.id}"
            )
            if st.form_submit_button("Give this value", type="primary") and value is not None:
                queue.give(question.id, float(value), classes)
                st.rerun()
        return
    if len(classes) > MOST_BUTTONS:
        with st.form("answer", border=False):
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
                width=BUTTON_WIDTH if max(map(len, classes)) <= SHORT_NAME else "content",
            )


def _given(facts: RunFacts, run: OpenRun, queue: LabelQueue) -> None:
    said = st.session_state.pop("learned", None)
    if said:
        st.success(in_markdown(said, 400), icon=":material/check_circle:")
    st.markdown(f"**Labels given: {len(queue.given)}**")
    if queue.given:
        found = answered(run.prediction, run.graph, queue)
        rows = [{"node": one.node, "you said": one.answer, "the model had said": one.guess} for one in found]
        st.dataframe(rows, hide_index=True, height=min(35 * (len(rows) + 1) + 3, 240), key="given")
        same = "the same" if run.class_names else "an interval that has it"
        st.caption(f"The model had said {same} for {sum(one.agrees for one in found)} of {len(found)}.")
        last = list(queue.given)[-1]
        st.button("Take the last one back", on_click=queue.take_back, args=(last,), key="back", icon=":material/undo:")
    if st.button(
        f"Learn from {count(len(queue.given), 'label')}",
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
    figures = {"training labels": f"{newest.labels:,}", curve.measure.doubt: f"{newest.doubt:.4g}"}
    if newest.quality is not None:
        figures[curve.measure.quality] = curve.measure.words(newest.quality)
    cards(figures)
    if len(curve.rounds) > 1:
        chart(curve.plotly(), key="rounds")
        st.caption("Every point is measured on the nodes that are still for testing.")
    else:
        st.caption("A curve over labels begins here once the model has learned some.")
