"""numpy's loops on as many threads as torch has been given."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

import torch


def in_shares(work: Callable[[int, int], None], size: int, worth: int) -> None:
    """Call ``work(share, shares)`` for every share, at once where there are threads and enough to do.

    Args:
        work: does the given share, from 0, of so many; must have the same result for any number of shares.
        size: how much there is to do, in any unit.
        worth: how much of that a further thread is worth.
    """
    shares = max(1, min(torch.get_num_threads(), size // worth))
    if shares == 1:
        work(0, 1)
        return
    # the caller takes the first share itself, and waits for the others even where its own fails
    others = [_pool(torch.get_num_threads(), os.getpid()).submit(work, share, shares) for share in range(1, shares)]
    try:
        work(0, shares)
    finally:
        wait(others)
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Kept, as starting threads costs as much as a small share; a forked process needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphsde")
