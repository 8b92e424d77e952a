"""The tables of docs/figures.md, from the journals under results/figures: entropies, steps of an adaptive solver.

    python studies/figure_tables.py

Runs nothing; the page names the commands that do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from study_table import with_table

from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES
from graphsde.bench.reproduce import Beside, beside, markdown_table, with_found

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE, CONFIGS = ROOT / "results" / "figures", ROOT / "docs" / "figures.md", ROOT / "configs" / "equal"
ENTROPY, DEPTH = (f"python studies/figure_tables.py, {part}" for part in ("entropy", "depth"))
GRAPH, SEEDS = "cora", range(3)
# journals, and what makes the task harder in each
AXES = {
    "adaptive-noise": "noise on features (standard deviations)",
    "adaptive-labels": "labels per class",
}
CURVES = {
    "error on test nodes": ("error", lambda values: ", ".join(f"{100 * one:.1f}" for one in values) + " %"),
    "mean entropy (nats)": ("entropy", lambda values: ", ".join(f"{one:.2f}" for one in values)),
    "steps": ("steps", lambda values: ", ".join(f"{one:.2f}" for one in values)),
}


def records_of(name: str) -> list[Any]:
    return list(BenchFolder(RESULTS / name).read()[1].latest.values())


def entropy() -> str:
    """Wrong beside correct predictions, then a left-out class beside the others."""
    rows: dict[str, dict[str, Any]] = {}
    for part, title in zip(
        TABLES.get("figure-entropy"), ("wrong over correct", "out-of-distribution over in-distribution"), strict=True
    ):
        plan = with_found(part, CONFIGS, [GRAPH])
        for one in beside(plan, records_of(part.name.replace(":", "-")), [GRAPH], [], SEEDS):
            row = rows.setdefault(one.model, {"Cora": one.model, "n": one.n})
            row[f"{title}, {one.metric}"] = shown(one)
            row["n"] = min(row["n"], one.n)
    columns = [name for name in next(iter(rows.values())) if name != "n"]
    return markdown_table(list(rows.values()), [*columns, "n"])


def shown(one: Beside) -> str:
    if one.mean is None or one.std is None:
        return "—"
    if one.metric == "separation":
        return f"{one.mean:.3f} ± {one.std:.3f}"
    return f"{100 * one.mean:+.0f} ± {100 * one.std:.0f} %"


def depth() -> str:
    """Both seeds of every figure, from the easiest to the hardest."""
    rows = []
    for name, title in AXES.items():
        records = sorted(records_of(name), key=lambda record: record["cell"]["seed"])
        curves = [record["curves"] for record in records]
        places = range(len(curves[0]["value"]))
        rows.append([title, "", *(f"{curves[0]['value'][place]:g}" for place in places)])
        for told, (curve, words) in CURVES.items():
            rows.append(["", told, *(words([one[curve][place] for one in curves]) for place in places)])
        found = [record["metrics"]["rank_correlation"] for record in records]
        told = ", ".join("undefined (no change)" if value is None else f"{value:.2f}" for value in found)
        rows.append(["", "rank correlation of steps and error", told, *([""] * (len(places) - 1))])
    names = ["Cora, two seeds", " ", "easiest", "  ", "   ", "    ", "hardest"]
    return markdown_table([dict(zip(names, row, strict=True)) for row in rows])


def with_tables(text: str) -> str:
    return with_table(with_table(text, ENTROPY, entropy()), DEPTH, depth())


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
