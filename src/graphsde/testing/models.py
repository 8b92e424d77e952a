"""What every model guarantees, as checks for your own model.

Example: ``gs.testing.check_model(MyModel, {"epochs": 3})``, or one by one in a test file of yours::

    import pytest
    from graphsde.testing.models import MODEL_CHECKS, ModelCase

    CASE = ModelCase(lambda **settings: MyModel(**{"epochs": 3, **settings}))

    @pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check, tmp_path):
        check(CASE, tmp_path)

One fit on a graph of thirty nodes is shared by all checks that only read.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from graphsde.base.errors import BadInput, BadUsage, NotFitted
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.target import UNLABELLED
from graphsde.models.base import MODELS, Model
from graphsde.models.files import load_model
from graphsde.prediction import ClassPrediction, Perturb, Prediction, require
from graphsde.testing.contract import contract as contract_of
from graphsde.testing.contract import expect, refuses, run_checks, untouched_randomness

SAMPLES = 3
Check = Callable[["ModelCase", Path], None]
MODEL_CHECKS: list[Check] = []
contract = contract_of(MODEL_CHECKS)


class ModelCase:
    """A way to make the model, a small graph, and one fit on it.

    Args:
        make: makes an unfitted model; takes settings as keywords, must accept ``seed``.
        uses_features: the prediction depends on node features.
        uses_edges: the prediction depends on edges.
        inductive: predicts on a graph that has none of the training nodes.
        fixed_samples: the model decides on the number of samples, as in an ensemble, not the caller.
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
    def prediction(self) -> ClassPrediction:
        return predicted(self.fitted, self.graph)

    def refit(self, graph: Graph, **settings: Any) -> ClassPrediction:
        return predicted(self.make(**{"seed": 0, **settings}).fit(graph), graph)


def predicted(model: Model, graph: Graph, samples: int = SAMPLES, **options: Any) -> ClassPrediction:
    return require(model.predict(graph, samples=samples, **options), ClassPrediction, "this check")


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


def same(one: Prediction, two: Prediction, words: str, *, within: float = 0.0) -> None:
    first, second = (require(each, ClassPrediction, "this check").probs for each in (one, two))
    gap = float(np.abs(first - second).max())
    expect(gap <= within, f"{words}: probabilities differ by {gap:.2g}")


@contract
def has_name_summary_paper_and_year(case: ModelCase, folder: Path) -> None:
    model = case.make()
    expect(model.name and model.summary and model.paper and 1700 < model.year < 2100, "name, summary, paper, year")


@contract
def is_registered_under_its_name(case: ModelCase, folder: Path) -> None:
    model = case.make()
    expect(model.name in MODELS and MODELS.get(model.name) is type(model), "register it with @gs.register")


@contract
def has_a_docstring_that_names_the_paper(case: ModelCase, folder: Path) -> None:
    expect("Paper:" in (type(case.make()).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract
def settings_are_plain_values(case: ModelCase, folder: Path) -> None:
    model = case.make()
    again = model.Settings.model_validate(model.settings.model_dump(mode="json"))
    expect(again == model.settings, "settings survive a round trip through JSON")


@contract
def refuses_an_unknown_setting(case: ModelCase, folder: Path) -> None:
    refuses(BadUsage, lambda: type(case.make())(no_such_setting=1), "an unknown setting")


@contract
def refuses_a_bad_seed(case: ModelCase, folder: Path) -> None:
    for seed in (-1, 2**64, 0.5, "x"):
        refuses(BadUsage, lambda seed=seed: case.make(seed=seed), f"seed {seed!r}")  # type: ignore[misc]


@contract
def repr_names_the_class(case: ModelCase, folder: Path) -> None:
    model = case.make(seed=3)
    expect(type(model).__name__ in repr(model) and "seed=3" in repr(model), "repr shows class and changed settings")


@contract
def constructor_does_not_touch_global_randomness(case: ModelCase, folder: Path) -> None:
    with untouched_randomness():
        case.make()


@contract
def predict_before_fit_is_refused(case: ModelCase, folder: Path) -> None:
    refuses(NotFitted, lambda: case.make().predict(case.graph), "predict before fit")


@contract
def save_before_fit_is_refused(case: ModelCase, folder: Path) -> None:
    refuses(NotFitted, lambda: case.make().save(folder), "save before fit")
    expect(not any(folder.iterdir()), "a refused save leaves no file")


@contract
def estimate_is_positive_and_does_not_fit(case: ModelCase, folder: Path) -> None:
    model = case.make()
    estimate = model.estimate(case.graph)
    expect(estimate.bytes > 0 and estimate.seconds >= 0, "estimate of memory and time")
    refuses(NotFitted, lambda: model.predict(case.graph), "estimate must not fit")


@contract
def fit_returns_self(case: ModelCase, folder: Path) -> None:
    model = case.make()
    expect(model.fit(case.graph) is model, "fit returns self")


@contract
def fit_leaves_the_graph_alone(case: ModelCase, folder: Path) -> None:
    graph = contract_graph()
    before = graph.fingerprint
    masks = {name: mask.copy() for name, mask in graph.masks.items()}
    case.make().fit(graph)
    expect(dataclasses.replace(graph).fingerprint == before, "features, edges and labels are untouched")
    expect(all(np.array_equal(masks[name], graph.masks[name]) for name in masks), "masks are untouched")


@contract
def fit_does_not_touch_global_randomness(case: ModelCase, folder: Path) -> None:
    with untouched_randomness():
        case.make().fit(case.graph)


@contract
def somebody_elses_seed_changes_nothing(case: ModelCase, folder: Path) -> None:
    before = torch.get_rng_state()
    torch.random.default_generator.manual_seed(4711)
    try:
        same(case.refit(case.graph), case.prediction, "another global seed")
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
    same(case.refit(graph.with_labels(hidden)), case.prediction, "test labels leak into training")


@contract
def unlabelled_nodes_are_welcome(case: ModelCase, folder: Path) -> None:
    graph = case.graph
    assert graph.labels is not None and graph.test_mask is not None
    hidden = np.where(graph.test_mask, UNLABELLED, graph.labels)
    same(case.refit(graph.with_labels(hidden)), case.prediction, "unlabelled test nodes")


@contract
def no_labels_are_refused(case: ModelCase, folder: Path) -> None:
    refuses(BadInput, lambda: case.make().fit(case.graph.without_target()), "a graph without labels")


@contract
def no_training_nodes_are_refused(case: ModelCase, folder: Path) -> None:
    masks = {**case.graph.masks, "train": np.zeros(30, dtype=bool)}
    graph = dataclasses.replace(case.graph, masks=MappingProxyType(masks))
    refuses(BadInput, lambda: case.make().fit(graph), "an empty training set")


@contract
def one_class_is_refused(case: ModelCase, folder: Path) -> None:
    graph = case.graph.with_labels(np.zeros(30, dtype=np.int64))
    refuses(BadInput, lambda: case.make().fit(graph), "one class only")


@contract
def an_unlabelled_training_node_is_refused(case: ModelCase, folder: Path) -> None:
    assert case.graph.labels is not None and case.graph.train_mask is not None
    labels = case.graph.labels.copy()
    labels[np.flatnonzero(case.graph.train_mask)[0]] = UNLABELLED
    refuses(BadInput, lambda: case.make().fit(case.graph.with_labels(labels)), "no label in training")


@contract
def a_graph_without_edges_is_fitted(case: ModelCase, folder: Path) -> None:
    graph = case.graph
    assert graph.labels is not None
    lonely = from_arrays(
        np.asarray(graph.features), np.zeros((2, 0), dtype=int), labels=graph.labels, class_names=graph.class_names,
        train_mask=graph.train_mask, val_mask=graph.val_mask, test_mask=graph.test_mask,
    )  # fmt: skip
    expect(np.isfinite(case.refit(lonely).probs).all(), "finite predictions without edges")


@contract
def sparse_features_are_fitted(case: ModelCase, folder: Path) -> None:
    import scipy.sparse as sp

    values = np.abs(np.asarray(case.graph.features)) * (np.asarray(case.graph.features) > 1.0)
    graph = dataclasses.replace(
        case.graph.with_features(sp.csr_array(values.astype(np.float32))), categorical=MappingProxyType({})
    )
    dense = graph.with_features(values.astype(np.float32))
    sparse_prediction, dense_prediction = case.refit(graph), case.refit(dense)
    expect(np.isfinite(sparse_prediction.probs).all(), "finite predictions from sparse features")
    expect(sparse_prediction.probs.shape == dense_prediction.probs.shape, "same shape as from dense features")


@contract
def probabilities_are_probabilities(case: ModelCase, folder: Path) -> None:
    probs = case.prediction.probs
    expect(probs.shape[1:] == (30, 3), f"shape [S, 30, 3], not {probs.shape}")
    expect((probs >= 0).all() and np.allclose(probs.sum(-1), 1, atol=1e-5), "rows sum to one")


@contract
def ids_and_class_names_are_the_graphs(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    expect(prediction.ids.tolist() == case.graph.node_ids.tolist(), "node ids in the graph's order")
    expect(prediction.class_names == case.graph.class_names, "class names of the graph")
    expect(set(prediction.label) <= set(case.graph.class_names), "labels are class names")


@contract
def uncertainty_adds_up(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    if prediction.kind == "deterministic":
        expect(np.isnan(prediction.epistemic).all(), "a deterministic model has no epistemic part")
        expect(np.allclose(prediction.aleatoric, prediction.total), "all of it is aleatoric")
    else:
        parts = prediction.aleatoric + prediction.epistemic
        expect(np.allclose(parts, prediction.total, atol=1e-6), "total = aleatoric + epistemic")
        expect((prediction.epistemic >= 0).all(), "epistemic is not negative")


@contract
def logits_agree_with_probabilities(case: ModelCase, folder: Path) -> None:
    prediction = case.prediction
    if prediction.logits is not None and prediction.kind != "dirichlet":
        expect(prediction.logits.shape == prediction.probs.shape, "logits have the shape of the probabilities")
        expect((prediction.logits.argmax(-1) == prediction.probs.argmax(-1)).all(), "same order of classes")


@contract
def predict_does_not_train(case: ModelCase, folder: Path) -> None:
    before = copy.deepcopy(case.fitted.state()[0])
    case.fitted.predict(case.graph, samples=SAMPLES)
    after = case.fitted.state()[0]
    expect(all(torch.equal(before[name], after[name]) for name in before), "predict does not change the model")


@contract
def predict_twice_is_the_same(case: ModelCase, folder: Path) -> None:
    same(case.fitted.predict(case.graph, samples=SAMPLES), case.prediction, "two predictions")


@contract
def more_samples_extend_the_same_samples(case: ModelCase, folder: Path) -> None:
    longer = predicted(case.fitted, case.graph, SAMPLES + 2)
    if case.fixed_samples:
        expect(longer.num_samples == case.prediction.num_samples, "always as many samples")
    elif case.prediction.kind == "samples":
        expect(longer.num_samples == SAMPLES + 2, "as many samples as requested")
    gap = float(np.abs(longer.probs[: case.prediction.num_samples] - case.prediction.probs).max())
    expect(gap == 0, f"sample k does not depend on how many are drawn (differs by {gap:.2g})")


@contract
def a_feature_gradient_is_there_or_denied(case: ModelCase, folder: Path) -> None:
    def moved() -> ClassPrediction:
        return predicted(case.fitted, case.graph, perturb=Perturb(0.1))

    if not case.fitted.has_feature_gradient:
        refuses(BadUsage, moved, "perturb without a gradient")
        return
    expect(np.isfinite(moved().probs).all(), "a prediction at moved features is finite")
    expect(not np.array_equal(moved().probs, case.prediction.probs), "moved features move the prediction")


@contract
def zero_samples_are_refused(case: ModelCase, folder: Path) -> None:
    if case.prediction.kind == "samples":
        refuses(BadUsage, lambda: case.fitted.predict(case.graph, samples=0), "samples=0")


@contract
def predict_keeps_no_gradient(case: ModelCase, folder: Path) -> None:
    expect(isinstance(case.prediction.probs, np.ndarray), "probabilities are a numpy array")
    tensors = case.fitted.state()[0].values()
    expect(all(tensor.grad is None or not tensor.grad.any() for tensor in tensors), "no gradient is left behind")


@contract
def the_order_of_nodes_does_not_matter(case: ModelCase, folder: Path) -> None:
    order = np.random.default_rng(1).permutation(30)
    prediction = predicted(case.fitted, case.graph.subgraph(order))
    gap = float(np.abs(prediction.probs - case.prediction.probs[:, order]).max())
    expect(gap <= 1e-5, f"permuting the nodes permutes the result (differs by {gap:.2g})")


@contract
def a_prediction_graph_needs_no_labels_and_no_masks(case: ModelCase, folder: Path) -> None:
    bare = dataclasses.replace(case.graph.without_target(), masks=MappingProxyType({}))
    same(case.fitted.predict(bare, samples=SAMPLES), case.prediction, "a graph without labels and masks")


@contract
def another_graph_is_predicted(case: ModelCase, folder: Path) -> None:
    if not case.inductive:
        return
    other = contract_graph(seed=5)
    other = dataclasses.replace(other, node_ids=np.array([f"other {i}" for i in range(30)], dtype=object))
    expect(
        case.fitted.predict(other.subgraph(np.arange(12)), samples=SAMPLES).num_items == 12,
        "a smaller, different graph",
    )


@contract
def other_columns_are_refused(case: ModelCase, folder: Path) -> None:
    if not case.uses_features:
        return
    fewer = dataclasses.replace(
        case.graph.with_features(np.asarray(case.graph.features)[:, :4]), feature_names=("x0", "x1", "x2", "x3")
    )
    error = refuses(BadInput, lambda: case.fitted.predict(fewer), "a missing column")
    expect(error.code == "E-SCHEMA", "the code is E-SCHEMA")


@contract
def unknown_classes_are_refused(case: ModelCase, folder: Path) -> None:
    assert case.graph.labels is not None
    strange = case.graph.with_labels(case.graph.labels, ("a", "b", "zebra"))
    refuses(BadInput, lambda: case.fitted.predict(strange), "a class the model does not know")


@contract
def features_matter(case: ModelCase, folder: Path) -> None:
    moved = case.graph.with_features(np.asarray(case.graph.features)[::-1].copy())
    gap = np.abs(case.fitted.predict(moved, samples=SAMPLES).mean - case.prediction.mean).max()
    expect(
        (gap > 1e-6) == case.uses_features, f"uses_features={case.uses_features}, other features move it by {gap:.2g}"
    )


@contract
def edges_matter(case: ModelCase, folder: Path) -> None:
    other = case.graph.with_adjacency(contract_graph(seed=9).adjacency)
    gap = np.abs(case.fitted.predict(other, samples=SAMPLES).mean - case.prediction.mean).max()
    expect((gap > 1e-6) == case.uses_edges, f"uses_edges={case.uses_edges}, other edges move it by {gap:.2g}")


@contract
def saved_and_loaded_it_predicts_the_same_bits(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    loaded = load_model(folder)
    expect(type(loaded) is type(case.fitted) and loaded.settings == case.fitted.settings, "same class and settings")
    same(loaded.predict(case.graph, samples=SAMPLES), case.prediction, "after save and load")


@contract
def saving_twice_writes_the_same_bytes(case: ModelCase, folder: Path) -> None:
    for name in ("one", "two"):
        case.fitted.save(folder / name)
    for path in sorted((folder / "one").iterdir()):
        expect(path.read_bytes() == (folder / "two" / path.name).read_bytes(), f"{path.name} is reproducible")


@contract
def a_changed_model_file_is_refused(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    refuses(BadInput, lambda: load_model(folder), "a flipped bit")


@contract
def an_edited_description_is_refused(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"seed": ', '"seed": 1'))
    refuses(BadInput, lambda: load_model(folder), "an edited setting")


@contract
def a_file_of_another_format_is_refused(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 999'))
    refuses(BadInput, lambda: load_model(folder), "a newer format")


@contract
def a_calibrator_is_kept_with_the_model(case: ModelCase, folder: Path) -> None:
    """Every ``predict`` must end with ``self._calibrated(prediction, graph)``."""
    model = case.fitted
    try:
        model.calibrate(case.graph, by="vector", samples=SAMPLES).save(folder)
        calibrated = predicted(model, case.graph)
    finally:
        model.calibrate(case.graph, by=None)
    expect(calibrated.uncalibrated is not None, "predict applies the calibrator")
    same(load_model(folder).predict(case.graph, samples=SAMPLES), calibrated, "calibrated, after save and load")
    same(calibrated.untempered(), case.prediction.untempered(), "calibration can be undone")


def check_model(
    make: Callable[..., Model],
    settings: dict[str, Any] | None = None,
    *,
    uses_features: bool = True,
    uses_edges: bool = True,
    inductive: bool = True,
    fixed_samples: bool = False,
) -> int:
    """Check a model against everything that models guarantee; it is fitted some twenty times on thirty nodes.

    Args:
        make: the model's class.
        settings: that make it small and fast, such as ``{"epochs": 5}``.
        uses_features, uses_edges, inductive, fixed_samples: see :class:`ModelCase`.

    Returns:
        Number of checks passed.

    Raises:
        AssertionError: the first broken guarantee, with the name of its check.
    """
    case = ModelCase(
        lambda **given: make(**{**(settings or {}), **given}),
        uses_features=uses_features,
        uses_edges=uses_edges,
        inductive=inductive,
        fixed_samples=fixed_samples,
    )
    with tempfile.TemporaryDirectory() as folder:
        places = (Path(folder) / str(number) for number in itertools.count())

        def arguments() -> tuple[ModelCase, Path]:
            place = next(places)
            place.mkdir()
            return case, place

        return run_checks(MODEL_CHECKS, arguments)
