"""A numeric target that needs no download: patients with diabetes, each linked to the most similar ones."""

from __future__ import annotations

import numpy as np

from graphsde.data.build import from_arrays
from graphsde.data.digits import nearest
from graphsde.data.graph import Graph
from graphsde.data.splits import make_split

NEIGHBOURS = 8
SHARES = {"train": 0.5, "val": 0.15, "calibration": 0.0, "test": 0.35}
FINENESS = 1000


def load_diabetes_graph() -> Graph:
    """442 patients, 10 measurements each; an edge joins two of which one is among the other's 8 nearest.

    The value to predict is the progression of the disease after one year, 25 to 346 (Efron, Hastie, Johnstone and
    Tibshirani, "Least angle regression", 2004). Distances are Euclidean between columns of unit variance, rounded to
    thousandths so that they are exact and the graph is the same everywhere.
    Masks: half of the nodes train, 15 % validate, 35 % are tested, drawn with seed 0.
    """
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    measured = np.asarray(bunch.data, dtype=np.float64)  # [442, 10]
    standard = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    one_way = nearest(np.rint(FINENESS * standard).astype(np.int64), NEIGHBOURS)
    graph = from_arrays(
        measured.astype(np.float32),
        one_way.maximum(one_way.T),
        labels=np.asarray(bunch.target, dtype=np.float64),
        feature_names=list(bunch.feature_names),
        name="diabetes",
        target="numeric",
    )
    return graph.with_masks(split=None, **make_split(graph, "fractions", seed=0, **SHARES).masks)
