"""Noisy features: table 3 of the paper."""

from graphsde.tasks.paper.systems import FIVE, MAIN
from graphsde.tasks.paper.table import TABLES, PaperTable

NOISE = PaperTable(
    name="noise",
    experiment="noise",
    task="noise",
    options={"severities": (0.5,)},
    datasets=FIVE,
    systems=MAIN,
    metrics={"auroc": "micro_auroc@0.5", "aurc": "aurc@0.5", "accuracy": "accuracy@0.5"},
    about="Noise of half the features' standard deviation on all nodes, five draws that are the same for every system.",
)
TABLES.add("noise", (NOISE,), summary="noise of half a standard deviation on the features after training")
