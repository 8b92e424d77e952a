"""The table of docs/decide.md on calibrators: a GCN on public splits before and after each of them.

    python studies/calibrators.py

Half a minute; what results/calibrators/runs.jsonl has is not run again.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from study_table import append_line, read_lines, with_table

import graphsde as gs
from graphsde.bench.reproduce import markdown_table

ROOT = Path(__file__).resolve().parents[1]
JOURNAL, PAGE = ROOT / "results" / "calibrators" / "runs.jsonl", ROOT / "docs" / "decide.md"
COMMAND = "python studies/calibrators.py"
GRAPHS, SEEDS = ("cora", "citeseer", "digits"), 5
CALIBRATORS = ("none", "temperature", "vector", "gats")
FIGURES = ("nll", "ece", "accuracy", "aurc")


def run() -> None:
    """Fit once per graph and seed, then calibrate in turn; what the journal has is skipped."""
    known = {(line["graph"], line["seed"]) for line in read_lines(JOURNAL)}
    for name in GRAPHS:
        graph = gs.load(name)
        for seed in range(SEEDS):
            if (name, seed) in known:
                continue
            model = gs.GCN(seed=seed).fit(graph)
            found = {}
            for calibrator in CALIBRATORS:
                if calibrator != "none":
                    model.calibrate(graph, by=calibrator)
                figures = gs.evaluate(model.predict(graph), graph)
                found[calibrator] = {figure: figures[figure] for figure in FIGURES}
            append_line(JOURNAL, {"graph": name, "seed": seed, "figures": found})


def table() -> str:
    """Means ± standard deviations over seeds."""
    lines, rows = read_lines(JOURNAL), []
    for graph in dict.fromkeys(line["graph"] for line in lines):
        for calibrator in CALIBRATORS:
            own = [line["figures"][calibrator] for line in lines if line["graph"] == graph]
            row = {"graph": graph, "calibrator": calibrator, "n": len(own)}
            for figure in FIGURES:
                values = [one[figure] for one in own]
                row[figure] = f"{fmean(values):.3f} ± {stdev(values):.3f}"
            rows.append(row)
    return markdown_table(rows)


if __name__ == "__main__":
    run()
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
