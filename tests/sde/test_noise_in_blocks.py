"""Small draws are made for several cells at once: that must not be seen from outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphsde.base.keyed_normals import normals_of_cells, standard_normals, stream_of
from graphsde.sde import brownian
from graphsde.sde.brownian import BrownianMotion, node_keys

KEYS = node_keys(np.arange(20))


@pytest.mark.parametrize("width", [1, 4, 5])
def test_a_range_of_cells_is_its_cells(width: int) -> None:
    stream = stream_of(0, "test")
    together = normals_of_cells(stream, KEYS, range(3), range(2**40, 2**40 + 5), width, scale=0.3)
    for cell, drawn in enumerate(together):
        assert torch.equal(drawn, standard_normals(stream, KEYS, range(3), 2**40 + cell, width, scale=0.3))
    together[0].zero_()  # each is the caller's, and none is seen by another's version counter
    assert together[1].abs().min() > 0 and together[1]._version == 0


def test_a_scale_is_a_standard_deviation() -> None:
    stream = stream_of(0, "test")
    for kind, close in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        plain = standard_normals(stream, KEYS, range(50), 0, 6, kind)
        torch.testing.assert_close(
            standard_normals(stream, KEYS, range(50), 0, 6, kind, scale=0.25), 0.25 * plain, rtol=close, atol=0
        )


@pytest.mark.parametrize("floats", [1, 700, 1 << 18])
def test_increments_in_any_order(floats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(order: list[tuple[int, int]]) -> dict[tuple[int, int], list[torch.Tensor]]:
        motion = BrownianMotion(3, KEYS, range(2), width=4, horizon=1.0, cells=17)
        found = {}
        for first, last in order:
            increment = motion.increment(first, last, area=True)
            found[first, last] = [increment.dw.clone(), increment.levy().clone()]
            increment.dw.zero_()  # what is handed out belongs to the caller
            increment.levy().zero_()
        return found

    order = [(cell, cell + 1) for cell in range(17)] + [(3, 11), (0, 17)]
    monkeypatch.setattr(brownian, "_DRAWN_TOGETHER", 1)
    expected = steps(order)
    monkeypatch.setattr(brownian, "_DRAWN_TOGETHER", floats)
    for key, (dw, area) in (steps(order) | steps(order[::-1])).items():
        assert torch.equal(dw, expected[key][0]) and torch.equal(area, expected[key][1])
