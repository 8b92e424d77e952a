"""The table of docs/systems.md on six scores for out-of-distribution nodes of Cora, all of GNNSafe's network.

    python studies/one_backbone.py

Runs nothing: the journals are those of `graphsde reproduce extended-ood --datasets cora --out results`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from study_table import mean_and_spread, with_table

from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES
from graphsde.bench.paper.tables import SYSTEMS
from graphsde.bench.reproduce import by_system, markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "systems.md"
JOURNAL, COMMAND = ROOT / "results" / "extended-ood-structure", "python studies/one_backbone.py"
SEEDS = range(5)
BACKBONE = tuple(system for system in SYSTEMS if system.score == "gnnsafe")
SCORES = ("msp", "energy", "gnnsafe", "odin", "mahalanobis", "gebm")
# by protocol: the title, and what GNNSafe's authors print
PROTOCOLS: dict[str, tuple[str, dict[str, float]]] = {
    "extended-ood:label-leave-out": (
        "out-of-distribution classes (316 / 986)",
        {"msp": 91.4, "energy": 91.4, "gnnsafe": 92.8, "odin": 49.2, "mahalanobis": 66.8},
    ),
    "extended-ood:feature-perturbation": (
        "shifted features (1000 / 2708)",
        {"msp": 85.4, "energy": 86.2, "gnnsafe": 93.4, "odin": 49.8, "mahalanobis": 60.5},
    ),
    "extended-ood:structure": ("shifted edges", {"msp": 70.9, "energy": 71.7, "gnnsafe": 87.5}),
}


def metrics_of(protocol: str) -> list[dict[str, Any]]:
    """Of the row that scores GNNSafe's network by its own score."""
    (plan,) = (part for part in TABLES.get("extended-ood") if part.name == protocol)
    records = BenchFolder(ROOT / "results" / protocol.replace(":", "-")).read()[1].records
    rows = by_system(replace(plan, systems=BACKBONE), records, "cora", [], SEEDS)
    return [record["metrics"] for _, own in rows for record in own if record["status"] == "done"]


def table() -> str:
    found = {protocol: metrics_of(protocol) for protocol in PROTOCOLS}
    rows = []
    for score in SCORES:
        row: dict[str, Any] = {"score": f"`{score}`"}
        for protocol, (title, printed) in PROTOCOLS.items():
            spread = mean_and_spread([one[f"ood_auroc[{score}]"] for one in found[protocol]]).removesuffix(" %")
            row[title] = f"{spread} ({printed[score]})" if score in printed else spread
        rows.append(row | {"n": min(map(len, found.values()))})
    return markdown_table(rows)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
