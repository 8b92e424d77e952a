"""How each class fares: a table per class, and which class is mistaken for which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.decisions import Decisions
from graphsde.metrics.leaderboard import Figure
from graphsde.metrics.per_class import confusion_matrix, per_class
from graphsde.view.report.content import NOTHING, SHORT, JudgedNodes, ReportContent, name, number, percent

LARGEST_MATRIX = 12
MOST_PAIRS = 15
MOST_CLASSES = 60
DARKEST = 0.5
"""Opacity of a cell that holds a whole row, so that its text stays legible."""


@dataclass(frozen=True)
class Cell:
    """One cell of the confusion matrix: a count, how much of its row it is, and whether it is right."""

    text: str
    shade: str
    right: bool
    hint: str


def class_tables(content: ReportContent, judged: JudgedNodes) -> dict[str, Any] | None:
    """Rows of both tables, ready to be printed; ``None`` where nothing can be judged."""
    if not len(judged):
        return None
    prediction = content.classes
    predicted, confidence = prediction.index[judged.rows], prediction.confidence[judged.rows]
    matrix = confusion_matrix(predicted, judged.truth, prediction.num_classes)
    names = [name(one, SHORT) for one in prediction.class_names]
    covered = _set_coverage(content.decisions)
    rows = [
        {
            "name": names[position],
            "support": f"{one.support:,}",
            "precision": _share(one.precision),
            "recall": _share(one.recall),
            "f1": _figure(one.f1),
            "confidence": percent(one.confidence),
            "coverage": covered.get(prediction.class_names[position], (NOTHING, "")),
        }
        for position, one in enumerate(per_class(predicted, judged.truth, confidence, prediction.class_names))
    ]
    present = np.flatnonzero(matrix.sum(axis=0) + matrix.sum(axis=1))
    small = len(present) <= LARGEST_MATRIX
    return {
        "rows": rows[:MOST_CLASSES],
        "more": max(0, len(rows) - MOST_CLASSES),
        "with_sets": bool(covered),
        "columns": [names[one] for one in present] if small else [],
        "matrix": [(names[row], _cells(matrix, row, present, names)) for row in present.tolist()] if small else [],
        "pairs": [] if small else _pairs(matrix, names),
    }


def _set_coverage(decisions: Decisions | None) -> dict[str, tuple[str, str]]:
    """Coverage of the prediction sets by class, with its interval."""
    rows = decisions.coverage() if decisions is not None and hasattr(decisions, "coverage") else []
    return {
        row["group"]: (percent(row["coverage"]), f"{percent(row['low'])} to {percent(row['high'])}")
        for row in rows
        if row["kind"] == "class"
    }


def _share(figure: Figure | None) -> tuple[str, str]:
    if figure is None:
        return NOTHING, ""
    return percent(figure.value), f"{percent(figure.low)} to {percent(figure.high)}"


def _figure(figure: Figure | None) -> tuple[str, str]:
    return (NOTHING, "") if figure is None else (number(figure.value), f"{number(figure.low)} to {number(figure.high)}")


def _cells(matrix: np.ndarray, row: int, present: np.ndarray, names: list[str]) -> list[Cell]:
    total = max(1, int(matrix[row].sum()))
    return [
        Cell(
            f"{matrix[row, column]:,}" if matrix[row, column] else "",
            f"{DARKEST * matrix[row, column] / total:.3f}",
            row == column,
            f"{names[row]} predicted as {names[column]}: {percent(matrix[row, column] / total)}",
        )
        for column in present
    ]


def _pairs(matrix: np.ndarray, names: list[str]) -> list[tuple[str, str, str, str]]:
    """The most frequent mistakes: true class, predicted class, nodes, share of the class."""
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    found = []
    for row, column in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[row, column]:
            share = percent(wrong[row, column] / matrix[row].sum())
            found.append((names[row], names[column], f"{wrong[row, column]:,}", share))
    return found
