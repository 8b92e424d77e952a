"""What a race costs: processor time of the default fit over that of a fit which takes the winner's settings at once.

python benchmarks/race.py [--graphs digits,synthetic:2000] [--seeds 3]
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from solver import machine

import graphsde as gs
from graphsde.datasets.source import open_graph
from graphsde.datasets.splits import default_split, make_split


def ratio(graph: gs.Graph, seed: int) -> tuple[float, str]:
    """The ratio, and who won."""
    begin = time.process_time()
    model = gs.LGNSDE(seed=seed).fit(graph)
    raced = time.process_time() - begin
    alone = gs.LGNSDE(seed=seed, **model.settings.model_dump(exclude={"seed", "race"}), race=False)
    begin = time.process_time()
    alone.fit(graph)
    return raced / (time.process_time() - begin), model._candidate.name if model._candidate else "none"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default="digits,synthetic:2000")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    for name in given.graphs.split(","):
        whole = open_graph(name)
        graph = make_split(whole, default_split(whole)).apply(whole)
        gs.LGNSDE(race=False, epochs=3).fit(graph)  # imports and what is kept per graph
        found = [ratio(graph, seed) for seed in range(given.seeds)]
        ratios = [one for one, _ in found]
        winners = ", ".join(name for _, name in found)
        print(f"{name}: {np.mean(ratios):.2f} (most {max(ratios):.2f}, {given.seeds} seeds; {winners})")
