"""The table of docs/decide.md on conformal sets: do they cover? Coverage and size at 90 % on the five graphs.

    python studies/conformal.py

Random splits: 20 nodes per class train, 30 validate, 500 calibrate, the rest is tested. Each fit is judged on 20
draws of its calibration nodes. What the journal under results/conformal has is not run again.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from study_table import mean_and_spread, records_of, run_cells, with_table

from graphsde.bench.reproduce import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "conformal", ROOT / "docs" / "decide.md"
JOURNAL, COMMAND = RESULTS / "journal.jsonl", "python studies/conformal.py"
GRAPHS, MODEL, SEEDS = ("cora", "citeseer", "pubmed", "photo", "computers"), "gcn", range(5)
SCORES = ("thr", "aps", "raps", "daps")


def table() -> str:
    rows = []
    for graph in GRAPHS:
        found = records_of(RESULTS, graph, MODEL, SEEDS)
        row = {"graph": graph, "fits": len(found)}
        for name in SCORES:
            coverage = mean_and_spread([one[f"coverage[{name}]"] for one in found])
            row[f"{name}: coverage, size"] = f"{coverage}, {fmean(one[f'set_size[{name}]'] for one in found):.2f}"
        rows.append(row | {"accuracy": mean_and_spread([one["accuracy"] for one in found])})
    return markdown_table(rows)


if __name__ == "__main__":
    run_cells("conformal", {"draws": 20, "calibrator": "temperature"}, GRAPHS, [MODEL], SEEDS, RESULTS)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
