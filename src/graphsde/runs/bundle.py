"""Arrays and plain values in one file, without pickle: what a run keeps besides its model."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import GraphsdeError

FORMAT = 1
LARGEST = 500_000_000
"""Maximum bytes of arrays to keep: reading and verifying more would take as long as computing them again."""
LARGEST_WITHIN_LIMIT = 4_000_000_000
"""The same under a memory limit, where files are mapped and computing again would need most of it."""
MAPPED = 1 << 26
"""Files of at least this many bytes are mapped instead of read."""
_VALUES = "values.json"


@dataclass(frozen=True)
class Bundle:
    """Arrays by name, and everything else as JSON can hold it.

    Args:
        arrays: numbers and booleans, of any shape.
        values: plain ones.
    """

    arrays: Mapping[str, np.ndarray]
    values: dict[str, Any]

    @property
    def bytes(self) -> int:
        """Of the arrays alone: an array that is there twice is counted, and written, twice."""
        return sum(array.nbytes for array in self.arrays.values())

    def write(self, path: Path) -> None:
        """One array after the other: memory for a second copy of all of them is not needed."""
        # the last bits of sums depend on the memory layout, so an array is restored in its original order
        orders = {name: _axes(array) for name, array in self.arrays.items() if not array.flags.c_contiguous}
        arrays = {
            name: array.transpose(orders[name]) if name in orders else array for name, array in self.arrays.items()
        }
        text = json.dumps({"format": FORMAT, "orders": orders, **self.values}).encode("ascii")
        with storage.writing(path) as stream:
            write_safetensors(stream, {_VALUES: np.frombuffer(text, dtype=np.uint8), **arrays})

    @classmethod
    def read(cls, path: Path) -> Bundle:
        """From a file; arrays are the reader's own and can be written into.

        Those of a large file are memory maps: only pages that are read take memory, and the system can drop them.
        """
        from safetensors import SafetensorError, safe_open

        try:
            size = path.stat().st_size  # raises the system's own error
            with safe_open(path, framework="np") as file:  # refuses an incomplete file
                if size >= MAPPED and os.name == "posix":  # elsewhere a mapped file could not be replaced
                    arrays = _mapped(path)
                else:
                    arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
            values = json.loads(arrays.pop(_VALUES).tobytes())
            known = values.pop("format") == FORMAT
            for name, axes in values.pop("orders").items():
                arrays[name] = arrays[name].transpose(np.argsort(axes))
        except OSError as error:
            raise storage.io_error("read", path, error) from error
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise storage.damaged(path, type(error).__name__) from error
        if not known:
            raise storage.damaged(path, "unknown format", "use the version that wrote it, or fit again")
        return cls(arrays, values)


# in the order in which they are written: the widest first, so that every array begins where its numbers may
_KINDS = {
    "uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32", "int32": "I32",
    "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_BYTES_AT_ONCE = 2**24


def _mapped(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a valid file; writes to them stay in this process."""
    whole = np.memmap(path, dtype=np.uint8, mode="c")
    start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    kinds = {kind: np.dtype(name) for name, kind in _KINDS.items()}
    arrays = {}
    for name, one in json.loads(whole[8:start].tobytes()).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in one["data_offsets"])
            arrays[name] = whole[begin:end].view(np.ndarray).view(kinds[one["dtype"]]).reshape(one["shape"])
    return arrays


def write_safetensors(stream: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """The bytes that ``safetensors`` would write, a part of an array at a time.

    The format: the length of a header as 64 bits, the header (JSON, filled up with blanks to a multiple of 8 bytes) and
    the arrays.
    """
    places = {kind: place for place, kind in enumerate(_KINDS.values())}
    order = sorted(arrays, key=lambda name: (places[_kind(arrays[name])], name))
    header, start = {}, 0
    for name in order:
        stop = start + arrays[name].nbytes
        header[name] = {"dtype": _kind(arrays[name]), "shape": list(arrays[name].shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little"))
    stream.write(text)
    for name in order:
        array = arrays[name]
        rows = max(1, _BYTES_AT_ONCE // max(1, array[:1].nbytes)) if array.ndim else 1
        for first in range(0, len(array), rows) if array.ndim else (0,):
            part = array[first : first + rows] if array.ndim else array
            stream.write(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).tobytes())


def _kind(array: np.ndarray) -> str:
    return _KINDS[array.dtype.name]


def _axes(array: np.ndarray) -> list[int]:
    """Axes from the one with the largest steps in memory to the one with the smallest."""
    return [int(axis) for axis in np.argsort([-abs(step) for step in array.strides], kind="stable")]


@contextlib.contextmanager
def sound(path: Path) -> Iterator[None]:
    """Report any inconsistency in one of our files as damage."""
    try:
        yield
    except (GraphsdeError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise storage.damaged(path, f"{type(error).__name__}: {error}") from error


def require_shape(array: np.ndarray, *shape: int | None) -> np.ndarray:
    """``array``, if it has this shape; ``None`` matches any length."""
    if array.ndim != len(shape) or any(
        wanted is not None and wanted != found for wanted, found in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"an array has the shape {array.shape}, not {shape}")
    return array
