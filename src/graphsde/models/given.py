"""Predictions made elsewhere, as models: nothing is fitted, everything after a fit works."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.interrupt import InterruptGuard
from graphsde.graph.graph import Graph
from graphsde.models.base import Estimate, Model, ModelSettings
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.likelihood import TargetScale
from graphsde.prediction import ClassPrediction, Perturb, Prediction, RegressionPrediction
from graphsde.uncertainty.held_out import require_same_nodes

BEFORE = "before:"
"""Prefix of the names of the uncalibrated prediction."""


class TrainedElsewhere(Model):
    """A model already fitted by another program; it is not registered."""

    paper, year = "", 0
    taught_by: ClassVar[str] = (
        "train your own model with these labels, and save its new predictions: gs.save_run(…, overwrite=True)"
    )
    """What to do with new labels: nothing here can be trained."""

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        raise self.cannot_fit()

    def cannot_fit(self) -> BadUsage:
        """The error for an attempt to fit it."""
        return BadUsage(
            "this model was trained elsewhere and can't be fitted",
            fix="train it as before, then wrap it again or save its new predictions (gs.save_run)",
        )

    @property
    def has_feature_gradient(self) -> bool:
        return False

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        return Estimate(0, 0.0, 0)


class GivenSettings(ModelSettings):
    """Settings of :class:`GivenPrediction`.

    Args:
        made_by: what made the prediction, for people to read.
    """

    made_by: str = ""


class GivenPrediction(TrainedElsewhere):
    """A prediction of one graph, kept as a model, so that a run can hold it (:func:`graphsde.save_run`).

    It only predicts the graph it was made for: there is no model to predict another one.
    """

    name = "given-prediction"
    summary = "a prediction made elsewhere, of one graph"
    Settings = GivenSettings
    targets = ("classification", "regression")
    settings: GivenSettings

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._prediction: Prediction | None = None
        self._content = ""

    @classmethod
    def of(cls, prediction: Prediction, graph: Graph, *, made_by: str = "") -> Self:
        """Keep the prediction of all nodes of ``graph``."""
        require_same_nodes(prediction, graph)
        if not np.array_equal(prediction.ids, graph.node_ids):
            raise BadInput(
                "the prediction and the graph have different node ids, or the same in another order",
                code="E-ID-ORDER",
                expected="the ids of the graph, in its order",
                fix="pass the graph when making the prediction: gs.Prediction.from_probabilities(probs, graph)",
            )
        model = cls(made_by=made_by)
        model._take(prediction, content_of(graph))
        return model

    def _take(self, prediction: Prediction, content: str) -> None:
        self._prediction, self._content, self._learned_from = prediction, content, prediction.learned_from
        self.class_names = getattr(prediction, "class_names", ()) if prediction.target_kind in CLASS_KINDS else ()
        self._target_scale = None if prediction.target_kind in CLASS_KINDS else TargetScale(0.0, 1.0)

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """The given prediction, for any number of samples and seed."""
        self._require_fitted(samples)
        self._refuse_perturbation(perturb)
        assert self._prediction is not None
        if content_of(graph) != self._content:
            raise BadUsage(
                "only a prediction was saved, without its model: it can't predict another graph",
                fix="predict that graph with your own model, or wrap the model itself (gs.wrap) in Python",
            )
        return self._calibrated(_renamed(self._prediction, graph.node_ids), graph)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        assert self._prediction is not None
        tensors, values = _taken_apart(self._prediction)
        before = getattr(self._prediction, "uncalibrated", None)
        if before is not None:
            former, described = _taken_apart(before)
            tensors |= {BEFORE + name: tensor for name, tensor in former.items()}
            values["before"] = described
        return tensors, values | {"content": self._content, "target": self._prediction.target_kind}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        kind = KINDS[values["target"]]
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith(BEFORE)}
        described = {name: value for name, value in values.items() if name not in ("before", "content", "target")}
        prediction = _put_together(kind, own, described)
        if "before" in values:
            former = {name.removeprefix(BEFORE): t for name, t in tensors.items() if name.startswith(BEFORE)}
            assert isinstance(prediction, ClassPrediction)
            before = _put_together(kind, former, values["before"])
            assert isinstance(before, ClassPrediction)
            prediction = dataclasses.replace(prediction, uncalibrated=before)
        self._take(prediction, str(values["content"]))


KINDS: dict[str, type[ClassPrediction] | type[RegressionPrediction]] = {
    kind.target_kind: kind for kind in (ClassPrediction, RegressionPrediction)
}
CLASS_KINDS = (ClassPrediction.target_kind,)


def content_of(graph: Graph) -> str:
    """A digest of what a model sees of a graph: nodes, edges, features, no labels."""
    return graph.without_target().fingerprint


def _renamed(prediction: Prediction, ids: np.ndarray) -> Prediction:
    """With the graph's ids, which are not stored twice."""
    assert isinstance(prediction, ClassPrediction | RegressionPrediction)
    before = getattr(prediction, "uncalibrated", None) if prediction.target_kind in CLASS_KINDS else None
    more = {} if before is None else {"uncalibrated": dataclasses.replace(before, ids=ids)}
    return dataclasses.replace(prediction, ids=ids, **more)


def _taken_apart(prediction: Prediction) -> tuple[dict[str, Tensor], dict[str, Any]]:
    assert isinstance(prediction, ClassPrediction | RegressionPrediction)
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for field in dataclasses.fields(prediction):
        value = getattr(prediction, field.name)
        if field.name in ("ids", "uncalibrated") or value is None:
            continue
        if isinstance(value, np.ndarray):
            tensors[field.name] = torch.from_numpy(np.array(value))
        else:
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return tensors, values


def _put_together(
    kind: type[ClassPrediction] | type[RegressionPrediction], tensors: dict[str, Tensor], values: dict[str, Any]
) -> ClassPrediction | RegressionPrediction:
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    nodes = next(array for name, array in arrays.items() if name in ("probs", "means")).shape[1]
    return kind(**arrays, **plain, ids=np.arange(nodes))
