"""What was found: who can be accepted at which limit, who looks OOD, who is to be reviewed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphsde.acting.decide import decide
from graphsde.acting.decisions import Decisions
from graphsde.acting.guarantee import left_to_state
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.view.report.content import HOW_MANY, SHORT, ReportContent, count, name, number, percent

LIMIT = 0.05
"""Share of accepted nodes that may be wrong, where that can be certified."""


def decide_for_report(
    prediction: Prediction,
    graph: Graph,
    model: Model | None,
    tolerance: float | None = None,
    *,
    judge: Callable[..., Decisions] = decide,
) -> tuple[Decisions | None, str]:
    """Decisions as ``graphsde decide`` makes them by itself, or why there are none; ``tolerance`` is for numbers.

    Where its limit can't be certified, the strictest one that can is taken: all certified limits hold together, so that
    any of them may be chosen afterwards. ``judge`` decides, with the arguments of :func:`graphsde.decide`.
    """
    try:
        found = judge(prediction, graph, max_error=LIMIT, model=model, tolerance=tolerance)
        certified = found.frontier.certified
        if found.abstention.threshold is None and certified:
            strictest = certified[-1].limit
            return judge(prediction, graph, max_error=strictest, model=model, tolerance=tolerance), ""
        return found, ""
    except (BadUsage, BadInput) as error:
        said = [text[:1].upper() + text[1:] for text in (error.message, error.fix) if text]
        return None, " ".join(text if text.endswith("?") else f"{text}." for text in said)


def decided(content: ReportContent) -> dict[str, Any]:
    """Everything about decisions that the page shows, ready to be printed."""
    decisions = content.decisions
    if decisions is None:
        return {"reason": content.undecided, "sentence": "", "cards": [], "limits": [], "ood": "", "review": []}
    review = decisions.review()
    return {
        "reason": "",
        "sentence": sentence(decisions),
        "guarantee": f"{decisions.frontier.guarantee.words} {content.other_tests}".rstrip(),
        "cards": _cards(decisions),
        "limits": _limits(decisions),
        "ood": _ood(decisions),
        "review": [_review_row(row) for row in review.rows(HOW_MANY)],
        "review_title": f"The first {HOW_MANY} of {len(review):,} nodes to review"
        if len(review) > HOW_MANY
        else f"{count(len(review), 'node')} to review",
        "ordered_by": review.ordered_by,
        "known": f"The labels of {count(review.known, 'node')} to review are known already; they are not on the list."
        if review.known
        else "",
        "notes": list(decisions.notes),
    }


def sentence(decisions: Decisions) -> str:
    """What becomes of the nodes decided on at the limit in use; the guarantee is about no others."""
    rule, told = decisions.abstention, decisions.decided_counts()
    nodes = int(rule.decided.sum())
    among = f"Of {count(nodes, 'node')} decided on"
    if rule.threshold is None:
        out = f"no error limit of {percent(decisions.frontier.rungs[0].limit)} or less is certified with these labels"
        return f"{among} none can be accepted: {out}."
    ood = f", {told['ood']:,} look out-of-distribution" if "ood" in told else ""
    accepted = f"{told['accept']:,} ({percent(told['accept'] / max(nodes, 1))}) can be accepted"
    limit = f"with at most {percent(rule.max_error)} {_wrong(decisions)}"
    left = left_to_state(rule.delta, decisions.frontier.spent)
    limit += f", guaranteed with probability {100 * left:g} %" if left else ", which nothing guarantees any more"
    if rule.max_error > LIMIT:
        limit += f" (the strictest limit that is certified; {percent(LIMIT)} is not)"
    rest = decisions.graph.num_nodes - nodes
    used = f" The labels of the other {count(rest, 'node')} have been used." if rest else ""
    return f"{among} {accepted} {limit}, {told['review']:,} are for a person to review{ood}.{used}"


def _wrong(decisions: Decisions) -> str:
    """What counts as an error, after "at most 5 %"."""
    tolerance = decisions.abstention.tolerance
    return "wrong" if tolerance is None else f"off by more than {tolerance:g}"


def at_limits(decisions: Decisions | None) -> list[dict[str, Any]]:
    """What becomes of the nodes decided on at each limit that makes a difference, and at the loosest uncertified one.

    Of limits that accept the same nodes the strictest is shown: the others say less.
    """
    if decisions is None:
        return []
    frontier, decided_on = decisions.frontier, decisions.abstention.decided
    flagged = (decisions.actions == "ood") & decided_on
    nodes, certified = int(decided_on.sum()), list(frontier.certified)
    rows, wrong = [], _wrong(decisions)
    for place, rung in enumerate(certified):
        accepted = int((decided_on & frontier.cleared & (frontier.values <= rung.threshold)).sum())
        stricter = certified[place + 1] if place + 1 < len(certified) else None
        used = rung.limit == decisions.abstention.max_error
        if stricter is not None and stricter.threshold == rung.threshold and not used:
            continue
        ood = int(flagged.sum())
        counts = {"accept": accepted, "review": max(nodes - ood - accepted, 0), "ood": ood}
        words = {"accept": "accepted", "review": "to review", "ood": "look out-of-distribution"}
        parts = [
            {"action": one, "count": f"{many:,}", "width": f"{100 * many / nodes:.2f}", "words": words[one]}
            for one, many in counts.items()
            if many
        ]
        rows.append({"limit": percent(rung.limit), "wrong": wrong, "used": used, "parts": parts, "outlook": ""})
    missed = next((one for one in frontier.rungs if not one.certified), None)
    if missed is not None:
        outlook = "" if missed.further_labels is None else name(missed.outlook)
        rows.append({"limit": percent(missed.limit), "wrong": wrong, "used": False, "parts": [], "outlook": outlook})
    return rows


def beside_control(content: ReportContent) -> str:
    """Whether the model is better than the best simple control, in one sentence; empty without any."""
    board = content.controls
    if board is None or board.model is None:
        return ""
    one = board.model
    how = {
        "worth it": f"It is better than {one.second}, the best simple control.",
        "statistically tied": f"It is statistically tied with {one.second}, the best simple control.",
        "worse": f"{one.second}, a simple control, is better.",
    }
    return name(how[one.verdict], 300)


def _cards(decisions: Decisions) -> list[tuple[str, str]]:
    told, nodes = decisions.decided_counts(), max(int(decisions.abstention.decided.sum()), 1)
    words = {"accept": "accepted", "review": "to review", "ood": "look OOD"}
    return [(f"{words[one]}, {percent(many / nodes)}", f"{many:,}") for one, many in told.items()]


def _limits(decisions: Decisions) -> list[dict[str, str]]:
    """One row per limit of the ladder: what would become of the nodes decided on at it."""
    frontier, decided_on, rows = decisions.frontier, decisions.abstention.decided, []
    nodes = max(int(decided_on.sum()), 1)
    for rung in frontier.rungs:
        accepted = int((decided_on & frontier.cleared & (frontier.values <= rung.threshold)).sum())
        left = int((decided_on & (decisions.actions != "ood")).sum()) - accepted
        rows.append(
            {
                "limit": percent(rung.limit),
                "status": rung.status,
                "accepted": f"{accepted:,}" if rung.certified else "—",
                "share": percent(accepted / nodes) if rung.certified else "",
                "review": f"{max(left, 0):,}" if rung.certified else "—",
                "observed": percent(rung.observed_error),
                "bound": percent(rung.upper_bound),
                "outlook": "" if rung.certified else name(rung.outlook),
                "used": "used" if rung.certified and rung.limit == decisions.abstention.max_error else "",
            }
        )
    return rows


def _ood(decisions: Decisions) -> str:
    strange = decisions.strangeness
    if strange is None:
        return ""
    found = decisions.summary()["ood"]
    group = found["fdr"]
    each = f"{count(found['flagged'], 'node')} are flagged by the score '{found['score']}', each by itself"
    alarms = f"so are {percent(found['false_alarm'])} of in-distribution nodes, by false alarm"
    together = f"{count(group['flagged'], 'node')} are flagged as a group"
    share = f"of which at most {percent(group['level'])} are in-distribution, on average"
    least = f"with these labels a group must have at least {count(group['smallest'], 'node')} to be flagged"
    return f"{each}; {alarms}. {together}, {share}; {least}."


def _review_row(row: dict[str, Any]) -> dict[str, Any]:
    called = row.get("name")
    tops = [(row[f"class_{place}"], row[f"probability_{place}"]) for place in (1, 2, 3) if f"class_{place}" in row]
    said = ", ".join(f"{name(one, SHORT)} {percent(share)}" for one, share in tops)
    if not tops:
        said = f"{number(row['mean'])} ({number(row['low'])} to {number(row['high'])})"
    return {
        "rank": f"{row['rank']:,}",
        "node": name(row["id"], SHORT),
        "called": "" if called in (None, "") else name(called, SHORT),
        "split": name(row["split"], SHORT) if row["split"] else "",
        "action": row["action"],
        "said": said,
        "reason": name(row["reason"], 300),
    }
