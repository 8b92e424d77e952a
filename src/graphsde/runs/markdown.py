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


def beside_table(rows: Sequence[Beside], digits: int = 4) -> str:
    """Ours beside the printed: one line per graph and system, one pair of columns per metric."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    compared = {row.metric for row in rows if row.printed_text}  # a figure of the paper prints no numbers
    groups: dict[tuple[str, str, str], dict[str, Beside]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.system, row.model), {})[row.metric] = row
    lines = []
    for (dataset, system, model), found in groups.items():
        first = next(iter(found.values()))
        line: dict[str, Any] = {"graph": dataset, "printed as": system, "ours": model}
        for metric in metrics:
            line[metric] = _ours(found[metric], digits)
            if metric in compared:
                line[f"{metric} printed"] = _printed(found[metric], digits)
                line[f"{metric} agreement"] = found[metric].agreement
        line["n"], line["failed"] = first.n, first.failed
        lines.append(line)
    return markdown_table(lines)


def _ours(row: Beside, digits: int) -> str:
    if row.mean is None:
        return "—"
    return f"{row.mean:.{digits}f}" if row.std is None else f"{row.mean:.{digits}f} ± {row.std:.{digits}f}"


def _printed(row: Beside, digits: int) -> str:
    if row.printed is None:
        return row.printed_text
    return (
        f"{row.printed:.{digits}f}"
        if row.printed_std is None
        else f"{row.printed:.{digits}f} ± {row.printed_std:.{digits}f}"
    )
