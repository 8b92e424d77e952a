"""Calibration nodes: untouched by training, selection and test, and never OOD."""

from __future__ import annotations

import numpy as np
import pytest

from graphsde.base.errors import BadInput
from graphsde.datasets.benchmarks import load
from graphsde.datasets.splits import make_split

from support import block_graph, needs_real_data

pytestmark = pytest.mark.usefixtures("own_cache")


@needs_real_data
def test_calibration_takes_unused_nodes_where_there_are_enough() -> None:
    cora = load("cora")
    split = make_split(cora, "calibration")
    assert split.sizes == {"train": 140, "val": 500, "test": 1000, "calibration": 500}
    photo = make_split(load("photo"), "calibration")
    assert photo.sizes == {"train": 160, "val": 240, "test": 3544, "calibration": 3543}
    assert not photo.masks["calibration"][np.setdiff1d(np.arange(7650), photo.nodes)].any()  # type: ignore[arg-type]
    few = make_split(load("photo"), "calibration", size=100)  # 163 unused nodes lie outside the largest component
    assert few.sizes == photo.sizes


@needs_real_data
def test_calibration_never_takes_foreign_nodes() -> None:
    cora = load("cora")
    for base in ("leave-class-out", "label-leave-out"):
        split = make_split(cora, "calibration", base=base, size=100)
        trained = np.unique(cora.labels[split.masks["train"]])  # type: ignore[index]
        assert split.sizes["calibration"] == 100
        assert np.all(np.isin(cora.labels[split.masks["calibration"]], trained))  # type: ignore[index]
        assert split.classes == make_split(cora, base).classes


def test_calibration_that_is_there_already_stays() -> None:
    blocks = block_graph()
    assert np.array_equal(make_split(blocks, "calibration").masks["calibration"], blocks.calibration_mask)


def test_calibration_without_any_node_to_spare_is_refused() -> None:
    graph = block_graph().with_masks(train=np.arange(30) < 29, test=np.arange(30) == 29)
    with pytest.raises(BadInput) as caught:
        make_split(graph, "calibration")
    assert caught.value.code == "E-CALIBRATION"
