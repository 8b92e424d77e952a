"""Labels: missing ones, kinds, class names, limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput
from graphsde.graph.labels import MAX_CLASSES, encode_labels


def line(row: int) -> str:
    return f"line {row + 2}"


def refused(values: object, class_names: list[str] | None = None) -> BadInput:
    with pytest.raises(BadInput) as caught:
        encode_labels(values, line, class_names)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    "values",
    [
        ["0", "", "1", None],
        ["0", "NA", "1", "null"],
        ["0", "NaN", "1", "nan"],
        ["0", "-1", "1", "-1"],
        [0, -1, 1, None],
        [0, float("nan"), 1, -1],
        [0.0, None, 1.0, float("nan")],
        np.array([0, -1, 1, -1]),
        np.array([0.0, np.nan, 1.0, -1.0]),
        ["0.0", "", "1.0", "NA"],
    ],
)
def test_missing_labels_in_every_spelling(values: object) -> None:
    labels, names, findings = encode_labels(values, line)  # type: ignore[arg-type]
    assert labels.tolist() == [0, -1, 1, -1]
    assert labels.dtype == np.int64
    assert names == ("0", "1")
    (finding,) = findings
    assert (finding.code, finding.count) == ("W-UNLABELLED", 2)
    assert "2 of 4 nodes" in finding.message


def test_numbers_sort_as_numbers_and_keep_their_names() -> None:
    for values in (["10", "9", "2"], [10, 9, 2], np.array([10, 9, 2], dtype=np.uint8)):
        labels, names, _ = encode_labels(values, line)  # type: ignore[arg-type]
        assert names == ("2", "9", "10")
        assert labels.tolist() == [2, 1, 0]
    labels, names, findings = encode_labels([0, 7, 42, 7], line)
    assert names == ("0", "7", "42")
    assert labels.tolist() == [0, 1, 2, 1]
    assert findings[0].code == "W-CLASS-NUMBERED"


def test_text_and_truth_values() -> None:
    labels, names, _ = encode_labels(["dog", "cat", "-1", "dog"], line)
    assert names == ("-1", "cat", "dog")  # beside words, -1 is a word
    assert labels.tolist() == [2, 1, 0, 2]
    labels, names, _ = encode_labels(np.array([True, False]), line)
    assert names == ("False", "True")
    assert labels.tolist() == [1, 0]


def test_leading_zeros_make_text() -> None:
    assert encode_labels(["01", "1"], line)[1] == ("01", "1")


@pytest.mark.parametrize(
    "values", [["1", 1], [1, 1.0], ["1", "1.0"], ["1", "2.0"], ["cat", "1", "1.0"], ["cat", 3], [True, 1]]
)
def test_mixed_kinds(values: list[object]) -> None:
    error = refused(values)
    assert error.code == "E-LABEL-MIXED"
    assert " and line " in (error.place or "")


@pytest.mark.parametrize(
    "values", [[0.0, 0.5], ["0", "0.5"], np.array([1.0, 0.5]), ["0.5", "1.5"], [1.0, float("inf")]]
)
def test_measurements_are_no_classes(values: object) -> None:
    error = refused(values)
    assert error.code == "E-LABEL-FLOAT"
    assert error.place in ("line 2", "line 3")


def test_shapes() -> None:
    one_hot = refused(np.eye(3))
    assert one_hot.code == "E-LABEL-SHAPE"
    assert "argmax(axis=1)" in (one_hot.fix or "")
    assert refused([[0, 1], [1, 0]]).code == "E-LABEL-SHAPE"
    assert "ravel" in (refused(np.zeros((3, 1))).fix or "")


def test_other_types() -> None:
    assert refused(np.array([1j, 2j])).code == "E-DTYPE"
    assert refused([{1}, {2}]).code == "E-DTYPE"
    assert refused(np.array(["2020-01-01"], dtype="datetime64[D]")).code == "E-DTYPE"
    assert refused([2**70, 1]).code == "E-LABEL-RANGE"


def test_too_many_classes_say_the_limit() -> None:
    error = refused(np.arange(1_000_000))
    assert error.code == "E-TOO-MANY-CLASSES"
    assert "1,000,000" in error.message
    assert "10,000" in error.message
    assert len(encode_labels(np.arange(MAX_CLASSES), line)[1]) == MAX_CLASSES
    assert refused([0], [str(one) for one in range(MAX_CLASSES + 1)]).code == "E-TOO-MANY-CLASSES"


def test_given_class_names() -> None:
    assert encode_labels([2, 0, -1], line, ["a", "b", "c"])[0].tolist() == [2, 0, -1]
    labels, names, _ = encode_labels(["c", "a", None], line, ["c", "b", "a"])
    assert labels.tolist() == [0, 2, -1]
    assert names == ("c", "b", "a")
    assert encode_labels(["7", "42"], line, ["0", "7", "42"])[0].tolist() == [1, 2]
    # text is a name first, a position only where no name fits; numbers the other way round
    assert encode_labels(["0", "1", "-1"], line, ["1", "0"])[0].tolist() == [1, 0, -1]
    assert encode_labels([0, 1, -1], line, ["1", "0"])[0].tolist() == [0, 1, -1]
    assert encode_labels(["0", "1"], line, ["a", "b"])[0].tolist() == [0, 1]
    assert encode_labels([7, 42], line, ["0", "7", "42"])[0].tolist() == [1, 2]
    assert encode_labels(["-1", "b"], line, ["-1", "b"])[0].tolist() == [0, 1]
    error = refused([0, 3], ["a", "b", "c"])
    assert error.code == "E-LABEL-UNKNOWN"
    assert error.place == "line 3"
    assert refused(["d"], ["a", "b"]).found == "d"
    assert refused(["a"], ["a", "a"]).code == "E-CLASS-NAMES"


def test_no_label_and_one_class_are_no_errors_here() -> None:
    labels, names, _ = encode_labels([None, None], line)
    assert labels.tolist() == [-1, -1]
    assert names == ()
    assert encode_labels(["a", "a"], line)[1] == ("a",)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "10", "9", "", "x y"]), min_size=1, max_size=20), st.randoms())
def test_order_of_rows_does_not_matter(values: list[str], random: object) -> None:
    shuffled = list(range(len(values)))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    labels, names, _ = encode_labels(values, line)
    turned, same_names, _ = encode_labels([values[row] for row in shuffled], line)
    assert names == same_names
    assert turned.tolist() == labels[shuffled].tolist()
    assert [names[one] if one >= 0 else "" for one in labels] == values


def test_labels_that_differ_only_in_their_normal_form() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    with pytest.raises(BadInput) as caught:
        encode_labels([composed, "tea", decomposed, composed], lambda row: f"row {row}")
    assert caught.value.code == "E-LABEL-COLLIDE" and caught.value.place == "row 0 and row 2"
    assert ascii(composed) in caught.value.message and ascii(decomposed) in caught.value.message
    with pytest.raises(BadInput) as caught:
        encode_labels([0, 1], str, class_names=[composed, decomposed])
    assert caught.value.code == "E-LABEL-COLLIDE"
    assert encode_labels([decomposed, "tea", decomposed], str)[1] == (decomposed, "tea")  # one spelling is fine
