"""The hash of :mod:`graphsde.base.keyed_normals` in torch, for tensors on any device.

64-bit integers wrap around in int64 as they do in uint64, so the hashes have the same bits on every device. A
uniform is an exact function of its hash; a normal is one up to how a device rounds ``log``, ``cos`` and ``sin``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
ADDRESS_STEP = 0xD1342543DE82EF95
_MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31
_HALF = 2**32 - 1
_AT_ONCE = 1 << 24  # pairs of normals: their words and results need a gigabyte


def signed(word: int) -> int:
    """The int64 with the lower 64 bits of ``word``.

    Example:
        >>> signed(2**64 - 1), signed(5)
        (-1, 5)
    """
    word &= 2**64 - 1
    return word - 2**64 if word >> 63 else word


def mixed(words: Tensor) -> Tensor:
    """SplitMix64's finaliser.  # int64 -> int64"""
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        words = (words ^ _shifted(words, shift)) * signed(multiplier)
    return words ^ _shifted(words, _SHIFTS[-1])


def uniforms(words: Tensor) -> Tensor:
    """The upper 24 bits as a float32 in [0, 1), exactly."""
    return _shifted(words, 40).to(torch.float32) * 2.0**-24


def normals(
    stream: int, keys: Tensor, paths: Sequence[int], cells: range, width: int, dtype: torch.dtype, scale: float
) -> list[Tensor]:
    """:func:`~graphsde.base.keyed_normals.normals_of_cells` on the device of ``keys``.  # [K, S, d] for each cell"""
    pairs = (width + 1) // 2
    steps = _words([(pair + 1) * GOLDEN for pair in range(pairs)], keys)
    families = mixed(_words([int(path) * ADDRESS_STEP + stream for path in paths], keys))  # [S]
    rows = max(1, _AT_ONCE // (pairs * len(paths)))
    drawn = []
    for cell in cells:
        base = mixed(families + signed(cell * GOLDEN + ADDRESS_STEP))
        parts = [_box_muller(mixed(own[:, None] ^ base), steps, dtype, scale) for own in keys.split(rows)]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        drawn.append(whole[..., :width].contiguous() if width % 2 else whole)
    return drawn


def _box_muller(starts: Tensor, steps: Tensor, dtype: torch.dtype, scale: float) -> Tensor:
    """Two normals from each word.  # [K, S], [P] -> [K, S, 2P]"""
    words = mixed(starts[..., None] + steps)  # [K, S, P]
    radius = (_shifted(words, 32).to(dtype) + 1.0) * 2.0**-32
    radius = (radius.log_() * (-2 * scale**2)).sqrt_()
    low = words & _HALF
    # the lower half as an int32
    angle = (low - ((low >> 31) << 32)).to(dtype) * (math.pi * 2.0**-31)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1).flatten(-2)


def _shifted(words: Tensor, by: int) -> Tensor:
    """A shift that fills with zeros; int64's own repeats the sign."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def _words(words: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor([signed(word) for word in words], dtype=torch.int64).to(like.device)
