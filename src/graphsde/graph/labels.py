"""Raw targets: text or integers in, class positions out; or numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.ids import NUMBER, normal_form
from graphsde.graph.raw import Finding

MISSING = frozenset({"", "NA", "NaN", "nan", "null"})
MAX_CLASSES = 10_000  # above it, the column is an id or a regression target, and [N, C] arrays no longer fit
EXACT = 2**53  # integers above it are no longer exact as floats

_KINDS: tuple[tuple[Any, str], ...] = (
    (str, "text"),
    ((bool, np.bool_), "truth value"),  # before integers: True is one, too
    ((int, np.integer), "whole number"),
    ((float, np.floating), "decimal"),
)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")


def encode_labels(
    values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
) -> tuple[np.ndarray, tuple[str, ...], list[Finding]]:
    """Number the classes.

    Missing are ``None``, NaN, ``""``, ``"NA"``, ``"NaN"``, ``"nan"``, ``"null"`` and, among integers, ``-1``.

    Args:
        values: one per node.
        place: describes where row ``i`` is.
        class_names: the classes in order; integers are then positions in it, text is a name in it.

    Returns:
        class positions with ``-1`` for missing ones (int64, [N]), the class names, and findings.

    Example:
        >>> labels, names, _ = encode_labels([7, 0, None, 42], str)
        >>> labels.tolist(), names
        ([1, 0, -1, 2], ('0', '7', '42'))
    """
    array = one_per_node(values)
    if array.dtype.kind in "iub":
        known = np.ones(len(array), dtype=bool)
    elif array.dtype.kind == "f":
        known, array = _whole_floats(array, place)
    elif array.dtype.kind in "OUST":
        known, array = _objects(array, place, named=class_names is not None)
    else:
        raise BadInput(f"labels have dtype {array.dtype}", code="E-DTYPE", expected="text or integers")
    if array.dtype.kind == "i":
        known = known & (array != -1)
    elif class_names is not None and "-1" not in class_names:
        known = known & (array.astype(object) != "-1")
    _refuse_twins(array, known, place)
    if class_names is not None:
        labels, names = _by_given_names(array, known, tuple(str(name) for name in class_names), place)
    else:
        labels, names = _by_order(array, known)
    return labels, names, _findings(labels, names, place)


def check_class_names(names: Sequence[str]) -> None:
    """Refuse too many names, or names that could be confused with each other."""
    _limit(len(names))
    if len(set(names)) < len(names):
        twice = next(one for one, other in pairwise(sorted(names)) if one == other)
        raise BadInput("duplicate class name", code="E-CLASS-NAMES", found=twice, expected="different names")
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(normal_form(name), name)
        if other != name:
            raise _twin_error(other, name, "the class names")


def _refuse_twins(array: np.ndarray, known: np.ndarray, place: Callable[[int], str]) -> None:
    """Refuse labels that look the same but are composed differently: two classes to us, one to the user."""
    if array.dtype != object:
        return
    first: dict[str, int] = {}
    for row in np.flatnonzero(known).tolist():
        first.setdefault(array[row], row)
    seen: dict[str, str] = {}
    for text, row in first.items():
        other = seen.setdefault(normal_form(text), text)
        if other != text:
            raise _twin_error(other, text, f"{place(first[other])} and {place(row)}")


def _twin_error(one: str, other: str, place: str) -> BadInput:
    return BadInput(
        f"two labels look the same but are written differently: {shorten(ascii(one), 60)} and "
        f"{shorten(ascii(other), 60)}",
        code="E-LABEL-COLLIDE",
        place=place,
        expected="one form per class",
        fix="write both in Unicode normal form C, or rename one",
    )


def one_per_node(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    if isinstance(values, np.ndarray):
        array = values
    else:
        array = np.empty(len(values), dtype=object)
        array[:] = [tuple(v) if isinstance(v, (list, tuple, np.ndarray)) else v for v in values]
        nested = next((v for v in array if isinstance(v, tuple)), None)
        if nested is not None:
            raise _shape_error((len(values), len(nested)))
    if array.ndim != 1:
        raise _shape_error(array.shape)
    return array


def _whole_floats(array: np.ndarray, place: Callable[[int], str]) -> tuple[np.ndarray, np.ndarray]:
    known = ~np.isnan(array)
    wrong = known & ~((np.abs(array) <= EXACT) & (np.trunc(np.where(known, array, 0)) == array))
    if wrong.any():
        row = int(wrong.argmax())
        raise _float_error(array[row], int(wrong.sum()), place(row))
    return known, np.where(known, array, -1).astype(np.int64)


def _objects(array: np.ndarray, place: Callable[[int], str], *, named: bool) -> tuple[np.ndarray, np.ndarray]:
    """Python values: all text, or all numbers of one kind. If classes have names, text stays text."""
    items = array.tolist()
    known = np.array([not is_missing(item) for item in items], dtype=bool)
    first: dict[str, int] = {}
    first_of_type: dict[type, int] = {}  # there are few types and many rows
    for row in np.flatnonzero(known).tolist():
        first_of_type.setdefault(type(items[row]), row)
    for row in first_of_type.values():
        first.setdefault(_kind(items[row]), row)
    if len(first) > 1:
        rows = sorted(first.values())[:2]
        raise _mixed_error(items[rows[0]], items[rows[1]], place(rows[0]), place(rows[1]))
    kind = next(iter(first), "text")
    if kind == "text":
        return (known, _keep_texts(items, known)) if named else _texts(items, known, place)
    if kind == "other":
        row = first["other"]
        raise BadInput(
            f"a label is of type {type(items[row]).__name__}",
            code="E-DTYPE",
            place=place(row),
            expected="text or integers",
        )
    if kind == "decimal":
        return _whole_floats(
            np.array([item if ok else np.nan for item, ok in zip(items, known, strict=True)], float), place
        )
    try:
        return known, np.array([int(item) if ok else -1 for item, ok in zip(items, known, strict=True)], dtype=np.int64)
    except OverflowError:
        raise BadInput(
            "a label is larger than a 64-bit integer", code="E-LABEL-RANGE", fix="write labels as text"
        ) from None


def _texts(items: list[Any], known: np.ndarray, place: Callable[[int], str]) -> tuple[np.ndarray, np.ndarray]:
    """Text that reads as integers becomes numbers, so that 10 sorts after 9."""
    distinct: dict[str, int] = {}
    for row in np.flatnonzero(known).tolist():
        distinct.setdefault(items[row], row)
    numeric = {text: row for text, row in distinct.items() if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text)}
    _refuse_two_spellings(numeric, place)
    if numeric and len(numeric) == len(distinct):
        decimal = {text: row for text, row in numeric.items() if _FLOAT.fullmatch(text)}
        if decimal:
            numbers = np.array([float(item) if ok else np.nan for item, ok in zip(items, known, strict=True)])
            if len(decimal) < len(numeric):
                _whole_floats(numbers, place)  # a label such as 0.5 makes the better error message
                whole = next(text for text in numeric if text not in decimal)
                other = next(iter(decimal))
                raise _mixed_error(whole, other, place(numeric[whole]), place(decimal[other]))
            return _whole_floats(numbers, place)
        if all(len(text) < 19 for text in numeric):
            whole_numbers = [int(item) if ok else -1 for item, ok in zip(items, known, strict=True)]
            return known, np.array(whole_numbers, dtype=np.int64)
    return known, _keep_texts(items, known)


def _keep_texts(items: list[Any], known: np.ndarray) -> np.ndarray:
    texts = np.empty(len(items), dtype=object)
    texts[:] = [item if ok else "" for item, ok in zip(items, known, strict=True)]
    return texts


def _refuse_two_spellings(numeric: dict[str, int], place: Callable[[int], str]) -> None:
    seen: dict[float, str] = {}
    for text, row in numeric.items():
        other = seen.setdefault(float(text), text)
        if other != text and len(text) < 16 and len(other) < 16:
            raise _mixed_error(other, text, place(numeric[other]), place(row))


def _by_order(array: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = np.full(len(array), -1, dtype=np.int64)
    if array.dtype == object:  # text: sorting only the distinct ones is faster
        texts = array[known].tolist()
        names = sorted(set(texts))
        _limit(len(names))
        position = {name: index for index, name in enumerate(names)}
        labels[known] = np.fromiter(map(position.__getitem__, texts), dtype=np.int64, count=len(texts))
        return labels, tuple(names)
    classes, positions = np.unique(array[known], return_inverse=True)
    _limit(len(classes))
    labels[known] = positions
    return labels, tuple(str(name) for name in classes.tolist())


def _by_given_names(
    array: np.ndarray, known: np.ndarray, names: tuple[str, ...], place: Callable[[int], str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Integers are positions, text is a name; each is read as the other if only that makes sense."""
    check_class_names(names)
    position = {name: index for index, name in enumerate(names)}
    labels = np.full(len(array), -1, dtype=np.int64)
    values, inverse = np.unique(array[known], return_inverse=True)
    texts = [str(value) for value in values.tolist()]
    by_name = [position.get(text, -1) for text in texts]
    by_position = [_position(text, len(names)) for text in texts]
    if array.dtype == object:
        first, second = by_name, by_position
    else:
        first, second = by_position, by_name
    found = np.array(first if min(first, default=0) >= 0 or min(second, default=0) < 0 else second, dtype=np.int64)
    if (found < 0).any():
        stranger = int((found < 0).argmax())
        row = int(np.flatnonzero(known)[int((inverse == stranger).argmax())])
        raise BadInput(
            f"the label {shorten(texts[stranger], 60)} is not among the {len(names)} class names",
            code="E-LABEL-UNKNOWN",
            place=place(row),
            found=texts[stranger],
            expected=f"a position from 0 to {len(names) - 1}, or one of {shorten(', '.join(names))}",
            fix="add the class name, or correct the label",
        )
    labels[known] = found[inverse]
    return labels, names


def _position(text: str, count: int) -> int:
    return int(text) if _INTEGER.fullmatch(text) and len(text) < 10 and 0 <= int(text) < count else -1


def _findings(labels: np.ndarray, names: tuple[str, ...], place: Callable[[int], str]) -> list[Finding]:
    findings = []
    missing = np.flatnonzero(labels < 0)
    if len(missing):
        where = tuple(place(int(row)) for row in missing[:5])
        message = f"{len(missing):,} of {len(labels):,} nodes {'are' if len(missing) > 1 else 'is'} unlabelled"
        findings.append(Finding("W-UNLABELLED", "note", message, len(missing), where))
    numbers = [int(name) for name in names if _INTEGER.fullmatch(name)]
    if numbers and len(numbers) == len(names) and numbers != list(range(len(names))):
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        message = f"the classes {shown} are numbered 0 to {len(names) - 1} internally; results show the original names"
        findings.append(Finding("W-CLASS-NUMBERED", "note", message, len(names)))
    return findings


def is_missing(item: Any) -> bool:
    if isinstance(item, str):
        return item.strip() in MISSING
    return item is None or (isinstance(item, (float, np.floating)) and bool(np.isnan(item)))


def _kind(item: Any) -> str:
    return next((kind for types, kind in _KINDS if isinstance(item, types)), "other")


def _limit(count: int) -> None:
    if count > MAX_CLASSES:
        raise BadInput(
            f"{count:,} classes are more than the limit of {MAX_CLASSES:,}",
            code="E-TOO-MANY-CLASSES",
            found=f"{count:,} different labels",
            expected=f"at most {MAX_CLASSES:,}",
            fix="check that the label column is not an id or a measurement; merge rare classes",
        )


def _shape_error(shape: tuple[int, ...]) -> BadInput:
    one_column = len(shape) == 2 and shape[1] == 1
    return BadInput(
        f"labels have shape {'×'.join(str(size) for size in shape)}",
        code="E-LABEL-SHAPE",
        found=f"{len(shape)} dimensions",
        expected="one label per node",
        fix="use labels.ravel()" if one_column else "if they are one-hot, use labels.argmax(axis=1)",
    )


def _float_error(value: object, count: int, place: str) -> BadInput:
    return BadInput(
        f"{count:,} {'labels are' if count > 1 else 'label is'} a measurement, not a class",
        code="E-LABEL-FLOAT",
        place=place,
        found=str(value),
        expected="text or integers",
        fix="to predict numbers, use --read target=regression ('target: regression' in graph.yaml); for classes, "
        "choose another label column",
    )


def _mixed_error(one: object, other: object, place_one: str, place_other: str) -> BadInput:
    return BadInput(
        f"labels are of different kinds: {shorten(repr(one), 60)} and {shorten(repr(other), 60)}",
        code="E-LABEL-MIXED",
        place=f"{place_one} and {place_other}",
        expected="all text, or all integers",
        fix="write every label the same way",
    )


def encode_values(
    values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
) -> tuple[np.ndarray, list[Finding]]:
    """Target values of nodes, NaN if unknown.

    Unknown are ``None``, NaN, ``""``, ``"NA"``, ``"NaN"``, ``"nan"`` and ``"null"``; ``-1`` is an ordinary number.

    Args:
        values: one per node: numbers, or text that reads as a number with a decimal point.
        place: describes where row ``i`` is.
        class_names: refused, since regression has no classes.

    Returns:
        float64 [N], and findings.

    Example:
        >>> encode_values(["1.5", "", -1], str)[0].tolist()
        [1.5, nan, -1.0]
    """
    if class_names:
        raise BadUsage(
            "a regression target has no classes",
            code="E-TARGET",
            found=", ".join(str(name) for name in list(class_names)[:5]),
            fix="leave out the class names, or 'target: regression'",
        )
    array = one_per_node(values)
    if array.dtype.kind in "OUST":
        numbers = _parsed(array.tolist(), place)
    elif array.dtype.kind in "iufb":
        numbers = array.astype(np.float64)
    else:
        raise BadInput(f"values have dtype {array.dtype}", code="E-DTYPE", expected="real numbers")
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise BadInput(
            f"{len(infinite):,} {'values are' if len(infinite) > 1 else 'value is'} infinite",
            code="E-VALUE-INF",
            place=place(int(infinite[0])),
            found=str(array[infinite[0]]),
            expected="finite numbers",
            fix="leave the cell empty if the value is unknown",
        )
    return numbers, _value_findings(numbers, place)


def _parsed(items: list[Any], place: Callable[[int], str]) -> np.ndarray:
    numbers = np.full(len(items), np.nan)
    for row, item in enumerate(items):
        if is_missing(item):
            continue
        number = item.strip() if isinstance(item, str) else item
        readable = NUMBER.fullmatch(number) if isinstance(number, str) else isinstance(number, int | float | np.number)
        if not readable:
            raise BadInput(
                "a target value is not a number",
                code="E-VALUE-TYPE",
                place=place(row),
                found=item,
                expected="a number such as 151 or 1.5e-3, with a decimal point and no thousands separator",
                fix="correct the cell, or leave out 'target: regression' if these are classes",
            )
        try:
            numbers[row] = float(number)
        except OverflowError:
            numbers[row] = np.inf
    return numbers


def _value_findings(numbers: np.ndarray, place: Callable[[int], str]) -> list[Finding]:
    missing = np.flatnonzero(np.isnan(numbers))
    if not len(missing):
        return []
    where = tuple(place(int(row)) for row in missing[:5])
    message = f"{len(missing):,} of {len(numbers):,} nodes have no value"
    return [Finding("W-UNLABELLED", "note", message, len(missing), where)]


def clean_categories(
    columns: Mapping[str, Sequence[Any] | np.ndarray], place: Callable[[int], str]
) -> dict[str, np.ndarray]:
    """Every column as an object array of ``str``, ``None`` for missing values.

    Example:
        >>> clean_categories({"town": ["Ulm", "", None, 7]}, str)["town"].tolist()
        ['Ulm', None, None, '7']
    """
    clean = {}
    for name, column in columns.items():
        items = column.tolist() if isinstance(column, np.ndarray) else list(column)
        values = np.empty(len(items), dtype=object)
        for row, item in enumerate(items):
            if isinstance(item, str):
                values[row] = None if item.strip() in MISSING else item
            elif item is not None and not isinstance(item, (Real, np.bool_)):
                raise BadInput(
                    f"the categorical column {shorten(str(name), 60)} holds a {type(item).__name__}",
                    code="E-DTYPE",
                    place=place(row),
                    found=item,
                    expected="text",
                )
            elif item is not None and item == item:
                values[row] = str(item)
        clean[str(name)] = values
    return clean
