"""The wire over torch.distributed: several processes give what one process with the same parts gives, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.wire import shares
from graphsde.base.world import Wire, run_parts, world

PARTS = 4


def own(part: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """So many rows as no other part has; part 2 has none."""
    rows = 0 if part == 2 else 3 + 2 * part
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(part)).to(dtype)


def sent(part: int, to: int) -> Tensor:
    return own(part)[: (part + to) % 3]  # nothing at all for some pairs


def _exchange(every: dict[int, Mapping[int, Tensor]], wire: Wire | None) -> dict[int, list[Tensor]]:
    here = {(part, to): tensor for part, box in every.items() for to, tensor in box.items()}
    away = {pair: tensor for pair, tensor in here.items() if pair[1] not in every}
    rows = {(p, q): len(sent(p, q)) for p in range(PARTS) if p not in every for q in every}
    came = here if wire is None else here | wire.across(away, rows)
    return {part: [came[other, part] for other in range(PARTS) if other != part] for part in every}


def program(part: int) -> list[Tensor]:
    """Everything that parts can do with each other, in several types."""
    found = [world().sum(torch.randn(7, generator=torch.Generator().manual_seed(part)) * 10.0**part)]
    found.append(world().sum(torch.tensor(part + 0.1, dtype=torch.float64)))
    for size in (20_001, 9):  # one that is summed up in slices
        for dtype in (torch.float32, torch.float64, torch.int64):
            x = torch.randn(size, 3, generator=torch.Generator().manual_seed(part)) * 10.0 ** (4 - 2 * part)
            found.append(world().sum(x.to(dtype)))
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        found += world().gather(own(part, dtype))
    found += world().gather(torch.full((0, 3), 1.0))
    for _ in range(3):
        box = {to: sent(part, to) for to in range(PARTS) if to != part}
        exchanged = world().meet(box, lambda every: _exchange(every, world().wire))
        found += exchanged[part]  # type: ignore[index]
    return found


WORKER = """
import sys
import numpy as np, torch
from torch import distributed
from graphsde.base.wire import TorchWire, process_group
from graphsde.base.world import run_parts
from test_wire import PARTS, program
store, process, processes, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with process_group(distributed.FileStore(store, processes), process, processes):
    wire = TorchWire(PARTS)
    for part, found in run_parts(program, wire.held, wire).items():
        np.savez(f"{out}/{part}.npz", **{str(number): tensor.numpy() for number, tensor in enumerate(found)})
    print(wire.sent_bytes - wire.halo_bytes, wire.halo_bytes, wire.exchanges)
"""


def start(code: str, *words: object) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_give_the_bits_of_one(tmp_path: Path, processes: int) -> None:
    workers = [start(WORKER, tmp_path / "store", number, processes, tmp_path) for number in range(processes)]
    for number, worker in enumerate(workers):
        said, complaints = worker.communicate(timeout=600)
        assert worker.returncode == 0, complaints
        gathered, halo, exchanges = map(int, said.split())
        assert gathered > 0 and exchanges == 3
        held = shares(PARTS, processes)[number]
        away = [sent(part, to).numel() for part in held for to in range(PARTS) if to not in held]
        assert halo == 3 * 4 * sum(away)
    expected = run_parts(program, range(PARTS))
    for part, tensors in expected.items():
        with np.load(tmp_path / f"{part}.npz") as found:
            assert len(found.files) == len(tensors)
            for number, tensor in enumerate(tensors):
                assert found[str(number)].dtype == tensor.numpy().dtype
                assert np.array_equal(found[str(number)], tensor.numpy())


LOST = """
import os, signal, sys, torch
from torch import distributed
from graphsde.base.wire import ProcessLost, TorchWire, process_group
with process_group(distributed.FileStore(sys.argv[1], 2), int(sys.argv[2]), 2):
    wire = TorchWire(2)
    wire.everyone({wire.held[0]: torch.ones(3)})
    if wire.held[0] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            wire.everyone({0: torch.ones(3)})
    except ProcessLost as error:
        print(error)
"""


def test_a_process_that_dies_is_noticed(tmp_path: Path) -> None:
    stays, dies = (start(LOST, tmp_path / "store", number) for number in range(2))
    said, complaints = stays.communicate(timeout=600)
    dies.communicate(timeout=600)
    assert dies.returncode == -signal.SIGKILL
    assert stays.returncode == 0, complaints
    assert "E-WORKER" in said and "last checkpoint" in said


SOCKETS = """
import sys, psutil
from torch import distributed
from graphsde.base.wire import TorchWire, process_group
with process_group(distributed.FileStore(sys.argv[1], 2), int(sys.argv[2]), 2):
    distributed.barrier()
    print(*{one.laddr.ip for one in psutil.Process().net_connections("inet")})
    distributed.barrier()
"""


def test_sockets_are_on_loopback(tmp_path: Path) -> None:
    for worker in [start(SOCKETS, tmp_path / "store", number) for number in range(2)]:
        said, complaints = worker.communicate(timeout=600)
        assert worker.returncode == 0, complaints
        assert set(said.split()) == {"127.0.0.1"}


def test_shares_are_even_and_complete() -> None:
    for parts in range(1, 12):
        for processes in range(1, parts + 1):
            found = shares(parts, processes)
            assert [part for share in found for part in share] == list(range(parts))
            assert max(map(len, found)) - min(map(len, found)) <= 1
    with pytest.raises(BadUsage, match="E-PARTS"):
        shares(2, 3)
