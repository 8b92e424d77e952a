"""The hash in torch is the hash in numpy, to the bit; normals differ by how a logarithm and a sine are rounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphsde.base import torch_hash
from graphsde.base.keyed_normals import mix_words, node_keys, normals_of_cells, stream_of
from graphsde.base.seeds import numpy_stream

EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, torch_hash.GOLDEN]


def words(count: int = 20_000) -> np.ndarray:
    drawn = numpy_stream(0, "words").integers(0, 2**64, count, dtype=np.uint64)
    return np.concatenate([np.array(EDGES, dtype=np.uint64), drawn])


def test_words_are_mixed_to_the_same_bits() -> None:
    given = words()
    found = torch_hash.mixed(torch.from_numpy(given.view(np.int64).copy()))
    assert np.array_equal(found.numpy().view(np.uint64), mix_words(given.copy()))


def test_signed_words_keep_their_bits() -> None:
    for word in EDGES:
        assert torch_hash.signed(word) % 2**64 == word
        assert torch_hash.signed(word + 3 * 2**64) == torch_hash.signed(word)


def test_uniforms_are_the_same_numbers() -> None:
    given = words()
    expected = (given >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    found = torch_hash.uniforms(torch.from_numpy(given.view(np.int64).copy()))
    assert np.array_equal(found.numpy(), expected)
    assert float(found.min()) >= 0.0 and float(found.max()) < 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 2, 7, 64])
def test_normals_are_the_same_numbers_up_to_rounding(width: int, dtype: torch.dtype) -> None:
    keys = torch.cat([node_keys(np.arange(300)), node_keys(np.array(["a", "Ω", "node 7"])), torch.tensor([-1, 0, 1])])
    paths, cells = [0, 3, 2**40, 2**63 - 1], range(5, 8)
    for seed, scale in ((0, 1.0), (2**63 - 1, 0.37)):
        stream = stream_of(seed, "increment")
        ours = torch_hash.normals(stream, keys, paths, cells, width, dtype, scale)
        theirs = normals_of_cells(stream, keys, paths, cells, width, dtype, scale=scale)
        assert len(ours) == len(theirs) == 3
        for one, two in zip(ours, theirs, strict=True):
            assert one.shape == two.shape == (306, 4, width) and one.dtype == dtype and one.is_contiguous()
            # sin near ±π and cos near ±π/2 lose digits in relative terms, never in terms of the radius
            assert float((one - two).abs().max()) <= 8 * scale * torch.finfo(dtype).eps * 6


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, cells = node_keys(np.arange(50)), range(2)
    whole = torch_hash.normals(1, keys, range(3), cells, 5, torch.float32, 1.0)
    monkeypatch.setattr(torch_hash, "_AT_ONCE", 64)
    assert all(map(torch.equal, whole, torch_hash.normals(1, keys, range(3), cells, 5, torch.float32, 1.0)))
    empty = torch_hash.normals(1, keys[:0], range(3), cells, 5, torch.float32, 1.0)
    assert [one.shape for one in empty] == [(0, 3, 5)] * 2


def test_the_radius_and_the_angle_are_those_of_the_hash() -> None:
    """Box and Muller by hand, from Python's own whole numbers."""
    stream, key, path, cell = stream_of(4, "increment"), 12345, 6, 9
    mask = 2**64 - 1

    def mix(word: int) -> int:
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        return word ^ (word >> 31)

    family = mix((path * torch_hash.ADDRESS_STEP + stream) & mask)
    base = mix((cell * torch_hash.GOLDEN + torch_hash.ADDRESS_STEP + family) & mask)
    word = mix((mix(key ^ base) + torch_hash.GOLDEN) & mask)
    radius = np.sqrt(-2 * np.log(((word >> 32) + 1) / 2**32))
    low = word & (2**32 - 1)
    angle = np.pi * (low - 2**32 if low >= 2**31 else low) / 2**31
    (found,) = torch_hash.normals(stream, torch.tensor([key]), [path], range(cell, cell + 1), 2, torch.float64, 1.0)
    assert np.allclose(found.numpy().ravel(), [radius * np.cos(angle), radius * np.sin(angle)], rtol=1e-12)
