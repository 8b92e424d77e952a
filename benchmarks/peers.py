"""Whole fits, prediction included, against the libraries that one would reach for today.

    python benchmarks/peers.py [--json] [--quick] [--out DIR] [--no-kernels] [--only TEXT]

Three comparisons; in each all train on the same tensors with the same width, dropout, weight decay, learning rate,
patience and most epochs, stop on validation NLL and keep their best epoch; accuracy on test nodes is beside the time.

- GCN and APPNP against PyTorch Geometric, with features and graph in the layout that is fastest for it on that graph.
- The paper's latent SDE (d = 64, L = 10) against torchsde and, where it can be imported, JAX with diffrax.
- The default LGNSDE (``race=False``, 64 samples) against a PyG GCN of the same width for as many epochs.

One process, one thread, CPU time, contenders in turns. A fit begins with a graph in memory: scaling features, building
tensors and, for JAX, compiling belong to it. With --out a run that was stopped goes on where it was; --only measures a
part anew and leaves the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import _diffrax_peer as diffrax_peer
import numpy as np
import torch
from _diffrax_peer import DiffraxSDE
from _fit import Schedule, test_accuracy, train
from _latent_peers import STEPS, WIDTH, FittedSDE, latent_settings, task_of
from _machine import kernels_at_hand, machine, variant, without_kernels
from _pyg_networks import Layout, PyGNetwork, fastest_layout
from _report import answer, arguments, keep, kept, verdict

import graphsde as gs
from graphsde.datasets.source import open_graph
from graphsde.datasets.splits import default_split, make_split
from graphsde.models.neural import GraphLearner
from graphsde.sde.brownian import node_keys

GRAPHS = ("cora", "pubmed", "computers")
SAMPLES, LATENT_SAMPLES = 64, 32
GOAL = 3.0
PLAIN = Schedule(epochs=1000, patience=50, lr=0.02)
LATENT = Schedule(epochs=100, patience=20, lr=0.01)
DECAYS = {"gcn": 5e-4, "appnp": 5e-3}

Fit = Callable[[int], dict[str, Any]]
"""From a seed to epochs and accuracy."""


def in_turns(contenders: dict[str, Fit], repeats: int) -> dict[str, dict[str, Any]]:
    """Each contender once per seed, in changing order: median CPU seconds, mean accuracy."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    names = list(contenders)
    for seed in range(repeats):
        for name in names[seed % len(names) :] + names[: seed % len(names)]:
            begin = time.process_time()
            result = contenders[name](seed)
            found[name].append({"seconds": time.process_time() - begin, **result})
    return {name: _summed(runs) for name, runs in found.items()}


def _summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [run["seconds"] for run in runs]
    per_epoch = [run["seconds"] / run["epochs"] for run in runs]
    more = {key: runs[0][key] for key in runs[0] if key not in ("seconds", "epochs", "accuracy")}
    return {
        "seconds": round(statistics.median(seconds), 4),
        "seconds_by_seed": [round(one, 4) for one in seconds],
        "epochs": [run["epochs"] for run in runs],
        "milliseconds_per_epoch": round(1e3 * statistics.median(per_epoch), 3),
        "accuracy": round(statistics.mean(run["accuracy"] for run in runs), 4),
        **more,
    }


def graph_named(name: str) -> gs.Graph:
    whole = open_graph(name)
    return make_split(whole, default_split(whole)).apply(whole)


def ours(make: Callable[[int], Any], graph: gs.Graph, samples: int) -> Fit:
    def fit(seed: int) -> dict[str, Any]:
        model = make(seed).fit(graph)
        probs = model.predict(graph, samples=samples).probs.mean(0)
        return {"epochs": len(model.history), "accuracy": test_accuracy(graph, probs)}

    return fit


def edges_of(graph: gs.Graph) -> torch.Tensor:
    return torch.from_numpy(np.array(graph.adjacency.edge_index()))


def pyg(kind: Any, graph: gs.Graph, learner: GraphLearner, schedule: Schedule, layout: Layout, **more: Any) -> Fit:
    def fit(seed: int) -> dict[str, Any]:
        network = PyGNetwork(kind, learner, edges_of(graph), graph.num_classes, layout=layout, seed=seed, **more)
        epochs = train(network, schedule, learner.val_labels)
        return {"epochs": epochs, "accuracy": test_accuracy(graph, network.probs().numpy())}

    return fit


def best_layout(kind: Any, graph: gs.Graph, learner: GraphLearner, **more: Any) -> tuple[Layout, dict[str, float]]:
    edges = edges_of(graph)
    return fastest_layout(lambda layout: PyGNetwork(kind, learner, edges, graph.num_classes, layout=layout, **more))


def plain_networks(name: str, schedule: Schedule, repeats: int) -> dict[str, Any]:
    """GCN and APPNP, ours over PyG's."""
    graph, found = graph_named(name), {}
    for kind, cls in (("gcn", gs.GCN), ("appnp", gs.APPNP)):
        settings = {"hidden": WIDTH, "dropout": 0.5, "weight_decay": DECAYS[kind], **schedule.settings()}
        learner = cls(**settings).learner(graph)
        more = {"width": WIDTH, "dropout": 0.5, "weight_decay": DECAYS[kind]}
        layout, layouts = best_layout(kind, graph, learner, **more)  # which is also the peer's warm-up
        cls(**{**settings, "epochs": 2}).fit(graph)
        times = in_turns(
            {
                "ours": ours(lambda seed, cls=cls, settings=settings: cls(seed=seed, **settings), graph, 1),
                "pyg": pyg(kind, graph, learner, schedule, layout, **more),
            },
            repeats,
        )
        found[kind] = {
            **times,
            "pyg_layout": list(layout),
            "pyg_epoch_seconds_by_layout": layouts,
            "speedup": round(times["pyg"]["seconds"] / times["ours"]["seconds"], 3),
            "speedup_per_epoch": _per_epoch(times["pyg"], times["ours"]),
        }
    return found


def _per_epoch(slow: dict[str, Any], fast: dict[str, Any]) -> float:
    return round(slow["milliseconds_per_epoch"] / fast["milliseconds_per_epoch"], 3)


def latent_sde(name: str, schedule: Schedule, samples: int, steps: int, width: int) -> dict[str, Any]:
    """The paper's network by ours, torchsde and diffrax."""
    graph = graph_named(name)
    settings = latent_settings() | schedule.settings() | {"hidden": width, "steps": steps}
    learner = gs.LGNSDE(**settings).learner(graph)
    task = task_of(learner, edges_of(graph), node_keys(graph.node_ids), graph.num_classes)

    def torchsde_fit(seed: int) -> dict[str, Any]:
        network = FittedSDE(task, learner.val, width=width, steps=steps, seed=seed)
        epochs = train(network, schedule, learner.val_labels)
        return {"epochs": epochs, "accuracy": test_accuracy(graph, network.probs(samples).numpy())}

    def diffrax_fit(seed: int) -> dict[str, Any]:
        rows, labels = learner.val.numpy(), learner.val_labels.numpy()
        network = DiffraxSDE(task, rows, labels, width=width, steps=steps, seed=seed)
        epochs, compiled = network.train(schedule)
        accuracy = test_accuracy(graph, network.probs(samples))
        return {"epochs": epochs, "accuracy": accuracy, "compile_seconds": round(compiled, 2)}

    # imports and first calls: no fit pays for them
    gs.LGNSDE(**{**settings, "epochs": 1}).fit(graph)
    FittedSDE(task, learner.val, width=width, steps=steps).validation_probs()
    contenders: dict[str, Fit] = {
        "ours": ours(lambda seed: gs.LGNSDE(seed=seed, **settings), graph, samples),
        "torchsde": torchsde_fit,
    }
    why = diffrax_peer.missing()
    if why is None:
        contenders["diffrax"] = diffrax_fit
    times = in_turns(contenders, 1)
    peers = [peer for peer in contenders if peer != "ours"]
    return {
        **times,
        "samples": samples,
        "left_out": {} if why is None else {"diffrax": why},
        "speedup": {peer: round(times[peer]["seconds"] / times["ours"]["seconds"], 3) for peer in peers},
        "speedup_per_epoch": {peer: _per_epoch(times[peer], times["ours"]) for peer in peers},
    }


def default_over_gcn(name: str, samples: int, epochs: dict[str, int]) -> dict[str, Any]:
    """A whole fit and prediction of the default without a race, over a PyG GCN of the same width and epochs."""
    graph = graph_named(name)
    first = gs.LGNSDE(race=False, epochs=2).fit(graph)  # imports, and what is kept per graph
    learner, s = gs.LGNSDE(race=False).learner(graph), first.settings
    more = {"width": s.encoder_width, "dropout": 0.5, "weight_decay": s.weight_decay}
    layout, layouts = best_layout("gcn", graph, learner, **more)
    begin = time.process_time()
    model = gs.LGNSDE(race=False, **epochs).fit(graph)  # type: ignore[arg-type]
    fitted = time.process_time()
    probs = model.predict(graph, samples=samples).probs.mean(0)
    predicted = time.process_time()
    count = len(model.history)
    schedule = Schedule(count, count, s.lr, every=model.settings.evaluate_every)
    peer = pyg("gcn", graph, learner, schedule, layout, **more)(0)
    ended = time.process_time()
    return {
        "ours": {
            "seconds": round(predicted - begin, 4),
            "prediction_seconds": round(predicted - fitted, 4),
            "epochs": count,
            "accuracy": test_accuracy(graph, probs),
        },
        "pyg": {"seconds": round(ended - predicted, 4), **peer},
        "pyg_layout": list(layout),
        "pyg_epoch_seconds_by_layout": layouts,
        "fit_over_gcn": round((predicted - begin) / (ended - predicted), 3),
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    compiled = not given.no_kernels and kernels_at_hand()
    if given.quick:
        short = Schedule(epochs=3, patience=3, lr=0.01)
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "plain synthetic:200": lambda: plain_networks("synthetic:200", short, 1),
            "latent synthetic:200": lambda: latent_sde("synthetic:200", short, 2, 2, 8),
            "default synthetic:200": lambda: default_over_gcn("synthetic:200", 4, {"epochs": 4}),
        }
    else:
        parts = {f"default {name}": lambda name=name: default_over_gcn(name, SAMPLES, {}) for name in GRAPHS}
        parts["plain cora"] = lambda: plain_networks("cora", PLAIN, 2)
        parts["latent cora"] = lambda: latent_sde("cora", LATENT, LATENT_SAMPLES, STEPS, WIDTH)
    name = "peers" + variant(kernels=not given.no_kernels)
    earlier = kept(name, given)
    if earlier.get("complete") and not given.only:
        earlier = {}
    found: dict[str, dict[str, Any]] = {kind: earlier.get(kind, {}) for kind in ("default", "plain", "latent")}
    rest = {"kernels": compiled, "samples": 4 if given.quick else SAMPLES, "goal": GOAL}
    for label, part in parts.items():
        kind, _, graph = label.partition(" ")
        wanted = given.only in label if given.only else graph not in found[kind]
        if wanted:
            found[kind][graph] = part()
            keep(name, {**found, **rest, "complete": False, "quick": given.quick, "machine": machine()}, given)
    whole = all(graph in found[kind] for kind, _, graph in (label.partition(" ") for label in parts))
    return {**found, **rest, "complete": whole}


def print_table(result: dict[str, Any]) -> None:
    print("| fit | graph | who | CPU s | epochs | ms an epoch | test accuracy | over ours |")
    print("|---|---|---|---|---|---|---|---|")
    for graph, kinds in result["plain"].items():
        for kind, found in kinds.items():
            _print_fits(kind, graph, {name: found[name] for name in ("ours", "pyg")}, {"pyg": found["speedup"]})
    for graph, found in result["latent"].items():
        fits = {name: found[name] for name in ("ours", "torchsde", "diffrax") if name in found}
        _print_fits("latent SDE", graph, fits, found["speedup"])
        for name, why in found["left_out"].items():
            print(f"| latent SDE | {graph} | {name} left out: {why} | | | | | |")
    print(f"\nThe default LGNSDE, {result['samples']} samples, over a PyG GCN of the same width and epochs\n")
    print("| graph | ratio | goal | | CPU s | accuracy | GCN's | epochs |")
    print("|---|---|---|---|---|---|---|---|")
    for graph, found in result["default"].items():
        mine, theirs, ratio = found["ours"], found["pyg"], found["fit_over_gcn"]
        met = verdict(ratio, "at most", result["goal"])
        print(
            f"| {graph} | {ratio:.2f} | at most {result['goal']:g} | {met} | {mine['seconds']:.2f} | "
            f"{mine['accuracy']:.3f} | {theirs['accuracy']:.3f} | {mine['epochs']} |"
        )


def _print_fits(kind: str, graph: str, fits: dict[str, Any], speedups: dict[str, float]) -> None:
    for name, fit in fits.items():
        epochs = ", ".join(map(str, fit["epochs"]))
        ratio = f"{speedups[name]:.2f}" if name in speedups else ""
        print(
            f"| {kind} | {graph} | {name} | {fit['seconds']:.2f} | {epochs} | {fit['milliseconds_per_epoch']:.1f} | "
            f"{fit['accuracy']:.3f} | {ratio} |"
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--no-kernels", action="store_true", help="torch and numpy alone")
    parser.add_argument("--only", default="", metavar="TEXT", help="plain, latent, default, with a graph or without")
    given = parser.parse_args()
    if given.no_kernels:
        without_kernels()
    answer("peers" + variant(kernels=not given.no_kernels), lambda: measure(given), given, print_table)


if __name__ == "__main__":
    main()
