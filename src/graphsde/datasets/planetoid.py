"""Cora, CiteSeer and PubMed with their public split (Yang, Cohen and Salakhutdinov, 2016)."""

from __future__ import annotations

import io
import itertools
import math
import os
import pickle
import pickletools
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.datasets.published import (
    Contents,
    PublishedFile,
    from_cache_or_origin,
    from_named_folder,
    read_converted,
    write_converted,
)
from graphsde.graph.build import from_arrays
from graphsde.graph.features import check_structure
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.graph.target import UNLABELLED


class _Refused(Exception):
    """Something that none of the published files contains."""


class _OldType:
    """Replaces ``numpy.dtype``: real numbers of a standard size, never objects."""

    def __init__(self, code: object = None, *_: object) -> None:
        if code not in _NUMBERS:
            raise _Refused(f"the type {shorten(code, 40)}")
        self.plain = np.dtype(str(code))

    def __setstate__(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", "|"):
            raise _Refused(f"the byte order {shorten(order, 40)}")


class _OldArray:
    """Replaces ``numpy.ndarray``, which would trust the given shape and type."""

    values: np.ndarray

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _Refused("an array without content")
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _OldType) or not isinstance(content, str | bytes):
            raise _Refused("an array of objects")
        if not isinstance(shape, tuple) or len(shape) > 2 or not all(type(side) is int and side >= 0 for side in shape):
            raise _Refused(f"the shape {shorten(shape, 40)}")
        stored = content if isinstance(content, bytes) else content.encode("latin1")
        if math.prod(shape) * kind.plain.itemsize != len(stored):
            raise _Refused(f"{len(stored):,} bytes for an array of shape {shape}")
        flat = np.frombuffer(stored, dtype=kind.plain).copy()
        self.values = flat.reshape(shape, order="F" if by_columns else "C")


class _OldMatrix:
    """Replaces ``csr_matrix``, whose internal attributes have changed since, and which does not check its indices."""

    state: object

    def __setstate__(self, state: object) -> None:
        self.state = state

    def to_csr(self) -> sp.csr_array:
        if not isinstance(self.state, dict):
            raise _Refused("a matrix without parts")
        parts = [self.state.get(part) for part in ("data", "indices", "indptr")]
        data, indices, indptr = (part.values if isinstance(part, _OldArray) else None for part in parts)
        if data is None or indices is None or indptr is None or not (data.ndim == indices.ndim == indptr.ndim == 1):
            raise _Refused("a matrix whose parts are not arrays")
        shape = self.state.get("_shape")
        if not isinstance(shape, tuple) or [type(side) for side in shape] != [int, int] or min(shape) < 0:
            raise _Refused(f"a matrix of shape {shorten(shape, 40)}")
        if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or not len(indptr) == shape[0] + 1:
            raise _Refused("a matrix whose parts don't fit together")
        matrix = sp.csr_array((data, indices, indptr), shape=shape)
        check_structure(matrix)
        return matrix


def _reconstruct(*_: object) -> _OldArray:
    return _OldArray()


def _plain_dict(*_: object) -> dict[object, object]:
    return {}


_NUMBERS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
# stand-ins only: an unpickler that made numpy's own objects would let the file choose their state
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _OldArray,
    ("numpy", "dtype"): _OldType,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _OldMatrix,
    ("collections", "defaultdict"): _plain_dict,
    ("__builtin__", "list"): list,
}


class _PlainValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the name {module}.{name}") from None


def read_pickle(content: bytes, name: str) -> Any:
    """The array, CSR matrix or dict of lists in ``content``; anything else is refused, whatever its sha256."""
    try:
        _refuse_far_notes(content)
        value = _PlainValues(io.BytesIO(content), encoding="latin1").load()
        if isinstance(value, _OldMatrix):
            return value.to_csr()
        return value.values if isinstance(value, _OldArray) else _neighbour_lists(value, len(content))
    except Exception as error:  # a damaged pickle may raise almost anything
        raise BadInput(
            f"{name} is not one of Planetoid's files: it holds {shorten(str(error), 120)}", code="E-PICKLE", place=name
        ) from error


def _refuse_far_notes(content: bytes) -> None:
    """A memo entry is stored at an index of the file's choice, and takes memory up to that index."""
    for step, argument, _ in pickletools.genops(content):
        if "PUT" in step.name and not 0 <= int(argument or 0) < len(content):
            raise _Refused(f"a memo entry at index {argument:,}")


def _neighbour_lists(value: object, size: int) -> dict[int, list[int]]:
    if type(value) is not dict or not all(type(node) is int for node in value):
        raise _Refused(f"a {type(value).__name__}")
    if not all(type(others) is list for others in value.values()):
        raise _Refused("nodes without a list of neighbours")
    if sum(map(len, value.values())) > size:  # one list may be referenced many times
        raise _Refused("more neighbours than bytes")
    if not all(type(other) is int for others in value.values() for other in others):
        raise _Refused("a neighbour that is not a number")
    return value


ORIGIN = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
FOLDERS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
CONVERSION = 1  # increase it whenever `convert` gives other arrays, so that older caches are not read

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

    The files don't name the classes, so they are ``"0"``, ``"1"``, …. Cora's can be identified by their sizes: Theory,
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
    loaders take the argmax of an all-zero row, class 0, hence the 264 instead of 249 nodes of that class that
    are sometimes reported.) The public masks don't contain them either way.
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
