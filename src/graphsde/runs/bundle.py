"""Arrays and plain values in one file, without pickle: what a run keeps beside its model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import GraphsdeError

FORMAT = 1
LARGEST = 500_000_000
"""Bytes of arrays beyond which nothing is kept: reading and comparing them would take as long as solving again."""
_VALUES = "values.json"


@dataclass(frozen=True)
class Bundle:
    """Arrays by name, and everything else as JSON can hold it.

    Args:
        arrays: numbers and truth values, of any shape.
        values: plain ones.
    """

    arrays: Mapping[str, np.ndarray]
    values: dict[str, Any]

    @property
    def bytes(self) -> int:
        """Of the arrays alone: an array that is there twice is counted, and written, twice."""
        return sum(array.nbytes for array in self.arrays.values())

    def write(self, path: Path) -> None:
        from safetensors.numpy import save

        # sums go by the layout in memory, and so do their last bits: an array comes back in the order that it had
        orders = {name: _axes(array) for name, array in self.arrays.items() if not array.flags.c_contiguous}
        arrays = {
            name: np.ascontiguousarray(array.transpose(orders[name]) if name in orders else array)
            for name, array in self.arrays.items()
        }
        text = json.dumps({"format": FORMAT, "orders": orders, **self.values}).encode("ascii")
        storage.write_bytes(path, save({_VALUES: np.frombuffer(text, dtype=np.uint8), **arrays}))

    @classmethod
    def read(cls, path: Path) -> Bundle:
        """From a file; arrays are the reader's own and can be written into."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = {name: np.array(array) for name, array in load(path.read_bytes()).items()}
            values = json.loads(arrays.pop(_VALUES).tobytes())
            known = values.pop("format") == FORMAT
            for name, axes in values.pop("orders").items():
                arrays[name] = arrays[name].transpose(np.argsort(axes))
        except OSError as error:
            raise storage.io_error("read", path, error) from error
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise storage.damaged(path, type(error).__name__) from error
        if not known:
            raise storage.damaged(path, "its format is not known", "use the version that wrote it, or fit again")
        return cls(arrays, values)


def _axes(array: np.ndarray) -> list[int]:
    """Axes from the one with the largest steps in memory to the one with the smallest."""
    return [int(axis) for axis in np.argsort([-abs(step) for step in array.strides], kind="stable")]


@contextlib.contextmanager
def sound(path: Path) -> Iterator[None]:
    """Whatever does not fit together in a file of ours is damage, and is told as such."""
    try:
        yield
    except (GraphsdeError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise storage.damaged(path, f"{type(error).__name__}: {error}") from error


def require_shape(array: np.ndarray, *shape: int | None) -> np.ndarray:
    """``array``, where it has this shape; ``None`` stands for any length."""
    if array.ndim != len(shape) or any(
        wanted is not None and wanted != found for wanted, found in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"an array has the shape {array.shape}, not {shape}")
    return array
