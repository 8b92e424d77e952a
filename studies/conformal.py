"""Do conformal sets cover? Coverage and size at 90 % on the five graphs.

    python studies/conformal.py [--seeds 5] [--model gcn] [--graphs cora,citeseer,pubmed,photo,computers] [--show]

Random splits: 20 nodes per class train, 30 validate, 500 calibrate, the rest is tested. Each fit is judged on 20
draws of its calibration nodes. Journals are kept under results/conformal, so that running again does only what is
missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from study_table import mean_and_spread, records_of, run_cells

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "conformal"
SCORES = ("thr", "aps", "raps", "daps")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--graphs", default="cora,citeseer,pubmed,photo,computers", help="with commas between")
    parser.add_argument("--show", action="store_true", help="run nothing, print what the journals hold")
    arguments = parser.parse_args()
    graphs = arguments.graphs.split(",")
    if not arguments.show:
        options = {"draws": 20, "calibrator": "temperature"}
        run_cells("conformal", options, graphs, [arguments.model], range(arguments.seeds), RESULTS)
    print("| graph | fits | " + " | ".join(f"{name}: coverage, size" for name in SCORES) + " | accuracy |")
    print("|---|---|" + "---|" * (len(SCORES) + 1))
    for graph in graphs:
        found = records_of(RESULTS, graph, arguments.model, range(arguments.seeds))
        row = [graph, len(found)]
        for name in SCORES:
            sizes = [one[f"set_size[{name}]"] for one in found]
            coverage = mean_and_spread([one[f"coverage[{name}]"] for one in found])
            row.append(f"{coverage}, {sum(sizes) / max(len(sizes), 1):.2f}")
        row.append(mean_and_spread([one["accuracy"] for one in found]))
        print("| " + " | ".join(map(str, row)) + " |")
