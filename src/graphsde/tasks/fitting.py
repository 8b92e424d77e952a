"""A fit as the tasks want it: timed, and with what the validation nodes say, which is all that a choice may look at."""

from __future__ import annotations

import time
from typing import Any

from graphsde.data.graph import UNLABELLED, Graph
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.scores.metrics.calibration import nll
from graphsde.scores.metrics.classification import accuracy
from graphsde.tasks.evaluation import align_labels
from graphsde.tasks.task import ModelMaker


def fit_timed(make: ModelMaker, graph: Graph, **settings: Any) -> tuple[Model, dict[str, float]]:
    """A fitted model and what the fit took: seconds of CPU, epochs."""
    begin = time.process_time()
    model = make(**settings).fit(graph)
    spent = time.process_time() - begin
    return model, {"fit_cpu_seconds": spent, "epochs": float(len(model.history))}


def validation_figures(prediction: Prediction, graph: Graph) -> dict[str, float]:
    """NLL and accuracy on the validation nodes; nothing where there are none."""
    if graph.val_mask is None:
        return {}
    labels = align_labels(graph, prediction.class_names)
    nodes = graph.val_mask & graph.familiar & (labels != UNLABELLED)
    if not nodes.any():
        return {}
    return {
        "val_nll": nll(prediction.mean[nodes], labels[nodes]),
        "val_accuracy": accuracy(prediction.index[nodes], labels[nodes]),
    }
