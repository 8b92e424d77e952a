"""Commands about guarantees: ``decide`` what to do with each node, ``plan`` how many labels that takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsde.base.errors import BadUsage
from graphsde.cli.options import (
    JSON,
    MEMORY,
    READ,
    RUN,
    SAMPLES,
    graphs_and_runs,
    key_values,
    names_in,
    within_its_memory,
)
from graphsde.cli.output import opened_run, print_json, print_of_run, print_table, say, tell

if TYPE_CHECKING:
    from graphsde.acting.decisions import Decisions
    from graphsde.acting.review import Review
    from graphsde.graph.graph import Graph
    from graphsde.runs.looks import Before
    from graphsde.runs.new_labels import NewLabels

MAX_ERROR = typer.Option("--max-error", help="Error limit: share of the accepted nodes that may be wrong.")
DELTA = typer.Option("--delta", help="Probability, over draws of the calibration nodes, that the guarantee fails.")
FIRST_ROWS = 5
SHOWN_OF_REVIEW = ("rank", "id", "name", "label", "confidence", "mean", "importance", "reason")


@within_its_memory
def decide(
    run: Annotated[Path, RUN],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help=".csv or .parquet file to write, one row per node; default: decisions.csv in the run."
        ),
    ] = None,
    max_error: Annotated[float, MAX_ERROR] = 0.05,
    delta: Annotated[float, DELTA] = 0.05,
    guarantee: Annotated[
        str, typer.Option("--guarantee", help="certified, expected (on average) or accepted-and-wrong.")
    ] = "certified",
    focus: Annotated[
        float | None,
        typer.Option(
            "--focus",
            help="The error limit that gets most of delta; choose it before you see results. "
            "Default: 0.05, or --max-error if that is not a limit of the ladder.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance", help="For regression: a prediction counts as wrong if it is off by more than this."
        ),
    ] = None,
    importance: Annotated[
        str | None,
        typer.Option(
            "--importance", help="Order the review list by a numeric column or by degree; default: by uncertainty."
        ),
    ] = None,
    ood_rule: Annotated[
        str | None,
        typer.Option("--ood-rule", help="Rule behind the action ood: per-node (default) or fdr."),
    ] = None,
    false_alarm: Annotated[
        float | None,
        typer.Option(
            "--false-alarm", help="Share of in-distribution nodes that per-node may flag as OOD; default: 0.05."
        ),
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option("--sets", help="Where coverage holds: marginal (all nodes together, default), class or degree."),
    ] = None,
    confidence_level: Annotated[
        float,
        typer.Option(
            "--confidence-level", help="Coverage of sets and intervals: share of nodes whose true value is inside."
        ),
    ] = 0.9,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", help="Score to accept by (list scores); default: margin.", autocompletion=names_in("scores")
        ),
    ] = None,
    ood_by: Annotated[
        str | None,
        typer.Option(
            "--ood-by",
            help="Score that flags OOD nodes (list scores); default: ood, or entropy+propagated.",
            autocompletion=names_in("scores"),
        ),
    ] = None,
    foreign_by: Annotated[str | None, typer.Option("--foreign-by", hidden=True)] = None,  # its former name
    sets_by: Annotated[
        str | None,
        typer.Option(
            "--sets-by",
            help="Conformal score of the sets (list conformal); default: aps.",
            autocompletion=names_in("conformal"),
        ),
    ] = None,
    calibration_size: Annotated[
        int | None,
        typer.Option(
            "--calibration-size",
            min=1,
            help="Number of test nodes to calibrate on if the split has no calibration nodes; default: all.",
        ),
    ] = None,
    further_labels: Annotated[
        Path | None,
        typer.Option(
            "--further-labels",
            help="File with calibration labels from ask --for calibration, to test again; the run keeps them.",
        ),
    ] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Use a test that stays valid when repeated as more labels come in.")
    ] = False,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of draws of calibration nodes and of tie-breaking in sets.")
    ] = 0,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Decide for every node: accept its prediction, review it, or (for classes) treat it as OOD."""
    from graphsde.io.table_export import require_table_name, write_table
    from graphsde.runs.decided import decide_on_run
    from graphsde.runs.further_labels import check_further_labels, keep_further_labels
    from graphsde.uncertainty.conformal import CONFORMAL_SCORES
    from graphsde.uncertainty.scores.registry import SCORES

    out = run / "decisions.csv" if out is None else out
    listed = out.with_name("review" + require_table_name(out))
    if listed == out:
        raise BadUsage(
            "the review list is written to this file name", found=out.name, fix="choose another name for the decisions"
        )
    if sets_by is not None:
        CONFORMAL_SCORES.entry(sets_by)  # reject a wrong name before any work is done
    ood_by = ood_by or foreign_by
    for name in (by, ood_by):
        if name is not None:
            SCORES.entry(name.partition("+")[0])
    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    new = None
    if further_labels is not None:
        graph, new = check_further_labels(further_labels, model, graph)
    decisions, before = decide_on_run(
        run,
        opened.prediction(samples),
        graph,
        model,
        samples,
        say=say,
        max_error=max_error,
        delta=delta,
        focus="usual" if focus is None else focus,
        anytime=anytime,
        by=by,
        ood_by=ood_by,
        false_alarm=false_alarm,
        tolerance=tolerance,
        size=calibration_size,
        seed=seed,
        guarantee=guarantee,
        ood_rule=ood_rule,
        sets=sets,
        sets_by=sets_by,
        confidence_level=confidence_level,
    )
    review = decisions.review(importance)
    if new is not None and not keep_further_labels(run, graph, new, say):
        new = None
    write_table(decisions.columns(), out)
    write_table(review.columns(), listed)
    if json:
        about = {"out": str(listed), "nodes": len(review), "ordered_by": review.ordered_by, "known": review.known}
        about_run: dict[str, Any] = {"out": str(out), "review": about, "other_tests": before.tests}
        if new is not None:
            about_run["further_labels"] = {"new": len(new.positions), "kept": int(graph.role("further").sum())}
        print_of_run(run, model, graph, about_run | decisions.summary())
        return
    if new is not None:
        tell(_kept_in_words(new, graph))
    _print_decisions(decisions, before)
    _print_review(review, decisions)
    tell("", f"Wrote {graph.num_nodes:,} decisions to {out} and {len(review):,} nodes to review to {listed}.")


def _kept_in_words(new: NewLabels, graph: Graph) -> str:
    added, many = len(new.positions), int(graph.role("further").sum())
    return f"{added:,} calibration labels are new. The run keeps all {many:,} that came after the fit for later tests."


def _print_decisions(decisions: Decisions, before: Before) -> None:
    from graphsde.acting.decision_words import describe, other_tests

    words = describe(decisions, before.spent)
    tell("Error limits that hold among accepted nodes:")
    print_table(words.frontier)
    tell(*words.accepted, "", f"Guarantee {words.guarantee}", words.rests_on)
    others = other_tests(decisions.frontier, before.tests)
    if others and decisions.selection is None:  # the other guarantees hold on average and state no probability
        tell(others)
    print_table(words.actions)
    tell(*words.ood, words.sets)
    if words.coverage:
        print_table(words.coverage)
    if words.tested is not None:
        tell(words.tested)
    tell(*words.notes)


def _print_review(review: Review, decisions: Decisions) -> None:
    known = f" ({review.known:,} with known labels left out)" if review.known else ""
    if not len(review):
        tell("", f"Nothing to review{known}.")
        return
    listed = {one: int((decisions.actions[review.nodes] == one).sum()) for one in decisions.choices if one != "accept"}
    sum_of = f" ({' + '.join(f'{many:,} {one}' for one, many in listed.items())})" if len(listed) > 1 else ""
    tell("", f"To review: {len(review):,} nodes{sum_of}, {review.ordered_by}{known}. The first ones:")
    rows = review.rows(FIRST_ROWS)
    print_table([{name: _cell(row[name], name) for name in SHOWN_OF_REVIEW if name in row} for row in rows])


def _cell(value: Any, name: str) -> Any:
    return str(value) if name == "id" else value


@within_its_memory
def plan(
    graph: Annotated[
        str,
        typer.Argument(
            help="A graph before a fit (a name, folder or file), or the folder of a run.",
            autocompletion=graphs_and_runs,
        ),
    ],
    max_error: Annotated[float, MAX_ERROR] = 0.05,
    delta: Annotated[float, DELTA] = 0.05,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Accuracy you expect of the model, as a share of all nodes.")
    ] = None,
    tolerance: Annotated[float | None, typer.Option("--tolerance", help="For a regression run; see decide.")] = None,
    samples: Annotated[int, SAMPLES] = 64,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show how many labels each guarantee needs: before a fit, or from the errors of a run."""
    from graphsde.runs.folder import RunFolder

    if RunFolder(graph).finished:
        _plan_of_run(Path(graph), max_error, delta, tolerance, samples, json)
        return
    from graphsde.acting.plan import plan_for_graph
    from graphsde.datasets.source import open_graph

    found = plan_for_graph(open_graph(graph, **key_values(read, "--read")), max_error, delta, accuracy=accuracy)
    if json:
        print_json({"graph": graph, **found.as_dict()})
        return
    tell(*found.sentences)
    print_table(found.need_rows())
    tell(found.reach_title)
    print_table(found.reach_rows())
    for one in found.plan.guarantees:
        tell(f"{one.name}: {one.meaning}")
    tell(f"Both assume: {found.plan.guarantees[0].rests_on}.")


def _plan_of_run(run: Path, max_error: float, delta: float, tolerance: float | None, samples: int, json: bool) -> None:
    from graphsde.acting.decision_words import describe, other_tests, weaker_again
    from graphsde.runs.decided import decide_on_run

    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    decisions, before = decide_on_run(
        run, opened.prediction(samples), graph, model, samples,
        say=say, max_error=max_error, delta=delta, tolerance=tolerance,
    )  # fmt: skip
    if json:
        print_of_run(run, model, graph, {"asked": max_error, "frontier": decisions.frontier.as_dict()})
        return
    words = describe(decisions, before.spent)
    tell("Error limits that hold among accepted nodes, and what the others need:")
    print_table(words.frontier)
    tell(*words.accepted)
    tell(f"Guarantee {words.guarantee} {other_tests(decisions.frontier, before.tests)}".rstrip())
    if any(not one.certified for one in decisions.frontier.rungs):
        more = f"More calibration labels must be drawn at random: graphsde ask {run} --for calibration."
        tell(f"{more} {weaker_again(decisions.frontier, before.spent)}".rstrip())
