"""What the default LGNSDE costs above its own matrix products, and what its noise costs.

    python benchmarks/default.py [--json] [--quick] [--out DIR] [--no-kernels] [--graphs computers,pubmed,cora]

On each graph the rule's first member trains as ``fit`` with ``race=False`` trains it, in the epochs that cost most
(agreement among paths is asked for from the sixth on), beside the same member with noise (σ = 0.25, exact marginals)
and beside the matrix products of both (:mod:`_family_products`). A prediction of 64 samples is compared with that of
the member without noise, a look at the validation nodes by 32 draws with a training epoch. One process, one thread,
contenders in turns, medians of CPU time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from _family_products import products, products_of
from _machine import kernels_at_hand, variant, without_kernels
from _report import answer, arguments, verdict
from _timing import speedup, take_turns

import graphsde as gs
from graphsde.datasets.source import open_graph
from graphsde.datasets.splits import default_split, make_split
from graphsde.models.lgnsde.learner import LGNSDELearner
from graphsde.nn.training import Training

ROUNDS = 5
SAMPLES = 64
NOISE = 0.25  # of the family's member "noisy"
FULL_COST = 20  # epochs from which on nothing is added any more to what an epoch does
GRAPHS = "computers,pubmed,cora"
GOALS: dict[str, tuple[str, dict[str, float]]] = {
    "epoch_over_products": ("at most", {"computers": 1.3, "pubmed": 2.5}),
    "noisy_epoch_over_products": ("at most", {"computers": 1.3, "pubmed": 2.5}),
    "predict64_over_noise_free": ("at most", {"computers": 3.0, "pubmed": 3.0, "cora": 3.0}),
    "validation32_over_epoch": ("at most", {}),
}


def graph_named(name: str) -> gs.Graph:
    whole = open_graph(name)
    return make_split(whole, default_split(whole)).apply(whole)


def learner_of(graph: gs.Graph, **settings: Any) -> LGNSDELearner:
    model = gs.LGNSDE(race=False, **settings)
    learner = model.learner(graph)
    assert isinstance(learner, LGNSDELearner)
    return learner


def epochs_of(learner: LGNSDELearner) -> Callable[[], None]:
    """A function that trains one epoch, past the cheap first ones: forward, backward, one step of the optimiser."""
    optimizer = Training(learner, learner.settings).optimizer
    epoch = FULL_COST

    def run() -> None:
        nonlocal epoch
        epoch += 1
        optimizer.zero_grad()
        learner.loss(epoch).backward()
        optimizer.step()

    return run


def time_graph(name: str, rounds: int, samples: int) -> dict[str, Any]:
    graph = graph_named(name)
    plain, noisy = learner_of(graph), learner_of(graph, sigma=NOISE)
    looking = learner_of(graph, sigma=NOISE)  # of its own, as training moves the other
    fitted = {sigma: gs.LGNSDE(race=False, epochs=3, sigma=sigma).fit(graph) for sigma in (0.0, NOISE)}
    times = take_turns(
        {
            "epoch": epochs_of(plain),
            "products": products_of(plain),
            "noisy epoch": epochs_of(noisy),
            "validation": lambda: looking.validate(FULL_COST),
            "prediction": lambda: fitted[NOISE].predict(graph, samples=samples),
            "noise-free prediction": lambda: fitted[0.0].predict(graph, samples=samples),
        },
        rounds,
    )
    return {
        "settings": {key: plain.settings.model_dump()[key] for key in ("drift", "steps", "paths", "encoder_width")},
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "multiplications": {one.what: one.multiplications for one in products(plain)},
        "epoch_over_products": speedup(times["epoch"], times["products"]),
        "noisy_epoch_over_products": speedup(times["noisy epoch"], times["products"]),
        "predict64_over_noise_free": speedup(times["prediction"], times["noise-free prediction"]),
        "validation32_over_epoch": speedup(times["validation"], times["noisy epoch"]),
        "seconds": {what: one.as_dict() for what, one in times.items()},
    }


def measure(graphs: list[str], *, quick: bool, kernels: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    compiled = kernels and kernels_at_hand()
    rounds, samples = (0, 4) if quick else (ROUNDS, SAMPLES)
    found = {name: time_graph(name, rounds, samples) for name in graphs}
    return {"graphs": found, "n": rounds or 1, "samples": samples, "kernels": compiled}


def print_table(result: dict[str, Any]) -> None:
    print("| figure | graph | goal | reached | |\n|---|---|---|---|---|")
    for figure, (sense, goals) in GOALS.items():
        for name, found in result["graphs"].items():
            goal = goals.get(name)
            words = "" if goal is None else f"{sense} {goal:g}"
            met = "" if goal is None else verdict(found[figure], sense, goal)
            print(f"| {figure} | {name} | {words} | {found[figure]:.2f} | {met} |")
    print("\n| contender | graph | median ms | fastest | slowest |\n|---|---|---|---|---|")
    for name, found in result["graphs"].items():
        for what, seconds in found["seconds"].items():
            figures = " | ".join(f"{1e3 * seconds[which]:.1f}" for which in ("median", "min", "max"))
            print(f"| {what} | {name} | {figures} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--no-kernels", action="store_true", help="torch and numpy alone")
    parser.add_argument("--graphs", default=GRAPHS)
    given = parser.parse_args()
    if given.no_kernels:
        without_kernels()
    graphs = ["synthetic:200"] if given.quick else given.graphs.split(",")
    name = "default" + variant(kernels=not given.no_kernels)
    answer(name, lambda: measure(graphs, quick=given.quick, kernels=not given.no_kernels), given, print_table)


if __name__ == "__main__":
    main()
