"""The parts of several processes joined by torch.distributed: gloo between processors, nccl between cards."""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from graphsde.base.errors import BadUsage, GraphsdeError, shorten

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE = timedelta(hours=2)
"""A process that sends nothing for this long counts as lost; one that dies is noticed at once."""


SMALL_BYTES = 1 << 15
"""Of a tensor that is summed up by all processes rather than slice by slice: then a message less counts for more."""


class ProcessLost(GraphsdeError):
    """Another process of the same computation is gone, so this one can't continue."""

    default_code = "E-WORKER"


def shares(parts: int, processes: int) -> list[range]:
    """The parts of each process: consecutive numbers, shared out as evenly as possible.

    Example:
        >>> shares(5, 2)
        [range(0, 3), range(3, 5)]
    """
    if not 1 <= processes <= parts:
        raise BadUsage(
            f"{parts} parts are too few for {processes} workers",
            code="E-PARTS",
            expected="at least one part for every worker",
            fix=f"use at most {parts} workers, or --set parts={processes}",
        )
    first = [-(-parts * process // processes) for process in range(processes + 1)]
    return [range(first[process], first[process + 1]) for process in range(processes)]


class TorchWire:
    """A :class:`~graphsde.base.world.Wire` over the processes of a torch.distributed group.

    Everything is sent as bytes in the order of the parts and nothing is summed on the way, so results do not depend
    on which process holds which part.

    Args:
        parts: of all processes together.
        group: of torch.distributed; the one of :func:`process_group` by default.
    """

    def __init__(self, parts: int, group: Any = None) -> None:
        import torch
        from torch import distributed

        self.parts, self._group = parts, group
        self._process, processes = distributed.get_rank(group), distributed.get_world_size(group)
        self._shares = shares(parts, processes)
        self._holder = {part: process for process, share in enumerate(self._shares) for part in share}
        self.held: Sequence[int] = self._shares[self._process]
        cards = distributed.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if cards else torch.device("cpu")
        self.sent_bytes = self.halo_bytes = self.exchanges = self.gathers = 0
        """So far: bytes to other processes, those of them that went from part to part; how many exchanges between
        parts, how many among all."""

    def everyone(self, mine: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """See :class:`~graphsde.base.world.Wire`."""
        import torch

        tensors = [mine[part] for part in self.held]
        like = tensors[0]
        rows = self._rows(tensors) if like.dim() else [1] * self.parts
        row_bytes = _row_bytes(like)
        sizes = [sum(rows[part] for part in share) * row_bytes for share in self._shares]
        # one size for all, as the collective wants it
        sent = torch.zeros(max(sizes), dtype=torch.uint8, device=self._device)
        sent[: sizes[self._process]] = _bytes(tensors).to(self._device)
        received = self._all_gather(sent) if len(sent) else [sent] * len(sizes)
        every = dict(zip(self.held, tensors, strict=True))
        for process, share in enumerate(self._shares):
            if process != self._process:
                begin = 0
                for part in share:
                    end = begin + rows[part] * row_bytes
                    every[part] = _tensor(received[process][begin:end], like, (rows[part], *like.shape[1:]))
                    begin = end
        return every

    def total(self, mine: Mapping[int, Tensor]) -> Tensor:
        """See :class:`~graphsde.base.world.Wire`.

        Of a large tensor every process sums up one slice for all: what it sends does not grow with their number.
        """
        import torch
        from torch import distributed

        like, processes = mine[self.held[0]], len(self._shares)
        sent = torch.stack([mine[part].detach().reshape(-1) for part in self.held]).to(self._device)  # [held, n]
        if sent[0].nbytes <= SMALL_BYTES:
            most = max(len(share) for share in self._shares)
            received = self._all_gather(_padded(sent, most, dim=0))
            every = torch.cat([rows[: len(share)] for rows, share in zip(received, self._shares, strict=True)])
            return _in_order(every).reshape(like.shape).to(like.device)
        slices = _padded(sent, -(-sent.shape[1] // processes) * processes, dim=1).reshape(len(sent), processes, -1)
        outbox = slices.transpose(0, 1).contiguous()  # [processes, held, n / processes]
        inbox = outbox.new_empty(self.parts, slices.shape[2])
        with _others_may_be_lost():
            distributed.all_to_all_single(
                inbox.view(-1),
                outbox.view(-1),
                [len(share) * slices.shape[2] for share in self._shares],
                [slices[:, 0].numel()] * processes,
                group=self._group,
            )
        self.sent_bytes += outbox[1:].nbytes
        self.gathers += 1
        summed = torch.cat(self._all_gather(_in_order(inbox)))
        return summed[: sent.shape[1]].reshape(like.shape).to(like.device)

    def across(
        self, mine: Mapping[tuple[int, int], Tensor], rows: Mapping[tuple[int, int], int]
    ) -> dict[tuple[int, int], Tensor]:
        """See :class:`~graphsde.base.world.Wire`: one message to every process that is sent anything."""
        import torch
        from torch import distributed

        self.exchanges += 1
        if not mine:
            return {}
        like = next(iter(mine.values()))
        row_bytes = _row_bytes(like)
        operations, inbox, outbox = [], {}, []
        for process, pairs in self._by_process((pair for pair in rows if rows[pair]), end=0).items():
            box = torch.empty(sum(rows[pair] for pair in pairs) * row_bytes, dtype=torch.uint8, device=self._device)
            inbox[process] = (pairs, box)
            operations.append(distributed.P2POp(distributed.irecv, box, process, self._group))
        for process, pairs in self._by_process((pair for pair in mine if len(mine[pair])), end=1).items():
            box = _bytes([mine[pair] for pair in pairs]).to(self._device)
            outbox.append(box)  # it must live until it is sent
            operations.append(distributed.P2POp(distributed.isend, box, process, self._group))
            self.sent_bytes += box.numel()
            self.halo_bytes += box.numel()
        if operations:
            with _others_may_be_lost():
                for waiting in distributed.batch_isend_irecv(operations):
                    waiting.wait()
        found = {}
        for pairs, box in inbox.values():
            begin = 0
            for pair in pairs:
                end = begin + rows[pair] * row_bytes
                found[pair] = _tensor(box[begin:end], like, (rows[pair], *like.shape[1:]))
                begin = end
        nothing = {pair: like.new_empty(0, *like.shape[1:]) for pair in rows if not rows[pair]}
        return found | nothing

    def _rows(self, tensors: list[Tensor]) -> list[int]:
        """How many rows each part has brought."""
        import torch

        most = max(len(share) for share in self._shares)
        counts = torch.zeros(most, dtype=torch.int64, device=self._device)
        counts[: len(tensors)] = torch.tensor([len(tensor) for tensor in tensors])
        told = [every.tolist() for every in self._all_gather(counts)]
        return [count for share, every in zip(self._shares, told, strict=True) for count in every[: len(share)]]

    def _all_gather(self, sent: Tensor) -> list[Tensor]:
        import torch
        from torch import distributed

        received = [torch.empty_like(sent) for _ in self._shares]
        self.gathers += 1
        with _others_may_be_lost():
            distributed.all_gather(received, sent, group=self._group)
        self.sent_bytes += sent.numel() * sent.element_size() * (len(self._shares) - 1)
        return received

    def _by_process(self, pairs: Iterable[tuple[int, int]], *, end: int) -> dict[int, list[tuple[int, int]]]:
        """Pairs of parts by the process that holds the one at the ``end``, in an order that both sides know."""
        found: dict[int, list[tuple[int, int]]] = {}
        for pair in sorted(pairs):
            found.setdefault(self._holder[pair[end]], []).append(pair)
        return found


@contextlib.contextmanager
def process_group(
    store: Any, process: int, processes: int, *, cards: bool = False, local: bool = True
) -> Iterator[None]:
    """The default group of torch.distributed, for as long as the block lasts.

    Args:
        store: of torch.distributed, where the processes find each other.
        process: the number of this one, from 0.
        processes: how many there are.
        cards: whether tensors travel between cards (nccl), not between processors (gloo).
        local: all are on this machine, and their sockets can't be reached from outside.
    """
    from torch import distributed

    with _loopback_only() if local else contextlib.nullcontext(), _others_may_be_lost():
        distributed.init_process_group(
            "nccl" if cards else "gloo", store=store, rank=process, world_size=processes, timeout=PATIENCE
        )
    try:
        yield
    finally:
        distributed.destroy_process_group()


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """By default gloo and nccl listen on whatever interface the host name resolves to."""
    names = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    settings = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), names[0]) if names else {}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _others_may_be_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch has no error of its own for this
        raise ProcessLost(
            f"lost the connection to another worker: {shorten(str(error).splitlines()[0])}",
            fix="run the same command again to resume from the last checkpoint",
        ) from error


def _in_order(rows: Tensor) -> Tensor:
    """Their sum, one after the other: torch's own may add in any order.  # [P, n] -> [n]"""
    found = rows[0].clone()
    for row in rows[1:]:
        found += row
    return found


def _padded(x: Tensor, size: int, *, dim: int) -> Tensor:
    """With zeros at the end."""
    import torch

    missing = size - x.shape[dim]
    return x if not missing else torch.cat([x, x.new_zeros(*x.shape[:dim], missing, *x.shape[dim + 1 :])], dim)


def _bytes(tensors: Sequence[Tensor]) -> Tensor:
    """All of them, one after the other."""
    import torch

    flat = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def _tensor(found: Tensor, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """What :func:`_bytes` was made of."""
    aligned = found if found.storage_offset() % like.element_size() == 0 else found.clone()
    return aligned.view(like.dtype).reshape(shape if like.dim() else ()).to(like.device)


def _row_bytes(tensor: Tensor) -> int:
    return tensor.element_size() * math.prod(tensor.shape[1:])
