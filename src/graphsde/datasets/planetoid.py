"""Cora, CiteSeer and PubMed with their public split (Yang, Cohen and Salakhutdinov, 2016)."""

from __future__ import annotations

import collections
import io
import itertools
import os
import pickle
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput
from graphsde.datasets.published import (
    Contents,
    PublishedFile,
    from_cache_or_origin,
    from_named_folder,
    read_converted,
    write_converted,
)
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.graph.target import UNLABELLED


class _OldMatrix:
    """Stands in for ``csr_matrix``, whose inner attributes have moved since: keeps the pickled ones as they are."""

    state: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def to_csr(self) -> sp.csr_array:
        parts = (self.state["data"], self.state["indices"], self.state["indptr"])
        return sp.csr_array(parts, shape=self.state["_shape"])


def _reconstruct(kind: type, shape: tuple[int, ...], code: str) -> np.ndarray:
    if kind is not np.ndarray:
        raise pickle.UnpicklingError(f"an array of type {kind}")
    return np.ndarray(shape, np.dtype(code))


ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _OldMatrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
}


class _PlainValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the name {module}.{name}") from None


def read_pickle(content: bytes, name: str) -> Any:
    """The array, CSR matrix or dict of lists in ``content``, whose sha256 the caller has checked."""
    try:
        value = _PlainValues(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a damaged pickle may raise almost anything
        raise BadInput(
            f"{name} is not one of Planetoid's files: it holds {error}", code="E-PICKLE", place=name
        ) from error
    return value.to_csr() if isinstance(value, _OldMatrix) else value


ORIGIN = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
FOLDERS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
CONVERSION = 1  # raise it whenever `convert` gives other arrays, so that older caches are not read

PINNED: dict[str, dict[str, tuple[int, str]]] = {
    "cora": {
        "x": (22119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
        "y": (4054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
        "tx": (148025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
        "ty": (28135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        "allx": (257305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
        "ally": (47959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
        "graph": (59847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
        "test.index": (5000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
    },
    "citeseer": {
        "x": (31087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
        "y": (3014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
        "tx": (260321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
        "ty": (24135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
        "allx": (595021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
        "ally": (55623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
        "graph": (61987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
        "test.index": (5000, "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
    },
    "pubmed": {
        "x": (23172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
        "y": (854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
        "tx": (405505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
        "ty": (12135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        "allx": (7578385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
        "ally": (224739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
        "graph": (471808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
        "test.index": (6000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
    },
}


def published_files(name: str) -> list[PublishedFile]:
    return [
        PublishedFile(f"{FOLDERS[name]}/raw/ind.{name}.{part}", ORIGIN, size, digest)
        for part, (size, digest) in PINNED[name].items()
    ]


def load_planetoid(name: str, *, root: str | os.PathLike[str] | None = None, **origin: Any) -> Graph:
    """One of the three citation graphs, features sparse, the public masks in place.

    The files name no classes, so these are called ``"0"``, ``"1"``, …. Cora's can be told by their sizes: Theory,
    Reinforcement Learning, Genetic Algorithms, Neural Networks, Probabilistic Methods, Case Based, Rule Learning.

    Args:
        name: ``cora``, ``citeseer`` or ``pubmed``.
        root: see :func:`graphsde.datasets.benchmarks.load`.
        origin: ``download`` and ``progress`` as there; ``base_url``, another address that publishes the same bytes.
    """
    files = published_files(name)
    contents = from_named_folder(files, root)
    key = f"{name}-{CONVERSION}"
    arrays = read_converted(key)
    if arrays is None:
        if contents is None:
            contents = from_cache_or_origin(files, **origin)
        arrays = convert(contents, name)
        write_converted(key, arrays)
    num_nodes, num_features, num_classes = arrays["shape"].tolist()
    features = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(num_nodes, num_features))
    return from_arrays(
        features,
        arrays["edges"],
        labels=arrays["labels"],
        class_names=[str(position) for position in range(num_classes)],
        train_mask=arrays["train"],
        val_mask=arrays["val"],
        test_mask=arrays["test"],
        name=name,
    )


def convert(contents: Contents, name: str, *, validation: int = 500) -> dict[str, np.ndarray]:
    """The published files as plain arrays.

    Rows of ``allx`` are the first nodes in order; row ``k`` of ``tx`` is the node in line ``k`` of ``test.index``.
    CiteSeer's test index has gaps: 15 nodes occur in the edges only. They get zero features and no label. (Other
    loaders let the argmax of an all-zero row call them class 0, hence the 264 instead of 249 nodes of that class that
    are sometimes printed.) The public masks don't contain them either way.
    """

    def part(which: str) -> bytes:
        return contents[f"ind.{name}.{which}"]

    y, tx, ty, allx, ally, neighbours = (
        read_pickle(part(which), f"ind.{name}.{which}") for which in ("y", "tx", "ty", "allx", "ally", "graph")
    )
    test = np.array(part("test.index").split(), dtype=np.int64)
    num_nodes = len(neighbours)
    rows = np.concatenate([np.arange(allx.shape[0]), test])

    place = sp.csr_array((np.ones(rows.size, np.float32), (rows, np.arange(rows.size))), shape=(num_nodes, rows.size))
    features = sp.csr_array(place @ sp.vstack([allx, tx], format="csr"), dtype=np.float32)
    features.eliminate_zeros()
    features.sort_indices()

    labels = np.full(num_nodes, UNLABELLED, dtype=np.int64)
    labels[rows] = np.concatenate([ally, ty]).argmax(axis=1)

    sources = np.fromiter(neighbours.keys(), dtype=np.int64, count=num_nodes)
    degrees = np.fromiter(map(len, neighbours.values()), dtype=np.int64, count=num_nodes)
    targets = np.fromiter(itertools.chain.from_iterable(neighbours.values()), dtype=np.int64, count=int(degrees.sum()))

    train = len(y)
    return {
        "shape": np.array([*features.shape, ally.shape[1]], dtype=np.int64),
        "data": features.data,
        "indices": features.indices.astype(np.int32),
        "indptr": features.indptr.astype(np.int64),
        "labels": labels,
        "edges": np.stack([np.repeat(sources, degrees), targets]),
        "train": mask_of(np.arange(train), num_nodes),
        "val": mask_of(np.arange(train, train + validation), num_nodes),
        "test": mask_of(test, num_nodes),
    }
