"""What a new fit changed: two predictions of the same nodes compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.registry import Rules
from graphsde.graph.ids import plain_id
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction

SHOWN = 10


class Change(ABC):
    """How two predictions of the same nodes differ; one subclass for each kind of target."""

    nodes: int
    epistemic_before: float | None
    epistemic_after: float | None
    moved: tuple[Any, ...]

    @abstractmethod
    def in_words(self) -> str:
        """In one line."""

    @abstractmethod
    def sentence(self) -> str:
        """How many nodes changed, or how far they moved."""

    @property
    @abstractmethod
    def uncertainty(self) -> tuple[str, float, float]:
        """The mean uncertainty: its name, before and after."""

    def moved_rows(self) -> list[dict[str, Any]]:
        """The nodes that moved most, as rows of a table."""
        return [{"id": str(one.id), **one.told(), "moved": one.distance} for one in self.moved]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Change:
        """The change as an object of the right kind, recognised by its fields."""
        kind, node = (RegressionChange, MovedNumber) if "shift" in values else (ClassChange, MovedNode)
        return kind(**{**values, "moved": tuple(node(**one) for one in values["moved"])})


CHANGES: Rules[Callable[[Any, Any, np.ndarray], Change]] = Rules("comparing predictions")


def compare(before: Prediction, after: Prediction, nodes: np.ndarray) -> Change:
    """Compare ``after`` with ``before`` on some nodes of the same graph.  # nodes [N] bool"""
    return CHANGES.of(before)(before, after, nodes)


def _farthest(distance: np.ndarray, nodes: np.ndarray) -> list[int]:
    """Rows of the nodes that moved most, the farthest first."""
    apart = np.where(nodes, distance, -1.0)
    order = np.argsort(-apart, kind="stable")[: min(SHOWN, int(nodes.sum()))]
    return [row for row in order.tolist() if apart[row] > 0]


def _mean_or_none(values: np.ndarray) -> float | None:
    """The mean, or ``None`` if it is NaN, as for a model that does not have it."""
    mean = float(values.mean())
    return None if np.isnan(mean) else mean


@dataclass(frozen=True)
class MovedNode:
    """A node before and after; ``distance`` is the total variation between its two class distributions, 0 to 1."""

    id: int | str
    before: str
    after: str
    confidence_before: float
    confidence_after: float
    distance: float

    def told(self) -> dict[str, str]:
        """For a table."""
        return {
            "before": f"{self.before} {self.confidence_before:.2f}",
            "after": f"{self.after} {self.confidence_after:.2f}",
        }


@dataclass(frozen=True)
class ClassChange(Change):
    """How two predictions differ.

    Args:
        nodes: how many were compared.
        relabelled: how many of them changed their most probable class.
        entropy_before, entropy_after: mean predictive entropy, in nats.
        epistemic_before, epistemic_after: mean mutual information; ``None`` for a model that has none.
        moved: the nodes whose class probabilities moved most, the farthest first.
    """

    nodes: int
    relabelled: int
    entropy_before: float
    entropy_after: float
    epistemic_before: float | None
    epistemic_after: float | None
    moved: tuple[MovedNode, ...]

    def in_words(self) -> str:
        return (
            f"mean uncertainty {self.entropy_before:.3f} before, {self.entropy_after:.3f} now; "
            f"{self.relabelled:,} of {self.nodes:,} nodes changed their class."
        )

    def sentence(self) -> str:
        return f"{self.relabelled:,} of {self.nodes:,} nodes outside training changed their class."

    @property
    def uncertainty(self) -> tuple[str, float, float]:
        return "mean entropy", self.entropy_before, self.entropy_after


@CHANGES.register("classification")
def compare_classes(before: ClassPrediction, after: ClassPrediction, nodes: np.ndarray) -> ClassChange:
    """Compare ``after`` with ``before`` on some nodes of the same graph.

    Args:
        before, after: of the same nodes and classes.
        nodes: which of them to compare.  # [N] bool

    Example:
        >>> import numpy as np
        >>> ids = np.array([1, 2])
        >>> old = ClassPrediction(np.array([[[0.6, 0.4], [1.0, 0.0]]]), ids, ("a", "b"), "deterministic")
        >>> new = ClassPrediction(np.array([[[0.1, 0.9], [1.0, 0.0]]]), ids, ("a", "b"), "deterministic")
        >>> change = compare_classes(old, new, np.array([True, True]))
        >>> change.relabelled, change.moved[0].id, round(change.moved[0].distance, 3)
        (1, 1, 0.5)
    """
    if before.class_names != after.class_names or not np.array_equal(before.ids, after.ids):
        raise BadInput("two predictions of different nodes or classes can't be compared", code="E-LEN")
    if not nodes.any():
        return ClassChange(0, 0, 0.0, 0.0, None, None, ())
    distance = np.abs(before.mean - after.mean).sum(axis=1) / 2
    moved = [
        MovedNode(
            id=plain_id(before.ids[row]),
            before=str(before.label[row]),
            after=str(after.label[row]),
            confidence_before=float(before.confidence[row]),
            confidence_after=float(after.confidence[row]),
            distance=float(distance[row]),
        )
        for row in _farthest(distance, nodes)
    ]
    return ClassChange(
        nodes=int(nodes.sum()),
        relabelled=int(np.count_nonzero((before.index != after.index) & nodes)),
        entropy_before=float(before.total[nodes].mean()),
        entropy_after=float(after.total[nodes].mean()),
        epistemic_before=_mean_or_none(before.epistemic[nodes]),
        epistemic_after=_mean_or_none(after.epistemic[nodes]),
        moved=tuple(moved),
    )


@dataclass(frozen=True)
class MovedNumber:
    """A node before and after: mean and standard deviation; ``distance`` is the step of the mean in the latter."""

    id: int | str
    before: float
    after: float
    deviation_before: float
    deviation_after: float
    distance: float

    def told(self) -> dict[str, str]:
        """For a table."""
        return {
            "before": f"{self.before:.4g} ± {self.deviation_before:.2g}",
            "after": f"{self.after:.4g} ± {self.deviation_after:.2g}",
        }


@dataclass(frozen=True)
class RegressionChange(Change):
    """How two predictions of numbers differ.

    Args:
        nodes: how many were compared.
        shift: mean distance between the two predictive means, in the target's unit.
        deviation_before, deviation_after: mean predictive standard deviation, in the target's unit.
        epistemic_before, epistemic_after: mean epistemic variance; ``None`` for a model that has none.
        moved: the nodes whose mean moved most in standard deviations of the prediction before, the farthest first.
    """

    nodes: int
    shift: float
    deviation_before: float
    deviation_after: float
    epistemic_before: float | None
    epistemic_after: float | None
    moved: tuple[MovedNumber, ...]

    def in_words(self) -> str:
        return (
            f"mean standard deviation {self.deviation_before:.4g} before, {self.deviation_after:.4g} now; "
            f"{self.nodes:,} nodes moved by {self.shift:.4g} on average."
        )

    def sentence(self) -> str:
        return f"{self.nodes:,} nodes outside training moved by {self.shift:.4g} on average."

    @property
    def uncertainty(self) -> tuple[str, float, float]:
        return "mean deviation", self.deviation_before, self.deviation_after


@CHANGES.register("regression")
def compare_regression(
    before: RegressionPrediction, after: RegressionPrediction, nodes: np.ndarray
) -> RegressionChange:
    """Like :func:`compare_classes`, for regression.

    Example:
        >>> ids, noise = np.array([1, 2]), np.full((1, 2), 4.0)
        >>> old = RegressionPrediction(np.array([[5.0, 7.0]]), noise, ids, "deterministic")
        >>> new = RegressionPrediction(np.array([[8.0, 7.0]]), noise, ids, "deterministic")
        >>> change = compare_regression(old, new, np.array([True, True]))
        >>> change.shift, change.moved[0].id, change.moved[0].distance
        (1.5, 1, 1.5)
    """
    if not np.array_equal(before.ids, after.ids):
        raise BadInput("two predictions of different nodes can't be compared", code="E-LEN")
    if not nodes.any():
        return RegressionChange(0, 0.0, 0.0, 0.0, None, None, ())
    old, new = np.sqrt(before.total), np.sqrt(after.total)
    step = np.abs(after.mean - before.mean)
    distance = step / old
    moved = [
        MovedNumber(
            id=plain_id(before.ids[row]),
            before=float(before.mean[row]),
            after=float(after.mean[row]),
            deviation_before=float(old[row]),
            deviation_after=float(new[row]),
            distance=float(distance[row]),
        )
        for row in _farthest(distance, nodes)
    ]
    return RegressionChange(
        nodes=int(nodes.sum()),
        shift=float(step[nodes].mean()),
        deviation_before=float(old[nodes].mean()),
        deviation_after=float(new[nodes].mean()),
        epistemic_before=_mean_or_none(before.epistemic[nodes]),
        epistemic_after=_mean_or_none(after.epistemic[nodes]),
        moved=tuple(moved),
    )
