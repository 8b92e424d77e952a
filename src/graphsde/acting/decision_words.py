"""Decisions in words: the command line and the page show the same tables and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphsde.acting.certified import Frontier
from graphsde.acting.decisions import Decisions
from graphsde.acting.guarantee import left_to_state
from graphsde.acting.ladder import EARLIER

MOST_CLASSES = 6
EACH_BY_ITSELF = "The guarantees for accepted nodes, sets and OOD flags hold individually, not jointly."
CROSS_FITTED = "calibrated on one half, evaluated on the other, and vice versa; fewer are accepted with half the labels"


@dataclass(frozen=True)
class DecisionWords:
    """Tables as rows of cells, sentences as text; made by :func:`describe`.

    Args:
        frontier: a row per limit: status, share accepted, errors seen, bound, what it needs.
        accepted: what is accepted; if nothing is, the alternatives.
        anything: whether anything is accepted.
        guarantee: the guarantee in use and what it means.
        rests_on: its assumptions.
        actions: a row per action.
        ood: of the rules for OOD nodes; empty for numbers.
        sets: of sets or intervals.
        coverage: a row per group of test nodes: how many are covered.
        tested: how the decisions turned out on test nodes.
        notes: what the labels were too few for.
    """

    frontier: list[dict[str, str]]
    accepted: list[str]
    anything: bool
    guarantee: str
    rests_on: str
    actions: list[dict[str, str]]
    ood: list[str]
    sets: str
    coverage: list[dict[str, str]]
    tested: str | None
    notes: list[str]

    def __str__(self) -> str:
        """What a person reads first: the frontier, what is accepted, the guarantee, and the actions."""
        lines = ["Error limits that hold among accepted nodes:", aligned(self.frontier), *self.accepted]
        lines += [f"Guarantee {self.guarantee}", self.rests_on, *self.ood, *self.notes, aligned(self.actions)]
        return "\n".join(lines)


def aligned(rows: list[dict[str, str]]) -> str:
    """Rows of cells as text, with aligned columns.

    Example:
        >>> print(aligned([{"action": "accept", "nodes": "7"}, {"action": "review", "nodes": "12"}]))
        action  nodes
        accept  7
        review  12
    """
    table = [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def describe(decisions: Decisions, spent: float = 0.0) -> DecisionWords:
    """Tables and sentences about decisions.

    Args:
        decisions: what was decided.
        spent: δ of other tests on the same labels, for what a second look will cost.
    """
    found, frontier = decisions.summary(), decisions.frontier
    stated = found["stated"] or frontier.guarantee.as_dict()
    in_use = decisions.abstention.max_error if stated["name"] == "certified" and _anything(decisions) else None
    kind = "interval" if "intervals" in found else "set"
    nodes = len(decisions.actions)
    return DecisionWords(
        frontier=frontier_rows(frontier, in_use),
        accepted=_accepted(decisions, found) if _anything(decisions) else _ways_out(decisions, found, spent),
        anything=_anything(decisions),
        guarantee=f"{stated['name']}: {stated['meaning']}{_what_is_wrong(decisions)}",
        rests_on=f"It assumes: {stated['rests_on']}. {EACH_BY_ITSELF}",
        actions=[
            {
                "action": name,
                "nodes decided on": f"{count:,}",
                "share": percent(count / max(int(decisions.abstention.decided.sum()), 1)),
                "of all nodes": f"{found['actions'][name]:,}",
            }
            for name, count in decisions.decided_counts().items()
        ],
        ood=_about_ood(found["ood"], nodes) if "ood" in found else [],
        sets=_about_sets(found[f"{kind}s"], kind),
        coverage=coverage_rows(found["sets"].get("coverage", [])) if kind == "set" else [],
        tested=_tested(found["test"], kind) if "test" in found else None,
        notes=list(found["notes"]),
    )


def percent(share: float | None) -> str:
    """``4.2%``, with as many digits as matter to a reader; a dash if there is no value."""
    return "—" if share is None or share != share else f"{100 * share:.3g}%" if share < 0.9995 else "100%"


def frontier_rows(frontier: Frontier, in_use: float | None = None) -> list[dict[str, str]]:
    """A row of cells per limit of the ladder.

    Args:
        frontier: made by :func:`graphsde.certify`.
        in_use: the limit that decisions were made at.
    """
    return [
        {
            "limit": percent(one.limit),
            "status": one.status
            + (" at an earlier look" if one.outlook == EARLIER else "")
            + (", in use" if one.certified and one.limit == in_use else ""),
            "accepted": percent(one.accepted_share),
            "wrong in calibration": f"{one.wrong:,} of {one.accepted:,}",
            "error at most": percent(one.upper_bound),
            "what it needs": "" if one.certified else one.outlook,
        }
        for one in frontier.rungs
    ]


def coverage_rows(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """A row of cells per group; with many classes, those covered least."""
    classes = sorted((row for row in rows if row["kind"] == "class"), key=lambda row: row["coverage"])
    left_out = {row["group"] for row in classes[MOST_CLASSES:]}
    return [
        {
            "group": row["group"] if row["kind"] != "class" else f"class {row['group']}",
            "nodes": f"{row['nodes']:,}",
            "covered": percent(row["coverage"]),
            "interval": f"{percent(row['low'])} to {percent(row['high'])}",
            "classes per set": f"{row['mean_size']:.2f}",
        }
        for row in rows
        if row["kind"] != "class" or row["group"] not in left_out
    ]


def _what_is_wrong(decisions: Decisions) -> str:
    tolerance = decisions.abstention.tolerance
    return "" if tolerance is None else f" A prediction is wrong if it is off by more than {tolerance:g}."


def _anything(decisions: Decisions) -> bool:
    return decisions.abstention.threshold is not None


def _accepted(decisions: Decisions, found: dict[str, Any]) -> list[str]:
    a = decisions.abstention
    lines = []
    if found["max_error"] != decisions.max_error:
        lines.append(
            f"The loosest certified limit that is at most {percent(decisions.max_error)} is "
            f"{percent(found['max_error'])}."
        )
    bound = ""
    if found["stated"]["name"] == "certified" and left_to_state(decisions.frontier.delta, decisions.frontier.spent):
        bound = f"; the error rate among them is at most {percent(found['upper_bound'])}"
    lines.append(
        f"Accept if {found['uncertainty']} is at most {found['threshold']:.4g}: {percent(found['coverage'])} of the "
        f"{int(a.decided.sum()):,} nodes decided on{bound}."
    )
    return [*lines, _calibrated(found)]


def _ways_out(decisions: Decisions, found: dict[str, Any], spent: float) -> list[str]:
    way = found["way_out"]
    lines = [f"Nothing can be accepted at a limit of {percent(decisions.max_error)} with these labels. Alternatives:"]
    if way["certified"]:
        strictest = decisions.frontier.certified[-1]
        lines.append(
            f"- a looser limit: {percent(strictest.limit)} is certified and accepts "
            f"{percent(strictest.accepted_share)} of the nodes (--max-error {strictest.limit:g})"
        )
    if way["expected"]:
        lines.append(
            f"- a weaker guarantee: {percent(way['expected'])} of the nodes are accepted if the limit holds only "
            "on average (--guarantee expected)"
        )
    if way["further_labels"] is None:
        lines.append(f"- more training and validation labels, or a better model: {way['outlook']}")
    else:
        lines.append(f"- more labels, drawn at random (graphsde ask RUN --for calibration): {way['outlook']}")
        if again := weaker_again(decisions.frontier, spent):
            lines.append(f"  {again}")
    return [*lines, _calibrated(found)]


def weaker_again(frontier: Frontier, spent: float = 0.0) -> str:
    """What a second test with further labels will hold with, after a first one that may be run only once.

    Args:
        frontier: of the first one.
        spent: δ of other tests on the same labels.
    """
    if frontier.anytime or not frontier.could_certify:
        return ""
    alone, left = 1 - frontier.delta, left_to_state(frontier.delta, frontier.delta, spent)
    then = f"with probability {percent(left)}" if left else "with no probability that can be stated"
    return (
        f"Testing again with them (decide --further-labels) is a second look, so the limits then hold {then} instead "
        f"of {percent(alone)}. Only with decide --anytime from the very first look on it makes no difference."
    )


def other_tests(frontier: Frontier, tests: int) -> str:
    """What it means for an ordinary test that others were made on the same labels; empty without any.

    Args:
        frontier: of this test.
        tests: how many others.
    """
    if frontier.anytime or not tests:
        return ""  # a test that may be repeated states what the others cost
    made = "1 other test was" if tests == 1 else f"{tests:,} other tests were"
    return (
        f"{made} made on these calibration labels; choosing among their results lowers the "
        f"{percent(1 - frontier.delta)}."
    )


def _calibrated(found: dict[str, Any]) -> str:
    return f"Calibrated on {found['calibration']['nodes']:,} nodes: {found['calibration']['source']}."


def _about_ood(ood: dict[str, Any], nodes: int) -> list[str]:
    lines = []
    if ood["threshold"] is not None:
        lines.append(
            f"Rule per-node: {ood['flagged']:,} nodes are flagged ({ood['score']} above {ood['threshold']:.4g}). "
            f"{ood['guarantee']['meaning']} Up to about {round(ood['false_alarm'] * nodes):,} of {nodes:,} nodes "
            "would be flagged if none were OOD."
        )
    fdr = ood["fdr"]
    lines.append(
        f"Rule fdr: {fdr['flagged']:,} of {fdr['among']:,} nodes are flagged. {fdr['guarantee']['meaning']} With these "
        f"calibration labels no group of fewer than {fdr['smallest']:,} nodes can be flagged."
    )
    if "flagged_of_ood" in ood:
        lines.append(
            f"Of the nodes known to be OOD, {percent(ood['flagged_of_ood'])} are flagged per node and "
            f"{percent(ood['accepted_of_ood'])} accepted."
        )
    return lines


def _about_sets(sets: dict[str, Any], kind: str) -> str:
    if sets["score"] is None:
        return f"{kind.capitalize()}s: {sets['guarantee']}."
    size = f"{sets['mean_width']:.4g} wide" if kind == "interval" else f"{sets['mean_size']:.2f} classes"
    which = f"{kind.capitalize()}s" + (f" ({sets['kind']})" if kind == "set" else "")
    return f"{which} by {sets['score']}, {size} on average: {sets['guarantee']}"


def _tested(test: dict[str, Any], kind: str) -> str:
    how = f" ({CROSS_FITTED})" if test.get("cross_fitted") else ""
    wrong = "" if test["error"] is None else f", {test['wrong']:,} of these wrong ({percent(test['error'])})"
    return (
        f"On {test['nodes']:,} test nodes{how}: {test['accepted']:,} accepted{wrong}; of all test nodes "
        f"{percent(test['error_of_all'])} are wrong, and {kind}s cover {percent(test[f'{kind}_coverage'])}."
    )
