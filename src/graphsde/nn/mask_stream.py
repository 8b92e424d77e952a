"""Dropout masks from a stream of random bits.

torch draws two words of a Mersenne Twister for every entry of a mask, which costs more than the sparse product that the
mask is for. Here a mask at a rate of one half takes one bit, at any other rate half a word.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphsde.base.seeds import derive, torch_stream

COPIES = 8
"""Masks that fit into one byte per entry."""


class MaskStream:
    """Masks for as many copies of an array as there are paths, drawn in the order of the calls.

    Args:
        seed, purpose: which stream it is.

    ``generator`` is torch's own stream of the same name, for parts that draw by themselves.

    Example:
        >>> masks = MaskStream(0, "demo")
        >>> bits = masks.bits(1000, 0.25, copies=2)
        >>> 0.7 < float(bit(bits, 1, torch.float32).mean()) < 0.8
        True
    """

    def __init__(self, seed: int, purpose: str) -> None:
        self._words = np.random.SFC64(derive(seed, "masks", purpose))
        self.generator = torch_stream(seed, purpose)
        self._twin: MaskStream | None = None

    def bits(self, size: int, rate: float, copies: int = 1) -> Tensor:
        """Bit c of an entry says whether copy c keeps it, with probability 1 − ``rate``; other bits are unused.

        # [size] uint8
        """
        assert 1 <= copies <= COPIES
        if rate == 0.5:
            return torch.from_numpy(self._words.random_raw(-(-size // 8)).view(np.uint8)[:size])
        least = np.uint32(min(round(rate * 2.0**32), 2**32 - 1))
        kept = np.zeros(size, dtype=np.uint8)
        for copy in range(copies):
            drawn = self._words.random_raw(-(-size // 2)).view(np.uint32)[:size] >= least
            kept |= drawn.view(np.uint8) << np.uint8(copy)
        return torch.from_numpy(kept)

    def keep(self, shape: torch.Size | tuple[int, ...], rate: float, dtype: torch.dtype) -> Tensor:
        """One mask, divided by 1 − ``rate``.  # ``shape``"""
        size = int(np.prod(shape, dtype=np.int64))
        return bit(self.bits(size, rate), 0, dtype).div_(1.0 - rate).view(shape)

    def get_state(self) -> Tensor:
        """Where the stream stands, without ``generator``.  # [4] int64"""
        return torch.from_numpy(self._words.state["state"]["state"].view(np.int64).copy())

    def at(self, state: Tensor) -> MaskStream:
        """Another stream, always the same one, set to ``state``."""
        if self._twin is None:
            self._twin = object.__new__(MaskStream)
            self._twin._words, self._twin.generator = np.random.SFC64(0), self.generator
        self._twin.set_state(state)
        return self._twin

    def set_state(self, state: Tensor) -> None:
        words = self._words.state
        words["state"]["state"] = np.ascontiguousarray(state.numpy()).view(np.uint64).copy()
        self._words.state = words


def bit(bits: Tensor, copy: int, dtype: torch.dtype) -> Tensor:
    """The mask of one copy, in memory of its own: 1 where it keeps an entry, else 0.  # [size]"""
    return bits.bitwise_right_shift(copy).bitwise_and_(1).to(dtype)
