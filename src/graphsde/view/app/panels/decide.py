"""Accept or review: which limits on errors hold, what is accepted under one of them, and what is left to a person."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from graphsde.acting.certified import LADDER
from graphsde.acting.decide import decide
from graphsde.acting.decision_words import DecisionWords, describe, percent
from graphsde.acting.decisions import Decisions
from graphsde.acting.rules import GUARANTEES, GuaranteeName, of_frontier
from graphsde.view.app.abstention import AbstentionPicture, Outcome, outcome
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.node_table import review_rows
from graphsde.view.app.panels.parts import cards, chart, download, needs_run
from graphsde.view.app.words import in_markdown, plain

CONFIDENCES = (0.9, 0.95, 0.99)
LIMITS = LADDER[::-1]


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Decide")
    st.markdown("Let the model answer where it is sure; the rest goes to a person. How many answers may be wrong?")
    left, middle, right = st.columns([3, 1, 1])
    allowed = left.select_slider(
        "At most so many answers wrong", LIMITS, value=0.05, format_func=percent, key="max error"
    )
    named: GuaranteeName = middle.selectbox("Guarantee", tuple(GUARANTEES), key="guarantee")
    confidence = right.selectbox(
        "Confidence", CONFIDENCES, index=1, format_func=lambda value: f"{value:.0%}", key="confidence"
    )
    decisions, words = _decided(run, float(allowed), round(1 - confidence, 4), named)
    found, told = decisions.abstention, outcome(decisions)
    cards(
        {
            f"answered, {percent(told.share)}": f"{told.accepted:,}",
            "for a person to review": f"{told.review:,}",
            "look OOD": f"{told.ood:,}",
            "guaranteed error at most": percent(found.guaranteed_error),
            **_seen(decisions, told),
        }
    )
    say = st.success if words.anything else st.warning
    say("\n\n".join(in_markdown(line, 1000) for line in words.accepted), icon=":material/verified_user:")
    st.markdown(f"**Guarantee** {in_markdown(words.guarantee, 1000)}")
    st.caption(in_markdown(words.rests_on, 1000))
    st.subheader("Which limits hold")
    _table(words.frontier, "frontier")
    chart(AbstentionPicture(of_frontier(decisions.frontier, float(allowed))).plotly(), key="abstention")
    _review(decisions)
    with st.expander("Sets of classes, OOD nodes, test nodes"):
        for line in (*words.ood, words.sets, *([] if words.tested is None else [words.tested]), *words.notes):
            st.markdown(in_markdown(line, 1000))
        _table(words.coverage, "coverage")
    download("Decisions (CSV)", decisions.columns, "decisions.csv", key="decisions")


def _seen(decisions: Decisions, told: Outcome) -> dict[str, str]:
    """The bound where there is one: figures on test nodes are of rules that had half of the labels."""
    if decisions.selection is None:
        return {"upper bound of their error rate": percent(decisions.abstention.upper_bound)}
    return {f"wrong of {told.tested:,} test nodes answered": percent(told.error)}


@lru_cache(maxsize=4)
def _decided(run: OpenRun, max_error: float, delta: float, guarantee: GuaranteeName) -> tuple[Decisions, DecisionWords]:
    """Made once for each choice: a click elsewhere on the page draws it all anew."""
    found = decide(run.prediction, run.graph, max_error=max_error, delta=delta, guarantee=guarantee, model=run.model)
    return found, describe(found)


def _review(decisions: Decisions) -> None:
    st.subheader("To review")
    labelled = bool(decisions.graph.labelled.any())
    known = labelled and st.checkbox("List nodes whose label is known as well", key="known too")
    review = decisions.review(known=known)
    left_out = f" Left out: {review.known:,} nodes whose label is known." if review.known else ""
    st.caption(f"{len(review):,} nodes, {review.ordered_by}.{left_out}")
    if len(review):
        st.dataframe(review_rows(review), hide_index=True, height=320, key="review")
        download("Review list (CSV)", review.columns, "review.csv", key="review file")


def _table(rows: list[dict[str, str]], key: str) -> None:
    if rows:
        columns: dict[str, Any] = {name: [plain(row[name], 200) for row in rows] for name in rows[0]}
        st.dataframe(columns, hide_index=True, height=35 * (len(rows) + 1) + 3, key=key)
