"""What fitting does, and what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from graphsde.data.build import from_arrays
from graphsde.data.graph import UNLABELLED
from graphsde.errors import BadInput
from graphsde.models.contract.case import (
    SAMPLES,
    ModelCase,
    contract,
    contract_graph,
    global_randomness,
    promise,
    refuses,
    same,
    unchanged,
)


@contract
def fit_returns_self(case: ModelCase, folder: Path) -> None:
    model = case.make()
    promise(model.fit(case.graph) is model, "fit returns self")


@contract
def fit_leaves_the_graph_alone(case: ModelCase, folder: Path) -> None:
    graph = contract_graph()
    before = graph.fingerprint
    masks = {name: mask.copy() for name, mask in graph.masks.items()}
    case.make().fit(graph)
    fresh = dataclasses.replace(graph)
    promise(fresh.fingerprint == before, "features, edges and labels are untouched")
    promise(all(np.array_equal(masks[name], graph.masks[name]) for name in masks), "masks are untouched")


@contract
def fit_does_not_touch_global_randomness(case: ModelCase, folder: Path) -> None:
    before = global_randomness()
    case.make().fit(case.graph)
    promise(unchanged(before), "the shared random generators are untouched")


@contract
def somebody_elses_seed_changes_nothing(case: ModelCase, folder: Path) -> None:
    before = torch.get_rng_state()
    torch.random.default_generator.manual_seed(4711)
    try:
        same(case.refit(case.graph), case.prediction, "a foreign global seed")
    finally:
        torch.set_rng_state(before)


@contract
def the_same_seed_gives_the_same_bits(case: ModelCase, folder: Path) -> None:
    same(case.refit(case.graph), case.prediction, "two fits with one seed")


@contract
def a_refit_equals_a_fresh_fit(case: ModelCase, folder: Path) -> None:
    model = case.make(seed=0).fit(contract_graph(seed=1)).fit(case.graph)
    same(model.predict(case.graph, samples=SAMPLES), case.prediction, "refit and fresh fit")


@contract
def labels_outside_training_and_validation_are_not_used(case: ModelCase, folder: Path) -> None:
    graph = case.graph
    assert graph.labels is not None and graph.train_mask is not None and graph.val_mask is not None
    hidden = np.where(graph.train_mask | graph.val_mask, graph.labels, (graph.labels + 1) % 3)
    same(case.refit(dataclasses.replace(graph, labels=hidden)), case.prediction, "test labels leak into training")


@contract
def unlabelled_nodes_are_welcome(case: ModelCase, folder: Path) -> None:
    graph = case.graph
    assert graph.labels is not None and graph.test_mask is not None
    hidden = np.where(graph.test_mask, UNLABELLED, graph.labels)
    same(case.refit(dataclasses.replace(graph, labels=hidden)), case.prediction, "unlabelled test nodes")


@contract
def no_labels_are_refused(case: ModelCase, folder: Path) -> None:
    graph = dataclasses.replace(case.graph, labels=None, class_names=())
    refuses(BadInput, lambda: case.make().fit(graph), "a graph without labels")


@contract
def no_training_nodes_are_refused(case: ModelCase, folder: Path) -> None:
    masks = {**case.graph.masks, "train": np.zeros(30, dtype=bool)}
    graph = dataclasses.replace(case.graph, masks=MappingProxyType(masks))
    refuses(BadInput, lambda: case.make().fit(graph), "an empty training set")


@contract
def one_class_is_refused(case: ModelCase, folder: Path) -> None:
    graph = dataclasses.replace(case.graph, labels=np.zeros(30, dtype=np.int64))
    refuses(BadInput, lambda: case.make().fit(graph), "one class only")


@contract
def an_unlabelled_training_node_is_refused(case: ModelCase, folder: Path) -> None:
    assert case.graph.labels is not None and case.graph.train_mask is not None
    labels = case.graph.labels.copy()
    labels[np.flatnonzero(case.graph.train_mask)[0]] = UNLABELLED
    refuses(BadInput, lambda: case.make().fit(dataclasses.replace(case.graph, labels=labels)), "no label in training")


@contract
def a_graph_without_edges_is_fitted(case: ModelCase, folder: Path) -> None:
    graph = case.graph
    assert graph.labels is not None
    lonely = from_arrays(
        np.asarray(graph.features), np.zeros((2, 0), dtype=int), labels=graph.labels, class_names=graph.class_names,
        train_mask=graph.train_mask, val_mask=graph.val_mask, test_mask=graph.test_mask,
    )  # fmt: skip
    promise(np.isfinite(case.refit(lonely).probs).all(), "finite predictions without edges")


@contract
def sparse_features_are_fitted(case: ModelCase, folder: Path) -> None:
    import scipy.sparse as sp

    values = np.abs(np.asarray(case.graph.features)) * (np.asarray(case.graph.features) > 1.0)
    graph = dataclasses.replace(
        case.graph.with_features(sp.csr_array(values.astype(np.float32))), categorical=MappingProxyType({})
    )
    dense = graph.with_features(values.astype(np.float32))
    sparse_prediction, dense_prediction = case.refit(graph), case.refit(dense)
    promise(np.isfinite(sparse_prediction.probs).all(), "finite predictions from sparse features")
    promise(sparse_prediction.probs.shape == dense_prediction.probs.shape, "same shape as from dense features")
