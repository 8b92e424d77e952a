"""Node ids: what is a number, what is text, what is refused; and the lookup."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput
from graphsde.graph import ids as ids_module
from graphsde.graph.ids import LARGEST, locate, parse_ids


def line(row: int) -> str:
    return f"nodes.csv, line {row + 2}"


def refused(values: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        parse_ids(values, line)
    return caught.value


def test_plain_whole_numbers_become_int64() -> None:
    for values in (["5", "900", "0"], [5, 900, 0], np.array([5, 900, 0], dtype=np.int32)):
        ids = parse_ids(values, line)
        assert ids.dtype == np.int64
        assert ids.tolist() == [5, 900, 0]


def test_the_largest_number_is_kept_exactly() -> None:
    largest = 2**63 - 1
    assert parse_ids([str(largest), "1"], line).tolist() == [largest, 1]
    assert parse_ids(np.array([largest, 1], dtype=np.uint64), line).tolist() == [largest, 1]


@pytest.mark.parametrize(
    "values", [["a", "b"], ["007", "8"], ["1", "x"], ["-1", "x"], ["1e30", "ab"], ["9" * 30, "x"], ["ä", "Ω"]]
)
def test_anything_else_stays_text(values: list[str]) -> None:
    ids = parse_ids(values, line)
    assert ids.dtype == object
    assert ids.tolist() == values


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["1", "-1", "2"], 1),
        (["1", "2", str(2**63)], 2),
        (["9" * 5000, "1"], 0),
        ([1, -7], 1),
        ([1, 2**70], 1),
        (np.array([3, -1]), 1),
        (np.array([3, 2**63], dtype=np.uint64), 1),
    ],
)
def test_numbers_out_of_range(values: object, row: int) -> None:
    error = refused(values)
    assert error.code == "E-ID-RANGE"
    assert error.place == line(row)
    assert len(str(error)) < 800


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["1", "1.0"], 1),
        (["1", "2", "1e30"], 2),
        (["a", "1", "1.0"], 2),
        (["1.5", "2.5"], 0),
        (np.array([1.0, 2.0]), 0),
        ([1, 2.5], 1),
        (["1", ""], 1),
        (["a", None], 1),
        (["a", "  "], 1),
        ([1.0, float("nan")], 0),
        (np.array([True, False]), 0),
        (np.zeros((2, 2), dtype=int), None),
    ],
)
def test_forms_that_are_refused(values: object, row: int | None) -> None:
    error = refused(values)
    assert error.code == "E-ID-FORM"
    assert error.place == (None if row is None else line(row))


def test_repeated_ids_name_both_rows_and_the_count() -> None:
    error = refused(["3", "4", "3", "4", "4"])
    assert error.code == "E-NODE-DUP"
    assert error.message.startswith("3 rows repeat")
    assert "3 at nodes.csv, line 2 and nodes.csv, line 4" in error.message
    text = refused(["a", "b", "a"])
    assert text.code == "E-NODE-DUP"
    assert "line 2 and nodes.csv, line 4" in text.message


def test_look_alikes_are_named_escaped() -> None:
    error = refused(["caf\u00e9", "x", "cafe\u0301"])
    assert error.code == "E-ID-COLLIDE"
    assert "caf\\xe9" in error.message
    assert "cafe\\u0301" in error.message
    assert line(0) in (error.place or "")
    assert line(2) in (error.place or "")


def test_lookup_is_not_sized_by_the_largest_id() -> None:
    node_ids = np.array([5, 900, 10**9, 2**62])
    tracemalloc.start()
    found = locate(np.array([10**9, 7, 5, 2**62, -3]), node_ids)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tolist() == [2, -1, 0, 3, -1]
    assert peak < 1_000_000


def test_lookup_across_kinds() -> None:
    numbers, texts = np.array([5, 900]), np.array(["5", "007", "caf\u00e9"], dtype=object)
    assert locate(["900", "5.0", "05", 5], numbers).tolist() == [1, -1, -1, 0]
    assert locate(np.array([5, 7]), texts).tolist() == [0, -1]
    assert locate(["cafe\u0301", "007"], texts).tolist() == [2, 1]
    assert locate(["caf\u00e9"], np.array(["cafe\u0301"], dtype=object)).tolist() == [0]
    assert locate(np.array([2**64 - 1], dtype=np.uint64), numbers).tolist() == [-1]
    assert locate([], numbers).tolist() == []


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=30, unique=True),
    st.lists(st.integers(0, 100), max_size=20),
)
def test_lookup_equals_a_dictionary(ids: list[int], asked: list[int]) -> None:
    table = {one: row for row, one in enumerate(ids)}
    wanted = [table.get(one, -1) for one in asked + ids]
    node_ids = parse_ids(ids, line)
    assert locate(np.array(asked + ids, dtype=np.int64), node_ids).tolist() == wanted
    assert locate([str(one) for one in asked + ids], node_ids).tolist() == wanted


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=5), st.integers(), st.none(), st.floats()), max_size=8))
def test_any_values_give_ids_or_the_typed_error(values: list[object]) -> None:
    try:
        ids = parse_ids(values, line)
    except BadInput as error:
        assert error.code.startswith("E-")
    else:
        assert len(set(ids.tolist())) == len(values)
        assert locate(ids, ids).tolist() == list(range(len(values)))


@pytest.mark.parametrize("stretch", [1, 3, 10**6])
def test_numbers_are_found_by_table_and_by_search_alike(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids close together are looked up in a table, others searched for; parts of the question end anywhere."""
    monkeypatch.setattr(ids_module, "_IDS_AT_ONCE", 7)
    rng = np.random.default_rng(stretch)
    node_ids = rng.permutation(50).astype(np.int64) * stretch + 4
    asked = np.concatenate([node_ids, node_ids + 1, [-5, 0, 3, 4 + 50 * stretch, LARGEST]])
    position = {one: row for row, one in enumerate(node_ids.tolist())}
    assert locate(asked, node_ids).tolist() == [position.get(one, -1) for one in asked.tolist()]
    unsigned = np.array([node_ids[3], 2**64 - 1, 2**63], dtype=np.uint64)
    assert locate(unsigned, node_ids).tolist() == [3, -1, -1]
