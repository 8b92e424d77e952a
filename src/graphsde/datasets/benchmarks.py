"""Graphs by name: one that is embedded, five that the literature measures itself on, and one of any size."""

from __future__ import annotations

import dataclasses
import os
from typing import Protocol

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.registry import Registry
from graphsde.datasets.amazon import PINNED, load_amazon
from graphsde.datasets.embedded import load_diabetes_graph, load_digits_graph
from graphsde.datasets.planetoid import FOLDERS, load_planetoid, published_files
from graphsde.datasets.published import Progress, cache_folder, find_folder
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
        BadInput: ``E-HASH``, a file is not the published one, or the graph made of the files is not the known one.
        StorageError: ``E-OFFLINE``, the files are not here and can't be fetched.

    Example:
        >>> load("digits")
        Graph('digits', nodes=1797, edges=24678, features=64, classes=10)
    """
    kind, _, size = name.strip().lower().partition(":")
    loader = DATASETS.get(kind)
    if size and (kind not in ("synthetic", "synthetic-values") or not size.isdecimal() or len(size) > 12):
        raise BadUsage(f"'{name}' names no graph", found=name, expected="a name, or 'synthetic:' and a number of nodes")
    graph = loader(size=int(size) if size else None, root=root, download=download, progress=progress)
    pinned = DATASETS.entry(kind).facts.get("fingerprint")
    return graph if pinned is None else _proven(graph, kind, pinned)


def _proven(graph: Graph, name: str, fingerprint: str) -> Graph:
    """``graph`` as the benchmark that it has shown to be: the files may be right and what was made of them not."""
    if graph.fingerprint != fingerprint:
        cache = cache_folder()
        raise BadInput(
            f"what was loaded as '{name}' is not that graph: its fingerprint differs",
            code="E-HASH",
            found=f"fingerprint {graph.fingerprint}",
            expected=f"fingerprint {fingerprint}",
            fix="check the installation"
            + ("" if cache is None else f", and delete {cache / 'converted'}, which is made anew"),
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
    fingerprint="f1d0dc9ed26bc6b3f37b39e4a6895c336545c3d5d13b8ad5cc681d9bcb069e13",
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
    fingerprint="a901e8b9b5b072bd2fd8d1733f37552496ee433e4b82fb63bc5bfdc55ed327ad",
    origin="scikit-learn, load_diabetes (Efron et al., Least angle regression)",
    licence="BSD-3-Clause (scikit-learn)",
)
def _diabetes(
    *, size: int | None, root: str | os.PathLike[str] | None, download: bool, progress: Progress | None
) -> Graph:
    return load_diabetes_graph()


def _add_planetoid(
    name: str, title: str, nodes: int, edges: int, features: int, classes: int, fingerprint: str
) -> None:
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
        fingerprint=fingerprint,
        origin=PLANETOID_HOME,
        licence=ORIGIN_LICENCE,
    )


def _add_amazon(name: str, nodes: int, edges: int, features: int, classes: int, fingerprint: str) -> None:
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
        fingerprint=fingerprint,
        origin=AMAZON_HOME,
        licence=ORIGIN_LICENCE,
    )


_add_planetoid("cora", "Cora", 2708, 10556, 1433, 7, "d0acd23ba7d602a8320f97691e42c6d73bd84fe62298ddf95e150df91bf51d3e")
_add_planetoid(
    "citeseer", "CiteSeer", 3327, 9104, 3703, 6, "e6fa5b528760d0146e809f34506476295e86377b2805d403094ee8e669e18584"
)
_add_planetoid(
    "pubmed", "PubMed", 19717, 88648, 500, 3, "2405186cdc66dd93c8e55226ea7f38d3ab67c2850eb7119902b509c09f70b31c"
)
_add_amazon("computers", 13752, 491722, 767, 10, "2b3d0dccd23727c8c3ae14cd6076002a099d5b2c60a2bf00f9c37243c7bf020b")
_add_amazon("photo", 7650, 238162, 745, 8, "55677ed42a62568646a08a3e800a0319cfbb34380ae5d6ea47edf2b0b6c1d3b1")


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
