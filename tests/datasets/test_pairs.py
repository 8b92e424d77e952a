"""Numbers and node pairs map onto each other without gaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.datasets.shifts import count_pairs, decode, draw_new_pairs, encode


@pytest.mark.parametrize("n", [2, 3, 7, 30])
def test_numbers_run_through_all_pairs_in_order(n: int) -> None:
    for directed, every in ((False, itertools.combinations(range(n), 2)), (True, itertools.permutations(range(n), 2))):
        pairs = np.array(list(every))
        numbers = np.arange(count_pairs(n, directed=directed))
        assert encode(pairs[:, 0], pairs[:, 1], n, directed=directed).tolist() == numbers.tolist()
        assert np.stack(decode(numbers, n, directed=directed), axis=1).tolist() == pairs.tolist()


@settings(max_examples=50, deadline=None)
@given(n=st.integers(10**5, 10**9), seed=st.integers(0, 1000))
def test_large_numbers_come_back(n: int, seed: int) -> None:
    total = count_pairs(n, directed=False)
    rows = np.concatenate([np.random.default_rng(seed).integers(1, n - 1, size=300), n - np.arange(2, 300)])
    starts = encode(rows, rows + 1, n, directed=False)  # where a rounding error would step into the wrong row
    numbers = np.concatenate([[0, total - 1], starts, starts - 1])
    first, second = decode(numbers, n, directed=False)
    assert np.all((first >= 0) & (first < second) & (second < n))
    assert np.array_equal(encode(first, second, n, directed=False), numbers)


@pytest.mark.parametrize("directed", [False, True])
def test_new_pairs_fill_exactly_what_is_free(directed: bool) -> None:
    n, rng = 9, np.random.default_rng(0)
    total = count_pairs(n, directed=directed)
    taken = np.sort(rng.permutation(total)[: total // 3])
    drawn = draw_new_pairs(taken, total - taken.size, n, rng, directed=directed)
    numbers = encode(*drawn, n, directed=directed)
    assert sorted([*numbers.tolist(), *taken.tolist()]) == list(range(total))
