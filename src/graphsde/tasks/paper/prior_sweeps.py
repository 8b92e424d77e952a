"""Other prior drifts and other diffusions: two sweeps of the appendix."""

from graphsde.tasks.paper.table import TABLES, PaperTable, System
from graphsde.tasks.sensitivity import VALUES


def _sweep(name: str, axis: str) -> PaperTable:
    return PaperTable(
        name=name,
        experiment=f"{name}=*",
        task="sensitivity",
        options={"axis": axis},
        datasets=("cora",),
        systems=tuple(System(f"{value:.1f}", "lgnsde@paper", value=f"{value:g}") for value in VALUES[axis]),
        metrics={"accuracy-percent": "accuracy"},
        scale=100.0,
        seeds=5,
        about="The network of the text, all else equal.",
    )


DRIFT, DIFFUSION = _sweep("prior-drift", "prior-drift"), _sweep("prior-diffusion", "diffusion")
TABLES.add("prior-drift", (DRIFT,), summary="a constant prior drift from -100 to 100")
TABLES.add("prior-diffusion", (DIFFUSION,), summary="a diffusion from 0.1 to 10")
