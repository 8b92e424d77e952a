"""Compiled loops for the noise, where numba is installed (extra ``kernels``): the same bits in less than half the time.

Hashing, scaling and Box and Muller's products become two loops that stay in registers; logarithm and the two circle
functions remain numpy's, whose bits another library would not give. Importing and compiling take time, so that a
process does so only when its noise has already cost as much (:func:`worth_it`) or when asked to (:func:`load`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_AT_ONCE = 1 << 13  # pairs of normals: three buffers of them stay in the first two caches
_NUMBERS_BEFORE = 1 << 28  # about 0.8 s of noise, which is what importing and compiling take
# SplitMix64's finaliser, for numpy's loops too: numba takes such numbers as constants of the module it compiles
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF = np.uint64(32)
_drawn = 0


@dataclass(frozen=True)
class Kernels:
    """The two loops.

    Args:
        uniforms: starts [R], steps [P], radius [R·P], angle [R·P], one, unit, turn: hashes to uniforms.
        products: logs [R·P], cosines [R·P], sines [R·P], factor, normals [2·R·P]: the last half of the transform.
    """

    uniforms: Callable[..., None]
    products: Callable[..., None]

    def fill(
        self, normals: np.ndarray, starts: np.ndarray, steps: np.ndarray, blocks: Sequence[slice], scale: float
    ) -> None:
        """As the loops of numpy in ``keyed_normals``.  # normals [R, P, 2], starts [R], steps [P]"""
        pairs, real = normals.shape[1], normals.dtype.type
        flat = normals.reshape(-1)
        rows = max(1, _AT_ONCE // pairs)
        buffers = np.empty((3, rows * pairs), dtype=real)
        one, unit, turn, factor = real(1), real(2.0**-32), real(math.pi * 2.0**-31), real(-2 * scale**2)
        for block in blocks:
            for first in range(block.start, block.stop, rows):
                own = starts[first : min(first + rows, block.stop)]
                radius, angle, cosine = buffers[:, : own.size * pairs]
                self.uniforms(own, steps, radius, angle, one, unit, turn)
                np.log(radius, out=radius)
                np.cos(angle, out=cosine)
                np.sin(angle, out=angle)
                begin = 2 * first * pairs
                self.products(radius, cosine, angle, factor, flat[begin : begin + 2 * radius.size])


def worth_it(numbers: int) -> Kernels | None:
    """The kernels for a draw of so many numbers, once this process has drawn enough for them to pay."""
    global _drawn
    _drawn += numbers
    return load() if _drawn >= _NUMBERS_BEFORE else None


@lru_cache(maxsize=1)
def load() -> Kernels | None:
    """The kernels, or nothing where the extra is not installed; every draw from now on uses them."""
    global _drawn
    try:
        import numba
    except ImportError:
        return None
    _drawn = _NUMBERS_BEFORE
    # no fast mathematics, which would cost bits, and no cache on disk, which would be pickled
    compiled = numba.njit(nogil=True)
    return Kernels(compiled(_uniforms), compiled(_products))


def _uniforms(starts, steps, radius, angle, one, unit, turn):  # type: ignore[no-untyped-def]
    pairs = steps.shape[0]
    for row in range(starts.shape[0]):
        for pair in range(pairs):
            word = starts[row] + steps[pair]
            word = (word ^ (word >> SHIFTS[0])) * MULTIPLIERS[0]
            word = (word ^ (word >> SHIFTS[1])) * MULTIPLIERS[1]
            word = word ^ (word >> SHIFTS[2])
            radius[row * pairs + pair] = (type(one)(np.uint32(word >> _HALF)) + one) * unit
            angle[row * pairs + pair] = type(one)(np.int32(np.uint32(word))) * turn


def _products(logs, cosines, sines, factor, normals):  # type: ignore[no-untyped-def]
    for pair in range(logs.shape[0]):
        radius = math.sqrt(logs[pair] * factor)
        normals[2 * pair] = radius * cosines[pair]
        normals[2 * pair + 1] = radius * sines[pair]
