"""The graphs of the studies, with their splits: five benchmarks, and seven that nobody's settings were chosen on."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import graphsde as gs
from graphsde.base.seeds import numpy_stream
from graphsde.datasets.splits import make_split

ROOT = Path(__file__).resolve().parents[1]
MORE = ROOT.parent / "shared" / "data" / "more"

KNOWN = ("cora", "citeseer", "pubmed", "photo", "computers")
WITH_SPLITS = ("tolokers", "minesweeper", "wisconsin", "chameleon_filtered")
UNKNOWN = ("coauthor-cs", "coauthor-physics", *WITH_SPLITS, "facebook")
FACEBOOK_LABELS = (1200, 300, 500)
"""Training, validation and test nodes of the Facebook pages: 2,000 random labels, 60/15/25."""


@dataclass(frozen=True)
class Source:
    """A graph as it lies, and the splits that come with it."""

    graph: gs.Graph
    own: dict[str, np.ndarray] | None = None  # each [10, N] bool


@cache
def source(name: str) -> Source:
    """A graph by name."""
    if name in KNOWN:
        return Source(gs.load(name))
    if name.startswith("coauthor-"):
        return Source(gs.read(MORE / f"ms_academic_{ {'cs': 'cs', 'physics': 'phy'}[name[9:]] }.npz", name=name))
    if name == "facebook":
        return Source(_facebook(MORE / "facebook"))
    with np.load(MORE / f"{name}.npz", allow_pickle=False) as arrays:
        graph = gs.from_arrays(
            arrays["node_features"].astype(np.float32), arrays["edges"].T, labels=arrays["node_labels"], name=name
        )
        return Source(graph, {role: arrays[f"{role}_masks"].astype(bool) for role in ("train", "val", "test")})


def standard(name: str, seed: int) -> gs.Graph:
    """With the roles of the standard setting: public splits where there are any, else random ones for the seed."""
    found = source(name)
    if found.own is not None:
        masks = {role: one[seed % len(one)] for role, one in found.own.items()}
        return found.graph.with_masks(split="given", **masks)
    if name == "facebook":
        return labelled(found.graph, *FACEBOOK_LABELS, seed)
    kind = "planetoid" if name in ("cora", "citeseer", "pubmed") else "shchur"
    return make_split(found.graph, kind, seed=seed).apply(found.graph)


def labelled(graph: gs.Graph, train: int, val: int, test: int, seed: int) -> gs.Graph:
    """So many random nodes for each role."""
    order = numpy_stream(seed, "studies", "random labels").permutation(graph.num_nodes)
    ends = np.cumsum([0, train, val, test])
    masks = {}
    for role, first, last in zip(("train", "val", "test"), ends, ends[1:], strict=False):
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[order[first:last]] = True
        masks[role] = mask
    return graph.with_masks(split="given", **masks)


def _facebook(folder: Path) -> gs.Graph:
    with (folder / "target.csv").open(encoding="utf-8", newline="") as file:
        kinds = {int(row["id"]): row["page_type"] for row in csv.DictReader(file)}
    words = {int(page): found for page, found in json.loads((folder / "features.json").read_text()).items()}
    edges = np.loadtxt(folder / "edges.csv", delimiter=",", skiprows=1, dtype=np.int64)
    pages = sorted(kinds)
    place = {page: row for row, page in enumerate(pages)}
    rows = np.repeat(np.arange(len(pages)), [len(set(words[page])) for page in pages])
    columns = np.concatenate([np.array(sorted(set(words[page])), dtype=np.int64) for page in pages])
    features = sp.csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)))
    ends = np.array([[place[one], place[other]] for one, other in edges.tolist() if one != other]).T
    return gs.from_arrays(features, ends, labels=[kinds[page] for page in pages], name="facebook")


def records(journal: Path) -> list[dict[str, Any]]:
    """Whole lines; one that a kill cut short is run again."""
    found = []
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
