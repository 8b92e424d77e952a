"""Time of training and prediction with a latent SDE against the libraries that one would reach for today.

    python benchmarks/solver.py [--json] [--quick] [--out DIR] [--adjoint | --threads] [--no-kernels] [--graph cora]

Cora, sparse encoder to width d, two graph convolutions with time as drift, Ornstein-Uhlenbeck prior, constant σ, path
KL, linear decoder, Adam; L steps; one epoch = forward, backward and optimiser step. One process, one thread, contenders
in turns, medians of CPU time, the first round thrown away. Both sides take exactly L steps. The noise is drawn by the
compiled loops of the extra "kernels" where that is installed, as in any longer training, unless --no-kernels is given.
Two measure other things: --adjoint epochs with the gradient written out by hand and without, in turns in one process;
--threads two threads against one, by the wall clock, the best run of each, on a machine where nothing else runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, get_args

import torch
from _floor import products_of_an_epoch
from _machine import kernels_at_hand, variant, without_kernels
from _peers import PlainGCN, ReferenceSDE, TorchsdeEuler, TorchsdeEulerCSR
from _report import answer, arguments, verdict
from _timing import Times, speedup, take_turns
from _workload import LatentSDE, Task, Written, epochs_of, make_task
from memory import checkpoint_peak_ratio
from torch import nn

ROUNDS, PREDICTION_ROUNDS = 5, 3
SAMPLES = 32
EULER_SIZES = ("d64_L10", "d16_L100")
GOALS: dict[str, tuple[str, float]] = {
    "epoch_speedup_vs_torchsde d64_L10": ("at least", 8.0),
    "epoch_speedup_vs_torchsde d16_L100": ("at least", 17.0),
    "epoch_speedup_vs_torchsde d256_L10": ("at least", 7.0),
    "euler_like_for_like": ("at least", 2.5),
    "predict32_speedup": ("at least", 8.0),
    "epoch_over_gcn": ("at most", 4.0),
    "epoch_over_floor": ("at most", 3.0),
    "peak_ratio_L100_L10": ("at most", 1.5),
    "checkpoint_time_ratio": ("at most", 1.8),
}


def training(model: Any) -> Callable[[], None]:
    assert isinstance(model, nn.Module)
    return epochs_of(model, model.loss)


def time_epochs(task: Task, rounds: int) -> dict[str, Times]:
    """d = 64, L = 10 with all contenders, the other sizes with fewer; Euler also at d = 16, L = 100."""
    found = take_turns(
        {
            "ours d64_L10": training(LatentSDE(task, 64, 10)),
            "torchsde d64_L10": training(ReferenceSDE(task, 64, 10)),
            "floor d64_L10": products_of_an_epoch(task, 64, 10),
            "gcn": training(PlainGCN(task, 64)),
            **euler_like_for_like(task, 64, 10),
            "torchsde euler, our drift": training(TorchsdeEuler(task, 64, 10)),
        },
        rounds,
    )
    for width, steps in ((16, 100), (256, 10)):
        size = f"d{width}_L{steps}"
        contenders = {
            f"ours {size}": training(LatentSDE(task, width, steps)),
            f"torchsde {size}": training(ReferenceSDE(task, width, steps)),
            f"floor {size}": products_of_an_epoch(task, width, steps),
        }
        if size in EULER_SIZES:
            contenders |= euler_like_for_like(task, width, steps)
        found |= take_turns(contenders, rounds)
    return found


def euler_like_for_like(task: Task, width: int, steps: int) -> dict[str, Callable[[], None]]:
    """Ours and torchsde's Euler method with the same sparse encoder on the same CSR operator."""
    size = f"d{width}_L{steps}"
    return {
        f"ours euler {size}": training(LatentSDE(task, width, steps, solver="euler")),
        f"torchsde euler, CSR {size}": training(TorchsdeEulerCSR(task, width, steps)),
    }


def time_checkpoints(task: Task, rounds: int) -> dict[str, Times]:
    return take_turns(
        {
            f"{kind} d64_L100": training(LatentSDE(task, 64, 100, gradients=kind))  # type: ignore[arg-type]
            for kind in ("store", "checkpoint")
        },
        rounds,
    )


def time_predictions(task: Task, rounds: int, samples: int) -> dict[str, Times]:
    ours, reference = LatentSDE(task, 64, 10), ReferenceSDE(task, 64, 10)
    for model in (ours, reference):
        model.predict(1)
    timed = {"ours predict32": lambda: ours.predict(samples), "torchsde predict32": lambda: reference.predict(samples)}
    # one prediction is long enough to be its own warm-up but for the first, which was a short one
    return take_turns(timed, rounds, skip=0)


def time_threads(task: Task, rounds: int) -> dict[str, Times]:
    epoch = training(LatentSDE(task, 256, 10 if rounds else 1))

    def with_threads(count: int) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(count)
            epoch()

        return run

    try:
        return take_turns(
            {"ours d256_L10 one thread": with_threads(1), "ours d256_L10 two threads": with_threads(2)},
            2 * rounds,
            clock=time.perf_counter,
        )
    finally:
        torch.set_num_threads(1)


def run_threads(graph: str, *, quick: bool, kernels: bool) -> dict[str, Any]:
    compiled = kernels and kernels_at_hand()
    rounds = 0 if quick else ROUNDS
    times = time_threads(make_task("tiny" if quick else graph), rounds)
    one, two = (min(times[f"ours d256_L10 {word}"].seconds) for word in ("one thread", "two threads"))
    return {
        "threads2_speedup": round(one / two, 3),
        "seconds": {name: found.as_dict() for name, found in times.items()},
        "n": 2 * rounds or 1,
        "kernels": compiled,
    }


def print_threads(result: dict[str, Any]) -> None:
    reached = result["threads2_speedup"]
    print(f"one thread over two, d = 256: {reached:.2f} (at least 1.5: {verdict(reached, 'at least', 1.5)})")


ADJOINT: dict[str, tuple[int, int, dict[str, Any]]] = {
    "sra1 d64_L10": (64, 10, {}),
    "sra1 d16_L100": (16, 100, {}),
    "sra1 d256_L10": (256, 10, {}),
    "euler d64_L10": (64, 10, {"solver": "euler"}),
    "euler d16_L100": (16, 100, {"solver": "euler"}),
    "checkpoint d64_L100": (64, 100, {"gradients": "checkpoint"}),
}


def run_adjoint(graph: str, *, quick: bool, kernels: bool) -> dict[str, Any]:
    """What writing the gradient out by hand is worth: time without over time with it."""
    torch.set_num_threads(1)
    compiled = kernels and kernels_at_hand()
    task = make_task("tiny" if quick else graph)
    times: dict[str, Times] = {}
    ratios: dict[str, dict[str, float]] = {}
    for name, (width, steps, options) in ADJOINT.items():
        contenders = {
            f"{name}, {written} written": training(LatentSDE(task, width, steps, written=written, **options))
            for written in get_args(Written)
        }
        times |= take_turns(contenders, 0 if quick else ROUNDS)
        whole, *less = (times[contender] for contender in contenders)
        ratios[name] = dict(zip(get_args(Written)[1:], (speedup(one, whole) for one in less), strict=True))
    return {
        "adjoint": ratios,
        "seconds": {name: one.as_dict() for name, one in times.items()},
        "n": 1 if quick else ROUNDS,
        "kernels": compiled,
        "graph": task.name,
    }


def print_adjoint(result: dict[str, Any]) -> None:
    print(f"{result['graph']}; n = {result['n']}\n")
    print("| epoch | ms | drift alone written, over that | nothing written, over that |\n|---|---|---|---|")
    for name, ratio in result["adjoint"].items():
        milliseconds = 1e3 * result["seconds"][f"{name}, solve written"]["median"]
        print(f"| {name} | {milliseconds:.1f} | {ratio['drift']:.2f} | {ratio['nothing']:.2f} |")


def run(graph: str, *, quick: bool, kernels: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    compiled = kernels and kernels_at_hand()
    rounds, prediction_rounds = (0, 0) if quick else (ROUNDS, PREDICTION_ROUNDS)
    graph = "tiny" if quick else graph
    task = make_task(graph)
    times = time_epochs(task, rounds)
    times |= time_predictions(task, prediction_rounds, 2 if quick else SAMPLES)
    times |= time_checkpoints(task, rounds)
    sizes = ("d64_L10", "d16_L100", "d256_L10")
    speedups = {size: speedup(times[f"torchsde {size}"], times[f"ours {size}"]) for size in sizes}
    euler = {size: speedup(times[f"torchsde euler, CSR {size}"], times[f"ours euler {size}"]) for size in EULER_SIZES}
    return {
        "epoch_speedup_vs_torchsde": speedups,
        "euler_like_for_like": euler["d64_L10"],
        "euler_like_for_like_by_size": euler,
        "euler_with_our_drift": speedup(times["torchsde euler, our drift"], times["ours euler d64_L10"]),
        "predict32_speedup": speedup(times["torchsde predict32"], times["ours predict32"]),
        "epoch_over_gcn": speedup(times["ours d64_L10"], times["gcn"]),
        "epoch_over_floor": speedup(times["ours d64_L10"], times["floor d64_L10"]),
        "floor_ratios": {size: speedup(times[f"ours {size}"], times[f"floor {size}"]) for size in sizes},
        "peak_ratio_L100_L10": checkpoint_peak_ratio(graph),
        "checkpoint_time_ratio": speedup(times["checkpoint d64_L100"], times["store d64_L100"]),
        "seconds": {name: one.as_dict() for name, one in times.items()},
        "n": {"epochs": rounds or 1, "predict32": prediction_rounds or 1, "memory": 1},
        "kernels": compiled,
        "graph": task.name,
    }


def print_table(result: dict[str, Any]) -> None:
    print(f"{result['graph']}; n = {result['n']}")
    print(f"compiled noise: {'yes' if result['kernels'] else 'no'}\n")
    print("| figure | goal | reached | |\n|---|---|---|---|")
    for name, (sense, goal) in GOALS.items():
        key, _, size = name.partition(" ")
        reached = result[key][size] if size else result[key]
        print(f"| {name} | {sense} {goal:g} | {reached:.2f} | {verdict(reached, sense, goal)} |")
    print("\n| contender | median ms | fastest | slowest |\n|---|---|---|---|")
    for name, seconds in result["seconds"].items():
        figures = " | ".join(f"{1e3 * seconds[which]:.1f}" for which in ("median", "min", "max"))
        print(f"| {name} | {figures} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--no-kernels", action="store_true", help="torch and numpy alone")
    parser.add_argument("--adjoint", action="store_true", help="the written-out gradient on and off, nothing else")
    parser.add_argument("--threads", action="store_true", help="two threads against one, nothing else")
    parser.add_argument("--graph", default="cora")
    given = parser.parse_args()
    if given.no_kernels:
        without_kernels()
    name, measure, show = "solver", run, print_table
    if given.adjoint:
        name, measure, show = "adjoint", run_adjoint, print_adjoint
    elif given.threads:
        name, measure, show = "threads", run_threads, print_threads
    name += variant(kernels=not given.no_kernels)
    answer(name, lambda: measure(given.graph, quick=given.quick, kernels=not given.no_kernels), given, show)


if __name__ == "__main__":
    main()
