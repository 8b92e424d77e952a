"""The target of a graph's items: its kind, its encoding, and known values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from graphsde.base.errors import BadInput, shorten
from graphsde.base.html import listed
from graphsde.base.registry import Rules
from graphsde.graph.labels import encode_labels, encode_values
from graphsde.graph.raw import Finding

UNLABELLED = -1
Kind = Literal["classification", "regression"]
STRATA = 10


class Target(ABC):
    """One answer per item, if known. Items are currently nodes.

    Subclasses are registered in :data:`TARGETS` under their kind; each folder below has its own rules for it.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    """What one answer is called, in messages."""
    plural: ClassVar[str]
    told_in_files: ClassVar[bool] = True
    """Whether files state the kind; the default kind is implied."""
    labels: np.ndarray | None
    """Class positions, -1 if unknown; ``None`` if there are no classes.  # [N] int64"""
    class_names: tuple[str, ...]
    values: np.ndarray | None
    """Numbers, NaN if unknown; ``None`` if there are none.  # [N] float64"""

    @classmethod
    @abstractmethod
    def encode(
        cls, values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
    ) -> tuple[Self, list[Finding]]:
        """From answers as a user wrote them, and findings."""

    @property
    def target_kind(self) -> str:
        return self.kind

    @property
    def encoded(self) -> np.ndarray | None:
        """The answers as a model uses them: positions or numbers; ``None`` if there are none.  # [N]"""
        return self.labels if self.values is None else self.values

    @property
    def given(self) -> bool:
        """Whether the data has answers at all, even if all are missing."""
        return True

    @abstractmethod
    def known(self, items: int) -> np.ndarray:
        """Which items have an answer.  # [N] bool"""

    @abstractmethod
    def familiar(self, train: np.ndarray) -> np.ndarray:
        """Known items that a model trained on ``train`` could be right about.  # [N] bool -> [N] bool"""

    @abstractmethod
    def strata(self) -> tuple[np.ndarray, int]:
        """The stratum of every item, -1 if unknown, and the number of strata."""

    @abstractmethod
    def refuse_constant(self, train: np.ndarray) -> None:
        """Refuse training items that all have the same answer.  # [N] bool"""

    @abstractmethod
    def with_encoded(self, encoded: np.ndarray | None) -> Self:
        """With other answers, encoded as in :attr:`encoded`."""

    def take(self, rows: np.ndarray) -> Self:
        """The answers of some items."""
        return self.with_encoded(None if self.encoded is None else self.encoded[rows])

    def changed(self, rows: np.ndarray, answers: Sequence[Any], items: int) -> Self:
        """With other answers at some positions, in plain form: names of classes, numbers."""
        encoded = np.full(items, UNLABELLED) if self.encoded is None else self.encoded.copy()
        place = {name: index for index, name in enumerate(self.class_names)}
        encoded[rows] = [place[one] for one in answers] if self.values is None else answers
        return self.with_encoded(encoded).frozen()

    @abstractmethod
    def plain(self) -> list[Any]:
        """Every answer as a person would write it, ``None`` if unknown."""

    def frozen(self) -> Self:
        """Itself, made read-only."""
        if self.encoded is not None:
            self.encoded.setflags(write=False)
        return self

    @abstractmethod
    def describe(self) -> str:
        """For the ``repr`` of a graph."""

    def facts(self, items: int) -> dict[str, object]:
        """For a notebook: how many answers are known of so many items, and what they are like."""
        return {"labelled": int(self.known(items).sum())}


TARGETS: Rules[type[Target]] = Rules("a target")


@TARGETS.register("classification")
@dataclass(frozen=True, eq=False)
class ClassTarget(Target):
    """One of several classes.

    Args:
        labels: positions, -1 where unknown; ``None`` if no item has a class at all.  # [N] int64
        class_names: one per class.
    """

    labels: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    values = None
    kind = "classification"
    noun, plural = "class", "classes"
    told_in_files = False

    @classmethod
    def encode(
        cls, values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
    ) -> tuple[Self, list[Finding]]:
        positions, names, findings = encode_labels(values, place, class_names)
        return cls(positions if names else None, names), findings

    @property
    def given(self) -> bool:
        return self.labels is not None

    def known(self, items: int) -> np.ndarray:
        return np.zeros(items, dtype=bool) if self.labels is None else self.labels != UNLABELLED

    def familiar(self, train: np.ndarray) -> np.ndarray:
        known = self.known(len(train))
        if self.labels is None or not (train & known).any():
            return known
        return known & np.isin(self.labels, np.unique(self.labels[train]))

    def strata(self) -> tuple[np.ndarray, int]:
        assert self.labels is not None
        return self.labels, len(self.class_names)

    def refuse_constant(self, train: np.ndarray) -> None:
        assert self.labels is not None
        if len(classes := np.unique(self.labels[train])) < 2:
            only = shorten(self.class_names[int(classes[0])], 60)
            raise BadInput(
                f"all {int(train.sum()):,} training nodes have the same class, '{only}'",
                code="E-ONE-CLASS",
                found="1 class",
                expected="at least two",
                fix="label nodes of another class",
            )

    def with_encoded(self, encoded: np.ndarray | None) -> Self:
        return replace(self, labels=encoded)

    def plain(self) -> list[Any]:
        assert self.labels is not None
        return np.array([*self.class_names, None], dtype=object)[self.labels].tolist()

    def describe(self) -> str:
        return f"classes={len(self.class_names)}"

    def facts(self, items: int) -> dict[str, object]:
        return {**super().facts(items), "classes": f"{len(self.class_names):,} ({listed(self.class_names)})"}


@TARGETS.register("regression")
@dataclass(frozen=True, eq=False)
class RegressionTarget(Target):
    """A number.

    Args:
        values: NaN where unknown.  # [N] float64
    """

    values: np.ndarray
    labels, class_names = None, ()
    kind = "regression"
    noun, plural = "value", "numbers"

    @classmethod
    def encode(
        cls, values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
    ) -> tuple[Self, list[Finding]]:
        numbers, findings = encode_values(values, place, class_names)
        return cls(numbers), findings

    def known(self, items: int) -> np.ndarray:
        return ~np.isnan(self.values)

    def familiar(self, train: np.ndarray) -> np.ndarray:
        return ~np.isnan(self.values)

    def strata(self) -> tuple[np.ndarray, int]:
        """Tenths of the items in the order of their values."""
        known = np.flatnonzero(~np.isnan(self.values))
        order = known[np.argsort(self.values[known], kind="stable")]
        groups = np.full(len(self.values), UNLABELLED, dtype=np.int64)
        count = min(STRATA, max(1, known.size // STRATA))
        groups[order] = np.arange(order.size) * count // order.size
        return groups, count

    def refuse_constant(self, train: np.ndarray) -> None:
        values = self.values[train]
        if values.min() == values.max():
            raise BadInput(
                f"all {len(values):,} training nodes have the same value, {values[0]:g}",
                code="E-ONE-VALUE",
                found="1 value",
                expected="at least two",
                fix="add training nodes with other values",
            )

    def with_encoded(self, encoded: np.ndarray | None) -> Self:
        assert encoded is not None
        return replace(self, values=encoded)

    def plain(self) -> list[Any]:
        return [None if np.isnan(value) else float(value) for value in self.values]

    def describe(self) -> str:
        return f"target='{self.kind}'"

    def facts(self, items: int) -> dict[str, object]:
        known = self.values[self.known(items)]
        span = {} if not len(known) else {"values from": float(known.min()), "to": float(known.max())}
        return {**super().facts(items), **span}
