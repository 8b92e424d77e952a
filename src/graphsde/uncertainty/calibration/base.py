"""Base of calibrators: a small map from logits to calibrated ones, saved with the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from graphsde.base.registry import Registry
from graphsde.prediction import ClassPrediction, Prediction, require

if TYPE_CHECKING:
    import scipy.sparse as sp

    from graphsde.graph.graph import Graph

_SMALLEST = 1e-30


class Surroundings:
    """The graph as a calibrator sees it; what a calibrator does not ask for is never built.

    Args:
        incoming: row = receiving node.  # [N, N]
        trained: which nodes the model was trained on.  # [N] bool
    """

    def __init__(self, incoming: sp.csr_array, trained: np.ndarray) -> None:
        self._incoming, self._trained = incoming, trained

    @classmethod
    def of(cls, graph: Graph, trained: np.ndarray) -> Surroundings:
        """Around the training nodes of a graph.  # trained [N] bool"""
        return Surroundings(graph.adjacency.incoming, trained)

    @cached_property
    def receivers(self) -> Tensor:
        """The receiving end of every edge, self loops included.  # [E]"""
        nodes = np.arange(self._incoming.shape[0])
        rows = np.repeat(nodes, np.diff(self._incoming.indptr))
        return torch.from_numpy(np.concatenate([rows, nodes]).astype(np.int64))

    @cached_property
    def senders(self) -> Tensor:
        """The sending end of every edge, self loops included.  # [E]"""
        nodes = np.arange(self._incoming.shape[0])
        return torch.from_numpy(np.concatenate([self._incoming.indices, nodes]).astype(np.int64))

    @cached_property
    def distance(self) -> Tensor:
        """Steps to the nearest training node: 0, 1, or 2 for any more.  # [N]"""
        beside = (self._incoming @ self._trained.astype(np.float32)) > 0
        return torch.from_numpy(np.where(self._trained, 0, np.where(beside, 1, 2)))


class Calibrator(nn.Module, ABC):
    """A map from logits to calibrated logits that is fitted after training.

    Args:
        classes: how many.
        trained: ids of the nodes that the model was trained on, to find them in any graph.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    decay: ClassVar[float] = 0.0
    """Weight of half the squared distance of the parameters from :meth:`resting_place`."""

    target: ClassVar[str] = "classification"
    """The kind of target: class probabilities, or the deviations of numbers."""

    listens: ClassVar[bool] = False
    """Whether a node's logits depend on its neighbours."""

    distance_aware: ClassVar[bool] = False
    """Whether it makes nodes unlike the training nodes less certain, so that detection of OOD nodes reads the
    calibrated probabilities (:meth:`ClassPrediction.for_detection`)."""

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__()
        self.classes = classes
        self.trained = list(trained)

    @abstractmethod
    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        """Calibrated logits.  # [S, N, C] -> [S, N, C], float64"""

    def fit_to(
        self, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor, linear_filter: tuple[float, int] | None
    ) -> bool:
        """A custom fit of the parameters to the classes ``truth`` of the nodes ``rows``, for a calibrator that
        has one; ``False`` leaves it to the general minimiser.  # [S, N, C], [n], [n]

        Args:
            logits: centred, of all nodes.
            graph: with the masks that the model was fitted with.
            rows, truth: the nodes to fit to, and their classes.
            linear_filter: κ and K of the model's linear drift, if it has one (:meth:`Model.linear_filter`).
        """
        return False

    def known_state(self, logits: Tensor, surroundings: Surroundings) -> Tensor | None:
        """Logits as they would be if the hidden state were known, for a calibrator that models one.  # [S, N, C]"""
        return None

    def likewise(self, other: Tensor, logits: Tensor, surroundings: Surroundings) -> Tensor:
        """Other logits of the same nodes under the map of ``logits``: a calibrator whose map depends on them, say
        by a temperature per node, uses that of ``logits``.  # [R, N, C], [S, N, C] -> [R, N, C]"""
        return self(other, surroundings)

    def bound(self, logits: Tensor, surroundings: Surroundings) -> Callable[[Tensor], Tensor]:
        """:meth:`likewise` for many logits in turn: what depends only on ``logits`` or the surroundings may be computed
        once.  # [1, N, C]: the mean over samples"""
        return lambda other: self.likewise(other, logits, surroundings)

    def for_changes_at(self, graph: Graph, row: int) -> Calibrator:
        """A calibrator for copies of ``graph`` with changed edges or features at the node ``row``, whose answer alone
        is read: one that would look at the whole copy again may keep what it knows of ``graph``."""
        return self

    def plain_values(self) -> dict[str, Any]:
        """What must be saved besides the tensors, such as ids, as JSON values."""
        return {}

    def recall(self, values: dict[str, Any]) -> None:
        """The inverse of :meth:`plain_values`, on a freshly made calibrator."""

    def resting_place(self) -> list[Tensor]:
        """Where the decay pulls the parameters: their initial values."""
        return [parameter.detach().clone() for parameter in self.parameters()]

    def surroundings(self, graph: Graph) -> Surroundings:
        known = set(self.trained)
        return Surroundings.of(graph, np.array([node in known for node in graph.node_ids.tolist()], dtype=bool))

    def apply_to(self, prediction: Prediction, graph: Graph) -> Prediction:
        """The prediction with calibrated probabilities; :meth:`Prediction.untempered` returns the original.

        Concentrations of a Dirichlet keep their sum, which is the evidence, and take the new mean.
        """
        prediction = require(prediction, ClassPrediction, f"the calibrator '{self.name}'")
        surroundings, logits = self.surroundings(graph), centred_logits(prediction)
        kind = prediction.kind
        with torch.no_grad():
            probs = torch.softmax(self(logits, surroundings), -1).numpy()
            # concentrations are divided differently
            known = None
            if kind != "dirichlet":
                # what the model leaves unknown of the state, and what the calibrator does
                left = logits if prediction.known_state is None else centred(prediction.known_state)
                known = self.known_state(left, surroundings)
            if known is None and prediction.known_state is not None:
                known = self.likewise(centred(prediction.known_state), logits, surroundings)
            elif known is not None and kind == "deterministic":
                kind = "gaussian"
        alpha = prediction.alpha
        if alpha is not None:
            alpha = (alpha.sum(axis=-1, keepdims=True) * probs[0]).astype(alpha.dtype)
        found = replace(
            prediction,
            probs=probs.astype(prediction.probs.dtype),
            alpha=alpha,
            temperature=prediction.temperature * self.common_temperature,
            uncalibrated=prediction,
            distance_aware=self.distance_aware,
            kind=kind,
            known_state=None if known is None else torch.softmax(known, -1).numpy().astype(prediction.probs.dtype),
        )
        return found.of_the_graph_of(prediction)

    @property
    def common_temperature(self) -> float:
        """What all logits are divided by, for a calibrator that does only that; 1 otherwise."""
        return 1.0


def centred_logits(prediction: ClassPrediction) -> Tensor:
    """Log-probabilities minus their mean over classes: logits as softmax sees them, for any model.

    They include a model's own temperature, so that a calibrator starts from it. Models without logits, and those whose
    probabilities are not a softmax, are treated alike.  # [S, N, C], float64
    """
    return centred(prediction.probs)


def centred(probs: np.ndarray) -> Tensor:
    """:func:`centred_logits` of probabilities.  # [S, N, C], float64"""
    logs = torch.from_numpy(np.asarray(probs, dtype=np.float64)).clamp_min(_SMALLEST).log()
    return logs - logs.mean(-1, keepdim=True)


CALIBRATORS: Registry[type[Calibrator]] = Registry(
    "calibrator", base=Calibrator, facts=lambda cls: {"paper": cls.paper, "year": cls.year, "target": cls.target}
)
register_calibrator = CALIBRATORS.add_class
