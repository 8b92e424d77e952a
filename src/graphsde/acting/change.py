"""What a new fit changed: two predictions of the same nodes side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.prediction import NumericPrediction, Prediction

SHOWN = 10


@dataclass(frozen=True)
class MovedNode:
    """A node before and after; ``distance`` is the total variation between its two class distributions, 0 to 1."""

    id: int | str
    before: str
    after: str
    confidence_before: float
    confidence_after: float
    distance: float


@dataclass(frozen=True)
class Change:
    """How two predictions differ.

    Args:
        nodes: how many were compared.
        relabelled: how many of them have another most probable class.
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Change:
        return cls(**{**values, "moved": tuple(MovedNode(**one) for one in values["moved"])})


def compare(before: Prediction, after: Prediction, nodes: np.ndarray, most: int = SHOWN) -> Change:
    """Set ``after`` beside ``before`` on some nodes of the same graph.

    Args:
        before, after: of the same nodes and classes.
        nodes: which of them to look at.  # [N] bool
        most: how many of the moved nodes to name.

    Example:
        >>> import numpy as np
        >>> ids = np.array([1, 2])
        >>> old = Prediction(np.array([[[0.6, 0.4], [1.0, 0.0]]]), ids, ("a", "b"), "deterministic")
        >>> new = Prediction(np.array([[[0.1, 0.9], [1.0, 0.0]]]), ids, ("a", "b"), "deterministic")
        >>> change = compare(old, new, np.array([True, True]))
        >>> change.relabelled, change.moved[0].id, round(change.moved[0].distance, 3)
        (1, 1, 0.5)
    """
    if before.class_names != after.class_names or not np.array_equal(before.node_ids, after.node_ids):
        raise BadInput("two predictions of different nodes or classes can't be compared", code="E-LEN")
    if not nodes.any():
        return Change(0, 0, 0.0, 0.0, None, None, ())
    distance = np.where(nodes, np.abs(before.mean - after.mean).sum(axis=1) / 2, -1.0)
    order = np.argsort(-distance, kind="stable")[: min(most, int(nodes.sum()))]
    moved = [
        MovedNode(
            id=before.node_ids[row] if isinstance(before.node_ids[row], str) else int(before.node_ids[row]),
            before=str(before.label[row]),
            after=str(after.label[row]),
            confidence_before=float(before.confidence[row]),
            confidence_after=float(after.confidence[row]),
            distance=float(distance[row]),
        )
        for row in order.tolist()
        if distance[row] > 0
    ]
    return Change(
        nodes=int(nodes.sum()),
        relabelled=int(np.count_nonzero((before.index != after.index) & nodes)),
        entropy_before=float(before.total[nodes].mean()),
        entropy_after=float(after.total[nodes].mean()),
        epistemic_before=mean_or_none(before.epistemic[nodes]),
        epistemic_after=mean_or_none(after.epistemic[nodes]),
        moved=tuple(moved),
    )


def mean_or_none(values: np.ndarray) -> float | None:
    """The mean, or ``None`` where it is NaN: a model without a notion of it."""
    mean = float(values.mean())
    return None if np.isnan(mean) else mean


@dataclass(frozen=True)
class MovedNumber:
    """A node before and after: mean and standard deviation; ``distance`` is the step of the mean in the latter."""

    id: int | str
    before: float
    after: float
    deviation_before: float
    deviation_after: float
    distance: float


@dataclass(frozen=True)
class NumericChange:
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NumericChange:
        return cls(**{**values, "moved": tuple(MovedNumber(**one) for one in values["moved"])})


def compare_numbers(
    before: NumericPrediction, after: NumericPrediction, nodes: np.ndarray, most: int = SHOWN
) -> NumericChange:
    """Set ``after`` beside ``before`` on some nodes of the same graph.

    Args:
        before, after: of the same nodes.
        nodes: which of them to look at.  # [N] bool
        most: how many of the moved nodes to name.

    Example:
        >>> ids, noise = np.array([1, 2]), np.full((1, 2), 4.0)
        >>> old = NumericPrediction(np.array([[5.0, 7.0]]), noise, ids, "deterministic")
        >>> new = NumericPrediction(np.array([[8.0, 7.0]]), noise, ids, "deterministic")
        >>> change = compare_numbers(old, new, np.array([True, True]))
        >>> change.shift, change.moved[0].id, change.moved[0].distance
        (1.5, 1, 1.5)
    """
    if not np.array_equal(before.node_ids, after.node_ids):
        raise BadInput("two predictions of different nodes can't be compared", code="E-LEN")
    if not nodes.any():
        return NumericChange(0, 0.0, 0.0, 0.0, None, None, ())
    old, new = np.sqrt(before.total), np.sqrt(after.total)
    step = np.abs(after.mean - before.mean)
    distance = np.where(nodes, step / old, -1.0)
    order = np.argsort(-distance, kind="stable")[: min(most, int(nodes.sum()))]
    moved = [
        MovedNumber(
            id=before.node_ids[row] if isinstance(before.node_ids[row], str) else int(before.node_ids[row]),
            before=float(before.mean[row]),
            after=float(after.mean[row]),
            deviation_before=float(old[row]),
            deviation_after=float(new[row]),
            distance=float(distance[row]),
        )
        for row in order.tolist()
        if distance[row] > 0
    ]
    return NumericChange(
        nodes=int(nodes.sum()),
        shift=float(step[nodes].mean()),
        deviation_before=float(old[nodes].mean()),
        deviation_after=float(new[nodes].mean()),
        epistemic_before=mean_or_none(before.epistemic[nodes]),
        epistemic_after=mean_or_none(after.epistemic[nodes]),
        moved=tuple(moved),
    )
