"""The table of docs/decide.md on one limit: is the guarantee kept among accepted test nodes of Cora?

    python studies/decide.py

Some minutes; what the journals under results/decide have is not run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study_table import mean_and_spread, records_of, run_cells, with_table

from graphsde.acting.abstain import ACCEPT_BY
from graphsde.bench.reproduce import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "decide", ROOT / "docs" / "decide.md"
JOURNAL, COMMAND = RESULTS, "python studies/decide.py"
GRAPH, MAX_ERROR = "cora", 0.1


@dataclass(frozen=True)
class Row:
    """A model on some random splits.

    Args:
        model: its name.
        seeds: of the splits.
        calibrator: fitted on validation nodes before deciding.
        by: the uncertainty that is thresholded.
    """

    model: str
    seeds: range
    calibrator: str | None = None
    by: str = ACCEPT_BY

    @property
    def options(self) -> dict[str, Any]:
        accept = {} if self.by == ACCEPT_BY else {"accept_by": self.by}
        return {"max_error": MAX_ERROR, "calibrator": self.calibrator} | accept

    @property
    def folder(self) -> Path:
        parts = [GRAPH, f"{MAX_ERROR:g}", self.calibrator or "as-fitted"]
        return RESULTS / "-".join(parts if self.by == ACCEPT_BY else [*parts, self.by])

    def run(self) -> None:
        run_cells("decide", self.options, [GRAPH], [self.model], self.seeds, self.folder)

    def shown(self) -> dict[str, Any]:
        found = records_of(self.folder, GRAPH, self.model, self.seeds)
        errors = [one["accepted_error"] for one in found if one["accepted_error"] is not None]
        spreads = {
            name: mean_and_spread([one[key] for one in found if one[key] is not None])
            for name, key in (
                ("realised error", "accepted_error"),
                ("accepted", "coverage"),
                ("false alarms", "false_alarms"),
                ("accuracy", "accuracy"),
            )
        }
        return {
            "model": f"{self.model}, {self.calibrator}" if self.calibrator else self.model,
            "accepts by": self.by,
            "splits": f"seeds {self.seeds.start}–{self.seeds.stop - 1}",
            "guarantee kept": f"{sum(one['kept'] == 1.0 for one in found)} of {len(found)}",
            "realised error": spreads.pop("realised error"),
            "largest": f"{100 * max(errors):.1f} %" if errors else "—",
            **spreads,
        }


FIRST, FRESH = range(20), range(20, 40)
# the uncertainty was chosen on the first seeds; the fresh ones were looked at afterwards
ROWS = (
    Row("gcn", FIRST, by="msp"),
    Row("gcn", FIRST),
    Row("gcn", FRESH),
    Row("gcn", FIRST, "temperature", by="msp"),
    Row("gcn", FIRST, "temperature"),
    Row("gcn", FRESH, "temperature"),
    Row("lgnsde", FIRST),
    Row("lgnsde", FRESH),
)


def table() -> str:
    return markdown_table([row.shown() for row in ROWS])


if __name__ == "__main__":
    for one in ROWS:
        one.run()
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
