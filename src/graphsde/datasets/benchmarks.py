"""Graphs by name: embedded ones, six standard benchmarks of the literature, and synthetic ones of any size."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.registry import Registry
from graphsde.base.renames import current
from graphsde.datasets.amazon import PINNED, load_amazon
from graphsde.datasets.embedded import load_diabetes_graph, load_digits_graph
from graphsde.datasets.planetoid import FOLDERS, load_planetoid, published_files
from graphsde.datasets.published import Progress, cache_folder, find_folder
from graphsde.datasets.synthetic import synthetic, synthetic_regression
from graphsde.graph.graph import Graph

PLANETOID_HOME = "https://github.com/kimiyoung/planetoid"
AMAZON_HOME = "https://github.com/shchur/gnn-benchmark"
ORIGIN_LICENCE = "MIT (of the origin; the underlying data's own terms are not stated there)"


DATASETS: Registry[Callable[..., Graph]] = Registry("dataset")
"""Loaders of graphs: ``loader(*, size, root, download, progress) -> Graph``."""


def load(
    name: str, *, root: str | os.PathLike[str] | None = None, download: bool = True, progress: Progress | None = None
) -> Graph:
    """A benchmark graph, cleaned: symmetric, no self loops, no duplicate edges.

    Files are looked up in ``root``, in the folder that ``$GRAPHSDE_DATA`` names, in ``../shared/data`` next to a
    source checkout and in the user's cache, each laid out as ``Cora/raw/ind.cora.x``; then they are downloaded into the
    cache. Every file is compared with a pinned sha256 before it is opened.

    Args:
        name: one of :data:`DATASETS`; ``"synthetic:100000"`` sets the number of nodes.
        root: a folder with the original files.
        download: whether the network may be used.
        progress: called with file name, bytes so far, bytes in total; by default a bar on a terminal.

    Raises:
        BadInput: ``E-HASH``, a file is not the published one, or the graph made of the files is not the known one.
        StorageError: ``E-OFFLINE``, the files are not here and can't be downloaded.

    Example:
        >>> load("digits")
        Graph('digits', nodes=1797, edges=24678, features=64, classes=10)
    """
    kind, _, size = name.strip().lower().partition(":")
    kind = current("dataset", kind)
    loader = DATASETS.get(kind)
    if size and (kind not in ("synthetic", "synthetic-regression") or not size.isdecimal() or len(size) > 12):
        raise BadUsage(f"unknown graph '{name}'", found=name, expected="a name, or 'synthetic:' and a number of nodes")
    graph = loader(size=int(size) if size else None, root=root, download=download, progress=progress)
    pinned = DATASETS.entry(kind).facts.get("fingerprint")
    return graph if pinned is None else _proven(graph, kind, pinned)


def _proven(graph: Graph, name: str, fingerprint: str) -> Graph:
    """``graph``, verified to be the benchmark: even correct files may be converted wrongly."""
    if graph.fingerprint != fingerprint:
        cache = cache_folder()
        raise BadInput(
            f"the graph loaded as '{name}' is not the expected one: its fingerprint differs",
            code="E-HASH",
            found=f"fingerprint {graph.fingerprint}",
            expected=f"fingerprint {fingerprint}",
            fix="check the installation"
            + ("" if cache is None else f", and delete {cache / 'converted'}, which will be rebuilt"),
        )
    return dataclasses.replace(graph, benchmark=name)


def where_is(name: str) -> str:
    """Where the graph would come from, in words, without loading it.

    Example:
        >>> where_is("digits")
        'built in'
    """
    files = [PINNED[name]] if name in PINNED else published_files(name) if name in FOLDERS else []
    if not files:
        DATASETS.entry(name)  # an unknown name raises an error that lists the choices
        return "built in"
    folder = find_folder(files)
    return "not here; downloaded on demand" if folder is None else str(folder / files[0].path.split("/")[0])


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
    "handwritten digits linked to their 10 nearest neighbours; built in, no download",
    *(1797, 24678, 64, 10),
    default_split="given",
    fingerprint="f1d0dc9ed26bc6b3f37b39e4a6895c336545c3d5d13b8ad5cc681d9bcb069e13",
    origin="scikit-learn, load_digits (UCI optical recognition of handwritten digits)",
    licence=_IN_SKLEARN,
)
_add(
    "diabetes",
    lambda **_: load_diabetes_graph(),
    "patients linked to their 8 nearest neighbours, with a number to predict; built in, no download",
    *(442, 4988, 10, 0),
    target="regression",
    default_split="given",
    fingerprint="a901e8b9b5b072bd2fd8d1733f37552496ee433e4b82fb63bc5bfdc55ed327ad",
    origin="scikit-learn, load_diabetes (Efron et al., Least angle regression)",
    licence=_IN_SKLEARN,
)
for _name, _title, _fingerprint, *_sizes in (
    ("cora", "Cora", "d0acd23ba7d602a8320f97691e42c6d73bd84fe62298ddf95e150df91bf51d3e", 2708, 10556, 1433, 7),
    ("citeseer", "CiteSeer", "e6fa5b528760d0146e809f34506476295e86377b2805d403094ee8e669e18584", 3327, 9104, 3703, 6),
    ("pubmed", "PubMed", "2405186cdc66dd93c8e55226ea7f38d3ab67c2850eb7119902b509c09f70b31c", 19717, 88648, 500, 3),
):
    _summary = f"{_title}: papers that cite each other, by topic, with the public split"
    _home = {"default_split": "planetoid", "origin": PLANETOID_HOME, "licence": ORIGIN_LICENCE}
    _add(_name, _by_name(load_planetoid, _name), _summary, *_sizes, fingerprint=_fingerprint, **_home)
for _name, _fingerprint, *_sizes in (
    ("computers", "2b3d0dccd23727c8c3ae14cd6076002a099d5b2c60a2bf00f9c37243c7bf020b", 13752, 491722, 767, 10),
    ("photo", "55677ed42a62568646a08a3e800a0319cfbb34380ae5d6ea47edf2b0b6c1d3b1", 7650, 238162, 745, 8),
):
    _summary = f"Amazon {_name.title()}: products bought together, by category, words of the reviews"
    _home = {"default_split": "shchur", "origin": AMAZON_HOME, "licence": ORIGIN_LICENCE}
    _add(_name, _by_name(load_amazon, _name), _summary, *_sizes, fingerprint=_fingerprint, **_home)
_add(
    "coauthor-cs",
    _by_name(load_amazon, "coauthor-cs"),
    "Coauthor CS: people who wrote together, by field, counts of the words of their papers",
    *(18333, 163788, 6805, 15),
    fingerprint="c6b13bcf016f73b1abd9b4d0ff52edb6faf0ab08c0a024e8954700a2ada5a7a6",
    default_split="shchur",
    origin=AMAZON_HOME,
    licence=ORIGIN_LICENCE,
)
_add(
    "synthetic",
    lambda *, size, **_: synthetic(1000 if size is None else size),
    "a random graph with classes, hubs and noisy features; 'synthetic:100000' sets the number of nodes",
    *(1000, 10000, 64, 5),
    default_split="fractions",
    **_MADE_HERE,
)
_add(
    "synthetic-regression",
    lambda *, size, **_: synthetic_regression(1000 if size is None else size),
    "the random graph with a number of known noise to predict; 'synthetic-regression:100000' sets the number of nodes",
    *(1000, 10000, 64, 0),
    target="regression",
    default_split="fractions",
    **_MADE_HERE,
)
