"""Roles of nodes: words, masks, positions, ids; overlaps; and what fit refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.masks import masks_from_arrays, masks_from_words, overlaps, refuse_overlap, require_trainable


def line(row: int) -> str:
    return f"line {row + 2}"


def test_words_in_every_spelling() -> None:
    words = ["train", "VALID", "validation", " Test ", "cal", "calib", "Calibration", "", None, float("nan")]
    masks = masks_from_words(words, line)
    assert {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()} == {
        "train": [0],
        "val": [1, 2],
        "calibration": [4, 5, 6],
        "test": [3],
    }
    assert masks_from_words(["", None], line) == {}


def test_a_misspelt_word_gets_a_suggestion() -> None:
    with pytest.raises(BadInput) as caught:
        masks_from_words(["train", "tets"], line)
    assert (caught.value.code, caught.value.place) == ("E-SPLIT-NAME", "line 3")
    assert caught.value.fix == "did you mean 'test'?"


def test_masks_positions_and_ids_mean_the_same() -> None:
    ids = np.array(["a", "b", "c", "d"], dtype=object)
    for mask in ([False, True, False, True], [1, 3], ["b", "d"], np.array([0, 1, 0, 1], dtype=np.uint8)):
        assert masks_from_arrays({"train": mask}, 4, ids)["train"].tolist() == [False, True, False, True]
    assert masks_from_arrays({"train": None, "val": []}, 4)["val"].tolist() == [False] * 4


@pytest.mark.parametrize(
    ("mask", "code", "words"),
    [
        ([True, False, True], "E-LEN", "3 vs 4"),
        (np.ones((4, 2), dtype=bool), "E-LEN", "(4, 2)"),
        ([0, 9, 2], "E-SPLIT-UNKNOWN", "9"),
        ([0, -1], "E-SPLIT-UNKNOWN", "-1"),
        (["a", "z"], "E-SPLIT-UNKNOWN", "z"),
        ([0.5, 1.5], "E-DTYPE", "float"),
    ],
)
def test_masks_that_do_not_fit(mask: object, code: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        masks_from_arrays({"val": mask}, 4, np.array(["a", "b", "c", "d"], dtype=object))
    assert caught.value.code == code
    assert words in caught.value.message
    with pytest.raises(BadInput, match="did you mean 'train'"):
        masks_from_arrays({"trian": [0]}, 4)


def test_overlap_is_counted_and_named() -> None:
    masks = masks_from_arrays({"train": [0, 1, 2], "test": [1, 2, 3]}, 5)
    with pytest.raises(BadInput) as caught:
        refuse_overlap(masks, lambda row: f"n{row}")
    assert caught.value.code == "E-SPLIT-OVERLAP"
    assert "2 nodes are in both the train and the test split: n1, n2" in caught.value.message


def test_foreign_nodes_may_be_tested_but_not_trained_on() -> None:
    assert not overlaps(masks_from_arrays({"train": [0], "test": [1, 2], "ood": [2]}, 4))
    assert overlaps(masks_from_arrays({"train": [0], "ood": [0]}, 4))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["train", "val", "test", "cal", ""]), min_size=1, max_size=30))
def test_masks_of_a_column_are_disjoint_and_complete(words: list[str]) -> None:
    masks = masks_from_words(words, line)
    total = sum((mask.astype(int) for mask in masks.values()), np.zeros(len(words), dtype=int))
    assert total.tolist() == [int(bool(word)) for word in words]
    assert not overlaps(masks)


def graph(labels: object, **masks: object) -> Graph:
    return from_arrays(np.ones((4, 1)), [[0, 1], [1, 2]], labels=labels, **masks)


@pytest.mark.parametrize(
    ("built", "code"),
    [
        (lambda: graph(None, train_mask=[0, 1], val_mask=[2]), "E-NO-LABELS"),
        (lambda: graph([-1, -1, -1, -1]), "E-NO-LABELS"),
        (lambda: graph([0, 0, 1, 1], train_mask=[0, 1], val_mask=[2]), "E-ONE-CLASS"),
        (lambda: graph([0, 0, 1, 1]), "E-SPLIT-EMPTY"),
        (lambda: graph([0, 0, 1, 1], train_mask=[False] * 4, val_mask=[2]), "E-SPLIT-EMPTY"),
        (lambda: graph([0, 0, 1, 1], train_mask=[0, 2]), "E-SPLIT-EMPTY"),
        (lambda: graph([0, 0, 1, -1], train_mask=[0, 2], val_mask=[3]), "E-SPLIT-EMPTY"),
        (
            lambda: graph([0, 0, 1, -1]).with_masks(
                train=np.array([True, False, True, True]), val=np.array([False, True, False, False])
            ),
            "E-SPLIT-UNLABELLED",
        ),
    ],
)
def test_graphs_that_fit_refuses(built: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        require_trainable(built())  # type: ignore[operator]
    assert caught.value.code == code
    assert caught.value.fix


def test_graphs_that_fit_takes() -> None:
    require_trainable(graph([0, 0, 1, 1], train_mask=[0, 2], val_mask=[1]))
    require_trainable(graph([0, 0, 1, 1], train_mask=[0, 2]), early_stop=False)
