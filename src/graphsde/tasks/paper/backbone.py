"""GCN or GAT as drift: a table of the appendix."""

from graphsde.tasks.paper.table import TABLES, PaperTable, System

BACKBONE = PaperTable(
    name="backbone",
    experiment="backbone-ood",
    task="backbones",
    options={"question": "ood", "compat": True, "base": "lcc-1500", "drifts": ("gcn", "gat")},
    datasets=("cora", "citeseer"),
    systems=(
        System("lgnsde-gcn", "lgnsde@paper", value="gcn"),
        System("lgnsde-gat", "lgnsde@paper", value="gat"),
    ),
    metrics={"auroc": "ood_auroc_all", "aurc": "ood_aurc_all", "accuracy": "ood_threshold_accuracy"},
    seeds=5,
)
TABLES.add("backbone", (BACKBONE,), summary="a GCN and a GAT as drift, one class left out")
