"""What became of a cell, as an engine reports it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["done", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The end of a cell.

    Args:
        status: ``done``, or ``failed`` for good.
        cause: of a failure: ``time`` (CPU limit), ``memory``, ``killed``, ``hung`` (no answer), or ``error: …``.
        attempts: how often it was begun; more than one only where a worker was lost.
        metrics: figures by name, ``None`` where one is not defined.
        curves: short series by name.
        seconds: ``cpu`` and ``wall``, without reading the graph.
    """

    status: Status
    cause: str | None = None
    attempts: int = 1
    metrics: dict[str, float | None] = field(default_factory=dict)
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def failed(cls, cause: str, attempts: int = 1, seconds: dict[str, float] | None = None) -> Outcome:
        return cls("failed", cause, attempts, seconds=seconds or {})

    @property
    def kind(self) -> str:
        """The cause without its details, to count by."""
        return (self.cause or "").partition(":")[0]

    @property
    def interrupted_work(self) -> bool:
        """Whether the cell was cut off in the middle, so that its process may be in any state."""
        return self.kind == "time"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
