"""What all benchmarks share in how they are asked and how they answer: a table for people, JSON for the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _machine import describe, machine

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
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def verdict(reached: float, sense: str, goal: float) -> str:
    """``yes`` where the goal is met."""
    return "yes" if (reached >= goal if sense == "at least" else reached <= goal) else "no"
