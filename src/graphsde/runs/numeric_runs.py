"""Runs that predict numbers: which verbs know what to do with them."""

from __future__ import annotations

import json
from pathlib import Path

from graphsde.base.errors import BadUsage

NUMERIC_VERBS = ("predict", "evaluate", "calibrate", "decide", "report", "ask", "learn", "explain", "doctor")


def refuse_numeric_run(folder: Path, verb: str) -> None:
    """Tell at once that a verb goes by classes; whatever else is wrong with the folder is for the verb to say."""
    if verb in NUMERIC_VERBS:
        return
    try:
        facts = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
        numeric = facts.get("target") == "numeric"
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    if numeric:
        raise BadUsage(
            f"'{verb}' goes by classes, and the run in {folder} predicts numbers",
            code="E-TARGET",
            expected="one of " + ", ".join(NUMERIC_VERBS),
        )
