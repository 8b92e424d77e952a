"""Answer or abstain: a slider for the errors that may be made, and what it costs."""

from __future__ import annotations

import streamlit as st

from graphsde.acting.decide import decide
from graphsde.view.app.abstention import AbstentionPicture, outcome
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.panels.parts import cards, chart, download, needs_run
from graphsde.view.app.words import in_markdown
from graphsde.view.report.content import percent

CONFIDENCES = (0.9, 0.95, 0.99)


@needs_run
def panel(facts: RunFacts, run: OpenRun) -> None:
    st.header("Decide")
    st.markdown("Let the model answer where it is sure; the rest goes to a person. How many answers may be wrong?")
    left, right = st.columns([3, 1])
    allowed = left.slider("At most so many answers wrong", 0.5, 30.0, 5.0, 0.5, format="%.1f %%", key="max error")
    confidence = right.selectbox(
        "Confidence", CONFIDENCES, index=1, format_func=lambda value: f"{value:.0%}", key="confidence"
    )
    decisions = decide(
        run.prediction, run.graph, max_error=allowed / 100, delta=round(1 - confidence, 4), model=run.model
    )
    found, told = decisions.abstention, outcome(decisions)
    cards(
        {
            f"answered, {percent(told.share)}": f"{told.accepted:,}",
            "for a person to review": f"{told.review:,}",
            "look OOD": f"{told.ood:,}",
            "guaranteed error at most": "—" if found.guaranteed_error is None else percent(found.guaranteed_error),
            f"wrong of {told.tested:,} test nodes answered": percent(told.error),
        }
    )
    sentence = found.guarantee[:1].upper() + found.guarantee[1:]
    say = st.warning if found.threshold is None else st.success
    say(in_markdown(sentence, 1000), icon=":material/verified_user:")
    st.caption(
        "The guarantee is for a share that was settled beforehand. Whoever tries many and keeps the most pleasant one "
        "has less than what is guaranteed."
    )
    chart(AbstentionPicture(found).plotly(), key="abstention")
    download("Decisions (CSV)", decisions.columns, "decisions.csv", key="decisions")
