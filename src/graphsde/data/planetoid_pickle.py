"""Reads the Python 2 pickles in which Planetoid was published, and nothing else.

This is the only place in the package that touches the pickle format: the three citation graphs exist in no other
original form. Two fences stand before it. The bytes are compared with a pinned sha256 before they come here, so only
the published files are ever opened. And the unpickler below resolves six names to constructors of plain values; any
other name ends the reading, so that even a file with a chosen hash could not call anything.
"""

from __future__ import annotations

import collections
import io
import pickle
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.errors import BadInput


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
