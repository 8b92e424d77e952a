"""Parts that take turns and meet: sums in order, one at a time, and an error that ends them all."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading

import pytest
import torch

from graphsde.base.world import PartFailed, run_parts, world
from graphsde.nn.over_parts import add_gradients, everybody, mean_square, node_mean, share_of_mean, total


def test_alone_everything_is_what_torch_does() -> None:
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    assert world().alone and world().part == 0
    assert total(5) == 5 and total(x) is x and everybody(x) is x
    assert torch.equal(node_mean(x), x.mean(0)) and torch.equal(share_of_mean(x), x.mean())
    assert torch.equal(mean_square(x), x.square().mean())


def test_sums_are_those_of_all_parts_in_their_order() -> None:
    values = [torch.tensor([1e8]), torch.tensor([1.0]), torch.tensor([-1e8]), torch.tensor([1.0])]
    found = run_parts(lambda part: world().sum(values[part]), range(4))
    expected = ((values[0] + values[1]) + values[2]) + values[3]  # another order has another result in float32
    assert all(torch.equal(one, expected) for one in found.values())
    assert not torch.equal(expected, (values[0] + values[2]) + (values[1] + values[3]))


def test_rows_of_all_parts_come_in_their_order() -> None:
    found = run_parts(lambda part: everybody(torch.full((part, 2), float(part))), range(4))
    expected = torch.cat([torch.full((part, 2), float(part)) for part in range(4)])
    assert all(torch.equal(one, expected) for one in found.values())


def test_one_part_computes_at_a_time() -> None:
    running: list[int] = []
    most: list[int] = []

    def program(part: int) -> None:
        for _ in range(5):
            running.append(part)
            most.append(len(running))
            running.remove(part)
            world().meet(None)

    run_parts(program, range(3))
    assert max(most) == 1 and len(most) == 15


def test_a_second_table_does_not_overwrite_what_others_still_read() -> None:
    def program(part: int) -> list[list[float]]:
        seen = []
        for step in range(6):
            table = world().shared_rows(3, 1, torch.float64)
            table[part] = 10 * step + part
            world().meet(None)
            seen.append(table[:, 0].tolist())
        return seen

    for seen in run_parts(program, range(3)).values():
        assert seen == [[10 * step, 10 * step + 1, 10 * step + 2] for step in range(6)]


def test_the_first_error_ends_all_parts_and_is_the_one_that_is_raised() -> None:
    ended: list[int] = []

    def program(part: int) -> None:
        try:
            world().meet(None)
            if part == 1:
                raise ValueError("of part 1")
            world().meet(None)
        except PartFailed:
            ended.append(part)
            raise

    with pytest.raises(ValueError, match="of part 1"):
        run_parts(program, range(4))
    assert sorted(ended) == [0, 2, 3]
    assert not [one for one in threading.enumerate() if one.name.startswith("part-")]


def test_gradients_of_shares_are_those_of_the_whole() -> None:
    """Each part has some rows and a copy of the weight; the loss goes through a mean over all rows."""
    rows = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weight = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def loss(own: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = torch.tanh(own @ w)
        centred = made - node_mean(made)
        return share_of_mean(centred.square().sum(1)) + share_of_mean(made[:, 0])

    whole = weight.clone().requires_grad_()
    expected = loss(rows, whole)
    expected.backward()

    def program(part: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = weight.clone().requires_grad_()
        share = loss(rows[[slice(0, 2), slice(2, 7), slice(7, 9)][part]], own)
        share.backward()
        add_gradients([own])
        assert own.grad is not None
        return total(share.detach()), own.grad

    for value, grad in run_parts(program, range(3)).values():
        assert torch.allclose(value, expected.detach(), rtol=1e-12)
        assert torch.allclose(grad, whole.grad, rtol=1e-12)  # type: ignore[arg-type]


def test_parts_compute_with_as_many_threads_as_whoever_asks() -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert run_parts(lambda part: torch.get_num_threads(), range(2)) == {0: threads, 1: threads}
    finally:
        torch.set_num_threads(before)


GAPS = """
import torch
from graphsde.base.memory import anonymous_bytes, within_memory
from graphsde.base.world import run_parts

first = torch.ones(30 << 20, dtype=torch.uint8)
del first  # from now on glibc by itself keeps pieces of this size

def program(part):
    before, pieces, between = anonymous_bytes(), [], []
    for _ in range(16):
        pieces.append(torch.ones(12 << 20, dtype=torch.uint8))
        between.append(torch.ones(1 << 16, dtype=torch.uint8))
    pieces.clear()
    return anonymous_bytes() - before

with within_memory(LIMIT):
    print(max(run_parts(program, range(2)).values()) >> 20)
"""


def test_under_a_limit_what_parts_have_freed_leaves_no_gaps() -> None:
    """Pieces as large as a part's states, with small ones between them that stay."""
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        pytest.skip("how much a process keeps of what it has freed is known of glibc alone")

    def left(limit: str) -> int:
        program = GAPS.replace("LIMIT", limit)
        return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)

    assert left("'2G'") < 48 < left("None")  # MiB, of 192
