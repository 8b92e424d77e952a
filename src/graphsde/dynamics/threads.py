"""numpy's loops on as many threads as torch has been given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
    with ThreadPoolExecutor(shares) as pool:
        list(pool.map(lambda share: work(share, shares), range(shares)))
