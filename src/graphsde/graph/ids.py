"""Node ids: integers or text, as the user wrote them, each unique."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, shorten

CANONICAL = re.compile(r"0|[1-9][0-9]*")
SIGNED = re.compile(r"-[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LARGEST = 2**63 - 1
SHOWN = 5
# ids within this multiple of their count are looked up in a table; a search is slower
_WIDEST_RANGE = 16
_IDS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Repeated texts, with each distinct one stored once.

    Args:
        codes: positions in :attr:`distinct`, -1 for its last entry.  # [E]
        spelt: makes the distinct texts when they are needed: as Python objects they need several times the memory they
            need in a file.
        match: positions of the distinct texts among others, compared exactly, -1 if there is none.
    """

    codes: np.ndarray
    spelt: Callable[[], np.ndarray]
    match: Callable[[np.ndarray], np.ndarray]

    @property
    def distinct(self) -> np.ndarray:
        """The distinct texts; ``None`` for a missing one.  # [D] object"""
        return self.spelt()

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> Any:
        return self.distinct[self.codes[row]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.distinct[self.codes].astype(dtype or object, copy=False)


def parse_ids(values: Sequence[Any] | np.ndarray, place: Callable[[int], str]) -> np.ndarray:
    """Read node ids and refuse those that could be confused with each other.

    Args:
        values: one id per node: integers, or text as in a file.
        place: describes where row ``i`` is.

    Returns:
        int64 if every id is an integer in plain form, otherwise ``str`` in an object array.  # [N]

    Example:
        >>> parse_ids(["5", "900", "1000000000"], str).tolist()
        [5, 900, 1000000000]
        >>> parse_ids(["007", "8"], str).tolist()
        ['007', '8']
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            found = f"an array of shape {values.shape}"
            raise BadInput("node ids must be one value per node", code="E-ID-FORM", found=found)
        if values.dtype.kind in "iu":
            return _unique(_in_range(values, place), place)
    texts = _as_texts(values.tolist() if isinstance(values, np.ndarray) else values, place)
    numbers = [NUMBER.fullmatch(text) is not None for text in texts]
    if all(numbers):
        parsed = _numbers(texts, place)
        if parsed is not None:
            return _unique(parsed, place)
    else:
        _refuse_two_spellings(texts, numbers, place)
    _refuse_twins(texts, place)
    return _unique(_object_array(texts), place)


def locate(ids: Sequence[Any] | np.ndarray | CodedTexts, node_ids: np.ndarray) -> np.ndarray:
    """Positions of ``ids`` among ``node_ids``, ``-1`` for unknown nodes.

    Memory depends on how many ids there are, never on how large they are.

    Example:
        >>> locate([900, 7], np.array([5, 900, 10**9])).tolist()
        [1, -1]
    """
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int64)
    if isinstance(ids, CodedTexts):
        return _locate_coded(ids, node_ids)
    if not isinstance(ids, np.ndarray) and all(type(one) is int for one in ids):
        ids = np.asarray(ids)
    if node_ids.dtype != object and isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return _locate_numbers(ids, node_ids)
    wanted = list(map(str, ids.tolist() if isinstance(ids, np.ndarray) else ids))
    position = {
        text if text.isascii() else normal_form(text): row for row, text in enumerate(map(str, node_ids.tolist()))
    }
    found = np.fromiter(map(position.get, wanted, repeat(-1)), dtype=np.int64, count=len(wanted))
    # a text without an exact match may match in its normal form
    for row in np.flatnonzero(found < 0).tolist():
        found[row] = position.get(normal_form(wanted[row]), -1)
    return found


def _locate_coded(ids: CodedTexts, node_ids: np.ndarray) -> np.ndarray:
    found = ids.match(node_ids) if node_ids.dtype == object else np.full(len(ids.distinct), -1)
    missing = np.flatnonzero(found < 0)
    if len(missing) > 1 or ids.codes.min() < 0:  # more than the last entry, or the last entry too
        found[missing] = locate(ids.distinct[missing], node_ids)  # in another normal form, or integers written as text
    # half the memory if there are many
    return (found.astype(np.int32) if len(node_ids) <= np.iinfo(np.int32).max else found)[ids.codes]


def plain_id(node: Any) -> int | str:
    """One of a graph's ids as a Python value."""
    return node if isinstance(node, str) else int(node)


def _locate_numbers(ids: np.ndarray, node_ids: np.ndarray) -> np.ndarray:
    found = np.empty(len(ids), dtype=np.int32 if len(node_ids) <= np.iinfo(np.int32).max else np.int64)
    first, last = int(node_ids.min()), int(node_ids.max())
    if last - first < _WIDEST_RANGE * len(node_ids):
        table = np.full(last - first + 1, -1, dtype=found.dtype)
        table[node_ids - first] = np.arange(len(node_ids), dtype=found.dtype)
    else:
        table, order = None, np.argsort(node_ids, kind="stable")
        ranked = node_ids[order]
    for start in range(0, len(ids), _IDS_AT_ONCE):  # all at once would need several times the memory
        part = ids[start : start + _IDS_AT_ONCE]
        fits = part <= np.uint64(LARGEST) if part.dtype == np.uint64 else np.ones(len(part), dtype=bool)
        wanted = np.where(fits, part, 0).astype(np.int64, copy=False)
        if table is not None:
            fits &= (wanted >= first) & (wanted <= last)
            rows = table[np.where(fits, wanted - first, 0)]
        else:
            slot = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
            fits &= ranked[slot] == wanted
            rows = order[slot]
        found[start : start + len(part)] = np.where(fits, rows, -1)
    return found


def normal_form(text: str) -> str:
    """Unicode's normal form C: equal for texts that look the same because of how accents are composed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _as_texts(values: Sequence[Any], place: Callable[[int], str]) -> list[str]:
    texts = []
    for row, value in enumerate(values):
        if value is None or value != value or (isinstance(value, str) and not value.strip()):
            raise BadInput(
                "a node has no id",
                code="E-ID-FORM",
                place=place(row),
                expected="an integer or text",
                fix="give it an id",
            )
        if isinstance(value, (bool, float, np.floating, np.bool_)):
            raise _form_error(value, place(row))
        if isinstance(value, (int, np.integer)) and value < 0:
            raise _range_error(int(value), place(row))
        texts.append(str(value))
    return texts


def _in_range(array: np.ndarray, place: Callable[[int], str]) -> np.ndarray:
    outside = array < 0 if array.dtype.kind == "i" else array > np.asarray(LARGEST, dtype=np.uint64)
    if outside.any():
        row = int(outside.argmax())
        raise _range_error(int(array[row]), place(row))
    return array.astype(np.int64)


def _numbers(texts: list[str], place: Callable[[int], str]) -> np.ndarray | None:
    """The ids as int64; ``None`` if they are text made of digits, such as ``"007"``."""
    for row, text in enumerate(texts):
        if CANONICAL.fullmatch(text):
            if len(text) >= 19 and int(text[:20]) > LARGEST:
                raise _range_error(text, place(row))
        elif SIGNED.fullmatch(text):
            raise _range_error(text, place(row))
        elif not text.isdigit():
            raise _form_error(text, place(row))
    if all(CANONICAL.fullmatch(text) for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return None


def _refuse_two_spellings(texts: list[str], numbers: list[bool], place: Callable[[int], str]) -> None:
    plain = {text for text, number in zip(texts, numbers, strict=True) if number and CANONICAL.fullmatch(text)}
    for row, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        whole = re.fullmatch(r"([0-9]+)\.0*", text) if number else None
        if whole and whole[1] in plain:
            raise _form_error(text, place(row))


def _refuse_twins(texts: list[str], place: Callable[[int], str]) -> None:
    """Texts that look the same but are composed differently would be two nodes to us and one to the user."""
    if all(text.isascii() or unicodedata.is_normalized("NFC", text) for text in texts):
        return
    seen: dict[str, int] = {}
    for row, text in enumerate(texts):
        first = seen.setdefault(normal_form(text), row)
        if texts[first] != text:
            raise BadInput(
                f"two node ids look the same but are written differently: {shorten(ascii(texts[first]))} and "
                f"{shorten(ascii(text))}",
                code="E-ID-COLLIDE",
                place=f"{place(first)} and {place(row)}",
                fix="write both in Unicode normal form C, or rename one",
            )


def _unique(ids: np.ndarray, place: Callable[[int], str]) -> np.ndarray:
    if ids.dtype == object:
        if len(set(ids.tolist())) == len(ids):  # the usual case, in half the memory
            return ids
        first_seen: dict[str, int] = {}
        first = np.fromiter((first_seen.setdefault(text, row) for row, text in enumerate(ids)), np.int64, len(ids))
    else:
        _, firsts, inverse = np.unique(ids, return_index=True, return_inverse=True)
        first = firsts[inverse]
    repeats = np.flatnonzero(first != np.arange(len(ids)))
    if not len(repeats):
        return ids
    count = len(repeats)
    shown = "; ".join(
        f"{shorten(str(ids[row]), 60)} at {place(int(first[row]))} and {place(int(row))}" for row in repeats[:SHOWN]
    )
    shown += "; …" if count > SHOWN else ""
    raise BadInput(
        f"{count:,} {'rows repeat' if count > 1 else 'row repeats'} an earlier id: {shown}",
        code="E-NODE-DUP",
        place=place(int(repeats[0])),
        found=str(ids[repeats[0]]),
        expected="unique ids",
        fix="remove the repeated rows",
    )


def _object_array(texts: list[str]) -> np.ndarray:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def _range_error(value: object, place: str) -> BadInput:
    return BadInput(
        f"the node id {shorten(value, 60)} is out of range",
        code="E-ID-RANGE",
        place=place,
        found=value,
        expected="an integer from 0 to 9223372036854775807, or text",
        fix="use other numbers, or put a letter before every id to make them text",
    )


def _form_error(value: object, place: str) -> BadInput:
    return BadInput(
        f"the node id {shorten(str(value), 60)} is neither an integer nor text",
        code="E-ID-FORM",
        place=place,
        found=str(value),
        expected="integers such as 1, or text",
        fix="write ids without a decimal point or exponent",
    )
