"""Time of a training epoch and of a prediction against torchsde and PyG, in one process, as ratios.

    python benchmarks/solver.py [--json] [--quick] [--graph cora]

One thread, contenders in turns, medians of CPU time; the first round is thrown away. The workload is the latent SDE of
the paper on Cora: sparse encoder to width d, two graph convolutions with time as drift, OU prior, σ = 1, path KL,
linear decoder, Adam; L steps.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import torch
from _floor import products_of_an_epoch
from _peers import PlainGCN, ReferenceSDE, TorchsdeEulerCSR
from _timing import Times, speedup, take_turns
from _workload import LatentSDE, Task, epochs_of, make_task
from memory import checkpoint_peak_ratio

SHAPES = {"d64_L10": (64, 10), "d16_L100": (16, 100), "d256_L10": (256, 10)}
GOALS = {
    "epoch_speedup_vs_torchsde.d64_L10": (">=", 8.0),
    "epoch_speedup_vs_torchsde.d16_L100": (">=", 17.0),
    "epoch_speedup_vs_torchsde.d256_L10": (">=", 7.0),
    "euler_like_for_like": (">=", 2.5),
    "predict32_speedup": (">=", 8.0),
    "epoch_over_gcn": ("<=", 4.0),
    "epoch_over_floor": ("<=", 3.0),
    "peak_ratio_L100_L10": ("<=", 1.5),
    "checkpoint_time_ratio": ("<=", 1.8),
    "threads2_speedup": (">=", 1.5),
}


def epoch_of(model: Any) -> Any:
    return epochs_of(model, model.loss)


def spread(times: dict[str, Times]) -> dict[str, Any]:
    return {name: value.as_dict() for name, value in times.items()}


def measure(task: Task, rounds: int, *, quick: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    seconds: dict[str, Any] = {}
    speedups = {}
    for name, (width, steps) in SHAPES.items():
        steps = min(steps, 5) if quick else steps
        times = take_turns(
            {
                "ours": epoch_of(LatentSDE(task, width, steps)),
                "torchsde": epoch_of(ReferenceSDE(task, width, steps)),
            },
            rounds if steps < 100 else max(2, rounds // 2),
        )
        seconds[name] = spread(times)
        speedups[name] = speedup(times["torchsde"], times["ours"])

    width, steps = (64, 5) if quick else (64, 10)
    times = take_turns(
        {
            "ours": epoch_of(LatentSDE(task, width, steps)),
            "ours, euler": epoch_of(LatentSDE(task, width, steps, solver="euler")),
            "torchsde, euler, CSR": epoch_of(TorchsdeEulerCSR(task, width, steps, dense=False)),
            "ours, checkpoint": epoch_of(LatentSDE(task, width, steps, gradients="checkpoint")),
            "PyG GCN": epoch_of(PlainGCN(task, width)),
            "products alone": products_of_an_epoch(task, width, steps),
        },
        rounds,
    )
    seconds["d64_L10, more"] = spread(times)

    samples = 4 if quick else 32
    ours, theirs = LatentSDE(task, width, steps), ReferenceSDE(task, width, steps)
    predictions = take_turns(
        {"ours": lambda: ours.predict(samples), "torchsde": lambda: theirs.predict(samples)}, max(2, rounds // 2)
    )
    seconds[f"predict{samples}"] = spread(predictions)
    return {
        "epoch_speedup_vs_torchsde": speedups,
        "euler_like_for_like": speedup(times["torchsde, euler, CSR"], times["ours, euler"]),
        "predict32_speedup": speedup(predictions["torchsde"], predictions["ours"]),
        "epoch_over_gcn": speedup(times["ours"], times["PyG GCN"]),
        "epoch_over_floor": speedup(times["ours"], times["products alone"]),
        "checkpoint_time_ratio": speedup(times["ours, checkpoint"], times["ours"]),
        "threads2_speedup": two_threads(task, rounds, quick=quick),
        "seconds": seconds,
    }


def two_threads(task: Task, rounds: int, *, quick: bool) -> float:
    """Wall-clock time of an epoch at d = 256 on one thread over that on two."""
    model = LatentSDE(task, 64 if quick else 256, 5 if quick else 10)
    epoch = epoch_of(model)

    def on(threads: int) -> Any:
        def run() -> None:
            torch.set_num_threads(threads)
            epoch()

        return run

    times = take_turns({"one": on(1), "two": on(2)}, rounds, clock=time.perf_counter)
    torch.set_num_threads(1)
    return speedup(times["one"], times["two"])


def print_table(result: dict[str, Any]) -> None:
    print(f"{result['graph']}, {result['n']} rounds, {result['machine']}\n")
    print("| figure | goal | reached | |\n|---|---|---|---|")
    for name, (sign, goal) in GOALS.items():
        key, _, inner = name.partition(".")
        value = result[key][inner] if inner else result[key]
        met = value >= goal if sign == ">=" else value <= goal
        print(f"| {name} | {sign} {goal} | {value:.2f} | {'met' if met else 'missed'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--quick", action="store_true", help="a trial of seconds; its figures mean nothing")
    parser.add_argument("--graph", default="cora")
    options = parser.parse_args()

    graph = "tiny" if options.quick else options.graph
    task = make_task(graph)
    rounds = 2 if options.quick else 7
    result = {
        "graph": task.name,
        "n": rounds,
        "machine": {"processors": os.cpu_count(), "torch": torch.__version__},
        **measure(task, rounds, quick=options.quick),
        "peak_ratio_L100_L10": checkpoint_peak_ratio(graph),
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
