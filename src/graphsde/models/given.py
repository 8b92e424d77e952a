"""Predictions that were made elsewhere, as models: nothing is fitted, everything after a fit works."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

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
"""In front of the names of what the prediction was before it was calibrated."""


class TrainedElsewhere(Model):
    """A model that is fitted already, by somebody else's program; it is in no list of models to fit."""

    paper, year = "", 0

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
        """What whoever wants to fit it is told."""
        return BadUsage(
            "this model was trained elsewhere and can't be fitted here",
            fix="train it as you did before, then wrap it again or save its new predictions (gs.save_run)",
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

    It answers for the graph that was predicted on and refuses any other: there is nothing to predict that one with.
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
        """Keep what was predicted of all nodes of ``graph``."""
        require_same_nodes(prediction, graph)
        if not np.array_equal(prediction.ids, graph.node_ids):
            raise BadInput(
                "the prediction and the graph have different node ids, or the same in another order",
                code="E-ID-ORDER",
                expected="the ids of the graph, in its order",
                fix="give the graph where the prediction is made: gs.Prediction.from_probabilities(probs, graph)",
            )
        model = cls(made_by=made_by)
        model._take(prediction, content_of(graph))
        return model

    def _take(self, prediction: Prediction, content: str) -> None:
        self._prediction, self._content = prediction, content
        self.class_names = getattr(prediction, "class_names", ()) if prediction.target_kind in CLASS_KINDS else ()
        self._target_scale = None if prediction.target_kind in CLASS_KINDS else TargetScale(0.0, 1.0)

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """What was given, whatever the number of samples and the seed."""
        self._require_fitted(samples)
        self._refuse_perturbation(perturb)
        assert self._prediction is not None
        if content_of(graph) != self._content:
            raise BadUsage(
                "only a prediction is kept here, without the model that made it: it can't predict another graph",
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
    """With the graph's ids, which are not kept a second time."""
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
