"""One line of a journal: what became of a cell, with a checksum that no damage slips past."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypedDict, cast

from graphsde.runs.cells import Cell
from graphsde.runs.outcome import Outcome

# how every line begins; where a line break was lost, the next record is found again by it
PREFIX = b'{"check":"'


class Record(TypedDict):
    """A finished cell. ``engine`` and ``environment`` are only noted: they are no part of the cell's identity."""

    id: str
    address: str
    cell: dict[str, Any]
    status: str
    cause: str | None
    attempts: int
    metrics: dict[str, float | None]
    curves: dict[str, list[float | None]]
    seconds: dict[str, float]
    engine: str
    environment: dict[str, Any]


def make_record(cell: Cell, outcome: Outcome, engine: str, environment: dict[str, Any]) -> Record:
    whole = {
        "id": cell.id,
        "address": cell.address,
        "cell": cell.as_dict(),
        **outcome.as_dict(),
        "engine": engine,
        "environment": environment,
    }
    return cast(Record, whole)


def encode(record: Record) -> bytes:
    """The record as one line in canonical JSON, the line break included."""
    check = hashlib.sha256(_canonical(record).encode("ascii")).hexdigest()[:16]
    return _canonical({"check": check, "record": record}).encode("ascii") + b"\n"


def decode(line: bytes) -> Record | None:
    """The record of a line without its line break; ``None`` if a single bit of it is not as it was written.

    Comparing with the line that the record would give catches what a checksum of values can't: 1e5 for 1E5.
    """
    try:
        record = json.loads(line)["record"]
        if encode(record) != line + b"\n" or not _looks_right(record):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return cast(Record, record)


def _looks_right(record: dict[str, Any]) -> bool:
    """A line with a right checksum from something else than this program must not surprise readers."""
    if not set(Record.__required_keys__) <= set(record) or record["status"] not in ("done", "failed"):
        return False
    Cell(**record["cell"])
    return isinstance(record["id"], str) and isinstance(record["address"], str) and isinstance(record["metrics"], dict)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
