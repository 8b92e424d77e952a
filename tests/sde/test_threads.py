"""Shares of a loop on several threads."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, get_ident

import pytest
import torch

from graphsde.base.keyed_normals import in_shares


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("size", "shares"), [(0, 1), (19, 1), (20, 2), (35, 3), (1000, 3)])
def test_every_share_once(size: int, shares: int) -> None:
    done: list[tuple[int, int]] = []
    in_shares(lambda share, count: done.append((share, count)), size, worth=10)
    assert sorted(done) == [(share, shares) for share in range(shares)]


def test_they_run_at_once_and_one_of_them_here() -> None:
    barrier, where = Barrier(3, timeout=600), set[int]()

    def meet(share: int, shares: int) -> None:
        barrier.wait()  # passes only if all three are there
        where.add(get_ident())

    in_shares(meet, 30, worth=10)
    assert len(where) == 3 and get_ident() in where


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_is_raised_after_all_have_ended(failing: int) -> None:
    ended: list[int] = []

    def work(share: int, shares: int) -> None:
        if share == failing:
            raise RuntimeError(f"share {share}")
        ended.append(share)

    with pytest.raises(RuntimeError, match=f"share {failing}"):
        in_shares(work, 30, worth=10)
    assert sorted(ended) == [share for share in range(3) if share != failing]
