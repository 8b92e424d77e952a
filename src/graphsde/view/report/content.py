"""What one report is about: a run's graph, prediction, numbers and facts, before any of it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphsde.data.findings import Finding
from graphsde.data.graph import Graph
from graphsde.errors import BadInput
from graphsde.prediction import NumericPrediction, Prediction, Trajectories


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that the report of one run shows.

    Args:
        title: the headline, such as the name of the run.
        graph: the graph predicted on, with its masks.
        prediction: of all nodes of ``graph``, in the same order.
        metrics: figures over test nodes by name; a value that is ``None`` or not finite is shown as "—".
        findings: what the data check noticed.
        history: one row per epoch with ``epoch``, ``train_loss``, ``val_nll``, ``val_accuracy`` where known.
        model_name: as the command line spells it.
        model_settings: every setting of the model, nested or flat.
        split: name of the split that made the masks.
        seed: of the run.
        trajectories: paths of a few nodes, the first of which is drawn; only stochastic models have them.
        facts: further lines for the reader: versions, seconds, the command.
    """

    title: str
    graph: Graph
    prediction: Prediction | NumericPrediction
    metrics: Mapping[str, float | None]
    findings: Sequence[Finding] = ()
    history: Sequence[Mapping[str, Any]] = ()
    model_name: str = "model"
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    split: str = "—"
    seed: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    trajectories: Trajectories | None = None

    def __post_init__(self) -> None:
        if self.prediction.num_nodes != self.graph.num_nodes:
            raise BadInput(
                f"the prediction has {self.prediction.num_nodes} nodes, the graph has {self.graph.num_nodes}",
                code="E-LEN",
                fix="predict on the graph that the report shows",
            )
        if not np.array_equal(self.prediction.node_ids, self.graph.node_ids):
            raise BadInput(
                "the prediction's node ids are not those of the graph, or are in another order",
                code="E-ID-ORDER",
                fix="predict on the graph that the report shows",
            )
