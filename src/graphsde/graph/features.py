"""Numeric features: checked value by value, never densified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.raw import Finding

MAX_COLUMNS = 1_000_000  # a first layer of 64 units over more columns would need a quarter of a gigabyte
MAX_SIDE = 2**31  # more rows than 32-bit sparse indices can count: the header is wrong
FLOAT32_STEP = 2.0**-24  # relative size of one rounding
_NUMBERS_AT_ONCE = 4_000_000
BLURRED_SHARE = 0.01  # a rounding coarser than this share of a column's range hides its differences


def check_matrix(
    matrix: Any,
    feature_names: Sequence[str] | None,
    node_place: Callable[[int], str],
    impute: str = "none",
    *,
    copy: bool = True,
) -> tuple[np.ndarray | sp.csr_array, list[Finding]]:
    """Numeric columns as float32, dense or CSR as given; a copy that shares no memory with the argument.

    Args:
        matrix: numbers, dense or scipy sparse.  # [N, d]
        feature_names: names of the columns, for messages.
        node_place: describes where row ``i`` is.
        impute: ``"mean"`` fills missing numbers with the mean of their column, ``"none"`` refuses them.
        copy: ``False`` keeps a float32 matrix that nothing else uses.

    Example:
        >>> values, findings = check_matrix([[1.0, float("nan")], [3.0, 4.0]], None, str, impute="mean")
        >>> values.tolist(), findings[0].code
        ([[1.0, 4.0], [3.0, 4.0]], 'W-IMPUTED')
    """
    if sp.issparse(matrix):
        check_structure(matrix)
        values = sp.csr_array(matrix, copy=True)
        values.sum_duplicates()
    else:
        values = _dense(matrix, node_place)
    _check_names(feature_names, values.shape[1])
    findings = _check_dtype(values.dtype)
    columns = _Columns(values, feature_names, node_place)
    finite = columns.are_finite()
    if not finite:
        columns.refuse_infinite()
        findings += columns.fill_missing(impute)
    plain = columns.data.dtype == np.float32 and columns.data.flags.c_contiguous and not columns.sparse
    if copy or not finite or not plain:
        findings += columns.to_float32()
    return columns.values, findings


def check_structure(matrix: Any) -> None:
    """Refuse a compressed sparse matrix with invalid index arrays, before any routine follows them out of bounds."""
    rows, cols = matrix.shape
    if max(rows, cols) > MAX_SIDE or (cols > MAX_COLUMNS and rows != cols):
        raise _csr_error(f"the shape {rows}×{cols} is not plausible", f"at most {MAX_COLUMNS:,} columns")
    if matrix.format not in ("csr", "csc"):
        return
    indptr, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    major, minor = (cols, rows) if matrix.format == "csc" else (rows, cols)
    if len(indptr) != major + 1 or indptr[0] != 0:
        raise _csr_error(f"indptr has {len(indptr)} entries from {indptr[:1]} on", f"{major + 1} entries from 0 on")
    falling = np.flatnonzero(np.diff(indptr) < 0)
    if len(falling):
        raise _csr_error(f"indptr falls after entry {falling[0]}", "values that never fall")
    if indptr[-1] != len(indices) or len(indices) != len(matrix.data):
        sizes = f"indptr ends at {indptr[-1]}, with {len(indices)} indices and {len(matrix.data)} values"
        raise _csr_error(sizes, "three equal numbers")
    outside = (indices < 0) | (indices >= minor)
    if outside.any():
        first = indices[outside.argmax()]
        raise _csr_error(f"{outside.sum():,} indices are out of range, the first is {first}", f"0 to {minor - 1}")


def degree_column(adjacency: Adjacency) -> np.ndarray:
    """log(1 + degree), for a graph without features.  # [N, 1]"""
    return np.log1p(adjacency.degree.astype(np.float32))[:, None]


def no_features() -> BadInput:
    return BadInput(
        "the nodes have no features",
        code="E-NO-FEATURES",
        found="0 columns",
        expected="at least one numeric or categorical column",
        fix="add a column, or use the logarithm of the node degrees: --read features=degree, in Python "
        'features="degree"',
    )


def as_array(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):  # ragged nested lists
        raise BadInput(
            f"{what} are not an array", code="E-SHAPE", found=values, expected="rows of equal length"
        ) from None


def _dense(matrix: Any, node_place: Callable[[int], str]) -> np.ndarray:
    if isinstance(matrix, (list, tuple)):
        _refuse_ragged(matrix, node_place)
    array = as_array(matrix, "features")
    if array.ndim != 2 or array.shape[1] > MAX_COLUMNS:
        raise BadInput(
            f"features have shape {array.shape}",
            code="E-SHAPE",
            expected=f"one row per node and at most {MAX_COLUMNS:,} columns",
            fix="use features[:, None] if there is a single column",
        )
    return array


def _refuse_ragged(matrix: Sequence[Any], node_place: Callable[[int], str]) -> None:
    lengths = [1 if isinstance(row, str) or not hasattr(row, "__len__") else len(row) for row in matrix]
    odd = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is not None:
        raise BadInput(
            f"a row has {lengths[odd]} values, but the first has {lengths[0]}",
            code="E-ROW-LEN",
            place=node_place(odd),
            found=f"{lengths[odd]} values",
            expected=f"{lengths[0]} values in every row",
            fix="fill in or remove the odd row",
        )


def _check_names(names: Sequence[str] | None, columns: int) -> None:
    if names is None:
        return
    if len(names) != columns:
        raise BadInput(
            f"the feature names and the columns differ in number: {len(names)} vs {columns}",
            code="E-LEN",
            found=len(names),
            expected=f"{columns}, one per column",
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadInput("two columns have the same name", code="E-COLUMN-DUP", found=name, fix="rename one of them")
        seen.add(name)


def _check_dtype(dtype: np.dtype) -> list[Finding]:
    if dtype.kind not in "biuf":
        raise BadInput(
            f"features have dtype {dtype}",
            code="E-DTYPE",
            found=str(dtype),
            expected="numbers (bool, integer or float)",
            fix="pass text columns as categorical; split complex numbers into two columns",
        )
    if dtype in (np.float32, np.float64):
        return []
    return [Finding("W-CAST", "note", f"features of dtype {dtype} are stored as float32")]


class _Columns:
    """A feature matrix on its way to float32, dense or CSR."""

    def __init__(self, values: Any, names: Sequence[str] | None, node_place: Callable[[int], str]) -> None:
        self.values, self.names, self.node_place = values, names, node_place
        self.sparse = sp.issparse(values)

    @property
    def data(self) -> np.ndarray:
        return self.values.data if self.sparse else self.values

    def name(self, column: int) -> str:
        return shorten(str(self.names[column]), 60) if self.names is not None else str(column + 1)

    def are_finite(self) -> bool:
        """Whether every number is finite; in blocks of rows, since flags for all need a quarter of the matrix."""
        data = self.data
        if data.dtype.kind != "f":
            return True
        rows = max(1, _NUMBERS_AT_ONCE // max(1, data[:1].size))
        return all(np.isfinite(data[start : start + rows]).all() for start in range(0, len(data), rows))

    def refuse_infinite(self) -> None:
        if self.data.dtype.kind == "f":
            infinite = np.isinf(self.data)
            if infinite.any():
                raise self._error("E-FEAT-INF", infinite, "infinite", "replace them by finite numbers")

    def fill_missing(self, impute: str) -> list[Finding]:
        missing = np.isnan(self.data) if self.data.dtype.kind == "f" else np.zeros(0, dtype=bool)
        if not missing.any():
            return []
        if impute != "mean":
            raise self._error("E-FEAT-NAN", missing, "missing (NaN)", "fill them in, or read with impute=mean")
        rows, width = self.values.shape
        per_column = np.bincount(self.values.indices[missing], minlength=width) if self.sparse else missing.sum(axis=0)
        if (per_column == rows).any():
            fix = f"remove column {self.name(int(np.argmax(per_column)))}: it has no values"
            raise self._error("E-FEAT-NAN", missing, "missing (NaN)", fix)
        filled = self.data.astype(np.float64, order="C")  # the order of summation affects the bits
        filled[missing] = 0
        sums = np.bincount(self.values.indices, filled, width) if self.sparse else filled.sum(axis=0)
        means = sums / (rows - per_column)
        np.copyto(filled, means[self.values.indices] if self.sparse else means, where=missing)
        self._replace(filled)
        count, touched = int(per_column.sum()), np.flatnonzero(per_column)
        where = tuple(f"column {self.name(int(column))}: {per_column[column]:,}" for column in touched[:5])
        plural = "columns" if len(touched) > 1 else "column"
        message = f"{count:,} missing numbers in {len(touched):,} {plural} filled with the column's mean"
        return [Finding("W-IMPUTED", "warning", message, count, where)]

    def to_float32(self) -> list[Finding]:
        wide = self.data
        with np.errstate(over="ignore", under="ignore"):
            narrow = wide.astype(np.float32, order="C")  # a copy, also of float32
        overflow = np.zeros(0, dtype=bool) if wide.dtype == np.float32 else ~np.isfinite(narrow)
        if overflow.any():
            what = "too large for float32 (beyond ±3.4e38)"
            raise self._error("E-FEAT-OVERFLOW", overflow, what, "rescale the column, for example by its logarithm")
        findings = self._blurred() if wide.dtype.itemsize > 2 and wide.dtype != np.float32 else []
        self._replace(narrow)
        if self.sparse:
            self.values.eliminate_zeros()
            self.values.sort_indices()
        return findings

    def _blurred(self) -> list[Finding]:
        """Columns such as a time in seconds, whose differences are lost in rounding."""
        if self.sparse or not self.values.size:
            return []
        low, high = self.values.min(axis=0).astype(np.float64), self.values.max(axis=0).astype(np.float64)
        rounding = np.maximum(np.abs(low), np.abs(high)) * FLOAT32_STEP
        blurred = np.flatnonzero((high > low) & (rounding > BLURRED_SHARE * (high - low)))
        if not len(blurred):
            return []
        where = tuple(f"column {self.name(int(column))}" for column in blurred[:5])
        plural = "columns lose" if len(blurred) > 1 else "column loses"
        message = f"{len(blurred):,} {plural} detail in float32: large numbers that differ little"
        return [Finding("W-ROUNDED", "warning", message, len(blurred), where, "subtract the column's smallest value")]

    def _replace(self, data: np.ndarray) -> None:
        if self.sparse:
            self.values = sp.csr_array((data, self.values.indices, self.values.indptr), shape=self.values.shape)
        else:
            self.values = data

    def _position(self, entry: int) -> tuple[int, int]:
        """Row and column of an entry of the values in their order."""
        if not self.sparse:
            row, column = divmod(entry, self.values.shape[1])
            return row, column
        return int(np.searchsorted(self.values.indptr, entry, side="right")) - 1, int(self.values.indices[entry])

    def _error(self, code: str, flags: np.ndarray, what: str, fix: str) -> BadInput:
        count = int(np.count_nonzero(flags))
        row, column = self._position(int(flags.argmax()))
        return BadInput(
            f"{count:,} feature {'values are' if count > 1 else 'value is'} {what}",
            code=code,
            place=f"{self.node_place(row)}, column {self.name(column)}",
            found=str(self.values[row, column]),
            expected="finite numbers",
            fix=fix,
        )


def _csr_error(found: str, expected: str) -> BadInput:
    return BadInput(
        "the sparse matrix is damaged", code="E-CSR", found=found, expected=expected, fix="write the file again"
    )
