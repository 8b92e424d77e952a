"""Writes ``src/graphsde/cli/catalogue.json``: what ``graphsde list`` prints without importing the registries.

Run after a part was added, or its summary changed: python studies/catalogue.py
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from graphsde.cli.show import CATALOGUE, KINDS

TARGET = Path(__file__).resolve().parents[1] / "src" / "graphsde" / "cli" / CATALOGUE


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Of every kind, what its registry says; run it where no plugin is installed."""
    return {
        kind: getattr(import_module(f"graphsde.{module}"), name).describe() for kind, (module, name, _) in KINDS.items()
    }


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """One entry a line, so that a comparison of versions shows which have changed."""
    kinds = []
    for kind, rows in found.items():
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False, allow_nan=False)}" for row in rows)
        kinds.append(f"  {json.dumps(kind)}: [\n{lines}\n  ]")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(text(catalogue()), encoding="utf-8")
