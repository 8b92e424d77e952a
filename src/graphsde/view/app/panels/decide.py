"""Accept or review: which limits on errors hold, what is accepted under one of them, and what is left to a person."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from graphsde.acting.decision_words import DecisionWords, describe, other_tests, percent
from graphsde.acting.decisions import Decisions
from graphsde.acting.ladder import FOCUS, LADDER
from graphsde.acting.review import Review
from graphsde.acting.rules import GUARANTEES, GuaranteeName
from graphsde.runs.decided import before_deciding, decide_on_run
from graphsde.runs.looks import Before
from graphsde.view.app.abstention import FrontierPicture, Outcome, outcome, usual_tolerance
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.node_table import MOST_ROWS, review_rows
from graphsde.view.app.panels.parts import cards, chart, download, needs_run
from graphsde.view.app.words import in_markdown, plain
from graphsde.view.report.content import count

CONFIDENCES = (0.9, 0.95, 0.99)
LIMITS = LADDER[::-1]
LIMIT = "max error"


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Decide")
    st.markdown("Let the model answer where it is sure; the rest goes to a person. How many answers may be wrong?")
    chosen = st.container()
    with st.expander("Guarantee and confidence"):
        left, right = st.columns([3, 1])
        named: GuaranteeName = left.selectbox(
            "Guarantee", tuple(GUARANTEES), format_func=lambda name: f"{name}: {GUARANTEES[name]}", key="guarantee"
        )
        confidence = right.selectbox(
            "Confidence", CONFIDENCES, index=1, format_func=lambda value: f"{value:.0%}", key="confidence"
        )
    with chosen:
        tolerance = None if run.class_names else _tolerance(facts, run)
        st.session_state.setdefault(LIMIT, FOCUS)
        allowed = float(st.select_slider("Maximum share of wrong answers", LIMITS, format_func=percent, key=LIMIT))
        delta = round(1 - confidence, 4)
        # asked each time: another process may have made a test meanwhile
        before = before_deciding(
            run.folder.path,
            run.prediction,
            run.graph,
            run.num_samples,
            say=st.warning,
            delta=delta,
            tolerance=tolerance,
            guarantee=named,
        )
        with st.spinner("Testing the limits …"):
            decisions, words, told = _decided(run, allowed, delta, named, tolerance, before)
        left, right = st.columns([3, 2], gap="medium")
        with left:
            _frontier(decisions, allowed, facts)
        with right:
            _figures(run, decisions, words, told)
    st.markdown(f"**Guarantee** {in_markdown(words.guarantee, 1000)}")
    others = other_tests(decisions.frontier, before.tests) if named == "certified" else ""
    st.caption(in_markdown(f"{words.rests_on} {others}".rstrip(), 1000))
    with st.expander("The limits as a table"):
        _table(words.frontier, "frontier")
    _review(decisions)
    more = [*words.ood, words.sets, *([] if words.tested is None else [words.tested]), *words.notes]
    with st.expander("Sets of classes, OOD nodes, test nodes" if run.class_names else "Intervals, test nodes"):
        for line in more:
            st.markdown(in_markdown(line, 1000))
        _table(words.coverage, "coverage")
    download("Decisions (CSV)", decisions.columns, "decisions.csv", key="decisions")


def _figures(run: OpenRun, decisions: Decisions, words: DecisionWords, told: Outcome) -> None:
    figures = {
        f"answered, {percent(told.share)}": f"{told.accepted:,}",
        "for a person to review": f"{told.review:,}",
        "look OOD": f"{told.ood:,}",
        "guaranteed error at most": percent(decisions.abstention.guaranteed_error),
        **_seen(decisions, told),
    }
    cards({name: figure for name, figure in figures.items() if name != "look OOD" or run.class_names})
    say = st.success if words.anything else st.warning
    say("\n\n".join(in_markdown(line, 1000) for line in words.accepted), icon=":material/verified_user:")


def _tolerance(facts: RunFacts, run: OpenRun) -> float:
    return float(
        st.number_input(
            "An answer is wrong where it is off by more than",
            min_value=1e-9,
            value=usual_tolerance(run.graph),
            format="%g",
            help="In the unit of the target. At first half the spread of the training values.",
            key=f"tolerance {facts.name}",
        )
    )


def _frontier(decisions: Decisions, allowed: float, facts: RunFacts) -> None:
    """The limits as points that can be clicked; the slider does the same by keyboard."""
    picture = FrontierPicture(decisions.frontier, allowed)
    st.subheader("Which limits hold")
    st.caption("Click a point to decide under its limit. The slider does the same.")
    # a picture of its own for each limit: in one that remembers its selection a second click would undo the first
    key = f"frontier {facts.name} {allowed:g}"

    def clicked() -> None:
        limit = picture.clicked(st.session_state[key]["selection"]["points"])
        if limit is not None:
            st.session_state[LIMIT] = limit

    figure = picture.plotly().update_layout(clickmode="event+select")
    chart(figure, key=key, on_select=clicked, selection_mode="points")


def _seen(decisions: Decisions, told: Outcome) -> dict[str, str]:
    """The bound where there is one: figures on test nodes are of rules that had half of the labels."""
    if decisions.selection is None:
        return {"upper bound of their error rate": percent(decisions.abstention.upper_bound)}
    return {f"wrong of {told.tested:,} test nodes answered": percent(told.error)}


@lru_cache(maxsize=12)
def _decided(
    run: OpenRun, max_error: float, delta: float, guarantee: GuaranteeName, tolerance: float | None, before: Before
) -> tuple[Decisions, DecisionWords, Outcome]:
    """Made once for each choice: a click elsewhere on the page redraws it all."""
    if guarantee == "certified":
        found = _tested(run, delta, tolerance, before).at(max_error)
    else:
        found = _decide(run, before, max_error=max_error, delta=delta, guarantee=guarantee, tolerance=tolerance)
    return found, describe(found, before.spent), outcome(found)


@lru_cache(maxsize=3)
def _tested(run: OpenRun, delta: float, tolerance: float | None, before: Before) -> Decisions:
    """All limits together; a click on one of them tests nothing again."""
    return _decide(run, before, delta=delta, tolerance=tolerance)


def _decide(run: OpenRun, before: Before, **options: Any) -> Decisions:
    model = run.model if run.class_names else None
    graph, prediction = run.graph, run.prediction
    return decide_on_run(run.folder.path, prediction, graph, model, run.num_samples, before=before, **options)[0]


@lru_cache(maxsize=6)
def _listed(decisions: Decisions, known: bool) -> tuple[Review, dict[str, Any]]:
    review = decisions.review(known=known)
    return review, review_rows(review) if len(review) else {}


def _review(decisions: Decisions) -> None:
    st.subheader("To review")
    labelled = bool(decisions.graph.labelled.any())
    known = labelled and st.checkbox("List nodes whose label is known as well", key="known too")
    review, rows = _listed(decisions, known)
    left_out = f" Left out: {review.known:,} nodes whose label is known." if review.known else ""
    first = f" The first {MOST_ROWS:,} are shown; the file has all." if len(review) > MOST_ROWS else ""
    many = f"{count(len(review), 'node')}, {review.ordered_by}." if len(review) else "Nothing is left to a person."
    st.caption(f"{many}{first}{left_out}")
    if rows:
        st.dataframe(rows, hide_index=True, height=320, key="review")
        download("Review list (CSV)", review.columns, "review.csv", key="review file")


def _table(rows: list[dict[str, str]], key: str) -> None:
    if rows:
        columns: dict[str, Any] = {name: [plain(row[name], 200) for row in rows] for name in rows[0]}
        st.dataframe(columns, hide_index=True, height=35 * (len(rows) + 1) + 3, key=key)
