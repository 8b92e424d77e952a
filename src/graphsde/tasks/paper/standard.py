"""The standard setting: table 1 of the paper."""

from graphsde.tasks.paper.systems import CLASS_METRICS, FIVE, MAIN
from graphsde.tasks.paper.table import TABLES, PaperTable, System

APPNP = System(None, "appnp", note="not in the paper: the diffusion of the default LGNSDE without its noise")

STANDARD = PaperTable(
    name="standard",
    experiment="standard",
    task="misclassification",
    options={},
    datasets=FIVE,
    systems=(*MAIN, APPNP),
    metrics=CLASS_METRICS,
    about="Public split on the citation graphs, Shchur's random splits on the Amazon graphs, test nodes only. The "
    "printed figures are over all nodes, training nodes included, on random splits of the largest component.",
)
TABLES.add("standard", (STANDARD,), summary="accuracy, micro-AUROC and AURC on five graphs")
