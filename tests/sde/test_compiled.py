"""Compiled noise is the same noise."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from graphsde.base import keyed_normals
from graphsde.base import keyed_normals as compiled
from graphsde.base.keyed_normals import node_keys, normals_of_cells, stream_of

STREAM = stream_of(0, "test")


@pytest.fixture(autouse=True)
def plain_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as a process does, and leaves no kernels to the next."""
    monkeypatch.setattr(compiled, "_drawn", 0)
    compiled.load.cache_clear()
    yield
    compiled.load.cache_clear()


def draw(nodes: int, width: int, kind: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    keys = node_keys(np.arange(nodes))
    return torch.stack(normals_of_cells(STREAM, keys, range(3), range(2), width, kind, scale=scale))


def loaded() -> compiled.Kernels:
    pytest.importorskip("numba", reason="numba (extra kernels) is not installed")
    kernels = compiled.load()
    assert kernels is not None
    return kernels


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("nodes", "width"), [(1, 1), (7, 5), (301, 64), (40, 1001), (3, 20_001)])
def test_same_bits(kind: torch.dtype, nodes: int, width: int) -> None:
    before = draw(nodes, width, kind, 0.3)
    loaded()
    assert torch.equal(draw(nodes, width, kind, 0.3), before)


def test_the_loops_before_they_are_compiled() -> None:
    """Box–Muller in plain Python, number by number."""
    logs, angles, normals = np.log([0.5, 0.25, 0.9]), np.array([0.1, 2.0, -3.0]), np.zeros(6)
    compiled._products(logs, np.cos(angles), np.sin(angles), -2.0 * 0.3**2, normals)
    radius = 0.3 * np.sqrt(-2.0 * logs)
    assert normals == pytest.approx(np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1).ravel())
    starts, steps = np.array([5, 2**63], dtype=np.uint64), np.array([1, 2**62 + 7, 9], dtype=np.uint64)
    radius, angle, words = np.zeros(6), np.zeros(6), np.zeros(6, dtype=np.uint64)
    with np.errstate(over="ignore"):  # words of 64 bits wrap, here as in the compiled loop
        compiled._uniforms(starts, steps, radius, angle, np.float64(1), 2.0**-32, np.pi * 2.0**-31)
        words[:] = compiled.mix_words((starts[:, None] + steps).ravel())
    high, low = (words >> np.uint64(32)).astype(np.uint32), words.astype(np.uint32)
    assert np.array_equal(radius, (high.astype(np.float64) + 1) * 2.0**-32)
    assert np.array_equal(angle, low.view(np.int32) * (np.pi * 2.0**-31))


def test_same_bits_on_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, threads = draw(700, 64), torch.get_num_threads()
    loaded()
    monkeypatch.setattr(keyed_normals, "_BLOCK", 1000)
    monkeypatch.setattr(keyed_normals, "_WORTH_A_THREAD", 2000)
    try:
        torch.set_num_threads(2)
        assert torch.equal(draw(700, 64), whole)
    finally:
        torch.set_num_threads(threads)


def test_they_take_over_once_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = loaded()
    compiled.load.cache_clear()
    monkeypatch.setattr(compiled, "_drawn", 0)
    monkeypatch.setattr(compiled, "_NUMBERS_BEFORE", 250)
    assert compiled.worth_it(100) is None
    assert compiled.worth_it(100) is None
    assert isinstance(compiled.worth_it(100), type(kernels))


def test_asked_for_they_serve_the_next_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, calls = loaded(), list[int]()
    fill = compiled.Kernels.fill
    monkeypatch.setattr(compiled.Kernels, "fill", lambda *given: (calls.append(1), fill(*given))[1])
    draw(5, 4)
    assert calls and compiled.load() is kernels


def test_without_numba_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = draw(20, 6)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_NUMBERS_BEFORE", 1)
    assert compiled.load() is None
    assert torch.equal(draw(20, 6), before)
