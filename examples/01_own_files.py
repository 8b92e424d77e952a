"""Your own files: two CSV tables in, a prediction with its uncertainty out.

Run: python examples/01_own_files.py [FOLDER]

A folder that is not there yet is filled with a made-up shop of 2,000 items; without one a small shop goes into a
temporary folder, so that it can be run as it is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import graphsde as gs


def write_shop(folder: Path, items: int = 120, seed: int = 0) -> Path:
    """Items that are bought together: text ids, a number, a category, and labels for some of them."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, items)
    price = kinds * 12 + rng.normal(20, 8, items)
    colour = np.array(["red", "green", "blue"])[np.where(rng.random(items) < 0.5, kinds, rng.integers(0, 3, items))]
    labels = np.where(rng.random(items) < 0.7, np.array(["book", "toy", "tool"])[kinds], "")
    with open(folder / "nodes.csv", "w") as nodes:
        nodes.write("id,label,price,colour\n")
        nodes.writelines(f"item-{i},{labels[i]},{price[i]:.2f},{colour[i]}\n" for i in range(items))
    with open(folder / "edges.csv", "w") as edges:
        edges.write("source,target\n")
        for i in range(items):
            alike = np.flatnonzero(kinds == kinds[i])
            partners = np.append(rng.choice(alike, 2), rng.integers(items, size=2))
            edges.writelines(f"item-{i},item-{j}\n" for j in partners if j != i)
    return folder


def main(folder: Path) -> None:
    graph = gs.read(folder)  # without a split column: 60/15/25 % of the labelled nodes, by class
    print(gs.check(graph))
    model = gs.GCN(hidden=32, seed=0).fit(graph)
    prediction = model.predict(graph)
    metrics = gs.evaluate(prediction, graph)
    print(f"\n{metrics['accuracy']:.1%} of {metrics['n_test']} test nodes are right")

    unlabelled = np.flatnonzero(~graph.labelled)
    surest = unlabelled[np.argsort(prediction.total[unlabelled])]
    print("\nUnlabelled items, the surest and the least sure:")
    for node in [*surest[:3], *surest[-3:]]:
        print(
            f"  {prediction.ids[node]:>10}  {prediction.label[node]:<5} "
            f"confidence {prediction.confidence[node]:.2f}  entropy {prediction.total[node]:.2f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        place = Path(sys.argv[1])
        if not place.exists():
            place.mkdir()
            write_shop(place, items=2000)
        main(place)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(write_shop(Path(temporary)))
