"""Seconds per epoch: a table of the appendix, of which only the ratios can be compared."""

from graphsde.tasks.paper.table import TABLES, PaperTable, System

TIME = PaperTable(
    name="time",
    experiment="time-per-epoch",
    task="cost",
    options={},
    datasets=("cora",),
    systems=(
        System("gcn", "gcn"),
        System("gap", "gat", note='"GAP" fits no cited system: GAT and GPN are both timed'),
        System(None, "gpn", note='the other reading of "GAP"'),
        System("bgcn", "bgcn-meanfield"),
        System("gnode", "gnode"),
        System("graph-gp", "graph-gp"),
        System("gnsd", "gnsd"),
        System("ensemble", "ensemble"),
        System("lgnsde", "lgnsde@paper"),
        System(None, "lgnsde"),
    ),
    metrics={"seconds": "epoch_seconds"},
    seeds=3,
    about="CPU seconds of one thread; the paper does not name its machine. An epoch of the ensemble is one of each "
    "member.",
)
TABLES.add("time", (TIME,), summary="seconds per epoch")
