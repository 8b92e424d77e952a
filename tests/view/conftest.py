from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.target import UNLABELLED, ClassTarget
from graphsde.metrics import summarise
from graphsde.prediction import ClassPrediction
from graphsde.view.report import ReportContent

HISTORY = [
    {"epoch": e, "train_loss": 2.0 / e, "val_nll": 1.0 + abs(e - 7) / 10, "val_accuracy": 0.5 + e / 40}
    for e in range(1, 13)
]


def ring(nodes: int) -> sp.csr_array:
    """Each node linked to the two on either side."""
    here = np.arange(nodes)
    rows, columns = np.tile(here, 2), np.concatenate([(here + 1) % nodes, (here + 2) % nodes])
    one_way = sp.csr_array((np.ones(2 * nodes, dtype=np.float32), (rows, columns)), shape=(nodes, nodes))
    return sp.csr_array(one_way.maximum(one_way.T))


@pytest.fixture
def make_content() -> Callable[..., ReportContent]:
    def make(
        nodes: int = 60,
        classes: int = 4,
        kind: str = "samples",
        image: bool = False,
        test: bool = True,
        labelled_test: bool = True,
        node_ids: np.ndarray | None = None,
        class_names: tuple[str, ...] | None = None,
        **changes: Any,
    ) -> ReportContent:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, classes, nodes)
        centre = rng.normal(size=(nodes, classes)) + 1.5 * np.eye(classes)[labels]  # wrong now and then
        logits = centre + 0.5 * rng.normal(size=(8 if kind == "samples" else 1, nodes, classes))
        alpha = np.exp(logits[0]) + 1 if kind == "dirichlet" else None
        weights = alpha[None] if alpha is not None else np.exp(logits)
        ids = np.arange(nodes) + 1000 if node_ids is None else node_ids
        names = tuple(f"kind {c}" for c in range(classes)) if class_names is None else class_names
        test_mask = np.arange(nodes) >= nodes // 2
        masks = {"train": ~test_mask} | ({"test": test_mask} if test else {})
        shown = labels if labelled_test else np.where(test_mask, UNLABELLED, labels)
        features = rng.random((nodes, 12)).astype(np.float32)
        graph = Graph(
            Adjacency(ring(nodes)),
            features,
            ids,
            ClassTarget(shown, names),
            masks=masks,
            image_shape=(3, 4) if image else None,
        )
        probs = weights / weights.sum(-1, keepdims=True)
        prediction = ClassPrediction(probs, ids, names, kind, alpha=alpha)  # type: ignore[arg-type]
        metrics = summarise(prediction, labels, test_mask) if test and labelled_test else {}
        settings: dict[str, Any] = {
            "title": "a run",
            "graph": graph,
            "prediction": prediction,
            "metrics": metrics,
            "history": HISTORY,
        }
        return ReportContent(**(settings | changes))

    return make
