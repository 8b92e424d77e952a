"""The case a contract is run on, and the words in which a broken promise is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphsde.data.build import from_arrays
from graphsde.data.graph import Graph
from graphsde.errors import GraphsdeError
from graphsde.models.base import Model
from graphsde.prediction import Prediction

SAMPLES = 3
Check = Callable[["ModelCase", Path], None]
MODEL_CHECKS: list[Check] = []


class Broken(AssertionError):
    """A promise that a model does not keep."""


class ModelCase:
    """A way to make the model, a small graph, and one fit on it.

    Args:
        make: makes an unfitted model; takes settings as keywords, must accept ``seed``.
        uses_features: the prediction depends on node features.
        uses_edges: the prediction depends on edges.
        inductive: predicts on a graph that has none of the training nodes.
        fixed_samples: how many samples there are is up to the model, as in an ensemble, not to the caller.
    """

    def __init__(
        self,
        make: Callable[..., Model],
        *,
        uses_features: bool = True,
        uses_edges: bool = True,
        inductive: bool = True,
        fixed_samples: bool = False,
    ) -> None:
        self.make = make
        self.uses_features, self.uses_edges, self.inductive = uses_features, uses_edges, inductive
        self.fixed_samples = fixed_samples
        self.graph = contract_graph()

    @cached_property
    def fitted(self) -> Model:
        return self.make(seed=0).fit(self.graph)

    @cached_property
    def prediction(self) -> Prediction:
        return self.fitted.predict(self.graph, samples=SAMPLES)

    def refit(self, graph: Graph, **settings: Any) -> Prediction:
        return self.make(**{"seed": 0, **settings}).fit(graph).predict(graph, samples=SAMPLES)


def contract_graph(seed: int = 0) -> Graph:
    """Thirty nodes with text ids in three blocks, five numeric columns and one of text."""
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % 3
    features = rng.normal(size=(30, 5)) + 2 * np.eye(3, 5)[labels]
    same = labels[:, None] == labels[None, :]
    edges = np.triu(rng.random((30, 30)) < np.where(same, 0.5, 0.05), 1)
    role = np.arange(30) // 3 % 5
    return from_arrays(
        features,
        np.stack(np.nonzero(edges)),
        labels=labels,
        node_ids=[f"node {i}" for i in range(30)],
        class_names=["a", "b", "c"],
        feature_names=[f"x{i}" for i in range(5)],
        categorical={"kind": [["red", "blue"][i % 2] for i in range(30)]},
        train_mask=role < 2,
        val_mask=role == 2,
        calibration_mask=role == 3,
        test_mask=role == 4,
        name="contract",
    )


def contract(check: Check) -> Check:
    MODEL_CHECKS.append(check)
    return check


def promise(kept: object, words: str) -> None:
    if not kept:
        raise Broken(words)


def refuses(kind: type[GraphsdeError], action: Callable[[], object], words: str) -> GraphsdeError:
    try:
        action()
    except kind as error:
        return error
    raise Broken(f"{words}: {kind.__name__} was expected")


def global_randomness() -> list[np.ndarray]:
    """The state of everybody's shared generators, which no model may draw from."""
    numpy_state = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002 (only looked at)  # type: ignore[index]
    return [torch.get_rng_state().numpy().copy(), np.array(numpy_state), np.array(random.getstate()[1])]


def unchanged(before: list[np.ndarray]) -> bool:
    return all(np.array_equal(then, now) for then, now in zip(before, global_randomness(), strict=True))


def same(one: Prediction, two: Prediction, words: str, *, within: float = 0.0) -> None:
    gap = float(np.abs(one.probs - two.probs).max())
    promise(gap <= within, f"{words}: probabilities differ by {gap:.2g}")
