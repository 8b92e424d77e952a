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
CODE_PAIRS = frozenset((kind, word) for kind in ("zip", "post", "postal") for word in ("code", "codes"))
ID_WORDS = frozenset({"id", "ids", "key", "code", "account", "uid", "pk", "row"})
ID_AFTER_A_WORD = frozenset({"no", "nr", "num", "number"})  # an account number, not a number of followers

_TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?"
_DAY, _MONTH, _YEAR = r"(0?[1-9]|[12]\d|3[01])", r"(0?[1-9]|1[0-2])", r"[12]\d{3}"
# versions such as 10.10.20 and phone numbers such as 12-34-56 are no dates: two digits of a year need slashes
_DATE = re.compile(
    rf"({_YEAR}(?P<a>[-/.]){_MONTH}(?P=a){_DAY}"
    rf"|({_DAY}(?P<b>[-/.]){_MONTH}(?P=b)|{_MONTH}(?P<c>[-/.]){_DAY}(?P=c)){_YEAR}"
    rf"|({_DAY}/{_MONTH}|{_MONTH}/{_DAY})/\d{{2}}){_TIME}"
)
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
        told = set(padded)
        coded = [name for name in names if name not in told and _says_code(name)]
        coded = [name for name in coded if _is_whole(features.numeric[:, places[name]])]
        findings += _codes(padded, "as numbers, without the leading zeros", "W-LEADING-ZEROS", table.path.name)
        says = "name says" if len(coded) == 1 else "names say"
        findings += _codes(coded, f"as numbers, although the {says} codes", "W-CODE-LIKE")
        told.update(coded)
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


def _codes(names: Sequence[str], how: str, code: str, file: str = "") -> list[Finding]:
    if not names:
        return []
    where = f" of {file}" if file else ""
    message = f"{_columns(names)}{where} {'was' if len(names) == 1 else 'were'} read {how}"
    hint = f"if these are codes, such as zip codes: {read_option('categorical', names)}"
    return [Finding(code, "warning", message, len(names), _shown(names), hint)]


def _ids(names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    one = len(names) == 1
    message = f"{_columns(names)}: a different whole number for every node, like an id"
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
    return expected_pairs > UNLIKELY or _says_id(name)


def _says_id(name: str) -> bool:
    """By its last word: the first ones often tell of a count, such as ``num_citations`` or ``account_balance``."""
    words = _words(name)
    return bool(words) and (words[-1] in ID_WORDS or (len(words) > 1 and words[-1] in ID_AFTER_A_WORD))


def _says_code(name: str) -> bool:
    """By its last words, apart from digits and the like: ``distance_to_postal_office`` is a length."""
    words = _words(name)
    while words and (words[-1].isdecimal() or words[-1] == "prefix"):
        words.pop()
    return bool(words) and (words[-1] in CODE_WORDS or tuple(words[-2:]) in CODE_PAIRS)


def _words(name: str) -> list[str]:
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z0-9]+", apart.lower())


def _are(column: np.ndarray, pattern: re.Pattern[str]) -> bool:
    texts = [text for text in islice(dict.fromkeys(column.tolist()), LOOKED_AT) if isinstance(text, str)]
    present = [text.strip() for text in texts if text.strip().lower() not in ("", "na", "n/a", "nan", "null", "none")]
    return bool(present) and sum(bool(pattern.fullmatch(text)) for text in present) >= NEARLY_ALL * len(present)


def _columns(names: Sequence[str]) -> str:
    shown = ", ".join(_shown(names)) + (", …" if len(names) > SHOWN else "")
    return f"column {shown}" if len(names) == 1 else f"{len(names):,} columns ({shown})"


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(shorten(name, 60) for name in names[:SHOWN])
