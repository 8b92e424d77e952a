"""The paper's figures as plans of cells; they have no printed numbers, only claims in the text."""

from dataclasses import replace

from graphsde.tasks.backbones import DRIFTS
from graphsde.tasks.paper.active import ENTROPY, RANDOM
from graphsde.tasks.paper.systems import BGCN, ENSEMBLE, GCN, GNODE, LGNSDE, LGNSDE_PAPER
from graphsde.tasks.paper.table import TABLES, PaperTable, System

DRAWN = (GCN, GNODE, BGCN, ENSEMBLE, LGNSDE_PAPER, LGNSDE)
GAPS = {"more entropy": "entropy_gap", "separation": "separation"}

ERRORS = PaperTable(
    name="figure-entropy:errors",
    experiment="figure-entropy",
    task="entropies",
    options={"groups": "errors"},
    datasets=("cora",),
    systems=DRAWN,
    metrics=GAPS,
    seeds=3,
    about="Entropy of wrong against right predictions on test nodes of the public split. The text says that wrong ones "
    "have 35 % more mean entropy under LGNSDE, and that most other models show similar means for both. `more entropy` "
    "is the mean of the wrong over that of the right, minus one; `separation` the chance that a wrong one has more.",
)
FOREIGN = replace(
    ERRORS,
    name="figure-entropy:foreign",
    options={"groups": "foreign"},
    about="Entropy of the nodes of the last class, which is never trained on, against that of the other test nodes. "
    "The text says 50 % more mean entropy under LGNSDE and less than 10 % under all others.",
)
DYNAMICS = PaperTable(
    name="figure-dynamics",
    experiment="figure-dynamics",
    task="dynamics",
    options={},
    datasets=("cora",),
    systems=(
        System("lgnsde-gcn", "lgnsde@paper", DRIFTS["gcn"]),
        System("lgnsde-gat", "lgnsde@paper", DRIFTS["gat"]),
    ),
    metrics={f"separation {when}": f"separation_{when}" for when in ("begin", "middle", "end")},
    seeds=1,
    about="States of the fitted network of the text at three times in the plane of their two main directions, with a "
    "GCN and with a GAT as drift; states and drifts are means over 16 paths. `separation` is the share of variance "
    "between classes, over all dimensions, on test nodes: the text says that nodes become more separable over time.",
)
# the same journals as the tables of active learning, so that nothing is run twice
RANDOMLY, BY_ENTROPY = (
    replace(plan, datasets=("cora",), systems=DRAWN, seeds=3, metrics={**plan.metrics, "area": "accuracy_area"})
    for plan in (RANDOM, ENTROPY)
)
TABLES.add("figure-entropy", (ERRORS, FOREIGN), summary="entropy of right and wrong, familiar and foreign (figure 2)")
TABLES.add("figure-active", (RANDOMLY, BY_ENTROPY), summary="active learning curves, at random and by entropy")
TABLES.add("figure-dynamics", (DYNAMICS,), summary="latent states at three times, GCN and GAT as drift (figure 1)")
