"""One class left out: table 2 of the paper."""

from graphsde.tasks.paper.systems import FIVE, WITHOUT_GP
from graphsde.tasks.paper.table import TABLES, PaperTable

OOD = PaperTable(
    name="ood",
    experiment="ood",
    task="ood",
    options={"leave": "last", "compat": True, "base": "lcc-1500", "scores": ()},
    datasets=FIVE,
    systems=WITHOUT_GP,
    metrics={"auroc": "ood_auroc_all", "aurc": "ood_aurc_all", "accuracy": "ood_threshold_accuracy"},
    about="The paper's own protocol: the last class, random development nodes of the largest component, the left-out "
    "class among the validation nodes, all nodes judged, those of training included. AURC is the share of foreign "
    "nodes among those kept; accuracy is hardly more than the share of familiar nodes. For conclusions use "
    "`graphsde bench ood`, which leaves out every class in turn and judges test nodes.",
)
TABLES.add("ood", (OOD,), summary="telling the nodes of a class that was left out")
