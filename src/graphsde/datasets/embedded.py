"""Graphs that need no download: handwritten digits with classes, patients with a number to predict."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphsde.datasets.splits import make_split
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph

NEIGHBOURS = 10
SIDE = 8


def load_digits_graph() -> Graph:
    """1,797 images of 8×8 pixels in 10 classes; an edge joins two if one is among the other's 10 nearest.

    Pixels are divided by 16. Distances are Euclidean between the original integers, so they are
    exact, and ties go to the image with the lower position: the graph is the same everywhere.
    Masks: 20 training and 30 validation nodes per class, drawn with seed 0; the rest are test nodes.
    """
    table = _table("digits.csv.gz", delimiter=",").astype(np.int64)
    pixels, digits = table[:, :-1], table[:, -1]  # [1797, 64], [1797]
    one_way = nearest(pixels, NEIGHBOURS)
    graph = from_arrays(
        (pixels / 16).astype(np.float32),
        one_way.maximum(one_way.T),
        labels=digits,
        class_names=[str(digit) for digit in range(10)],
        feature_names=[f"pixel {row},{column}" for row in range(SIDE) for column in range(SIDE)],
        image_shape=(SIDE, SIDE),
        name="digits",
    )
    return graph.with_masks(split=None, **make_split(graph, "shchur", seed=0, lcc=False).masks)


def _table(name: str, delimiter: str | None = None) -> np.ndarray:
    """Numbers that scikit-learn ships, read without importing it and pandas: that would take two seconds."""
    package = find_spec("sklearn")
    assert package is not None and package.origin is not None  # a dependency
    return np.loadtxt(Path(package.origin).parent / "datasets" / "data" / name, delimiter=delimiter)


def nearest(points: np.ndarray, k: int) -> sp.csr_array:
    """A matrix with a one from each point to each of its ``k`` nearest others; ties go to the lower position.

    Args:
        points: integers of at most seven digits, so that squared distances are exact.  # [N, d] int64
    """
    count = len(points)
    norms = (points**2).sum(axis=1)
    # products of floats are twenty times as fast as those of integers, and exact below 2^53
    products = (points.astype(np.float64) @ points.T.astype(np.float64)).astype(np.int64)
    squared = norms[:, None] + norms[None, :] - 2 * products  # [N, N]
    order = squared * count + np.arange(count)  # distinct keys: distance first, then position
    np.fill_diagonal(order, np.iinfo(np.int64).max)
    targets = np.sort(np.argpartition(order, k, axis=1)[:, :k], axis=1)
    starts = np.arange(0, count * k + 1, k)
    return sp.csr_array((np.ones(count * k, dtype=np.float32), targets.ravel(), starts), shape=(count, count))


PATIENTS_NEIGHBOURS = 8
MEASUREMENTS = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
SHARES = {"train": 0.5, "val": 0.15, "calibration": 0.0, "test": 0.35}
FINENESS = 1000


def load_diabetes_graph() -> Graph:
    """442 patients, 10 measurements each; an edge joins two if one is among the other's 8 nearest.

    The value to predict is the progression of the disease after one year, 25 to 346 (Efron, Hastie, Johnstone and
    Tibshirani, "Least angle regression", 2004). Distances are Euclidean between columns of unit variance, rounded to
    thousandths so that they are exact and the graph is the same everywhere.
    Masks: 50 % train, 15 % validation, 35 % test, drawn with seed 0.
    """
    measured = _table("diabetes_data_raw.csv.gz")  # [442, 10]
    standard = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    one_way = nearest(np.rint(FINENESS * standard).astype(np.int64), PATIENTS_NEIGHBOURS)
    graph = from_arrays(
        measured.astype(np.float32),
        one_way.maximum(one_way.T),
        labels=_table("diabetes_target.csv.gz"),
        feature_names=list(MEASUREMENTS),
        name="diabetes",
        target="regression",
    )
    return graph.with_masks(split=None, **make_split(graph, "fractions", seed=0, **SHARES).masks)
