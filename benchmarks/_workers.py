"""One model in parts, trained by one, two and four processes, beside the whole graph in one: time, traffic, memory.

``scale.py --workers`` asks for it. Processes find each other through a file and talk over loopback, as those of
torchrun do; what Ray Train adds is a start of some seconds. Every process has one thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from _usage import resident

PARTS = 4
WORKERS = (1, 2, 4)
EPOCHS = 4  # of which the first makes what is made once, and the last is not seen to end
DATA = Path(os.environ.get("GRAPHSDE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FILES = {"coauthor-physics": DATA / "more" / "ms_academic_phy.npz"}


@dataclass(frozen=True)
class Case:
    """A model on a graph."""

    graph: str
    model: str  # default or paper

    def settings(self) -> dict[str, Any]:
        common: dict[str, Any] = {"race": False, "early_stop": False, "epochs": EPOCHS}
        return common | {"preset": "auto" if self.model == "default" else "paper"}


CASES = [
    Case("coauthor-physics", "default"),
    Case("coauthor-physics", "paper"),
    Case("synthetic:100000", "default"),
    Case("synthetic:100000", "paper"),
]
QUICK = [Case("synthetic:400", "default")]


def graph_of(case: Case) -> Any:
    from graphsde.datasets.source import GraphSource

    return GraphSource.typed(str(FILES.get(case.graph, case.graph))).open()[0]


class Ticks:
    """Looks at the clock wherever a part asks whether to stop, which all do after every epoch but the last."""

    def __init__(self, reads: int) -> None:
        self._reads, self._count = reads, 0
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.memory: list[int] = []

    @property
    def received(self) -> None:
        self._count += 1
        if self._count % self._reads == 0:
            self.wall.append(time.perf_counter())
            self.cpu.append(time.process_time())
            self.memory.append(resident("RssAnon"))

    def figures(self) -> dict[str, Any]:
        return {
            "epoch_seconds": statistics.median(b - a for a, b in zip(self.wall, self.wall[1:], strict=False)),
            "cpu_seconds": statistics.median(b - a for a, b in zip(self.cpu, self.cpu[1:], strict=False)),
            "anonymous_bytes": max(self.memory),
            "peak_bytes": resident("VmHWM"),
        }


READS_PER_EPOCH = 2  # see graphsde.nn.training.Training.complete


def whole(case: Case) -> dict[str, Any]:
    import graphsde as gs

    ticks = Ticks(READS_PER_EPOCH)
    gs.LGNSDE(**case.settings()).fit(graph_of(case), interrupt=ticks)  # type: ignore[arg-type]
    return ticks.figures()


def prepared(case: Case, folder: Path) -> dict[str, Any]:
    """Write the parts; how large they and their halos are."""
    import graphsde as gs
    from graphsde.graph.halo import Layout
    from graphsde.models.partitioned import Job, prepare

    graph = graph_of(case)
    model = gs.LGNSDE(**case.settings(), way="partitioned", parts=PARTS)
    prepare(model, graph, folder, PARTS)
    layout: Layout = Job(folder).layout
    part = layout.places() * 0
    for number in range(PARTS):
        part[layout.own(number)] = number
    sizes = gs.halo_sizes(graph.adjacency, part)
    return {
        "nodes": graph.num_nodes,
        "entries": graph.num_edges,
        "halo_share": round(sum(one.halo for one in sizes) / graph.num_nodes, 4),
        "cut_share": round(sum(one.cut for one in sizes) / graph.num_edges, 4),
    }


def worker(folder: Path, store: str, process: int, processes: int) -> dict[str, Any]:
    from torch import distributed

    from graphsde.base.wire import TorchWire, process_group
    from graphsde.models.partitioned import work

    with contextlib.ExitStack() as stack:
        wire = None  # one process has all parts, which take turns
        if processes > 1:
            stack.enter_context(process_group(distributed.FileStore(store, processes), process, processes))
            wire = TorchWire(PARTS)
        held = range(PARTS) if wire is None else wire.held
        ticks = Ticks(READS_PER_EPOCH * len(held))
        fitted = work(folder, held, wire, interrupt=ticks)  # type: ignore[arg-type]
        traffic = {
            name: getattr(wire, name, 0) / EPOCHS for name in ("sent_bytes", "halo_bytes", "exchanges", "gathers")
        }
        found = ticks.figures() | traffic
    if fitted is not None:
        assert fitted.module is not None
        digest = hashlib.sha256()
        for tensor in fitted.module.state_dict().values():
            digest.update(tensor.numpy().tobytes())
        found["parameters"] = digest.hexdigest()[:16]
    return found


def child(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answers(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    found = []
    for process in processes:
        said, complaints = process.communicate()
        if process.returncode:
            raise SystemExit(complaints)
        found.append(json.loads(said.splitlines()[-1]))
    return found


def measure(cases: list[Case]) -> dict[str, Any]:
    rows = []
    for case in cases:
        (alone,) = answers([child("whole", json.dumps(asdict(case)))])
        row = {**asdict(case), "workers": 0, **_rounded(alone)}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="graphsde-workers-") as temporary:
            folder = Path(temporary)
            (facts,) = answers([child("prepare", json.dumps(asdict(case)), folder / "job")])
            for count in WORKERS:
                store = folder / f"store-{count}"
                found = answers([child("work", folder / "job", store, number, count) for number in range(count)])
                row = {**asdict(case), "workers": count, **facts, **_rounded(_together(found))}
                rows.append(row)
                print(row, file=sys.stderr, flush=True)
    return {"parts": PARTS, "rows": rows}


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """An epoch lasts as long as its slowest worker takes; memory is that of the largest."""
    exchanges = max(one["exchanges"] for one in found)
    return {
        **{name: max(one[name] for one in found) for name in ("epoch_seconds", "anonymous_bytes", "peak_bytes")},
        "cpu_seconds": sum(one["cpu_seconds"] for one in found),
        "largest_cpu_seconds": max(one["cpu_seconds"] for one in found),
        "exchanges": exchanges,
        "gathers": max(one["gathers"] for one in found),
        "halo_bytes_per_step": sum(one["halo_bytes"] for one in found) / max(exchanges, 1),
        "sent_bytes_per_epoch": sum(one["sent_bytes"] for one in found),
        "parameters": found[0]["parameters"],
    }


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()}


def print_table(result: dict[str, Any]) -> None:
    print(f"{result['parts']} parts; 0 workers: the whole graph in one process")
    print("| graph | model | workers | epoch s | CPU s of all | halo MB a step | sent MB an epoch | anonymous MB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in result["rows"]:
        halo, sent = row.get("halo_bytes_per_step", 0) / 1e6, row.get("sent_bytes_per_epoch", 0) / 1e6
        figures = [f"{row['epoch_seconds']:.3f}", f"{row['cpu_seconds']:.3f}", f"{halo:.2f}", f"{sent:.1f}"]
        memory = f"{row['anonymous_bytes'] / 1e6:.0f}"
        print("| " + " | ".join([row["graph"], row["model"], str(row["workers"]), *figures, memory]) + " |")


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "whole":
        found = whole(Case(**json.loads(words[0])))
    elif what == "prepare":
        found = prepared(Case(**json.loads(words[0])), Path(words[1]))
    else:
        found = worker(Path(words[0]), words[1], int(words[2]), int(words[3]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
