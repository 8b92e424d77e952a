"""Amazon Computers and Photo and Coauthor CS, as Shchur et al. (2018) published them."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.datasets.published import PublishedFile, from_cache_or_origin, from_named_folder
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph

ORIGIN = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz/"

PINNED = {
    "computers": PublishedFile(
        "Computers/raw/amazon_electronics_computers.npz",
        ORIGIN,
        31921488,
        "736ba1d9fd85eac2da83a5ad25c463f04b0031a6ca01563f90a7099d9e8ffb2c",
    ),
    "photo": PublishedFile(
        "Photo/raw/amazon_electronics_photo.npz",
        ORIGIN,
        17113960,
        "bdb1feb8e6ff42ee44024b04479145029c563fd42fc31bff80af20887ba0439a",
    ),
    "coauthor-cs": PublishedFile(
        "more/ms_academic_cs.npz",
        ORIGIN,
        12835626,
        "933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3",
    ),
}
# names that the file keeps as pickled objects, which nothing here opens: these classes go by their numbers
PICKLED_NAMES = ("coauthor-cs",)


def load_amazon(name: str, *, root: str | os.PathLike[str] | None = None, **origin: Any) -> Graph:
    """One of the three graphs, features sparse, without masks: the data has no split.

    The file lists each edge in one direction or both; here they run both ways.

    Args:
        name: ``computers``, ``photo`` or ``coauthor-cs``.
        root: see :func:`graphsde.datasets.benchmarks.load`.
        origin: ``download`` and ``progress`` as there; ``base_url``, another address that publishes the same bytes.
    """
    file = PINNED[name]
    contents = from_named_folder([file], root)
    if contents is None:
        contents = from_cache_or_origin([file], **origin)
    # read from the bytes whose hash was checked, not from the path again
    with np.load(io.BytesIO(contents[file.name]), allow_pickle=False) as archive:
        labels = archive["labels"]
        classes = range(labels.max() + 1) if name in PICKLED_NAMES else archive["class_names"]
        return from_arrays(
            _matrix(archive, "attr"),
            _matrix(archive, "adj"),
            labels=labels,
            class_names=[str(one) for one in classes],
            name=name,
        )


def _matrix(archive: np.lib.npyio.NpzFile, prefix: str) -> sp.csr_array:
    parts = tuple(archive[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(parts, shape=tuple(archive[f"{prefix}_shape"].tolist()))
