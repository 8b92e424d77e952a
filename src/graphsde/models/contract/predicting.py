"""What a prediction is, and what it does not depend on."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from graphsde.errors import BadInput, BadUsage
from graphsde.models.contract.case import SAMPLES, ModelCase, contract, contract_graph, promise, refuses, same
from graphsde.prediction import Perturb, Prediction


@contract
def probabilities_are_probabilities(case: ModelCase, folder: Path) -> None:
    probs = case.prediction.probs
    promise(probs.shape[1:] == (30, 3), f"shape [S, 30, 3], not {probs.shape}")
    promise((probs >= 0).all() and np.allclose(probs.sum(-1), 1, atol=1e-5), "rows sum to one")


@contract
def ids_and_class_names_are_the_graphs(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    promise(prediction.node_ids.tolist() == case.graph.node_ids.tolist(), "node ids in the graph's order")
    promise(prediction.class_names == case.graph.class_names, "class names of the graph")
    promise(set(prediction.label) <= set(case.graph.class_names), "labels are class names")


@contract
def uncertainty_adds_up(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    if prediction.kind == "deterministic":
        promise(np.isnan(prediction.epistemic).all(), "a deterministic model has no epistemic part")
        promise(np.allclose(prediction.aleatoric, prediction.total), "all of it is aleatoric")
    else:
        parts = prediction.aleatoric + prediction.epistemic
        promise(np.allclose(parts, prediction.total, atol=1e-6), "total = aleatoric + epistemic")
        promise((prediction.epistemic >= 0).all(), "epistemic is not negative")


@contract
def logits_agree_with_probabilities(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    if prediction.logits is not None and prediction.kind != "dirichlet":
        promise(prediction.logits.shape == prediction.probs.shape, "logits have the shape of the probabilities")
        promise((prediction.logits.argmax(-1) == prediction.probs.argmax(-1)).all(), "same order of classes")


@contract
def predict_does_not_train(case: ModelCase, folder: Path) -> None:
    before = copy.deepcopy(case.fitted.state()[0])
    case.fitted.predict(case.graph, samples=SAMPLES)
    after = case.fitted.state()[0]
    promise(all(torch.equal(before[name], after[name]) for name in before), "predict leaves the model alone")


@contract
def predict_twice_is_the_same(case: ModelCase, folder: Path) -> None:
    same(case.fitted.predict(case.graph, samples=SAMPLES), case.prediction, "two predictions")


@contract
def more_samples_extend_the_same_samples(case: ModelCase, folder: Path) -> None:
    longer = case.fitted.predict(case.graph, samples=SAMPLES + 2)
    if case.fixed_samples:
        promise(longer.num_samples == case.prediction.num_samples, "always as many samples")
    elif case.prediction.kind == "samples":
        promise(longer.num_samples == SAMPLES + 2, "as many samples as asked for")
    gap = float(np.abs(longer.probs[: case.prediction.num_samples] - case.prediction.probs).max())
    promise(gap == 0, f"sample k does not depend on how many are drawn (differs by {gap:.2g})")


@contract
def a_feature_gradient_is_there_or_denied(case: ModelCase, folder: Path) -> None:
    def moved() -> Prediction:
        return case.fitted.predict(case.graph, samples=SAMPLES, perturb=Perturb(0.1))

    if not case.fitted.has_feature_gradient:
        refuses(BadUsage, moved, "perturb without a gradient")
        return
    promise(np.isfinite(moved().probs).all(), "a prediction at moved features is finite")
    promise(not np.array_equal(moved().probs, case.prediction.probs), "moved features move the prediction")


@contract
def zero_samples_are_refused(case: ModelCase, folder: Path) -> None:
    if case.prediction.kind == "samples":
        refuses(BadUsage, lambda: case.fitted.predict(case.graph, samples=0), "samples=0")


@contract
def predict_keeps_no_gradient(case: ModelCase, folder: Path) -> None:
    promise(isinstance(case.prediction.probs, np.ndarray), "probabilities are a numpy array")
    tensors = case.fitted.state()[0].values()
    promise(all(tensor.grad is None or not tensor.grad.any() for tensor in tensors), "no gradient is left behind")


@contract
def the_order_of_nodes_does_not_matter(case: ModelCase, folder: Path) -> None:
    order = np.random.default_rng(1).permutation(30)
    prediction = case.fitted.predict(case.graph.subgraph(order), samples=SAMPLES)
    gap = float(np.abs(prediction.probs - case.prediction.probs[:, order]).max())
    promise(gap <= 1e-5, f"permuting the nodes permutes the result (differs by {gap:.2g})")


@contract
def a_prediction_graph_needs_no_labels_and_no_masks(case: ModelCase, folder: Path) -> None:
    bare = dataclasses.replace(case.graph, labels=None, class_names=(), masks=MappingProxyType({}))
    same(case.fitted.predict(bare, samples=SAMPLES), case.prediction, "a graph without labels and masks")


@contract
def another_graph_is_predicted(case: ModelCase, folder: Path) -> None:
    if not case.inductive:
        return
    other = contract_graph(seed=5)
    other = dataclasses.replace(other, node_ids=np.array([f"other {i}" for i in range(30)], dtype=object))
    smaller = other.subgraph(np.arange(12))
    promise(case.fitted.predict(smaller, samples=SAMPLES).num_nodes == 12, "a smaller, foreign graph")


@contract
def other_columns_are_refused(case: ModelCase, folder: Path) -> None:
    if not case.uses_features:
        return
    fewer = dataclasses.replace(
        case.graph.with_features(np.asarray(case.graph.features)[:, :4]), feature_names=("x0", "x1", "x2", "x3")
    )
    error = refuses(BadInput, lambda: case.fitted.predict(fewer), "a missing column")
    promise(error.code == "E-SCHEMA", "the code is E-SCHEMA")


@contract
def unknown_classes_are_refused(case: ModelCase, folder: Path) -> None:
    strange = dataclasses.replace(case.graph, class_names=("a", "b", "zebra"))
    refuses(BadInput, lambda: case.fitted.predict(strange), "a class the model does not know")


@contract
def features_matter(case: ModelCase, folder: Path) -> None:
    moved = case.graph.with_features(np.asarray(case.graph.features)[::-1].copy())
    gap = np.abs(case.fitted.predict(moved, samples=SAMPLES).mean - case.prediction.mean).max()
    promise(
        (gap > 1e-6) == case.uses_features, f"uses_features={case.uses_features}, other features move it by {gap:.2g}"
    )


@contract
def edges_matter(case: ModelCase, folder: Path) -> None:
    other = case.graph.with_adjacency(contract_graph(seed=9).adjacency)
    gap = np.abs(case.fitted.predict(other, samples=SAMPLES).mean - case.prediction.mean).max()
    promise((gap > 1e-6) == case.uses_edges, f"uses_edges={case.uses_edges}, other edges move it by {gap:.2g}")
