"""Base of tasks: a question about many models on many graphs, answered by numbers; and how tasks fit models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from pydantic import Field

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry, Rules
from graphsde.bench.kept_fits import fitted, timed
from graphsde.datasets.splits import default_split, make_split
from graphsde.graph.graph import Graph
from graphsde.metrics.calibration import nll
from graphsde.metrics.classification import accuracy
from graphsde.metrics.regression import density_nll
from graphsde.models import Model
from graphsde.nn.settings import Settings
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction, require
from graphsde.uncertainty.held_out import align_labels, known_items


class ModelMaker(Protocol):
    """Makes a new, unfitted model of the cell; keyword settings take precedence over the cell's own."""

    def __call__(self, **settings: Any) -> Model: ...


class TaskOptions(Settings):
    """Options that every task has.

    Args:
        split: the name of the split; ``None`` for the task's own choice for the graph.
        split_options: options of the split.
        samples: per prediction, for models that draw samples.
    """

    split: str | None = None
    split_options: dict[str, Any] = Field(default_factory=dict)
    samples: int = Field(64, ge=1, le=100_000)


@dataclass(frozen=True)
class Measurement:
    """The result of one cell.

    Args:
        metrics: by name; NaN if undefined.
        curves: short series by name, such as accuracy over rounds.
    """

    metrics: dict[str, float]
    curves: dict[str, list[float]] = field(default_factory=dict)


class Task(ABC):
    """A question. Subclasses set ``name``, ``summary``, ``version``, ``Options`` and are registered in :data:`TASKS`.

    ``version`` is increased manually when a change of code changes results; older journals are then refused.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    version: ClassVar[int] = 1
    Options: ClassVar[type[TaskOptions]] = TaskOptions
    targets: ClassVar[tuple[str, ...]] = ("classification",)
    """Kinds of target that it applies to."""
    headline: ClassVar[tuple[str, ...]]
    """The metrics that a table shows first."""

    def __init__(self, **options: Any) -> None:
        self.options = self.Options.parse(options, f"task '{self.name}'")

    def require_target(self, graph: Graph) -> None:
        """Refuse a graph that the task does not apply to."""
        kind = graph.target_kind
        if kind not in self.targets:
            able = ", ".join(name for name in TASKS if kind in TASKS.get(name).targets)
            raise BadUsage(
                f"the task '{self.name}' does not apply to {graph.name}, which is for {kind}",
                code="E-TARGET",
                expected=f"one of {able}",
            )

    def require_model(self, make: ModelMaker) -> None:
        """Refuse a model that the task does not apply to, or whose settings are wrong."""
        make()

    def variants(self, graph: Graph) -> list[dict[str, Any]]:
        """Options of the cells of this task on a graph, such as one per class left out."""
        return [{}]

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        """Which split the task uses."""
        return self.options.split or default_split(graph), dict(self.options.split_options)

    def prepare(self, graph: Graph, seed: int) -> Graph:
        """The graph with its roles; a random split is drawn for ``seed``."""
        name, options = self.split(graph)
        return make_split(graph, name, seed=seed, **options).apply(graph)

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        """What decides, besides model and seed, which kept fit will do; ``None`` if none will."""
        return list(self.split(graph))

    @abstractmethod
    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        """Train on ``graph`` as :meth:`prepare` left it, and measure."""

    def fit_timed(self, make: ModelMaker, graph: Graph, *, to_go_on: bool = False) -> tuple[Model, dict[str, float]]:
        """A fitted model and the cost of the fit: CPU seconds, epochs. It may have been kept by another task.

        ``to_go_on``: training will continue from it, and from the state of its optimiser.
        """
        return fitted(make, graph, to_go_on=to_go_on)

    def fit_anew(self, make: ModelMaker, graph: Graph, **watched: Any) -> tuple[Model, dict[str, float]]:
        """As :meth:`fit_timed`, for tasks that watch the fit; ``watched`` is passed to it."""
        model = make()
        return model, timed(model, graph, **watched)

    def predict(self, model: Model, graph: Graph) -> Prediction:
        """With as many samples as the options say."""
        return model.predict(graph, samples=self.options.samples)

    def predict_classes(self, model: Model, graph: Graph) -> ClassPrediction:
        """For tasks that need classes."""
        return require(self.predict(model, graph), ClassPrediction, "this task")


TASKS: Registry[type[Task]] = Registry(
    "task", base=Task, facts=lambda cls: {"version": cls.version, "headline": list(cls.headline)}
)
register_task = TASKS.add_class


VALIDATION: Rules[Callable[[Any, Graph, np.ndarray], dict[str, float]]] = Rules("evaluating on validation nodes")


def validation_figures(prediction: Prediction, graph: Graph) -> dict[str, float]:
    """NLL and, for classes, accuracy on the validation nodes; empty if there are none."""
    if graph.val_mask is None:
        return {}
    nodes = graph.val_mask & graph.familiar & known_items(prediction, graph)
    return VALIDATION.of(prediction)(prediction, graph, nodes) if nodes.any() else {}


@VALIDATION.register("regression")
def _validation_of_numbers(prediction: RegressionPrediction, graph: Graph, nodes: np.ndarray) -> dict[str, float]:
    assert graph.values is not None
    return {"val_nll": density_nll(prediction.subset(nodes), graph.values[nodes])}


@VALIDATION.register("classification")
def _validation_of_classes(prediction: ClassPrediction, graph: Graph, nodes: np.ndarray) -> dict[str, float]:
    labels = align_labels(graph, prediction.class_names)
    return {
        "val_nll": nll(prediction.mean[nodes], labels[nodes]),
        "val_accuracy": accuracy(prediction.index[nodes], labels[nodes]),
    }
