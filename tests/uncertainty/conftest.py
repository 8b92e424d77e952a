"""Small graphs and predictions that the tests of scores share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.prediction import Prediction


@pytest.fixture
def make_graph() -> Callable[..., Graph]:
    def make(dense: np.ndarray, *, directed: bool = False, **masks: np.ndarray) -> Graph:
        nodes = len(dense)
        return Graph(
            adjacency=Adjacency(sp.csr_array(np.asarray(dense, dtype=np.float32)), directed=directed),
            features=np.zeros((nodes, 1), dtype=np.float32),
            labels=np.zeros(nodes, dtype=np.int64),
            class_names=("a", "b", "c"),
            node_ids=np.arange(nodes),
            masks={name: np.asarray(mask, dtype=bool) for name, mask in masks.items()},
        )

    return make


@pytest.fixture
def make_prediction() -> Callable[..., Prediction]:
    def make(
        kind: str = "samples", *, samples: int = 5, nodes: int = 20, classes: int = 4, seed: int = 0
    ) -> Prediction:
        rng = np.random.default_rng(seed)
        if kind == "dirichlet":
            alpha = 1.0 + rng.gamma(1.0, 5.0, size=(nodes, classes))
            probs = (alpha / alpha.sum(-1, keepdims=True))[None]
            logits = np.log(alpha)[None]
        else:
            alpha = None
            logits = 2.0 * rng.normal(size=(samples if kind == "samples" else 1, nodes, classes))
            probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        names = tuple(f"class {c}" for c in range(classes))
        return Prediction(probs, np.arange(nodes), names, kind, logits=logits, alpha=alpha)  # type: ignore[arg-type]

    return make
