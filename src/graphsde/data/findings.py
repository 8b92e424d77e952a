"""What was noticed about a graph: a code, a level, plain words, a count and where to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["problem", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One observation about a graph.

    Args:
        code: a stable identifier such as ``"W-ISOLATED"``.
        level: ``problem`` (training would be refused), ``warning`` (look at it) or ``note`` (good to know).
        message: one sentence in plain words, with the count in it.
        count: how many rows, edges or nodes are concerned.
        where: the first few row numbers, node ids or column names.
        hint: what it means or what to do.
    """

    code: str
    level: Level
    message: str
    count: int = 0
    where: tuple[str, ...] = ()
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "level": self.level,
            "message": self.message,
            "count": self.count,
            "where": list(self.where),
            "hint": self.hint,
        }
