"""Active learning by entropy and at random: tables 4 and 5 of the paper."""

from graphsde.tasks.paper.systems import CLASS_METRICS, FIVE, MAIN
from graphsde.tasks.paper.table import TABLES, PaperTable

_ABOUT = (
    "Five labels a round until their number has doubled, 25 epochs of training on after each. Labels are bought from "
    "nodes that are never tested, where the text buys validation and test nodes (bench option pool=printed)."
)
ENTROPY, RANDOM = (
    PaperTable(
        name=f"active-{acquisition}",
        experiment=f"active-{acquisition}",
        task="active",
        options={"acquisition": acquisition},
        datasets=FIVE,
        systems=MAIN,
        metrics=CLASS_METRICS,
        seeds=5,
        about=_ABOUT,
    )
    for acquisition in ("entropy", "random")
)
TABLES.add("active-entropy", (ENTROPY,), summary="labels bought where the entropy is highest")
TABLES.add("active-random", (RANDOM,), summary="labels bought at random")
