"""Standard normals as a pure function of their address, on as many threads as torch may use."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from graphsde.base import torch_hash
from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.base.torch_hash import ADDRESS_STEP, GOLDEN


def in_shares(work: Callable[[int, int], None], size: int, worth: int) -> None:
    """Call ``work(share, shares)`` for every share, in parallel if there are threads and enough work.

    Args:
        work: does share number ``share`` (from 0) out of ``shares``; the result must not depend on ``shares``.
        size: amount of work, in any unit.
        worth: amount of work that justifies one more thread.
    """
    shares = max(1, min(torch.get_num_threads(), size // worth))
    if shares == 1:
        work(0, 1)
        return
    # the caller does the first share itself, and waits for the others even if its own fails
    others = [_pool(torch.get_num_threads(), os.getpid()).submit(work, share, shares) for share in range(1, shares)]
    try:
        work(0, shares)
    finally:
        wait(others)
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Cached, since starting threads costs as much as a small share; a forked process needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphsde")


_AT_ONCE = 1 << 13  # pairs of normals: three buffers of them stay in the first two caches
_NUMBERS_BEFORE = 1 << 28  # about 0.8 s of noise, as long as importing and compiling take
# SplitMix64's finaliser, for numpy's loops too: numba compiles module-level numbers as constants
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
        """The same loops as numpy's in ``keyed_normals``.  # normals [R, P, 2], starts [R], steps [P]"""
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
    """The kernels for a draw of this size, once this process has drawn enough for compiling to pay off."""
    global _drawn
    _drawn += numbers
    return load() if _drawn >= _NUMBERS_BEFORE else None


@lru_cache(maxsize=1)
def load() -> Kernels | None:
    """The kernels, or ``None`` if the extra is not installed; every later draw uses them."""
    global _drawn
    try:
        import numba
    except ImportError:
        return None
    _drawn = _NUMBERS_BEFORE
    # no fast-math, which would change bits, and no cache on disk, which would be pickled
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


WORD = 2**64 - 1
_BLOCK = 1 << 16  # hashes at a time: large enough to hide the cost of a call, small enough for a cache
_WORTH_A_THREAD = 1 << 17
_HIGH, _LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
_NUMPY_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


def stream_of(seed: int, purpose: str) -> int:
    """A 63-bit id of one family of normals; different purposes or seeds never share numbers."""
    return derive(seed, "keyed normals", purpose)


def standard_normals(
    stream: int,
    keys: Tensor,
    paths: Sequence[int],
    cell: int,
    width: int,
    dtype: torch.dtype = torch.float32,
    *,
    scale: float = 1.0,
) -> Tensor:
    """Independent N(0, 1) numbers, each addressed by (stream, path, cell, key, dimension).

    Args:
        stream: from :func:`stream_of`.
        keys: of the nodes, from :func:`node_keys`; the numbers are drawn on their device.  # [K] int64
        paths: indices of the sample paths.
        cell: position in time, or any other integer.
        width: d; a wider draw begins with the numbers of a narrower one.
        dtype: float32 or float64; both come from the same hash and agree to float32's precision.
        scale: a standard deviation other than one, at no cost.

    Returns:
        ``[K, S, d]``

    Example:
        >>> keys = node_keys(np.arange(5))
        >>> many = standard_normals(stream_of(0, "demo"), keys, range(10), cell=3, width=4)
        >>> few = standard_normals(stream_of(0, "demo"), keys[2:4], [7], cell=3, width=4)
        >>> torch.equal(few, many[2:4, 7:8])
        True
    """
    return normals_of_cells(stream, keys, paths, range(cell, cell + 1), width, dtype, scale=scale)[0]


def normals_of_cells(
    stream: int,
    keys: Tensor,
    paths: Sequence[int],
    cells: range,
    width: int,
    dtype: torch.dtype = torch.float32,
    *,
    scale: float = 1.0,
) -> list[Tensor]:
    """:func:`standard_normals` of each of ``cells``, drawn together: for small draws the calls cost more than the
    numbers.  # [K, S, d] each, with a memory of its own"""
    if dtype not in _NUMPY_TYPES:
        raise BadUsage(f"keyed normals can't be {dtype}", expected="torch.float32 or torch.float64")
    if keys.device.type != "cpu":
        return torch_hash.normals(stream, keys, paths, cells, width, dtype, scale)
    pairs = (width + 1) // 2
    starts = _row_states(stream, keys, paths, cells)  # [C·K·S]
    normals = np.empty((starts.size, pairs, 2), dtype=_NUMPY_TYPES[dtype])
    rows = max(1, min(_BLOCK // max(1, pairs), starts.size))
    blocks = [slice(first, min(first + rows, starts.size)) for first in range(0, starts.size, rows)]
    kernels = worth_it(normals.size)

    def fill(share: int, shares: int) -> None:
        if kernels is None:
            _fill(normals, starts, blocks[share::shares], rows, scale)
        else:
            kernels.fill(normals, starts, _steps(pairs, 1), blocks[share::shares], scale)

    in_shares(fill, starts.size * pairs, _WORTH_A_THREAD)
    each = normals.reshape(len(cells), keys.numel(), len(paths), 2 * pairs)
    if width % 2:
        each = each[..., :width]
    # a tensor for each cell rather than views of one, so that changing one does not change the others
    return [torch.from_numpy(np.ascontiguousarray(drawn)) for drawn in each]


def node_keys(ids: np.ndarray) -> Tensor:
    """A stable 64-bit key for each node id: integers by mixing, text by BLAKE2b.  # [N] -> [N] int64

    A key depends on its own id alone, so permuting the nodes permutes the keys.
    """
    ids = np.asarray(ids)
    if ids.dtype.kind in "iu":
        words = ids.astype(np.uint64)
        words ^= np.uint64(GOLDEN)
        return torch.from_numpy(mix_words(words).view(np.int64))
    from hashlib import blake2b

    digests = b"".join(blake2b(str(name).encode(), digest_size=8).digest() for name in ids.tolist())
    return torch.from_numpy(np.frombuffer(digests, dtype="<i8").astype(np.int64))


def _row_states(stream: int, keys: Tensor, paths: Sequence[int], cells: range) -> np.ndarray:
    """One hash state per cell, key and path, from which the dimensions are counted.  # [C·K·S] uint64"""
    words = np.fromiter((int(path) & WORD for path in paths), dtype=np.uint64, count=len(paths))
    words *= np.uint64(ADDRESS_STEP)
    words += np.uint64(stream)
    places = np.array([(cell * GOLDEN + ADDRESS_STEP) & WORD for cell in cells], dtype=np.uint64)
    base = mix_words(places[:, None] + mix_words(words))  # [C, S]
    return mix_words(keys.numpy().view(np.uint64)[:, None] ^ base[:, None, :]).reshape(-1)


def mix_words(words: np.ndarray, scratch: np.ndarray | None = None) -> np.ndarray:
    """SplitMix64's finaliser, in place: a bijection of 64-bit words in which every input bit reaches every output."""
    scratch = np.empty_like(words) if scratch is None else scratch
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        np.right_shift(words, shift, out=scratch)
        np.bitwise_xor(words, scratch, out=words)
        np.multiply(words, multiplier, out=words)
    np.right_shift(words, SHIFTS[-1], out=scratch)
    return np.bitwise_xor(words, scratch, out=words)


@lru_cache(maxsize=4)
def _steps(pairs: int, rows: int) -> np.ndarray:
    """Offsets of a row's dimensions from its start, for many rows: adding one long row is several times faster
    than adding a short one to each.  # [rows·pairs] uint64"""
    steps = np.tile(np.array([(i + 1) * GOLDEN & WORD for i in range(pairs)], dtype=np.uint64), rows)
    steps.flags.writeable = False
    return steps


def _fill(normals: np.ndarray, starts: np.ndarray, blocks: Sequence[slice], rows: int, scale: float) -> None:
    """Box–Muller on the rows of ``blocks``; the buffers are contiguous, so that one SIMD loop serves all positions."""
    pairs, real = normals.shape[1], normals.dtype.type
    flat = normals.reshape(-1, 2)
    steps = _steps(pairs, rows)
    buffers = np.empty((3, rows * pairs), dtype=np.uint64)
    for block in blocks:
        words = np.repeat(starts[block], pairs)
        scratch, radius, angle = buffers[0, : words.size], *(buffer.view(real)[: words.size] for buffer in buffers[1:])
        words += steps[: words.size]
        mix_words(words, scratch)
        halves = words.view(np.uint32).reshape(-1, 2)
        np.copyto(radius, halves[:, _HIGH], casting="unsafe")
        radius += real(1)
        radius *= real(2.0**-32)
        np.log(radius, out=radius)
        radius *= real(-2 * scale**2)
        np.sqrt(radius, out=radius)
        np.copyto(angle, halves[:, _LOW].view(np.int32), casting="unsafe")
        angle *= real(math.pi * 2.0**-31)
        turn = scratch.view(real)[: words.size]
        drawn = flat[block.start * pairs : block.stop * pairs]
        np.cos(angle, out=turn)
        np.multiply(radius, turn, out=drawn[:, 0])
        np.sin(angle, out=turn)
        np.multiply(radius, turn, out=drawn[:, 1])
