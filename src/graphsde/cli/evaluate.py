from __future__ import annotations

from pathlib import Path
from typing import Annotated

from graphsde.cli.options import JSON, RUN, SAMPLES
from graphsde.cli.output import print_json, print_table


def evaluate(
    run: Annotated[Path, RUN], samples: Annotated[int, SAMPLES] = 64, json: Annotated[bool, JSON] = False
) -> None:
    """Measure a run on its test nodes."""
    from graphsde.runs.folder import RunFolder, without_nan
    from graphsde.scores.metrics import METRICS
    from graphsde.tasks.evaluation import evaluate as measure

    folder = RunFolder(run)
    model = folder.load_model()
    graph = folder.load_graph()
    metrics = without_nan(measure(model.predict(graph, samples=samples), graph))
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **metrics})
        return
    rows = []
    for name, value in metrics.items():
        known = METRICS.entry(name) if name in METRICS else None
        rows.append(
            {
                "metric": name,
                "value": value,
                "better": known.facts["better"] if known else "",
                "what": known.summary if known else "",
            }
        )
    print_table(rows)
