"""What a race costs: processor time of the default fit over that of a fit which takes the winner's settings at once.

python benchmarks/race.py [--json] [--quick] [--out DIR] [--graphs digits,cora] [--seeds 3]
"""

from __future__ import annotations

import os
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from _report import answer, arguments

import graphsde as gs
from graphsde.datasets.source import open_graph
from graphsde.datasets.splits import default_split, make_split


def ratio(graph: gs.Graph, seed: int, epochs: dict[str, int]) -> tuple[float, str]:
    """The ratio, and who won."""
    begin = time.process_time()
    model = gs.LGNSDE(seed=seed, **epochs).fit(graph)  # type: ignore[arg-type]
    raced = time.process_time() - begin
    alone = gs.LGNSDE(seed=seed, **model.settings.model_dump(exclude={"seed", "race"}), race=False)
    begin = time.process_time()
    alone.fit(graph)
    return raced / (time.process_time() - begin), model._candidate.name if model._candidate else "none"


def measure(graphs: list[str], seeds: int, epochs: dict[str, int]) -> dict[str, Any]:
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in graphs:
        whole = open_graph(name)
        graph = make_split(whole, default_split(whole)).apply(whole)
        gs.LGNSDE(race=False, epochs=3).fit(graph)  # imports and what is kept per graph
        runs = [ratio(graph, seed, epochs) for seed in range(seeds)]
        ratios = [one for one, _ in runs]
        found[name] = {
            "mean": round(float(np.mean(ratios)), 3),
            "most": round(max(ratios), 3),
            "winners": [winner for _, winner in runs],
        }
    return {"race_over_fit": found, "n": seeds}


def print_table(result: dict[str, Any]) -> None:
    for name, one in result["race_over_fit"].items():
        winners = ", ".join(one["winners"])
        print(f"{name}: {one['mean']:.2f} (most {one['most']:.2f}, {result['n']} seeds; {winners})")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--graphs", default="digits,cora,citeseer,photo")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    graphs, seeds = (["synthetic:200"], 1) if given.quick else (given.graphs.split(","), given.seeds)
    answer("race", lambda: measure(graphs, seeds, {"epochs": 12} if given.quick else {}), given, print_table)


if __name__ == "__main__":
    main()
