"""Does `decide` keep its guarantee? Realised errors among accepted test nodes of Cora over 20 random splits.

    python studies/decide.py [--seeds 20] [--models gcn] [--max-error 0.10] [--calibrator temperature] [--show]

Journals are kept under results/decide, so that running again does only what is missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from study_table import mean_and_spread, records_of, run_cells

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "decide"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--models", default="gcn", help="names of models, with commas between")
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--max-error", type=float, default=0.10)
    parser.add_argument("--calibrator", default=None, help="fitted on validation nodes before deciding")
    parser.add_argument("--show", action="store_true", help="run nothing, print what the journals hold")
    arguments = parser.parse_args()
    folder = RESULTS / f"{arguments.graph}-{arguments.max_error:g}-{arguments.calibrator or 'as-fitted'}"
    models, seeds = arguments.models.split(","), range(arguments.first, arguments.first + arguments.seeds)
    if not arguments.show:
        options = {"max_error": arguments.max_error, "calibrator": arguments.calibrator}
        run_cells("decide", options, [arguments.graph], models, seeds, folder)
    print("| model | splits | guarantee kept | realised error | largest | accepted | false alarms | accuracy |")
    print("|---|---|---|---|---|---|---|---|")
    for model in models:
        found = records_of(folder, arguments.graph, model, seeds)
        errors = [one["accepted_error"] for one in found if one["accepted_error"] is not None]
        kept = sum(one["kept"] == 1.0 for one in found)
        largest = f"{100 * max(errors):.1f} %" if errors else "—"
        figures = [
            mean_and_spread([one[key] for one in found if one[key] is not None])
            for key in ("accepted_error", "coverage", "false_alarms", "accuracy")
        ]
        row = [model, len(found), f"{kept} of {len(found)}", figures[0], largest, *figures[1:]]
        print("| " + " | ".join(map(str, row)) + " |")
