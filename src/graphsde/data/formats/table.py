"""What the reader of a folder needs from a table, whatever file it came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from graphsde.data.findings import Finding

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Features:
    """Feature columns by kind.

    Args:
        numeric: numbers, NaN where missing; ``None`` if no column is numeric.  # [N, d]
        numeric_names: their names.
        categorical: text columns by name.
        findings: what was noticed on the way.
    """

    numeric: np.ndarray | None
    numeric_names: list[str]
    categorical: dict[str, np.ndarray]
    findings: list[Finding] = field(default_factory=list)


class Table(Protocol):
    """Rows and named columns of one file."""

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def header_place(self) -> str: ...

    @property
    def place(self) -> Callable[[int], str]: ...

    def ids(self, column: str) -> np.ndarray:
        """Integers where the column has nothing else, otherwise objects.  # [N]"""

    def values(self, column: str) -> np.ndarray:
        """The column as found.  # [N]"""

    def weights(self, column: str) -> np.ndarray:
        """The column as numbers, NaN where missing; anything else is refused.  # [N]"""

    def features(self, columns: Sequence[str], categorical: Collection[str]) -> Features:
        """Columns sorted into numbers and text; those in ``categorical`` are text in any case."""


def as_objects(column: pa.Array) -> np.ndarray:
    """Arrow text as Python objects, equal texts sharing one; ``None`` where null."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = np.empty(len(coded.dictionary) + 1, dtype=object)
    texts[:-1] = coded.dictionary.to_pylist()  # the last entry stays None, for nulls
    codes = coded.indices.cast(pa.int64()).fill_null(-1) if coded.null_count else coded.indices
    return texts[codes.to_numpy()]
