from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import JSON, RUN, SAMPLES
from graphsde.cli.output import print_json, print_table


def decide(
    run: Annotated[Path, RUN],
    out: Annotated[Path, typer.Option("--out", help="A .csv or .parquet file with one row per node.")],
    max_error: Annotated[
        float, typer.Option("--max-error", help="Share of the accepted nodes that may be wrong.")
    ] = 0.05,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", help="For numbers: an answer is wrong where it is off by more than this."),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="How often the guarantee may fail over draws of calibration nodes.")
    ] = 0.05,
    false_alarm: Annotated[
        float | None,
        typer.Option("--false-alarm", help="Share of familiar nodes that may be flagged as OOD; default 0.05."),
    ] = None,
    confidence_level: Annotated[
        float,
        typer.Option("--confidence-level", help="Of sets and intervals: share of nodes whose truth is in theirs."),
    ] = 0.9,
    by: Annotated[
        str | None, typer.Option("--by", help="Uncertainty to accept by (list scores); default: margin.")
    ] = None,
    ood_by: Annotated[
        str | None,
        typer.Option("--ood-by", help="Score that flags OOD nodes (list scores); default: entropy+propagated."),
    ] = None,
    foreign_by: Annotated[str | None, typer.Option("--foreign-by", hidden=True)] = None,  # its former name
    sets_by: Annotated[
        str | None, typer.Option("--sets-by", help="Score behind the sets (list conformal); default: aps.")
    ] = None,
    calibration_size: Annotated[
        int, typer.Option("--calibration-size", min=1, help="Nodes to calibrate on, where the split sets none aside.")
    ] = 500,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw of calibration nodes.")] = 0,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Say of every node whether to accept its answer, to review it, or (of classes) to treat it as OOD."""
    from graphsde.acting.decide import decide as judge
    from graphsde.runs.export import require_table_name, write_table
    from graphsde.runs.folder import RunFolder
    from graphsde.uncertainty.conformal import CONFORMAL_SCORES
    from graphsde.uncertainty.scores.registry import SCORES

    require_table_name(out)
    if sets_by is not None:
        CONFORMAL_SCORES.entry(sets_by)  # a wrong name is told before the work begins
    ood_by = ood_by or foreign_by
    for name in (by, ood_by):
        if name is not None:
            SCORES.entry(name.partition("+")[0])
    folder = RunFolder(run)
    model, graph = folder.load_model(), folder.load_graph()
    decisions = judge(
        model.predict(graph, samples=samples),
        graph,
        max_error=max_error,
        delta=delta,
        confidence_level=confidence_level,
        size=calibration_size,
        seed=seed,
        by=by,
        ood_by=ood_by,
        sets_by=sets_by,
        false_alarm=false_alarm,
        tolerance=tolerance,
        model=model,
    )
    write_table(decisions.columns(), out)
    summary = decisions.summary()
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, "out": str(out), **summary})
    else:
        _print(summary, graph.num_nodes, out)


def _print(found: dict[str, Any], nodes: int, out: Path) -> None:
    rows = [{"action": name, "nodes": count, "share": count / nodes} for name, count in found["actions"].items()]
    print_table(rows)
    calibration = found["calibration"]
    lines = [f"calibrated on {calibration['nodes']:,} nodes: {calibration['source']}"]
    if found["threshold"] is not None:
        lines.append(
            f"accept where {found['uncertainty']} <= {found['threshold']:.4f}: {found['coverage']:.1%} of the nodes "
            f"that nothing was fitted to; upper bound of their error rate {found['upper_bound']:.4f}"
        )
    lines.append(f"guarantee: {found['guarantee']}")
    lines += _about_intervals(found) if "intervals" in found else _about_classes(found)
    for line in lines:
        typer.echo(line)
    typer.echo(f"\n{nodes:,} decisions are in {out}.")


def _about_intervals(found: dict[str, Any]) -> list[str]:
    intervals = found["intervals"]
    lines = [
        f"intervals ({intervals['score']}, {intervals['mean_width']:.4g} wide on average): {intervals['guarantee']}"
    ]
    if "test" in found:
        test = found["test"]
        lines.append(
            f"on {test['nodes']:,} test nodes: {test['accepted']:,} accepted, {_errors(test)}; intervals cover "
            f"{test['interval_coverage']:.1%}"
        )
    return lines


def _about_classes(found: dict[str, Any]) -> list[str]:
    ood, sets = found["ood"], found["sets"]
    lines = [
        f"OOD where {ood['score']} > {ood['threshold']:.4f}: at most {ood['false_alarm']:.1%} false "
        f"alarms on average ({ood['calibration_rate']:.1%} of the calibration nodes); how many OOD nodes are "
        "missed is not guaranteed"
    ]
    if "flagged_of_ood" in ood:
        lines.append(
            f"of the nodes known to be OOD {ood['flagged_of_ood']:.1%} were flagged and "
            f"{ood['accepted_of_ood']:.1%} accepted"
        )
    lines.append(f"sets ({sets['score']}, {sets['mean_size']:.2f} classes on average): {sets['guarantee']}")
    if "test" in found:
        test = found["test"]
        lines.append(
            f"on {test['nodes']:,} test nodes: {test['accepted']:,} accepted, {_errors(test)}; sets cover "
            f"{test['set_coverage']:.1%}"
        )
    return lines


def _errors(test: dict[str, Any]) -> str:
    error = "none accepted" if test["error"] is None else f"{test['wrong']} wrong, {test['error']:.2%}"
    return f"{error} (all of them: {test['error_of_all']:.2%})"
