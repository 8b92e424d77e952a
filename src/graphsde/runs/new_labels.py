"""Labels from a user: read, checked, and refused with the rows that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError, shorten
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.graph.labels import MISSING, encode_values
from graphsde.graph.target import UNLABELLED
from graphsde.io.columns import Table
from graphsde.io.csv_table import read_csv
from graphsde.io.opening import safe_cell
from graphsde.io.parquet import read_parquet

SHOWN = 5
ASKED = ("rank", "predicted")
"""Columns of a file that ``ask`` has written."""
SAME_NUMBER = 1e-9  # a spreadsheet may have dropped the last digits of a value


@dataclass(frozen=True)
class GivenLabels:
    """Pairs of id and class name or number as given, without empty ones, with the place of each.

    Args:
        ids, names, places: of every row with a label.
        empty: how many rows had none.
        guarded: whether ids may have a leading apostrophe, as in CSV files for spreadsheets.
        chosen: whether these nodes were picked one by one (a file that ``ask`` wrote, a mapping), so that test nodes
            among them are to become training nodes; a table of all known labels only repeats those of the test.
        ranks: places of these nodes in the order in which ``ask`` drew them, from 1; ``None`` without a column that
            tells.
    """

    ids: list[Any]
    names: list[str]
    places: list[str]
    empty: int = 0
    guarded: bool = False
    chosen: bool = False
    ranks: tuple[int, ...] | None = None

    @classmethod
    def from_mapping(cls, labels: Mapping[Any, str | float | None]) -> GivenLabels:
        filled = {node: text for node, label in labels.items() if (text := _text(label)) is not None}
        places = [f"labels[{shorten(node, 60)}]" for node in filled]
        return cls(list(filled), list(filled.values()), places, len(labels) - len(filled), chosen=True)

    @classmethod
    def read(cls, path: Path, role: str = "training", *, test_labels: bool = False) -> GivenLabels:
        """A CSV or Parquet file with the columns ``id`` and ``label``; rows without a label are left out.

        Args:
            path: the file.
            role: what the labels are for. A file that ``ask --for calibration`` wrote has a column that says so, and
                its labels are never trained on.
            test_labels: take in the labels of test nodes, too, if ``ask`` has not written the file.
        """
        table = _open(path)
        _require_role(table, path, role)
        for column in ("id", "label"):
            if column not in table.names:
                raise BadInput(
                    f"{path.name} has no column '{column}'",
                    code="E-HEADER",
                    place=table.header_place,
                    found=", ".join(shorten(name, 60) for name in table.names[:10]),
                    expected="the columns id and label",
                    fix="use the file that graphsde ask writes, with the label column filled in",
                )
        ids, names = table.ids("id").tolist(), [_text(label) for label in table.values("label").tolist()]
        rows = [row for row, name in enumerate(names) if name is not None]
        kept = [name for name in names if name is not None]
        places = [table.place(row) for row in rows]
        return cls(
            [ids[row] for row in rows],
            kept,
            places,
            len(names) - len(rows),
            guarded=path.suffix.lower() == ".csv",
            chosen=test_labels or role != "training" or set(ASKED) <= set(table.names),
            ranks=_ranks(table, rows),
        )

    def require_random(self, path: Path) -> None:
        """Refuse labels that are not a random sample any more: those of a draw of which some were left out.

        A node that a person could not label is not like the others. The first nodes of a random order are a random
        sample, however many there are.
        """
        if self.ranks is None:
            gaps, last = self.empty, len(self.ids) + self.empty
            first = None
        else:
            given, last = set(self.ranks), max(self.ranks, default=0)
            missing = [rank for rank in range(1, last + 1) if rank not in given]
            gaps, first = len(missing), missing[0] if missing else None
        if not gaps:
            return
        shorter = "" if first in (None, 1) else f", or empty the labels after rank {first - 1}"
        raise BadUsage(
            f"{gaps:,} of {last:,} nodes drawn for calibration have no label in {path.name}: the others are not a "
            "random sample, and no guarantee would hold",
            code="E-CAL-GAPS",
            place=str(path),
            found=f"{len(self.ids):,} labels" + ("" if first is None else f", none at rank {first}"),
            expected="a label in every row, or in all of the first rows by rank",
            fix=f"label the rest{shorter}",
        )


@dataclass(frozen=True)
class NewLabels:
    """Checked labels.

    Args:
        positions: rows of the nodes that are new to the training.  # [n]
        labels: the class of each by its name, or its value.
        from_test: how many of them were test nodes.
        known: how many of the given labels were already in use, with the same value.
        empty: how many rows had no label.
        kept_for_test: how many of ``known`` are labels of test nodes, which stay test nodes.
    """

    positions: np.ndarray
    labels: Sequence[str | float]
    from_test: int
    known: int
    empty: int
    kept_for_test: int = 0


CHECKS: Rules[Callable[[GivenLabels, Graph, Sequence[str]], NewLabels]] = Rules("adding labels")


@CHECKS.register("classification")
def check_labels(given: GivenLabels, graph: Graph, class_names: Sequence[str]) -> NewLabels:
    """Compare classes with the graph; every refusal names the rows.

    Args:
        given: the user's labels.
        graph: with the current roles of its nodes and labels as positions in ``class_names``.
        class_names: the classes that the model knows.
    """
    positions = _nodes(given, graph)
    place = {safe_cell(name): index for index, name in enumerate(class_names)}  # as the questions were written
    place |= {name: index for index, name in enumerate(class_names)}
    classes = np.array([place.get(name, _whole(name, place)) for name in given.names], dtype=np.int64)
    _refuse(
        given,
        classes < 0,
        given.names,
        code="E-LABEL-UNKNOWN",
        what="unknown class",
        expected="one of " + shorten(", ".join(class_names)),
        fix="correct the label; to add a new class, add it to the graph's files and fit again",
    )
    said = np.full(graph.num_nodes, UNLABELLED) if graph.labels is None else graph.labels
    has = [class_names[said[p]] if said[p] != UNLABELLED else None for p in positions]
    known = said[positions] != UNLABELLED
    _refuse_others(given, known & (said[positions] != classes), has)
    return _new(given, graph, positions, known, [class_names[c] for c in classes])


@CHECKS.register("regression")
def check_values(given: GivenLabels, graph: Graph, class_names: Sequence[str] = ()) -> NewLabels:
    """Compare numbers with those of the graph; every refusal names the rows."""
    positions = _nodes(given, graph)
    numbers, _ = encode_values(given.names, lambda row: given.places[row])
    said = np.full(graph.num_nodes, np.nan) if graph.values is None else graph.values
    has = said[positions]
    known = ~np.isnan(has)
    _refuse_others(given, known & ~np.isclose(has, numbers, rtol=SAME_NUMBER, atol=0), [f"{v:g}" for v in has])
    return _new(given, graph, positions, known, numbers.tolist())


def _nodes(given: GivenLabels, graph: Graph) -> np.ndarray:
    """The row of every node that a label was given to, each once.  # [n]"""
    if not given.ids:
        raise BadInput(
            "no row has a label",
            code="E-EMPTY",
            found=f"{given.empty:,} rows without a label",
            fix="fill in the label column",
        )
    positions = _locate(given, graph)
    _refuse(
        given,
        positions < 0,
        given.ids,
        code="E-NODE-UNKNOWN",
        what="unknown node id",
        expected="ids as in the graph's own files",
        fix="correct the id, or pass the graph that has it with --graph",
    )
    _, first, inverse = np.unique(positions, return_index=True, return_inverse=True)
    _refuse(
        given,
        first[inverse] != np.arange(len(positions)),
        given.ids,
        code="E-LABEL-DUP",
        what="duplicate node",
        expected="unique ids",
        fix="keep one row per node",
    )
    _refuse(
        given,
        _any(graph, "ood", "exposure")[positions],
        given.ids,
        code="E-LABEL-CONFLICT",
        what="the split reserves the node as OOD",
        expected="nodes that are not OOD",
        fix="remove these rows",
    )
    return positions


def _refuse_others(given: GivenLabels, other: np.ndarray, has: Sequence[str | None]) -> None:
    _refuse(
        given,
        other,
        [f"{name}, the graph has {mine}" for name, mine in zip(given.names, has, strict=True)],
        code="E-LABEL-CONFLICT",
        what="the graph has another label for the node",
        expected="the label that the graph has",
        fix="correct these rows; to change a label that is in use, change the graph's files and fit again",
    )


def _new(
    given: GivenLabels, graph: Graph, positions: np.ndarray, known: np.ndarray, labels: Sequence[str | float]
) -> NewLabels:
    """Checked labels that are new to the training; ``known`` marks those that the graph has.  # [n] bool

    A test label that the graph has is in use, too: only nodes that were picked one by one leave the test for it.
    """
    in_use = _any(graph, "train")[positions] | (_any(graph, "val", "calibration", "further")[positions] & known)
    tested = _any(graph, "test")[positions] & known & ~in_use
    kept = tested & (not given.chosen)
    in_use |= kept
    fresh = np.flatnonzero(~in_use).tolist()
    return NewLabels(
        positions[fresh],
        [labels[row] for row in fresh],
        from_test=int((tested & ~kept).sum()),
        known=int(in_use.sum()),
        empty=given.empty,
        kept_for_test=int(kept.sum()),
    )


def answers_in(path: Path) -> bool:
    """Whether a table of questions exists and has a label filled in; also true if the file can't be read."""
    if not path.exists():
        return False
    try:
        table = _open(path)
        return "label" not in table.names or any(_text(label) is not None for label in table.values("label").tolist())
    except GraphsdeError:
        return True


def _require_role(table: Table, path: Path, role: str) -> None:
    """Labels drawn at random for calibration are kept separate from those chosen for training."""
    drawn = "role" in table.names and "calibration" in set(table.values("role").tolist())
    if drawn and role == "training":
        raise BadUsage(
            f"the labels in {path.name} are for calibration; training on them would void the guarantee",
            code="E-CAL-USED",
            place=str(path),
            fix="use them with: graphsde decide RUN --further-labels " + path.name,
        )
    if role == "calibration" and not drawn:
        raise BadUsage(
            f"the labels in {path.name} were not drawn at random for calibration",
            code="E-CAL-USED",
            place=str(path),
            expected="a column role that says calibration",
            fix="draw nodes with: graphsde ask RUN --for calibration",
        )


def _ranks(table: Table, rows: Sequence[int]) -> tuple[int, ...] | None:
    if "rank" not in table.names:
        return None
    cells = table.values("rank").tolist()
    try:
        return tuple(int(float(cells[row])) for row in rows)
    except (TypeError, ValueError):  # another table's column of that name
        return None


def _open(path: Path) -> Table:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise BadUsage(f"can't read labels from '{path.name}'", expected="a .csv or .parquet file")
    if not path.is_file():
        raise BadInput(f"no such file: {path}", code="E-NOT-A-FILE", place=str(path), fix="check the spelling")
    return read_csv(path, wanted=("id", "label")) if suffix == ".csv" else read_parquet(path)


def _locate(given: GivenLabels, graph: Graph) -> np.ndarray:
    positions = locate(given.ids, graph.node_ids)
    if graph.node_ids.dtype != object:
        return positions
    # ids that look like a formula got an apostrophe when the questions were written
    guarded = {safe: row for row, node in enumerate(graph.node_ids.tolist()) if (safe := safe_cell(node)) != node}
    found = np.array([guarded.get(str(node), -1) for node in given.ids], dtype=np.int64)
    if given.guarded:
        _refuse(
            given,
            (found >= 0) & (positions >= 0),
            given.ids,
            code="E-NODE-UNKNOWN",
            what="an id matches two nodes, one with an apostrophe and one without",
            expected="ids that differ by more than a leading apostrophe",
            fix="use a .parquet file, which needs no apostrophes, or rename one of the nodes",
        )
    return np.where(positions < 0, found, positions)


def _text(label: object) -> str | None:
    text = "" if label is None or label != label else str(label).strip()
    return None if text in MISSING else text


def _whole(name: str, place: Mapping[str, int]) -> int:
    """``7.0`` for ``7``: how a spreadsheet writes a column of integers with gaps."""
    head, dot, tail = name.partition(".")
    return place.get(head, -1) if dot and tail.strip("0") == "" else -1


def _any(graph: Graph, *roles: str) -> np.ndarray:
    mask = np.zeros(graph.num_nodes, dtype=bool)
    for role in roles:
        if role in graph.masks:
            mask |= graph.masks[role]
    return mask


def _refuse(
    given: GivenLabels, wrong: np.ndarray, values: Sequence[Any], *, code: str, what: str, expected: str, fix: str
) -> None:
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return
    shown = "; ".join(f"{given.places[row]}: {shorten(str(values[row]), 60)}" for row in rows[:SHOWN])
    more = "; …" if len(rows) > SHOWN else ""
    raise BadInput(
        f"{what}, in {len(rows):,} of {len(given.ids):,} rows with a label ({shown}{more})",
        code=code,
        place=given.places[int(rows[0])],
        found=str(values[int(rows[0])]),
        expected=expected,
        fix=fix,
    )
