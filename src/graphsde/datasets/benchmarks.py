"""Graphs by name: one that is embedded, five that the literature measures itself on, and one of any size."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry
from graphsde.datasets.amazon import PINNED, load_amazon
from graphsde.datasets.embedded import load_diabetes_graph, load_digits_graph
from graphsde.datasets.planetoid import FOLDERS, load_planetoid, published_files
from graphsde.datasets.published import Progress, find_folder
from graphsde.datasets.synthetic import synthetic, synthetic_values
from graphsde.graph.graph import Graph

PLANETOID_HOME = "https://github.com/kimiyoung/planetoid"
AMAZON_HOME = "https://github.com/shchur/gnn-benchmark"
ORIGIN_LICENCE = "MIT (of the origin; the underlying data's own terms are not stated there)"


DATASETS: Registry[Callable[..., Graph]] = Registry("dataset")
"""Loaders of graphs: ``loader(*, size, root, download, progress) -> Graph``."""


def load(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Graph:
    """A benchmark graph, cleaned: symmetric, no self loops, no duplicate edges.

    Files are looked for in ``root``, in the folder that ``$GRAPHSDE_DATA`` names, in ``../shared/data`` beside a
    source checkout and in the user's cache, each laid out as ``Cora/raw/ind.cora.x``; then they are downloaded into the
    cache. Every file is compared with a pinned sha256 before it is opened.

    Args:
        name: one of :data:`DATASETS`; ``"synthetic:100000"`` sets the number of nodes.
        root: a folder with the original files.
        download: whether the network may be used.
        progress: called with file name, bytes here, bytes in all; by default a bar on a terminal.

    Raises:
        BadInput: ``E-HASH``, a file is not the published one.
        StorageError: ``E-OFFLINE``, the files are not here and can't be fetched.

    Example:
        >>> load("digits")
        Graph('digits', nodes=1797, edges=24678, features=64, classes=10)
    """
    kind, _, size = name.strip().lower().partition(":")
    loader = DATASETS.get(kind)
    if size and (kind not in ("synthetic", "synthetic-values") or not size.isdecimal() or len(size) > 12):
        raise BadUsage(f"'{name}' names no graph", found=name, expected="a name, or 'synthetic:' and a number of nodes")
    return loader(size=int(size) if size else None, root=root, download=download, progress=progress)


def where_is(name: str) -> str:
    """Where the graph would come from, in words, without loading it.

    Example:
        >>> where_is("digits")
        'built in'
    """
    files = [PINNED[name]] if name in PINNED else published_files(name) if name in FOLDERS else []
    if not files:
        DATASETS.entry(name)  # a wrong name is answered with the choices
        return "built in"
    folder = find_folder(files)
    return "not here; downloaded when asked for" if folder is None else str(folder / files[0].path.split("/")[0])


def _add(name: str, loader: Callable[..., Graph], summary: str, *sizes: int, **facts: Any) -> None:
    counts = dict(zip(("nodes", "edges", "features", "classes"), sizes, strict=True))
    DATASETS.add(name, loader, summary=summary, **counts, **facts)


def _by_name(load: Callable[..., Graph], name: str) -> Callable[..., Graph]:
    return lambda *, size, **where: load(name, **where)


_IN_SKLEARN = "BSD-3-Clause (scikit-learn)"
_MADE_HERE = {"origin": "made here (degree-corrected stochastic block model)", "licence": "none needed"}
_add(
    "digits",
    lambda **_: load_digits_graph(),
    "handwritten digits linked to their 10 nearest, embedded: no download",
    *(1797, 24678, 64, 10),
    default_split="given",
    origin="scikit-learn, load_digits (UCI optical recognition of handwritten digits)",
    licence=_IN_SKLEARN,
)
_add(
    "diabetes",
    lambda **_: load_diabetes_graph(),
    "patients linked to their 8 nearest, with a numeric target, embedded: no download",
    *(442, 4988, 10, 0),
    target="numeric",
    default_split="given",
    origin="scikit-learn, load_diabetes (Efron et al., Least angle regression)",
    licence=_IN_SKLEARN,
)
for _name, _title, *_sizes in (
    ("cora", "Cora", 2708, 10556, 1433, 7),
    ("citeseer", "CiteSeer", 3327, 9104, 3703, 6),
    ("pubmed", "PubMed", 19717, 88648, 500, 3),
):
    _summary = f"{_title}: papers that cite each other, by topic, with the public split"
    _home = {"default_split": "planetoid", "origin": PLANETOID_HOME, "licence": ORIGIN_LICENCE}
    _add(_name, _by_name(load_planetoid, _name), _summary, *_sizes, **_home)
for _name, *_sizes in (("computers", 13752, 491722, 767, 10), ("photo", 7650, 238162, 745, 8)):
    _summary = f"Amazon {_name.title()}: products bought together, by category, words of the reviews"
    _home = {"default_split": "shchur", "origin": AMAZON_HOME, "licence": ORIGIN_LICENCE}
    _add(_name, _by_name(load_amazon, _name), _summary, *_sizes, **_home)
_add(
    "synthetic",
    lambda *, size, **_: synthetic(1000 if size is None else size),
    "a random graph with classes, hubs and noisy features; 'synthetic:100000' sets the number of nodes",
    *(1000, 10000, 64, 5),
    default_split="fractions",
    **_MADE_HERE,
)
_add(
    "synthetic-values",
    lambda *, size, **_: synthetic_values(1000 if size is None else size),
    "the random graph with a numeric target of known noise; 'synthetic-values:100000' sets the number of nodes",
    *(1000, 10000, 64, 0),
    target="numeric",
    default_split="fractions",
    **_MADE_HERE,
)
