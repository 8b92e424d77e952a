from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import JSON, RUN, SAMPLES
from graphsde.cli.output import print_json, print_table

SCORE = typer.Option(
    "--score",
    metavar="NAME",
    help="Tell OOD nodes by this score too (see: graphsde list scores). Repeat it, or separate names by commas.",
)
SHIFT = typer.Option(
    "--shift",
    metavar="NAME",
    help="Also tell all nodes of a shifted copy of the graph from the test nodes (see: graphsde list shifts).",
)
SHIFT_SEED = typer.Option("--shift-seed", min=0, help="Seed of the shift.")

# as many figures as a narrow terminal has room for; --json has them all
COLUMNS = {
    "ood_auroc": "auroc",
    "ood_aupr_in": "aupr_in",
    "ood_aupr_out": "aupr_out",
    "ood_fpr95": "fpr95",
    "ood_auroc_propagated": "auroc_prop",
    "ood_fpr95_propagated": "fpr95_prop",
}


def evaluate(
    run: Annotated[Path, RUN],
    samples: Annotated[int, SAMPLES] = 64,
    score: Annotated[list[str] | None, SCORE] = None,
    shift: Annotated[str | None, SHIFT] = None,
    shift_seed: Annotated[int, SHIFT_SEED] = 0,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure a run on its test nodes."""
    from graphsde.acting.shifted import detect_shift
    from graphsde.datasets.shifts import SHIFTS
    from graphsde.metrics.evaluation import evaluate as measure
    from graphsde.runs.folder import RunFolder
    from graphsde.uncertainty.scores.registry import DEFAULT_SCORE

    scores = _names(score)
    if shift is not None:
        SHIFTS.entry(shift)  # a wrong name is told before the work begins
    folder = RunFolder(run)
    model = folder.load_model()
    graph = folder.load_graph()
    # without OOD nodes the scores are for the shift, or else refused with a reason
    ood_here = shift is None or (graph.ood_nodes is not None and bool(graph.ood_nodes.any()))
    metrics = measure(model.predict(graph, samples=samples), graph, scores=scores if ood_here else (), model=model)
    if shift is not None:
        metrics["shift"] = detect_shift(model, graph, shift, scores or (DEFAULT_SCORE.of(model),), samples, shift_seed)
    metrics = _without_nan(metrics)
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **metrics})
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

    rows = []
    for name, value in metrics.items():
        if isinstance(value, dict):
            continue
        meant = "density_nll" if name == "nll" and "rmse" in metrics else name
        known = METRICS.entry(meant) if meant in METRICS else None
        rows.append(
            {
                "metric": name,
                "value": value,
                "better": known.facts["better"] if known else "",
                "what": known.summary if known else "",
            }
        )
    print_table(rows)
    if "scores" in metrics:
        _print_scores("OOD nodes by each score", metrics["scores"])
    if "shift" in metrics:
        shift = metrics["shift"]
        title = f"{shift['shift']}, seed {shift['seed']}: {shift['n_id']} familiar, {shift['n_ood']} OOD nodes, "
        title += f"chance of ood_aupr_in {shift['ood_aupr_in_chance']:.4f}"
        _print_scores(title, shift["scores"])


def _print_scores(title: str, scores: dict[str, dict[str, Any]]) -> None:
    typer.echo(title)
    print_table([{"score": name} | {COLUMNS[key]: figures[key] for key in COLUMNS} for name, figures in scores.items()])


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """NaN is not JSON, in nested maps neither."""
    from graphsde.runs.folder import without_nan

    return {
        key: _without_nan(value) if isinstance(value, dict) else value for key, value in without_nan(values).items()
    }
