"""What is said of a column that a table lacks: which one may have been meant, or that the header itself is missing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import get_args

import numpy as np

from graphsde.base.errors import BadInput, shorten
from graphsde.base.suggestions import closest
from graphsde.graph.ids import NUMBER, locate
from graphsde.graph.read_option import read_option
from graphsde.graph.target import Kind
from graphsde.io.columns import Table

ENDS = ("source", "target")
LOOKED_AT = 20  # columns
ROWS_LOOKED_AT = 1000
VERY_CLOSE = 0.75  # 'ids' and 'id', not 'side' and 'id'
NAMES_OF_ENDS = frozenset({"source", "target", "from", "to", "src", "dst", "start", "end", "head", "tail"})
FIRST_LINE = ", line 1"  # ends the place of a header that is text


def named_column_missing(table: Table, key: str, column: str, place: str) -> BadInput:
    """A setting names a column that does not exist.

    Args:
        table: that lacks it.
        key: the setting, such as ``label`` or ``drop``.
        column: as named.
        place: of the setting.
    """
    kind = closest(column, get_args(Kind)) if key == "target" else None
    if kind is not None:
        fix = f"did you mean target={kind}?"
    elif (close := closest(column, table.names)) is not None:
        fix = f"did you mean '{shorten(close, 60)}'?"
    elif key in ("categorical", "drop", "words"):
        fix = f"remove it from '{key}', or choose one of the columns found"
    else:
        fix = f"choose one of the columns found: --read {key}=COLUMN"
    return _error(table, f"{table.path.name} has no column '{shorten(column, 60)}'", place, "a column of the file", fix)


def role_missing(table: Table, role: str, node_ids: np.ndarray | None = None) -> BadInput:
    """A required column that no setting names is missing: ``id``, ``source`` or ``target``.

    Args:
        table: that lacks it.
        role: its default name.
        node_ids: of the nodes, if the table is that of the edges.
    """
    typed = not table.header_place.endswith(FIRST_LINE)
    if looks_like_data(table.names, None if typed else node_ids):
        return no_header(table.path.name, table.header_place, table.names)
    rename = f"rename a column to '{role}', or name another: --read {role}=COLUMN"
    missing = [end for end in ENDS if end not in table.names] if role in ENDS else [role]
    similar = {one: _similar(one, table.names) for one in missing}
    likely = similar if all(similar.values()) else _by_content(table, missing, node_ids)
    if likely:
        shown = " and ".join(f"'{shorten(column, 60)}'" for column in likely.values())
        what = "the ids" if role == "id" else "the ends of edges"
        start = f"did you mean {shown}? Then" if likely is similar else f"if {what} are in {shown}"
        rename = f"{start}: {' '.join(read_option(key, column) for key, column in likely.items())}; or {rename}"
    message = f"{table.path.name} has no column '{role}'"
    return _error(table, message, table.header_place, f"a column '{role}'", rename)


def looks_like_data(names: Sequence[str], node_ids: np.ndarray | None = None) -> bool:
    """Whether the first line of a table is one of its rows: it begins with a number, has a decimal, or names two nodes.

    Whole numbers further right may be the names of columns, such as years; so may the usual names of the ends of an
    edge, even if nodes have these names too.
    """
    decimal = any(NUMBER.fullmatch(name) and not name.isdecimal() for name in names)
    unusual = [name for name in names if name.lower() not in NAMES_OF_ENDS]
    known = node_ids is not None and int((locate(unusual, node_ids) >= 0).sum()) >= 2
    return bool(NUMBER.fullmatch(names[0])) or decimal or known


def refuse_data_as_header(names: Sequence[str], place: str) -> None:
    """Refuse a first line that looks like data, rather than its repeated or empty cells as names of columns."""
    if place.endswith(FIRST_LINE) and looks_like_data(names):
        raise no_header(place.removesuffix(FIRST_LINE), place, names)


def no_header(file: str, place: str, names: Sequence[str]) -> BadInput:
    """The names of columns look like data: a header line is missing, or the columns were never named.

    Args:
        file: its name.
        place: of the header; a typed table has no lines, so none can be missing.
        names: of the columns.
    """
    example = "source,target" if file.startswith("edges") else "id,label,…"
    expected = f"the names of the columns, such as {example}"
    # pandas names columns 0, 1, 2 … by default, but the first row of a file may also be 0,1
    counted = list(names) == [str(position) for position in range(len(names))]
    if not place.endswith(FIRST_LINE):
        message, fix = f"the columns of {file} seem to have no names, only numbers", "name the columns"
    elif counted:
        message = f"the columns of {file} have no names, only numbers, or its header line is missing"
        fix = f"name the columns: replace the first line by such names, or, if it is a row of data, add {example} above"
    else:
        message = f"the header line of {file} seems to be missing: its first line looks like data"
        expected, fix = f"a line with {expected}", "add this line at the top of the file"
    return BadInput(message, code="E-HEADER", place=place, found=_listed(names), expected=expected, fix=fix)


def _by_content(table: Table, missing: Sequence[str], node_ids: np.ndarray | None) -> dict[str, str]:
    """The columns that may be the missing ones: of ids that all differ, or of ends that are ids of nodes."""
    free = [name for name in table.names[:LOOKED_AT] if name not in ENDS and not table.holds_lists(name)]
    if missing == ["id"]:
        different = [name for name in free if _all_differ(table, name)]
        return {"id": different[0]} if different else {}
    holding = [name for name in free if node_ids is not None and _holds_ids(table, name, node_ids)]
    return dict(zip(missing, holding, strict=True)) if len(holding) == len(missing) else {}


def _similar(role: str, names: Sequence[str]) -> str:
    folded = {name.lower()[:100]: name for name in names[:1000]}
    close = difflib.get_close_matches(role, list(folded), n=1, cutoff=VERY_CLOSE)
    return folded[close[0]] if close else ""


def _all_differ(table: Table, column: str) -> bool:
    try:
        values = table.values(column)
    except BadInput:  # dates and the like
        return False
    if values.dtype.kind == "f":
        return False
    items = values.tolist()
    if any(item is None or item == "" for item in items) or len(set(items)) < len(items):
        return False
    return not all(isinstance(item, str) and NUMBER.fullmatch(item) and not item.isdecimal() for item in items)


def _holds_ids(table: Table, column: str, node_ids: np.ndarray) -> bool:
    try:
        ends = np.asarray(table.ends(column))[:ROWS_LOOKED_AT]
        return len(ends) > 0 and bool((locate(ends, node_ids) >= 0).mean() > 0.5)
    except BadInput:
        return False


def _error(table: Table, message: str, place: str, expected: str, fix: str) -> BadInput:
    return BadInput(message, code="E-HEADER", place=place, found=_listed(table.names), expected=expected, fix=fix)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shorten(name, 60) for name in names[:10]) + (", …" if len(names) > 10 else "")
