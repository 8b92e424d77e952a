"""Independent random streams from one seed, by name, without any global state."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from graphsde.base.errors import BadUsage

if TYPE_CHECKING:
    import torch

LARGEST_SEED = 2**63 - 1


def derive(seed: int, *purpose: object) -> int:
    """A 63-bit seed for one purpose: a pure function of both, so that adding a stream changes no other.

    Example:
        >>> derive(0, "dropout") != derive(0, "init")
        True
    """
    check_seed(seed)
    text = "\x1f".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def check_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
        raise BadUsage(
            f"{seed!r} is not a valid seed", code="E-SEED", found=seed, expected="an integer from 0 to 2**63 - 1"
        )
    return int(seed)


def numpy_stream(seed: int, *purpose: object) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *purpose))


def torch_stream(seed: int, *purpose: object) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))
