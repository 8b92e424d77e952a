"""What all benchmarks share in how they are asked and how they answer: a table for people, JSON for the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _machine import describe, machine

from graphsde.base import storage

SAME = ("revision", "cpu", "torch", "torch_uses")
"""What must be the same of two machines so that a figure need not be measured again."""
RESULTS = Path(__file__).resolve().parents[1] / "results" / "benchmarks"
"""Where the figures of docs/performance.md are."""


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a small graph, once: whether it runs, not how fast")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write the JSON into this folder")
    return parser


def answer(
    name: str, measure: Callable[[], dict[str, Any]], given: argparse.Namespace, show: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Say on which machine, measure, then print and write what was found."""
    here = machine()  # before measuring: its own load is not what it was up against
    if not given.json:
        print(describe(here), end="\n\n", flush=True)
    result = {"benchmark": name, **measure(), "quick": given.quick, "machine": here}
    if given.json:
        print(json.dumps(result))
    else:
        show(result)
    keep(name, result, given)
    return result


def keep(name: str, result: dict[str, Any], given: argparse.Namespace) -> None:
    """Write a result, whole or in part, where the options name a folder."""
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        storage.write_text(given.out / f"{name}.json", json.dumps(result, indent=1) + "\n")


def same_source(found: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether a result is what would be measured here and now: the same source, CPU and instruction sets, no trial."""
    return not found["quick"] and all(found["machine"].get(key) == here[key] for key in SAME)


def kept(name: str, given: argparse.Namespace, *, any_source: bool = False) -> dict[str, Any]:
    """What an earlier run has left, whole or in part; nothing where it was of another source or machine, unless
    ``any_source``: then whoever adds to it says of every row which source it is of."""
    path = None if given.out is None else given.out / f"{name}.json"
    if path is None or not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if any_source or same_source(found, machine()) else {}


def of_source(rows: dict[str, Any], whole: dict[str, Any]) -> None:
    """Let rows that don't say which source they are of have that of the whole result."""
    for row in rows.values():
        row.setdefault("revision", whole["machine"]["revision"])


def verdict(reached: float, sense: str, goal: float) -> str:
    """``yes`` where the goal is met."""
    return "yes" if (reached >= goal if sense == "at least" else reached <= goal) else "no"
