from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.cli.fit import DEFAULT_MODEL
from graphsde.cli.output import print_table, say

if TYPE_CHECKING:
    from graphsde.runs.folder import RunFolder


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder to write the run to.")] = Path("runs/demo"),
    model: Annotated[str, typer.Option("--model", help="See: graphsde list models.")] = DEFAULT_MODEL,
) -> None:
    """Train on the embedded graph of handwritten digits, show the most uncertain nodes, write a report."""
    import numpy as np

    from graphsde.datasets.source import GraphSource
    from graphsde.nn.callbacks import ProgressBar
    from graphsde.prediction import ClassPrediction, require
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder
    from graphsde.view.report.run import report_on_run

    folder = RunFolder(out)
    if folder.started and not _earlier_demo(folder):
        raise BadUsage(
            f"{out} holds another run",
            code="E-RUN-EXISTS",
            fix="choose another --out",
        )
    outcome = fit_run(
        FitRequest(GraphSource("digits"), model),
        folder,
        overwrite=True,
        callbacks=[ProgressBar(f"fitting {model}")],
        say=say,
    )
    graph, metrics = outcome.graph, outcome.metrics
    prediction = require(outcome.prediction, ClassPrediction, "the demo")
    assert graph.test_mask is not None and graph.labels is not None
    path = report_on_run(folder, None)  # before anything is printed: whoever reads only the first lines has it too
    test = np.flatnonzero(graph.test_mask)
    order = test[np.argsort(-prediction.total[test], kind="stable")][:10]
    typer.echo("\nThe ten test images the model is least sure of:")
    print_table(
        [
            {
                "image": str(prediction.ids[node]),
                "predicted": prediction.label[node],
                "truth": graph.class_names[graph.labels[node]],
                "confidence": float(prediction.confidence[node]),
                "entropy": float(prediction.total[node]),
                "right": bool(prediction.index[node] == graph.labels[node]),
            }
            for node in order
        ]
    )
    surest = test[np.argsort(prediction.total[test], kind="stable")][: int(0.8 * test.size)]
    kept = float((prediction.index[surest] == graph.labels[surest]).mean())
    typer.echo(
        f"On {metrics['n_test']:,} test images {metrics['accuracy']:.1%} are right; "
        f"of the 80 % it is surest of, {kept:.1%}."
    )
    typer.echo(f"\nThe report: {path}\nLook at the entropy of right and wrong predictions, then at the images above.")
    typer.echo("Your own files next: graphsde check FOLDER, graphsde fit FOLDER --out runs/first")


def _earlier_demo(folder: RunFolder) -> bool:
    """Whether the run was made by this verb, and nobody has worked on it since."""
    import json

    from graphsde.runs.rounds import present_round

    try:
        command = json.loads(folder.environment.read_text(encoding="utf-8"))["command"]
        calibrated = folder.finished and folder.load_model().calibrator is not None
    except (OSError, ValueError, KeyError, TypeError, GraphsdeError):
        return False
    return "demo" in command[1:2] and not calibrated and not present_round(folder.path)
