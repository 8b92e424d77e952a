"""What every model is: settings, ``fit``, ``predict``, ``save``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor

from graphsde.data.encoding import FeatureEncoder
from graphsde.data.graph import Graph
from graphsde.errors import BadInput, BadUsage, NotFitted
from graphsde.prediction import Perturb, Prediction
from graphsde.registry import Registry
from graphsde.training.callbacks import Callback, EpochRecord
from graphsde.training.checkpoint import Checkpoint
from graphsde.training.interrupt import InterruptGuard
from graphsde.training.settings import Settings


class ModelSettings(Settings):
    """Settings that every model has.

    Args:
        seed: drives initialisation, dropout and prediction samples, each through a stream of its own.
    """

    seed: int = Field(0, ge=0, le=2**63 - 1)


@dataclass(frozen=True)
class Estimate:
    """What a fit will take: ``bytes`` by arithmetic, ``seconds`` by rehearsing a few epochs (an upper bound)."""

    bytes: int
    seconds: float
    epochs: int


class Model(ABC):
    """A system that learns from a graph and predicts its nodes with an uncertainty.

    Subclasses set ``name``, ``summary``, ``paper``, ``year`` and ``Settings`` and are put into :data:`MODELS`. ``fit``
    returns ``self``; ``predict`` never trains; all randomness comes from ``settings.seed``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    version: ClassVar[int] = 1
    """Raised by hand when a change of code changes results; journals made before are then refused."""
    Settings: ClassVar[type[ModelSettings]]

    def __init__(self, **settings: Any) -> None:
        self.given = settings
        self.settings = self.Settings.parse(settings, f"model '{self.name}'")
        self.class_names: tuple[str, ...] | None = None
        self.history: list[EpochRecord] = []
        self.best_epoch: int | None = None

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        """Settings that suit ``graph`` better than the general defaults; what the user gave always wins."""
        return {}

    def resolve(self, graph: Graph) -> None:
        """Fill in :meth:`defaults_for` ``graph``, so that ``settings`` says everything that a fit will use."""
        values = merge_settings(self.defaults_for(graph), self.given)
        self.settings = self.Settings.parse(values, f"model '{self.name}'")

    @abstractmethod
    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        """Learn from the training nodes of ``graph``."""

    def start_from(self, previous: Model) -> Self:
        """Let the next :meth:`fit` begin where ``previous`` ended; a model that can't begins anew."""
        return self

    @abstractmethod
    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """Probabilities of every node of ``graph``, which may be another graph with the same columns.

        Args:
            graph: to predict on.
            samples: how many, where the model has any to draw.
            seed: of the samples; the model's own if not given.
            perturb: predict at features moved along the gradient; refused by models that have none.
        """

    @abstractmethod
    def estimate(self, graph: Graph) -> Estimate:
        """Memory and time that :meth:`fit` would take."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What must be kept: tensors and plain values."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """The inverse of :meth:`state`, on a freshly made model."""

    def save(self, folder: str | Path) -> Path:
        """Write ``model.safetensors`` and ``model.json`` into ``folder``."""
        from graphsde.models.files import save_model

        return save_model(self, Path(folder))

    def _refuse_perturbation(self, perturb: Perturb | None) -> None:
        if perturb is not None:
            raise BadUsage(
                f"{self.name} has no gradient with respect to features",
                code="E-SCORE",
                fix="use a score that does not perturb the features, such as entropy",
            )

    def _require_fitted(self) -> tuple[str, ...]:
        if self.class_names is None:
            raise NotFitted(f"this {self.name} has not been fitted", fix="call fit(graph) first")
        return self.class_names

    def _check_classes(self, graph: Graph) -> None:
        """A graph with classes that the model doesn't know, or in another order, is not the same task."""
        known = self._require_fitted()
        if graph.labels is not None and graph.class_names and not set(graph.class_names) <= set(known):
            new = sorted(set(graph.class_names) - set(known))
            raise BadInput(
                f"the graph has classes the model was not trained for: {', '.join(new[:5])}",
                code="E-CLASS-MAP",
                expected="classes among " + ", ".join(known),
                fix="leave those labels empty, or fit again with them",
            )

    def __repr__(self) -> str:
        changed = self.settings.model_dump(exclude_defaults=True)
        inside = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({inside})"


def merge_settings(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested settings, ``above`` winning value by value; a part with another name takes nothing from the old one."""
    merged = dict(below)
    for name, value in above.items():
        known = merged.get(name)
        if (
            isinstance(known, dict)
            and isinstance(value, dict)
            and value.get("name", known.get("name")) == known.get("name")
        ):
            value = merge_settings(known, value)
        merged[name] = value
    return merged


MODELS: Registry[type[Model]] = Registry("model")


def register_model(cls: type[Model]) -> type[Model]:
    """Class decorator: makes a model known to ``graphsde list models`` and ``--model``."""
    MODELS.add(cls.name, cls, summary=cls.summary, paper=cls.paper, year=cls.year)
    return cls


def encode(encoder: FeatureEncoder, graph: Graph) -> Tensor | Any:
    """Encoded features as a tensor or a :class:`SparseMatrix`."""
    import scipy.sparse as sp

    from graphsde.data.sparse import SparseMatrix

    matrix = encoder.transform(graph)
    if sp.issparse(matrix):
        return SparseMatrix.from_scipy(matrix)
    # a copy: arrays of a Graph are read-only, which torch can't express
    return torch.tensor(matrix)
