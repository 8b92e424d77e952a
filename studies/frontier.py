"""The frontier of docs/decide.md: which error limits hold for a GCN with a temperature on Cora's public split.

    python studies/frontier.py

One fit, seed 0, calibrated on the 1,000 test nodes; kept in results/decide/frontier.json.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from study_table import with_table

import graphsde as gs
from graphsde.acting.ood import flag_per_node
from graphsde.bench.reproduce import markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGE, JOURNAL = ROOT / "docs" / "decide.md", ROOT / "results" / "decide" / "frontier.json"
COMMAND = "python studies/frontier.py"


def measured() -> dict[str, Any]:
    graph = gs.load("cora")
    prediction = gs.calibrate(gs.GCN(seed=0).fit(graph).predict(graph), graph, by="temperature")
    return gs.certify(prediction, graph, ood=flag_per_node(prediction, graph)).as_dict()


def table() -> str:
    """Limits that one threshold satisfies share a line."""
    rungs = json.loads(JOURNAL.read_text(encoding="utf-8"))["rungs"]
    rows = []
    for _, group in groupby(rungs, key=lambda one: (one["status"], one["accepted_share"], one["outlook"])):
        alike = list(group)
        one = alike[0]
        rows.append(
            {
                "limit": ", ".join(f"{100 * other['limit']:g} %" for other in alike),
                "status": one["status"],
                "accepted": f"{one['accepted_share']:.1%}".replace("%", " %"),
                "wrong among accepted calibration nodes": f"{one['wrong']} of {one['accepted']}",
                "upper bound": f"{one['upper_bound']:.1%}".replace("%", " %"),
                "what it would take": "" if one["status"] == "certified" else one["outlook"],
            }
        )
    return markdown_table(rows)


if __name__ == "__main__":
    JOURNAL.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
