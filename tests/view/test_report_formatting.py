from __future__ import annotations

import numpy as np
import pytest

from graphsde.view.report.content import count, flatten, is_number, name, number, percent


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.9412, "94.1 %"),
        (1, "100.0 %"),
        (0.0, "0.0 %"),
        (0.9996, "99.96 %"),
        (0.0004, "0.04 %"),
        (np.float32(0.5), "50.0 %"),
        (None, "—"),
        (float("nan"), "—"),
    ],
)
def test_percent(value: object, expected: str) -> None:
    assert percent(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.12345, "0.123"),
        (1297, "1,297"),
        (0, "0.000"),
        (1e-7, "1.00e-07"),
        (-2.5, "-2.500"),
        (np.inf, "—"),
        ("x", "—"),
    ],
)
def test_number(value: object, expected: str) -> None:
    assert number(value) == expected


def test_truth_values_are_not_numbers() -> None:
    assert not is_number(True) and not is_number(np.bool_(False)) and is_number(np.int64(3))


def test_count() -> None:
    assert [count(1, "node"), count(1297, "node"), count(2, "class")] == ["1 node", "1,297 nodes", "2 classes"]


def test_name_is_plain_and_short() -> None:
    assert name(np.int64(7)) == "7"
    assert name(np.str_("a")) == "a"
    assert name(None) == "—"
    assert name(0.25) == "0.25"
    assert len(name("x" * 10_000, 40)) == 40


def test_flatten() -> None:
    settings = {"a": {"b": {"c": 1}}, "d": [1, 2], "e": {}}
    assert flatten(settings) == [("a.b.c", "1"), ("d", "[1, 2]"), ("e", "{}")]
