"""What an epoch takes on a cluster: a simulation from measured figures, checked against measured workers.

    python benchmarks/traffic.py                # check, then epochs of a graph of 10⁹ entries by workers and network
    python benchmarks/traffic.py --loopback     # first measure what a message costs on this machine
    python benchmarks/traffic.py --nodes 1e8 --degree 10 --width 64 --steps 10 --gbit 25 --latency 5e-5 --like computers

Reads results/benchmarks/workers.json (scale.py --workers), results/scale/halos.jsonl (studies/halos.py) and
results/scale/loopback.json; writes results/scale/traffic.json.

An epoch of W workers, each with one part, takes

    compute        C / W · imbalance
    halo exchange  K · ((W - 1) · call + latency + bytes(W) · (copy + 1 / bandwidth)),  bytes(W) = rows · width · 4
    sums           G · (W - 1) · (call + latency): a ring
    gradients      2 · parameters · (copy + 1 / bandwidth)

with C the CPU seconds of an epoch in one process, K and G the exchanges and sums of an epoch, ``call`` and ``copy`` the
CPU seconds of one message and of one byte, and rows the halo of the largest part: at worst, every worker has something
to tell to every other at each step. Several paths are so many times the width.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
WORKERS, SCALE = ROOT / "results" / "benchmarks" / "workers.json", ROOT / "results" / "scale"
IMBALANCE = 1.05  # parts are of equal size, give or take 5 %
BASE_BYTES = 180e6  # of a process that has loaded torch and graphsde
WIDTH = 64  # of the paper's network as it was measured
HELPS = 1.25  # times faster with twice the workers, or they are not worth it
FACTOR = 2.0  # within which measured epochs must be predicted


@dataclass(frozen=True)
class Job:
    """A training, as one process sees it.

    Args:
        cpu_seconds: of an epoch in one process.
        nodes: of the graph.
        row_bytes: of one row in an exchange.
        exchanges: of an epoch.
        gathers: sums and other meetings of all, of an epoch.
        gradient_bytes: of all parameters.
        base_bytes: memory of a worker without any node.
        node_bytes: memory of a worker for every node of its own.
    """

    cpu_seconds: float
    nodes: float
    row_bytes: float
    exchanges: float
    gathers: float
    gradient_bytes: float = 0.0
    base_bytes: float = 0.0
    node_bytes: float = 0.0


@dataclass(frozen=True)
class Network:
    """What a message costs: CPU seconds a message and a byte, then the way between two machines."""

    call: float
    copy: float
    latency: float = 0.0
    bandwidth: float = math.inf  # bytes a second


def epoch(job: Job, network: Network, workers: int, halo_share: float) -> dict[str, float]:
    """Seconds of an epoch and what they are spent on; ``halo_share`` is the rows that all parts fetch, over the nodes.

    Example:
        >>> free = Network(call=0.0, copy=0.0)
        >>> round(epoch(Job(10.0, 1e6, 256, 20, 10), free, 4, 1.0)["seconds"], 3)  # 10 / 4 · 1.05
        2.625
    """
    compute = job.cpu_seconds * (IMBALANCE / workers if workers > 1 else 1.0)
    if workers == 1:
        return {"seconds": compute, "compute": compute, "halo": 0.0, "sums": 0.0, "halo_bytes": 0.0}
    per_byte = network.copy + 1.0 / network.bandwidth
    halo_bytes = IMBALANCE * halo_share * job.nodes / workers * job.row_bytes
    halo = job.exchanges * ((workers - 1) * network.call + network.latency + halo_bytes * per_byte)
    sums = job.gathers * (workers - 1) * (network.call + network.latency) + 2 * job.gradient_bytes * per_byte
    return {
        "seconds": compute + halo + sums, "compute": compute, "halo": halo, "sums": sums, "halo_bytes": halo_bytes,
    }  # fmt: skip


class Halos:
    """Measured halo shares of one graph, and their growth beyond the most parts that were measured."""

    def __init__(self, rows: list[dict[str, Any]], graph: str, method: str = "metis") -> None:
        chosen = [one for one in rows if one["graph"] == graph and one["method"] == method]
        self.known = {one["parts"]: one["halo"] / one["nodes"] for one in chosen}
        if len(self.known) < 2:
            raise SystemExit(f"{graph} by {method} is not in results/scale/halos.jsonl: python studies/halos.py")
        self.most = max(one["entries"] / one["nodes"] for one in chosen)

    def share(self, parts: int) -> float:
        """By a power of the parts between and beyond what was measured; nobody hears from more nodes than edges."""
        if parts == 1:
            return 0.0
        counts = sorted(self.known)
        above = next((count for count in counts if count >= parts), counts[-1])
        high = max(counts.index(above), 1)
        a, b = counts[high - 1], counts[high]
        power = math.log(self.known[b] / self.known[a]) / math.log(b / a)
        return min(self.known[b] * (parts / b) ** power, self.most)


def simulate(job: Job, network: Network, halos: Halos, counts: list[int]) -> list[dict[str, float]]:
    found = []
    for count in counts:
        share = halos.share(count)
        # own rows, and a table of those that were fetched
        memory = job.base_bytes + job.nodes / count * (job.node_bytes + share * job.row_bytes)
        one = epoch(job, network, count, share)
        busy = 8 * job.exchanges * one["halo_bytes"] / one["seconds"]
        found.append({"workers": count, **one, "halo_share": share, "memory_bytes": memory, "bits_per_second": busy})
    return found


def stops_helping(rows: list[dict[str, float]]) -> int | None:
    """The number of workers whose double is hardly faster; ``None`` where all of them are worth it.

    Example:
        >>> stops_helping([{"workers": 1, "seconds": 8.0}, {"workers": 2, "seconds": 7.0}])
        1
    """
    for few, many in itertools.pairwise(rows):
        if few["seconds"] < HELPS * many["seconds"]:
            return int(few["workers"])
    return None


def check(workers: dict[str, Any], network: Network) -> list[dict[str, Any]]:
    """The busiest worker's CPU seconds, predicted and measured: time on the wire is none of them, waiting neither."""
    rows = workers["rows"]
    found = []
    for one in [row for row in rows if row["workers"] == 1]:
        several = [
            row for row in rows if (row["graph"], row["model"]) == (one["graph"], one["model"]) and row["workers"] > 1
        ]
        for row in several:
            count = row["workers"]
            exchanged = row["halo_bytes_per_step"] / count  # of one worker
            job = Job(one["cpu_seconds"], count, exchanged / IMBALANCE, row["exchanges"], row["gathers"] / (count - 1))
            rest = row["sent_bytes_per_epoch"] - row["halo_bytes_per_step"] * row["exchanges"]
            predicted = epoch(job, network, count, 1.0)["seconds"] + rest / count * network.copy
            measured = row["largest_cpu_seconds"]
            found.append(
                {
                    "graph": row["graph"], "model": row["model"], "workers": count, "predicted": round(predicted, 4),
                    "measured": measured, "ratio": round(predicted / measured, 3),
                }
            )  # fmt: skip
    return found


LOOPBACK = """
import json, resource, sys, time, torch
from torch import distributed
from graphsde.base.wire import TorchWire, process_group
store, process = sys.argv[1], int(sys.argv[2])
def cost(what, times):
    what()
    begin, cpu, best = time.perf_counter(), time.process_time(), float("inf")
    for _ in range(times):
        one = time.perf_counter()
        what()
        best = min(best, time.perf_counter() - one)
    return {"wall": best, "cpu": (time.process_time() - cpu) / times}
with process_group(distributed.FileStore(store, 2), process, 2):
    wire = TorchWire(2)
    own, other = process, 1 - process
    def exchange(rows):
        box = torch.ones(rows, 64)
        return lambda: wire.across({(own, other): box}, {(other, own): rows})
    small, large = cost(exchange(1), 400), cost(exchange(LARGE // 256), 20)
    gather = cost(lambda: wire.total({own: torch.ones(1)}), 400)
print(json.dumps({"small": small, "large": large, "gather": gather}))
"""
LARGE = 1 << 24


def loopback() -> dict[str, Any]:
    """What messages between two processes of this machine cost."""
    with tempfile.TemporaryDirectory(prefix="graphsde-traffic-") as folder:
        code = LOOPBACK.replace("LARGE", str(LARGE))
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code, f"{folder}/store", str(number)], stdout=subprocess.PIPE, text=True
            )
            for number in range(2)
        ]
        found = [json.loads(one.communicate()[0].splitlines()[-1]) for one in started]
    mean = {
        name: {kind: statistics.fmean(one[name][kind] for one in found) for kind in ("cpu", "wall")}
        for name in ("small", "large", "gather")
    }
    return {
        "call_seconds": mean["small"]["cpu"],
        "copy_seconds_per_byte": max(mean["large"]["cpu"] - mean["small"]["cpu"], 0.0) / LARGE,
        "gather_seconds": mean["gather"]["cpu"],
        "loopback_latency": mean["small"]["wall"],
        "loopback_bytes_per_second": LARGE / mean["large"]["wall"],
        "measured": time.strftime("%Y-%m-%d"),
    }


def read(path: Path) -> Any:
    if not path.is_file():
        raise SystemExit(f"{path.relative_to(ROOT)} is not there")
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def large_job(workers: dict[str, Any], nodes: float, degree: float, width: int, paths: int) -> Job:
    """The paper's network on a larger graph: time by entries and width, from the largest graph that was measured."""
    rows = [row for row in workers["rows"] if row["model"] == "paper" and row["workers"] > 0]
    largest = max(row["nodes"] for row in rows)
    alone, *_, most = sorted((row for row in rows if row["nodes"] == largest), key=lambda row: row["workers"])
    growth = (nodes * (degree + 1) * width) / ((most["entries"] + most["nodes"]) * WIDTH)
    return Job(
        cpu_seconds=alone["cpu_seconds"] * growth * paths,
        nodes=nodes,
        row_bytes=4.0 * width * paths,
        exchanges=most["exchanges"],
        gathers=most["gathers"],
        gradient_bytes=4.0 * WIDTH * width,
        base_bytes=BASE_BYTES,
        node_bytes=max(most["anonymous_bytes"] - BASE_BYTES, 0) / (most["nodes"] / most["workers"]) * width / WIDTH,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loopback", action="store_true", help="measure messages on this machine first")
    parser.add_argument("--nodes", type=float, default=1e8)
    parser.add_argument("--degree", type=float, default=10.0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--paths", type=int, default=1)
    parser.add_argument("--gbit", type=float, nargs="+", default=[10.0, 25.0, 100.0])
    parser.add_argument("--latency", type=float, default=5e-5, help="seconds from machine to machine")
    parser.add_argument("--like", nargs="+", default=["minesweeper", "coauthor-physics", "synthetic:1000000"])
    given = parser.parse_args()
    if given.loopback:
        SCALE.mkdir(parents=True, exist_ok=True)
        (SCALE / "loopback.json").write_text(json.dumps(loopback(), indent=1) + "\n", encoding="utf-8")
    here, workers, halos = read(SCALE / "loopback.json"), read(WORKERS), read(SCALE / "halos.jsonl")
    own = Network(here["call_seconds"], here["copy_seconds_per_byte"])
    checked = check(workers, own)
    print("| graph | model | workers | predicted CPU s | measured | ratio |\n|---|---|---|---|---|---|")
    for row in checked:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    job = large_job(workers, given.nodes, given.degree, given.width, given.paths)
    counts = [2**power for power in range(11)]
    tables = []
    for graph in given.like:
        for gbit in given.gbit:
            network = Network(own.call, own.copy, given.latency, gbit * 1e9 / 8)
            rows = simulate(job, network, Halos(halos, graph), counts)
            tables.append({"like": graph, "gbit": gbit, "stops_helping": stops_helping(rows), "rows": rows})
    print(f"\n{given.nodes:.0e} nodes, {given.nodes * given.degree:.0e} entries, d = {given.width}: seconds an epoch")
    print("| halos like | Gbit/s | " + " | ".join(f"W = {count}" for count in counts) + " | stops helping |")
    print("|---|---|" + "---|" * (len(counts) + 1))
    for one in tables:
        cells = [f"{row['seconds']:.3g}" for row in one["rows"]]
        print(f"| {one['like']} | {one['gbit']:g} | " + " | ".join(cells) + f" | {one['stops_helping'] or '–'} |")
    result = {"check": checked, "factor": FACTOR, "job": vars(job), "latency": given.latency, "tables": tables}
    (SCALE / "traffic.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    worst = max((max(row["ratio"], 1 / row["ratio"]) for row in checked), default=1.0)
    sys.exit(0 if worst <= FACTOR else f"a measured epoch is off by a factor of {worst:.2f}")


if __name__ == "__main__":
    main()
