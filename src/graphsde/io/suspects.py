"""Columns that are probably something else than what they were read as: codes, ids, dates, percentages, roles."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np

from graphsde.base.errors import shorten
from graphsde.graph.raw import Finding
from graphsde.graph.read_option import read_option
from graphsde.io.columns import Features, Table

FEWEST_IDS = 20  # among fewer rows, numbers may all differ by chance
UNLIKELY = 5.0  # numbers drawn at random from the same range would all differ with a probability of exp(-5)
NEARLY_ALL = 0.9
LOOKED_AT = 1000  # different texts of a column
FIRST_ROWS = 100  # rule out most columns, so that a wide matrix is hardly read again
SHOWN = 5
CODE_WORDS = frozenset({"zip", "zipcode", "plz", "postcode", "postalcode", "postal"})
ID_WORDS = frozenset({"id", "ids", "no", "nr", "num", "number", "key", "code", "account", "index", "uid", "pk", "row"})

_TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?"
_DATE = re.compile(rf"(\d{{4}}([-/.])\d{{1,2}}\2\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\3(\d{{4}}|\d{{2}})){_TIME}")
_PERCENT = re.compile(r"[+-]?\d+([.,]\d+)?\s*%")


def suspicious_features(table: Table, features: Features, forced: Collection[str]) -> list[Finding]:
    """Warnings about feature columns, each with the option that reads them in another way.

    Args:
        table: where they are from.
        features: its columns, sorted into numbers and text.
        forced: columns that the user wants as text.
    """
    findings = []
    if isinstance(features.numeric, np.ndarray):
        whole = _whole(features.numeric)
        names = [features.numeric_names[position] for position in whole.tolist()]
        places = dict(zip(names, whole.tolist(), strict=True))
        padded = [name for name in table.padded(names) if _is_whole(features.numeric[:, places[name]])]
        coded = [name for name in names if name not in padded and CODE_WORDS & set(_words(name))]
        coded = [name for name in coded if _is_whole(features.numeric[:, places[name]])]
        findings += _codes(
            padded, f"of {table.path.name}: read as numbers, without the leading zeros", "W-LEADING-ZEROS"
        )
        findings += _codes(coded, "read as numbers, although the name says codes", "W-CODE-LIKE")
        told = {*padded, *coded}
        left = [name for name in names if name not in told]
        findings += _ids([name for name in left if _looks_like_ids(features.numeric[:, places[name]], name)])
    texts = {name: column for name, column in features.categorical.items() if name not in forced}
    for pattern, code, what, advice in (
        (_DATE, "W-DATE-TEXT", "dates as text", "convert them to numbers, such as days since a date"),
        (_PERCENT, "W-PERCENT-TEXT", "percentages as text", "write them as plain numbers, such as 0.55 for 55%"),
    ):
        found = [name for name, column in texts.items() if _are(column, pattern)]
        if found:
            message = f"{_columns(found)} {'holds' if len(found) == 1 else 'hold'} {what}: each value is a category"
            hint = f"{advice}, or leave {'it' if len(found) == 1 else 'them'} out: {read_option('drop', found)}"
            findings.append(Finding(code, "warning", message, len(found), _shown(found), hint))
    return findings


def misspelt_roles(table: Table, roles: Collection[str], taken: Collection[str]) -> list[Finding]:
    """Columns that have the name of a role except for case, such as ``Split``, where no column has the role.

    Args:
        table: where they are from.
        roles: to look for, by their default names.
        taken: columns that are used otherwise, or left out.
    """
    findings = []
    for name in table.names:
        role = name.lower()
        if role in roles and name not in taken and role not in table.names:
            shown = shorten(name, 60)
            message = f"the column {shown} of {table.path.name} is not read as '{role}', because of its spelling"
            hint = f"if it is the {role}: {read_option(role, name)}"
            findings.append(Finding("W-COLUMN-CASE", "warning", message, 1, (shown,), hint))
    return findings


def _codes(names: Sequence[str], why: str, code: str) -> list[Finding]:
    if not names:
        return []
    hint = f"if these are codes, such as zip codes: {read_option('categorical', names)}"
    return [Finding(code, "warning", f"{_columns(names)} {why}", len(names), _shown(names), hint)]


def _ids(names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    one = len(names) == 1
    message = f"{_columns(names)}: another whole number for every node, like an id"
    hint = f"a model would read {'it' if one else 'them'} as a quantity; to leave {'it' if one else 'them'} out: "
    return [
        Finding("W-ID-LIKE", "warning", message, len(names), _shown(names), hint + read_option("drop", list(names)))
    ]


def _whole(values: np.ndarray) -> np.ndarray:
    """Positions of columns whose first rows have whole numbers, and not 0 and 1 alone."""
    first = values[:FIRST_ROWS]
    whole = (np.isnan(first) | (np.isfinite(first) & (np.trunc(first) == first))).all(axis=0)
    return np.flatnonzero(whole & (first > 1).any(axis=0))


def _is_whole(column: np.ndarray) -> bool:
    return bool((np.isnan(column) | (np.isfinite(column) & (np.trunc(column) == column))).all())


def _looks_like_ids(column: np.ndarray, name: str) -> bool:
    """All different, where the name says id or where random numbers from the same range would repeat."""
    first = column[:FIRST_ROWS]
    if len(column) < FEWEST_IDS or len(np.unique(first)) < len(first):
        return False
    values = np.sort(column)
    if np.isnan(values).any() or (np.diff(values) == 0).any() or not _is_whole(column):
        return False
    expected_pairs = len(values) ** 2 / (2 * (float(values[-1]) - float(values[0]) + 1))
    return expected_pairs > UNLIKELY or bool(ID_WORDS & set(_words(name)))


def _words(name: str) -> list[str]:
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return re.split(r"[^a-z0-9]+", apart.lower())


def _are(column: np.ndarray, pattern: re.Pattern[str]) -> bool:
    texts = [text for text in islice(dict.fromkeys(column.tolist()), LOOKED_AT) if isinstance(text, str)]
    present = [text.strip() for text in texts if text.strip().lower() not in ("", "na", "n/a", "nan", "null", "none")]
    return bool(present) and sum(bool(pattern.fullmatch(text)) for text in present) >= NEARLY_ALL * len(present)


def _columns(names: Sequence[str]) -> str:
    shown = ", ".join(_shown(names)) + (", …" if len(names) > SHOWN else "")
    return f"column {shown}" if len(names) == 1 else f"{len(names):,} columns ({shown})"


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(shorten(name, 60) for name in names[:SHOWN])
