"""Tables as Markdown, for documents that people read without a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsde.runs.reproduce import Beside


def markdown_table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as a Markdown table; ``|`` in a cell is escaped."""
    if not rows:
        return ""
    names = list(columns or rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = ["" if row.get(name) is None else str(row[name]).replace("|", "\\|") for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def beside_table(rows: Sequence[Beside]) -> str:
    """Ours beside the printed, graph by graph: mean ± standard deviation (95 % interval of the mean), and the print.

    Metrics that the paper does not print stand in a table of their own.
    """
    metrics = list(dict.fromkeys(row.metric for row in rows))
    printed = [metric for metric in metrics if any(row.printed_text for row in rows if row.metric == metric)]
    others = [metric for metric in metrics if metric not in printed]
    parts = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [row for row in rows if row.dataset == dataset]
        tables = [_table(own, chosen) for chosen in (printed, others) if chosen]
        parts.append(f"**{dataset}**\n\n" + "\n".join(tables))
    return "\n".join(parts)


def _table(rows: Sequence[Beside], metrics: Sequence[str]) -> str:
    groups: dict[tuple[str, str], dict[str, Beside]] = {}
    for row in rows:
        groups.setdefault((row.system, row.model), {})[row.metric] = row
    lines = []
    for (system, model), found in groups.items():
        most = max(row.n for row in found.values())
        line: dict[str, Any] = {"printed as": system, "ours": model}
        for metric in metrics:
            row = found[metric]
            line[metric] = _ours(row, most)
            if any(other.printed_text for other in rows if other.metric == metric):
                line[f"{metric} printed"] = _printed(row)
        line["n"], line["failed"] = most, next(iter(found.values())).failed
        lines.append(line)
    return markdown_table(lines)


def _ours(row: Beside, most: int) -> str:
    if row.mean is None:
        return "—"
    digits = _digits(row)
    text = f"{row.mean:.{digits}f}"
    if row.std is not None:
        text += f" ± {row.std:.{digits}f} ({row.ci_low:.{digits - 1}f} to {row.ci_high:.{digits - 1}f})"
    return text if row.n == most else f"{text}, n = {row.n}"


def _printed(row: Beside) -> str:
    if row.printed is None:
        return row.printed_text
    digits = _digits(row)
    spread = "" if row.printed_std is None else f" ± {row.printed_std:.{digits}f}"
    return (
        f"{row.printed:.{digits}f}{spread}, {row.agreement}" if row.agreement else f"{row.printed:.{digits}f}{spread}"
    )


def _digits(row: Beside) -> int:
    """Enough for shares and for per cent."""
    return 2 if max(abs(value) for value in (row.mean, row.printed) if value is not None) > 2 else 4
