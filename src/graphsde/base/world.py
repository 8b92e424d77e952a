"""Parts of one computation: they run the same program on their own nodes and synchronise where they need each other.

A part is a thread; the parts of one process take turns, so that only one computes at a time. Parts in several
processes are joined by a :class:`Wire`. Sums are taken in the order of the parts, so that their bits depend on the
parts alone, never on how many processes hold them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from graphsde.base.memory import share_one_arena
from graphsde.base.scratch import scratch_tensor

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")


class Wire(Protocol):
    """Carries tensors between processes, each of which holds some of the parts.

    Every call is collective: all processes make the same calls in the same order, one at a time in each process.
    """

    held: Sequence[int]
    """The parts of this process."""
    parts: int
    """Of all processes together."""

    def everyone(self, mine: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Every part's tensor; they agree in type and in all but the number of rows (in everything if they have none).

        ``mine`` has one for each part of this process.
        """

    def total(self, mine: Mapping[int, Tensor]) -> Tensor:
        """The sum of every part's tensor, all of one shape and type, in the order of the parts."""

    def across(
        self, mine: Mapping[tuple[int, int], Tensor], rows: Mapping[tuple[int, int], int]
    ) -> dict[tuple[int, int], Tensor]:
        """Tensors from part to part: ``mine[p, q]`` goes from p, which is held here, to q, which is not.

        ``rows[p, q]`` says how many rows to expect from p for q, which is held here; type and width are those of
        ``mine`` (where nothing is sent, nothing is expected either).  # [n, w] each
        """


class World:
    """One part's view of all: its number, and ways to meet the others. Alone, every method is the identity."""

    part = 0
    parts = 1

    @property
    def alone(self) -> bool:
        return self.parts == 1

    def sum(self, x: Tensor) -> Tensor:
        """Of all parts' tensors, in the order of the parts; no gradient."""
        return x

    def gather(self, x: Tensor) -> list[Tensor]:
        """Every part's tensor; they may differ in their number of rows; no gradient."""
        return [x]

    def meet(self, deposit: T, act: Callable[[dict[int, T]], object] | None = None) -> object:
        """``act`` applied to the deposits of all parts of *this process* (without it, the deposits); one part
        runs it, and all wait until every part has arrived."""
        return {0: deposit} if act is None else act({0: deposit})

    @property
    def wire(self) -> Wire | None:
        """To the parts of other processes."""
        return None

    def shared_rows(self, rows: int, width: int, dtype: torch.dtype) -> Tensor:
        """Memory that all parts of this process see: one table now, another one at the next call of the same size, so
        that no part writes into what others still read, if there is one meeting between two calls.  # [rows, width]"""
        raise RuntimeError("there are no parts to share memory")


_ALONE = World()
_CURRENT: ContextVar[World] = ContextVar("world", default=_ALONE)


def world() -> World:
    """The world of the calling part; alone unless the work has been split."""
    return _CURRENT.get()


class PartFailed(Exception):
    """Another part has failed, so this one can't continue; the other one's error is reported."""


class _Table:
    """Where the parts of one process meet, and the turn to compute, which one of them has."""

    def __init__(self, held: Sequence[int], wire: Wire | None) -> None:
        self.held, self.wire = tuple(held), wire
        self.turn = threading.Condition()
        self.now = self.held[0]
        self.waiting: dict[int, object] = {}
        self.left: set[int] = set()
        self.result: object = None
        self.failed: BaseException | None = None
        self.round = 0
        self.rooms: dict[object, Tensor] = {}

    def begin(self, part: int) -> None:
        with self.turn:
            self._await(lambda: self.now == part)

    def meet(self, part: int, deposit: T, act: Callable[[dict[int, T]], object] | None) -> object:
        """Deposit something, wait for the others, and get ``act`` applied to all deposits (the deposits without
        it); the last to arrive runs it."""
        with self.turn:
            self.waiting[part] = deposit
            if len(self.waiting) == len(self.held):
                deposits, self.waiting = {one: self.waiting[one] for one in self.held}, {}
                try:
                    self.result = deposits if act is None else act(deposits)  # type: ignore[arg-type]
                except BaseException as error:
                    self.failed = error
                    self.turn.notify_all()
                    raise
                self.round += 1
                self.now = self.held[0]
            else:
                self.now = next(one for one in self.held if one not in self.waiting)
            mine = self.round if part not in self.waiting else self.round + 1
            self.turn.notify_all()
            self._await(lambda: self.round >= mine and self.now == part)
            return self.result

    def room(self, size: tuple[int, int, torch.dtype], turn: int) -> Tensor:
        """One of two buffers of a size; parts take turns, so no other part runs this."""
        if (size, turn) not in self.rooms:
            self.rooms[size, turn] = scratch_tensor(size[:2], size[2])
        return self.rooms[size, turn]

    def leave(self, part: int, error: BaseException | None) -> None:
        with self.turn:
            self.left.add(part)
            if error is not None and self.failed is None:
                self.failed = error
            still = [one for one in self.held if one not in self.left and one not in self.waiting]
            if still:
                self.now = still[0]
            self.turn.notify_all()

    def fail(self, error: BaseException) -> None:
        """End all parts at their next meeting."""
        with self.turn:
            self.failed = self.failed or error
            self.turn.notify_all()

    def _await(self, ready: Callable[[], bool]) -> None:
        self.turn.wait_for(lambda: self.failed is not None or ready())
        if self.failed is not None:
            raise PartFailed from self.failed


class _Part(World):
    def __init__(self, table: _Table, part: int) -> None:
        self._table, self.part = table, part
        self._calls: dict[object, int] = {}
        self.parts = len(table.held) if table.wire is None else table.wire.parts

    def sum(self, x: Tensor) -> Tensor:
        wire = self._table.wire

        def act(mine: dict[int, Tensor]) -> Tensor:
            if wire is not None:
                return wire.total(mine)
            total = mine[0].clone()
            for part in range(1, len(mine)):
                total += mine[part]
            return total

        return self._table.meet(self.part, x.detach(), act).clone()  # type: ignore[attr-defined]

    def gather(self, x: Tensor) -> list[Tensor]:
        wire = self._table.wire

        def act(mine: dict[int, Tensor]) -> list[Tensor]:
            every = mine if wire is None else wire.everyone(mine)
            return [every[part] for part in range(len(every))]

        return self._table.meet(self.part, x.detach(), act)  # type: ignore[return-value]

    def meet(self, deposit: T, act: Callable[[dict[int, T]], object] | None = None) -> object:
        return self._table.meet(self.part, deposit, act)

    @property
    def wire(self) -> Wire | None:
        return self._table.wire

    def shared_rows(self, rows: int, width: int, dtype: torch.dtype) -> Tensor:
        size = (rows, width, dtype)
        call = self._calls[size] = self._calls.get(size, -1) + 1
        return self._table.room(size, call % 2)


def run_parts(program: Callable[[int], T], held: Sequence[int], wire: Wire | None = None) -> dict[int, T]:
    """Run ``program`` for every part of this process, in threads that take turns; what each returns.

    The first error of a part stops all of them and is raised here.
    """
    if len(held) > 1:
        share_one_arena()
    import torch

    table, each = _Table(held, wire), torch.get_num_threads()
    results: dict[int, T] = {}

    def run(part: int) -> None:
        error: BaseException | None = None
        try:
            torch.set_num_threads(each)  # BLAS uses the setting of the calling thread, and a new thread has the default
            _CURRENT.set(_Part(table, part))
            table.begin(part)
            results[part] = program(part)
        except BaseException as caught:
            error = caught
        finally:
            table.leave(part, error)

    threads = [
        threading.Thread(target=copy_context().run, args=(run, part), name=f"part-{part}", daemon=True) for part in held
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # a second Ctrl-C: stop all parts, since no one waits for the result
        table.fail(error)
        raise
    if table.failed is not None:
        raise table.failed
    return results
