"""Numeric features: casts, refusals with row and column, imputation, and damaged sparse matrices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.base.errors import BadInput
from graphsde.graph.features import check_matrix, check_structure


def line(row: int) -> str:
    return f"nodes.csv, line {row + 2}"


def refused(matrix: object, names: list[str] | None = None, impute: str = "none") -> BadInput:
    with pytest.raises(BadInput) as caught:
        check_matrix(matrix, names, line, impute)
    return caught.value


DENSE = np.array([[1.0, 0.0, 3.0], [4.0, 5.0, 0.0]])


def both(values: np.ndarray) -> list[object]:
    return [values, sp.csr_array(values), sp.csc_matrix(values), sp.coo_array(values)]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "float64", "longdouble"])
def test_numbers_become_float32_and_stay_as_sparse_as_they_were(dtype: str) -> None:
    values = DENSE.astype(dtype)
    for matrix in [values] if dtype in ("float16", "longdouble") else both(values):
        clean, findings = check_matrix(matrix, None, line)
        assert clean.dtype == np.float32
        assert sp.issparse(clean) == sp.issparse(matrix)
        assert np.array_equal(clean.toarray() if sp.issparse(clean) else clean, values.astype(np.float32))
        expected = [] if dtype in ("float32", "float64") else ["W-CAST"]
        assert [finding.code for finding in findings] == expected


def test_the_argument_is_not_touched() -> None:
    values = DENSE.astype(np.float32)
    sparse = sp.csr_array(values)
    for matrix, data in ((values, values), (sparse, sparse.data)):
        clean, _ = check_matrix(matrix, None, line)
        part = clean.data if sp.issparse(clean) else clean
        assert not np.shares_memory(part, data)
    unsorted = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    clean, _ = check_matrix(unsorted, None, line)
    assert clean.toarray().tolist() == [[0, 3, 0]]
    assert unsorted.nnz == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e39])
def test_values_that_are_no_float32(value: float) -> None:
    code = "E-FEAT-NAN" if np.isnan(value) else "E-FEAT-INF" if np.isinf(value) else "E-FEAT-OVERFLOW"
    values = DENSE.copy()
    values[1, :2] = value
    for matrix in both(values):
        error = refused(matrix, ["age", "height", "weight"])
        assert error.code == code
        assert error.place == "nodes.csv, line 3, column age"
        assert error.message.startswith("2 feature values")
        assert refused(matrix).place == "nodes.csv, line 3, column 1"


def test_the_largest_float32_passes() -> None:
    largest = float(np.finfo(np.float32).max)
    assert check_matrix(np.array([[largest], [-largest]]), None, line)[0].tolist() == [[largest], [-largest]]


def test_missing_numbers_are_filled_with_the_mean_of_all_rows() -> None:
    values = np.array([[1.0, np.nan, 0.0], [3.0, 4.0, np.nan], [np.nan, 8.0, 3.0]])
    expected = np.array([[1, 6, 0], [3, 4, 1.5], [2, 8, 3]], dtype=np.float32)
    for matrix in (values, sp.csr_array(values)):
        clean, findings = check_matrix(matrix, ["a", "b", "c"], line, "mean")
        assert np.array_equal(clean.toarray() if sp.issparse(clean) else clean, expected)
        (finding,) = findings
        assert (finding.code, finding.count) == ("W-IMPUTED", 3)
        assert finding.where == ("column a: 1", "column b: 1", "column c: 1")


def test_a_column_without_any_value_has_no_mean() -> None:
    error = refused(np.array([[np.nan, 1.0], [np.nan, 2.0]]), ["empty", "full"], impute="mean")
    assert error.code == "E-FEAT-NAN"
    assert "remove column empty" in (error.fix or "")


@pytest.mark.parametrize("matrix", [np.ones((2, 2)) * 1j, np.array([["a"], ["b"]]), np.array([[object()], [1]])])
def test_other_dtypes(matrix: np.ndarray) -> None:
    assert refused(matrix).code == "E-DTYPE"


def test_shapes_and_names() -> None:
    ragged = refused([[1, 2], [3], [4, 5]])
    assert (ragged.code, ragged.place) == ("E-ROW-LEN", "nodes.csv, line 3")
    assert "has 1 values, but the first has 2" in ragged.message
    assert refused([1.0, 2.0]).code == "E-SHAPE"
    assert "3 vs 2" in refused(np.ones((2, 2)), ["a", "b", "c"]).message
    assert refused(np.ones((2, 2)), ["a", "a"]).code == "E-COLUMN-DUP"


def test_large_numbers_that_hardly_differ() -> None:
    seconds = 1.7e9 + np.arange(5.0)[:, None]
    clean, findings = check_matrix(np.hstack([seconds, np.arange(5.0)[:, None]]), ["time", "age"], line)
    assert len(np.unique(clean[:, 0])) == 1  # this is what the warning is about
    assert [(finding.code, finding.where) for finding in findings] == [("W-ROUNDED", ("column time",))]


def damaged(**parts: object) -> sp.csr_array:
    matrix = sp.csr_array(DENSE)
    for name, value in parts.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    "parts",
    [
        {"indptr": [0, 3, 2]},
        {"indptr": [1, 2, 4]},
        {"indptr": [0, 2, 4000]},
        {"indptr": [0, 4]},
        {"indptr": [0, 2, 4, 4]},
        {"indices": [0, 2, 0, 10**9]},
        {"indices": [0, -1, 0, 1]},
        {"indices": [0, 2, 0]},
        {"data": [1.0, 2.0]},
    ],
)
def test_damaged_sparse_matrices(parts: dict[str, object]) -> None:
    assert refused(damaged(**parts)).code == "E-CSR"


def test_an_absurd_shape_is_refused_without_allocating() -> None:
    matrix = sp.csr_array((np.ones(1), np.array([0]), np.r_[0, np.ones(1000, dtype=int)]), shape=(1000, 10**8))
    tracemalloc.start()
    assert refused(matrix).code == "E-CSR"
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_sparse_matrix_is_never_made_dense() -> None:
    rows, columns = 20_000, 50_000  # 4 GB if dense
    matrix = sp.random_array((rows, columns), density=1e-5, rng=np.random.default_rng(0), format="csr")
    matrix.data[:3] = np.nan
    tracemalloc.start()
    clean, _ = check_matrix(matrix, None, line, "mean")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert clean.nnz <= matrix.nnz


def test_a_column_matrix_is_checked_along_its_own_axis() -> None:
    matrix = sp.csc_array(DENSE)
    check_structure(matrix)
    matrix.indices = np.array([0, 1, 1, 2])
    with pytest.raises(BadInput, match="E-CSR"):
        check_structure(matrix)
