"""Figures of something calibrated are of nodes that it was not calibrated on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphsde.acting.cross_fit import cross_fitted, halves
from graphsde.base.errors import BadInput


def test_every_node_is_judged_once_by_what_has_not_seen_it() -> None:
    nodes = np.arange(50) % 3 > 0
    (one, two), (three, four) = halves(nodes, seed=4)
    assert np.array_equal(one, four) and np.array_equal(two, three)
    assert not (one & two).any() and np.array_equal(one | two, nodes) and abs(int(one.sum()) - int(two.sum())) <= 1
    assert not np.array_equal(next(halves(nodes, seed=5))[0], one)
    with pytest.raises(BadInput, match="E-CAL-SMALL"):
        list(halves(np.arange(50) == 3))


def test_a_rule_that_knows_its_calibration_labels_by_heart_is_found_out() -> None:
    """Judged where it was calibrated it is always right; cross-fitted it is right by chance."""
    truth = np.random.default_rng(0).integers(0, 2, 1000)

    def by_heart(calibration: np.ndarray, judged: np.ndarray) -> dict[str, Any]:
        answers = np.where(calibration, truth, 0)
        return {"nodes": int(judged.sum()), "right": int((answers == truth)[judged].sum())}

    everyone = np.ones(1000, dtype=bool)
    assert by_heart(everyone, everyone)["right"] == 1000
    found = cross_fitted(everyone, by_heart)
    assert found["nodes"] == 1000 and found["right"] == (truth == 0).sum()


def test_shares_are_weighted_and_what_is_not_there_is_left_out() -> None:
    one = {"nodes": 1, "share": 1.0, "some": None, "none": None}
    answers = iter([one, {"nodes": 3, "share": 0.0, "some": 2.5, "none": None}])
    found = cross_fitted(np.ones(4, dtype=bool), lambda *_: next(answers))
    assert found == {"nodes": 4, "share": 0.25, "some": 2.5, "none": None}
