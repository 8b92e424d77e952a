"""Keyed normals: pure functions of their address, and normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphsde.base import keyed_normals
from graphsde.base.errors import BadUsage
from graphsde.base.keyed_normals import node_keys, standard_normals, stream_of

STREAM = stream_of(0, "test")
KINDS = (torch.float32, torch.float64)
KNOWN = [
    0.6653989347546869,
    -0.09440851008067488,
    0.639596224964613,
    -0.012706498725447395,
    -0.2749768569283047,
    0.01444306736715428,
    2.205223772545482,
    -1.0104344878710425,
]


def assert_uncorrelated(one: torch.Tensor, two: torch.Tensor) -> None:
    products = (one * two).double().reshape(-1)
    assert abs(float(products.sum() / products.square().sum().sqrt())) <= 4


@pytest.mark.parametrize("dtype", KINDS)
def test_they_are_standard_normal(dtype: torch.dtype) -> None:
    x = standard_normals(STREAM, node_keys(np.arange(1000)), range(5), 0, 40, dtype).double().reshape(-1).numpy()
    n = x.size
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert abs(x.mean()) * math.sqrt(n) <= 4
    for power, moment, spread in ((2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((x**power).mean() - moment) / math.sqrt(spread / n) <= 4
    assert abs((np.abs(x) > 4).mean() - 6.334e-5) <= 4 * math.sqrt(6.334e-5 / n)


def test_even_and_odd_dimensions_are_normal_on_their_own() -> None:
    x = standard_normals(STREAM, node_keys(np.arange(4000)), [0], 1, 6, torch.float64)[:, 0].numpy()
    for k in range(6):
        assert stats.kstest(x[:, k], "norm").pvalue > 1e-3


def test_neighbouring_addresses_are_uncorrelated() -> None:
    keys = torch.arange(3000)  # raw neighbouring integers, without mixing
    x = standard_normals(STREAM, keys, range(10), 4, 8, torch.float64)
    later = standard_normals(STREAM, keys, range(10), 5, 8, torch.float64)
    other_seed = standard_normals(stream_of(1, "test"), keys, range(10), 4, 8, torch.float64)
    other_purpose = standard_normals(stream_of(0, "rest"), keys, range(10), 4, 8, torch.float64)
    for power in (1, 2, 3):  # dependence can hide from plain correlation
        centre = {1: 0.0, 2: 1.0, 3: 0.0}[power]
        y, *others = (v**power - centre for v in (x, later, other_seed, other_purpose))
        for other in others:
            assert_uncorrelated(y, other)
        assert_uncorrelated(y[1:], y[:-1])
        assert_uncorrelated(y[:, 1:], y[:, :-1])
        assert_uncorrelated(y[..., 1:], y[..., :-1])
    # an address is not a sum of its parts
    assert_uncorrelated(x[:-1], later[1:])
    assert_uncorrelated(x[:, :-1], later[:, 1:])
    assert_uncorrelated(x[1:, :-1], x[:-1, 1:])


@pytest.mark.parametrize("dtype", KINDS)
def test_a_value_does_not_depend_on_its_position(dtype: torch.dtype) -> None:
    """Vector instructions and their remainders must agree, at every offset and length."""
    keys = node_keys(np.arange(90))
    everything = standard_normals(STREAM, keys, [3], 2, 6, dtype)
    for first in range(40):
        for count in (1, 2, 3, 5, 7, 8, 11, 16, 31, 33, 50):
            assert torch.equal(standard_normals(STREAM, keys[first : first + count], [3], 2, 6, dtype),
                               everything[first : first + count])  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    picked=st.lists(st.integers(0, 60), min_size=1, max_size=9),
    paths=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    width=st.integers(1, 9),
    cell=st.integers(0, 2**40),
)
def test_any_selection_has_the_same_bits(picked: list[int], paths: list[int], width: int, cell: int) -> None:
    keys = node_keys(np.arange(61))
    everything = standard_normals(STREAM, keys, paths, cell, 9)
    assert torch.equal(standard_normals(STREAM, keys[picked], paths, cell, width), everything[picked][..., :width])
    assert torch.equal(standard_normals(STREAM, keys, paths[-1:], cell, 9), everything[:, -1:])


def test_blocks_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, before = node_keys(np.arange(700)), torch.get_num_threads()
    whole = standard_normals(STREAM, keys, range(3), 0, 64)
    monkeypatch.setattr(keyed_normals, "_BLOCK", 1000)
    assert torch.equal(standard_normals(STREAM, keys, range(3), 0, 64), whole)
    monkeypatch.setattr(keyed_normals, "_WORTH_A_THREAD", 2000)
    try:
        torch.set_num_threads(2)
        assert torch.equal(standard_normals(STREAM, keys, range(3), 0, 64), whole)
    finally:
        torch.set_num_threads(before)


def test_global_seeds_do_not_matter_and_are_left_alone() -> None:
    keys = node_keys(np.arange(10))
    one = standard_normals(STREAM, keys, [0], 0, 4)
    np.random.seed(1)
    state = torch.get_rng_state()
    assert torch.equal(standard_normals(STREAM, keys, [0], 0, 4), one)
    assert torch.equal(torch.get_rng_state(), state)


def test_both_precisions_tell_the_same_story() -> None:
    keys = node_keys(np.arange(2000))
    single, double = (standard_normals(STREAM, keys, [0], 0, 16, kind) for kind in KINDS)
    assert torch.allclose(single.double(), double, atol=1e-3)
    assert float((single.double() - double).abs().median()) < 1e-6


def test_extreme_hashes_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in (0, 2**64 - 1, 2**32 - 1, 2**63):
        monkeypatch.setattr(keyed_normals, "mix_words", lambda words, scratch=None, word=word: _filled(words, word))
        for kind in KINDS:
            x = standard_normals(STREAM, torch.arange(3), [0], 0, 4, kind)
            assert torch.isfinite(x).all()
            assert x.abs().max() < 7


def _filled(words: np.ndarray, word: int) -> np.ndarray:
    words[...] = np.uint64(word)
    return words


def test_a_known_value() -> None:
    """Files written by one version must be readable by the next: the numbers are part of the format."""
    x = standard_normals(stream_of(0, "increment"), node_keys(np.array([0, 1])), [0, 1], 0, 2, torch.float64)
    assert np.allclose(x.numpy().reshape(-1), KNOWN, rtol=1e-12, atol=0)


def test_node_keys_follow_their_ids() -> None:
    ids = np.array([5, 3, 2**62, 0])
    assert torch.equal(node_keys(ids[::-1]), node_keys(ids).flip(0))
    names = np.array(["b", "a", "ü"], dtype=object)
    assert torch.equal(node_keys(names[[2, 0]]), node_keys(names)[[2, 0]])
    keys = node_keys(np.arange(100_000))
    assert keys.dtype == torch.int64
    assert keys.unique().numel() == 100_000
    assert node_keys(np.array([f"n{i}" for i in range(1000)])).unique().numel() == 1000


def test_node_keys_are_the_same_in_every_process() -> None:
    assert node_keys(np.array(["a b"], dtype=object)).item() == 2952434739088078779
    assert node_keys(np.array([17])).item() == -2726952553460619617


def test_other_precisions_are_refused() -> None:
    with pytest.raises(BadUsage, match="float16"):
        standard_normals(STREAM, torch.arange(2), [0], 0, 2, torch.float16)
