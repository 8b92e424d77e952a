"""Masks of bits: their law, their copies, their place in the stream."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2

from graphsde.nn.layers import dropout
from graphsde.nn.mask_stream import COPIES, MaskStream, bit

SIZE = 200_000


def drawn(rate: float, copies: int, seed: int = 0) -> np.ndarray:
    bits = MaskStream(seed, "test").bits(SIZE, rate, copies)
    return np.stack([bit(bits, copy, torch.float64).numpy() for copy in range(copies)])


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.8, 0.25, 1 / 3])
def test_entries_are_kept_as_often_as_they_should(rate: float) -> None:
    kept = drawn(rate, COPIES).sum(axis=1)
    low, high = binom.ppf([1e-6, 1 - 1e-6], SIZE, 1 - rate)
    assert ((low <= kept) & (kept <= high)).all()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_copies_and_neighbours_are_independent(rate: float) -> None:
    first, second = drawn(rate, 2)
    for left, right in ((first, second), (first[1:], first[:-1]), (first[::2], second[1::2])):
        table = np.array([[np.sum((left == a) & (right == b)) for b in (0, 1)] for a in (0, 1)], dtype=float)
        expected = np.outer([rate, 1 - rate], [rate, 1 - rate]) * table.sum()
        assert ((table - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-6, 3)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_a_stream_goes_on_from_where_it_stood(rate: float) -> None:
    masks = MaskStream(3, "test")
    masks.bits(1001, rate, 3)
    stood = masks.get_state()
    once = masks.bits(777, rate, 2)
    assert torch.equal(masks.at(stood).bits(777, rate, 2), once)
    masks.set_state(stood)
    assert torch.equal(masks.bits(777, rate, 2), once)
    assert not torch.equal(masks.bits(777, rate, 2), once)


def test_streams_differ_by_seed_and_purpose() -> None:
    streams = [MaskStream(0, "a"), MaskStream(1, "a"), MaskStream(0, "b")]
    words = [bytes(stream.bits(64, 0.5).numpy()) for stream in streams]
    assert len(set(words)) == 3
    assert bytes(MaskStream(0, "a").bits(64, 0.5).numpy()) == words[0]


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_what_is_kept_is_scaled_up(rate: float) -> None:
    ones = torch.ones(400, 50, dtype=torch.float64)
    made = dropout(ones, rate, MaskStream(0, "test"))
    assert isinstance(made, torch.Tensor)
    values = made.unique()
    torch.testing.assert_close(values, torch.tensor([0.0, 1.0 / (1.0 - rate)], dtype=torch.float64))
    assert abs(float(made.mean()) - 1.0) < 0.05
