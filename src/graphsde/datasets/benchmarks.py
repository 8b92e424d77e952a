"""Graphs by name: one that is embedded, five that the literature measures itself on, and one of any size."""

from __future__ import annotations

import os
from typing import Protocol

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


class Loader(Protocol):
    def __call__(
        self, *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
    ) -> Graph: ...


DATASETS: Registry[Loader] = Registry("dataset")


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


@DATASETS.register(
    "digits",
    summary="handwritten digits linked to their 10 nearest, embedded: no download",
    nodes=1797,
    edges=24678,
    features=64,
    classes=10,
    default_split="given",
    origin="scikit-learn, load_digits (UCI optical recognition of handwritten digits)",
    licence="BSD-3-Clause (scikit-learn)",
)
def _digits(
    *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
) -> Graph:
    return load_digits_graph()


@DATASETS.register(
    "diabetes",
    summary="patients linked to their 8 nearest, with a numeric target, embedded: no download",
    nodes=442,
    edges=4988,
    features=10,
    classes=0,
    target="regression",
    default_split="given",
    origin="scikit-learn, load_diabetes (Efron et al., Least angle regression)",
    licence="BSD-3-Clause (scikit-learn)",
)
def _diabetes(
    *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
) -> Graph:
    return load_diabetes_graph()


def _add_planetoid(name: str, title: str, nodes: int, edges: int, features: int, classes: int) -> None:
    def loader(
        *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
    ) -> Graph:
        return load_planetoid(name, root=root, download=download, progress=progress)

    DATASETS.add(
        name,
        loader,
        summary=f"{title}: papers that cite each other, by topic, with the public split",
        nodes=nodes,
        edges=edges,
        features=features,
        classes=classes,
        default_split="planetoid",
        origin=PLANETOID_HOME,
        licence=ORIGIN_LICENCE,
    )


def _add_amazon(name: str, nodes: int, edges: int, features: int, classes: int) -> None:
    def loader(
        *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
    ) -> Graph:
        return load_amazon(name, root=root, download=download, progress=progress)

    DATASETS.add(
        name,
        loader,
        summary=f"Amazon {name.title()}: products bought together, by category, words of the reviews",
        nodes=nodes,
        edges=edges,
        features=features,
        classes=classes,
        default_split="shchur",
        origin=AMAZON_HOME,
        licence=ORIGIN_LICENCE,
    )


_add_planetoid("cora", "Cora", 2708, 10556, 1433, 7)
_add_planetoid("citeseer", "CiteSeer", 3327, 9104, 3703, 6)
_add_planetoid("pubmed", "PubMed", 19717, 88648, 500, 3)
_add_amazon("computers", 13752, 491722, 767, 10)
_add_amazon("photo", 7650, 238162, 745, 8)


@DATASETS.register(
    "synthetic",
    summary="a random graph with classes, hubs and noisy features; 'synthetic:100000' sets the number of nodes",
    nodes=1000,
    edges=10000,
    features=64,
    classes=5,
    default_split="fractions",
    origin="made here (degree-corrected stochastic block model)",
    licence="none needed",
)
def _synthetic(
    *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
) -> Graph:
    return synthetic(1000 if size is None else size)


@DATASETS.register(
    "synthetic-values",
    summary="the random graph with a numeric target of known noise; 'synthetic-values:100000' sets the number of nodes",
    nodes=1000,
    edges=10000,
    features=64,
    classes=0,
    target="regression",
    default_split="fractions",
    origin="made here (degree-corrected stochastic block model)",
    licence="none needed",
)
def _synthetic_values(
    *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
) -> Graph:
    return synthetic_values(1000 if size is None else size)
