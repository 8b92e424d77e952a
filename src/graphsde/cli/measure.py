"""Commands that measure a run: ``evaluate``, ``calibrate``, ``theory``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import DEVICE, JSON, MEMORY, RUN, SAMPLES, names_in, on_its_device, within_its_memory
from graphsde.cli.output import cell, opened_run, print_of_run, print_table, say, tell

SCORE = typer.Option(
    "--score",
    metavar="NAME",
    help="Also detect OOD nodes by this score (see: graphsde list scores); repeatable or comma-separated.",
    autocompletion=names_in("scores"),
)
SHIFT = typer.Option(
    "--shift",
    metavar="NAME",
    help="Also detect the nodes of a shifted copy of the graph (see: graphsde list shifts).",
    autocompletion=names_in("shifts"),
)
SHIFT_SEED = typer.Option("--shift-seed", min=0, help="Seed of the shift.")

# as many metrics as fit into a narrow terminal; --json has them all
COLUMNS = {
    "ood_auroc": "auroc",
    "ood_auroc_wrong": "auroc_wrong",
    "ood_aupr_in": "aupr_in",
    "ood_aupr_out": "aupr_out",
    "ood_fpr95": "fpr95",
    "ood_auroc_propagated": "auroc_prop",
    "ood_fpr95_propagated": "fpr95_prop",
}


@on_its_device
@within_its_memory
def evaluate(
    run: Annotated[Path, RUN],
    samples: Annotated[int, SAMPLES] = 64,
    score: Annotated[list[str] | None, SCORE] = None,
    shift: Annotated[str | None, SHIFT] = None,
    shift_seed: Annotated[int, SHIFT_SEED] = 0,
    device: Annotated[str | None, DEVICE] = None,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure a run on its test nodes."""
    from graphsde.acting.shifted import detect_shift
    from graphsde.datasets.shifts import SHIFTS
    from graphsde.metrics.evaluation import evaluate as measure
    from graphsde.metrics.intervals import intervals, score_intervals
    from graphsde.uncertainty.scores.registry import default_score

    scores = _names(score)
    if shift is not None:
        SHIFTS.entry(shift)  # reject a wrong name before any work is done
    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    # without OOD nodes the scores apply to the shift, or are refused with a reason
    ood_here = shift is None or (graph.ood_nodes is not None and bool(graph.ood_nodes.any()))
    prediction = opened.prediction(samples)
    here = scores if ood_here else ()
    metrics = measure(prediction, graph, scores=here, model=model)
    metrics["intervals"] = intervals(prediction, graph, model=model)
    if here:
        metrics["score_intervals"] = score_intervals(prediction, graph, here, model=model)
    if shift is not None:
        usual = (default_score(prediction, graph, model),)
        metrics["shift"] = detect_shift(model, graph, shift, scores or usual, samples, shift_seed)
    metrics = _without_nan(metrics)
    if json:
        print_of_run(run, model, graph, metrics)
    else:
        _print(metrics)


def _names(given: list[str] | None) -> list[str]:
    from graphsde.uncertainty.scores import SCORES

    names = [name.strip() for text in given or () for name in text.split(",") if name.strip()]
    for name in names:
        SCORES.entry(name.partition("+")[0])
    return names


def _print(metrics: dict[str, Any]) -> None:
    from graphsde.metrics import METRICS

    rows, ends = [], metrics["intervals"]
    for name, value in metrics.items():
        if isinstance(value, dict):
            continue
        meant = "density_nll" if name == "nll" and "rmse" in metrics else name
        known = METRICS.entry(meant) if meant in METRICS else None
        better, what = (known.facts["better"], known.summary) if known else ("", "")
        between = f"{cell(ends[name][0])} to {cell(ends[name][1])}" if name in ends else ""
        rows.append({"metric": name, "value": value, "95 % interval": between, "better": better, "what": what})
    print_table(rows)
    tell("Intervals are over draws of test nodes, with the model fixed; another fit or split would vary more.")
    if "ece" in ends or "calibration_error" in ends:
        tell("Intervals of calibration errors are corrected for the bias from chance, so they may lie below the value.")
    if "scores" in metrics:
        _print_scores("OOD detection by score", metrics["scores"])
    if "shift" in metrics:
        shift = metrics["shift"]
        title = f"{shift['shift']}, seed {shift['seed']}: {shift['n_id']} in-distribution, {shift['n_ood']} OOD nodes, "
        title += f"chance of ood_aupr_in {shift['ood_aupr_in_chance']:.4f}"
        if "ood_accuracy" in shift:
            title += f"; {100 * shift['ood_accuracy']:.1f} % of the shifted nodes with a known class are still right"
        _print_scores(title, shift["scores"])


def _print_scores(title: str, scores: dict[str, dict[str, Any]]) -> None:
    tell(title)
    print_table(
        [
            {"score": name} | {told: figures[key] for key, told in COLUMNS.items() if key in figures}
            for name, figures in scores.items()
        ]
    )


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """Without NaN, which is not JSON; also in nested maps."""
    from graphsde.runs.folder import without_nan

    return {
        key: _without_nan(value) if isinstance(value, dict) else value for key, value in without_nan(values).items()
    }


SHOWN = ("nll", "ece", "brier", "accuracy", "aurc", "crps", "coverage90", "interval_width90", "calibration_error")


@within_its_memory
def calibrate(
    run: Annotated[Path, RUN],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="See: graphsde list calibrators; none removes the current one. Default: temperature, for regression "
            "deviation.",
            autocompletion=names_in("calibrators"),
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per node; default: as many as the fit used.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Calibrate a run's probabilities: fit a calibrator on its validation nodes and save it with the model."""
    from graphsde.runs.calibrate import calibrate_run
    from graphsde.runs.folder import RunFolder
    from graphsde.uncertainty.calibration import CALIBRATORS, DEFAULT_CALIBRATOR

    if by is None:
        by = DEFAULT_CALIBRATOR.of(RunFolder(run).load_model())
    chosen = None if by == "none" else CALIBRATORS.entry(by).name
    outcome = calibrate_run(RunFolder(run, say=say), chosen, samples=samples, say=say)
    if json:
        keep = lambda figures: {name: figures[name] for name in (*SHOWN, "n_test") if name in figures}  # noqa: E731
        found = {"calibrator": chosen, "before": keep(outcome.before), "after": keep(outcome.after)}
        print_of_run(run, outcome.model, outcome.graph, found)
        return
    if outcome.after:
        tell(f"{outcome.after['n_test']:,} test nodes")
        shown = [name for name in SHOWN if name in outcome.after]
        print_table([{"metric": name, "before": outcome.before[name], "after": outcome.after[name]} for name in shown])
    done = "Removed the calibrator" if chosen is None else f"Fitted {chosen} on the validation nodes"
    tell(f"{done} and updated the model and predictions in {run}.")


def theory(
    run: Annotated[Path, RUN],
    samples: Annotated[
        int, typer.Option("--samples", min=4, help="Number of sample paths for proposition 1; must be even.")
    ] = 64,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for theory.png and theory.csv; default: the run.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure both sides of the paper's two propositions on a run of lgnsde."""
    from graphsde.bench.theory import TheoryOptions, measure_theory

    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    report = measure_theory(model, graph, TheoryOptions(samples=samples))
    from graphsde.base import storage
    from graphsde.io.table_export import write_table
    from graphsde.view.figures.theory import theory_png

    out = run if out is None else out
    storage.write_bytes(out / "theory.png", theory_png(report))
    write_table(report.columns(), out / "theory.csv")
    if json:
        print_of_run(run, model, graph, report.as_dict())
        return
    known = report.constants
    tell(
        f"Certified constants: L_f = {known.l_f:.4g} (drift), L_h = {known.l_h_logits:.4g} (logits), "
        f"{known.l_h_probabilities:.4g} (probabilities); "
        f"horizon {report.horizon:g} in {report.steps} steps of {report.solver}."
    )
    print_table(report.rows())
    tell(report.proposition_1.sentence)
    tell(report.proposition_2.sentence)
    tell(f"Wrote theory.png and theory.csv to {out}")
