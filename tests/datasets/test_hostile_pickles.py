"""The reader of pickled files behind the hash check: hand-made files that lie give a typed error and nothing else."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput
from graphsde.datasets.planetoid import read_pickle

ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
MATRIX = b"cscipy.sparse.csr\ncsr_matrix\n)\x81"
LISTS = b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR"


def text(content: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(content)) + content


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value) if abs(value) < 2**31 else b"L" + str(value).encode() + b"L\n"


def dtype(code: bytes, order: bytes = b"<", fields: bytes = b"NNN", flags: int = 0) -> bytes:
    made = b"cnumpy\ndtype\n(" + text(code) + b"K\x00K\x01tR"
    state = b"(K\x03" + text(order) + fields + number(-1) + number(-1) + number(flags) + b"t"
    return made + state + b"b"


def array(shape: tuple[int, ...], content: bytes, kind: bytes | None = None, by_columns: bool = False) -> bytes:
    sides = b"(" + b"".join(map(number, shape)) + b"t"
    order = b"\x88" if by_columns else b"\x89"
    return ARRAY + b"(K\x01" + sides + (dtype(b"f4") if kind is None else kind) + order + content + b"tb"


def floats(*values: float) -> bytes:
    return array((len(values),), text(np.array(values, dtype="<f4").tobytes()))


def integers(*values: int) -> bytes:
    return array((len(values),), text(np.array(values, dtype="<i4").tobytes()), dtype(b"i4"))


def matrix(data: bytes, indices: bytes, indptr: bytes, shape: bytes = b"(K\x02K\x03t") -> bytes:
    parts = {b"data": data, b"indices": indices, b"indptr": indptr, b"_shape": shape}
    return MATRIX + b"}(" + b"".join(text(name) + part for name, part in parts.items()) + b"ub"


def file(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


def test_what_the_published_files_hold_is_read() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(read_pickle(file(array((2, 3), text(values.tobytes()))), "y"), values)
    assert np.array_equal(read_pickle(file(array((2, 3), text(values.T.tobytes()), by_columns=True)), "y"), values)
    csr = read_pickle(file(matrix(floats(5, 7), integers(2, 0), integers(0, 1, 2))), "x")
    assert csr.toarray().tolist() == [[0, 0, 5], [7, 0, 0]]
    assert read_pickle(file(LISTS + b"K\x00]K\x01as"), "graph") == {0: [1]}


RECORD = b"N(" + text(b"a") + b"t}" + text(b"a") + dtype(b"O8") + b"K\x00\x86s"
OBJECTS = b"]q\x01(K\x01K\x02e"
HOSTILE = {
    "object array from a list": array((2,), OBJECTS, dtype(b"O8", b"|", flags=63)),
    "object array from raw bytes": array((2,), text(b"\x41" * 16), dtype(b"O8", b"|", flags=63)),
    "object type by its letter": array((2,), OBJECTS, dtype(b"O")),
    "raw bytes that pretend to be objects": array((2,), text(b"\x41" * 16), dtype(b"V8", b"|", flags=63)),
    "record with an object in it": array((1,), text(b"\x41" * 8), dtype(b"V8", b"|", RECORD)),
    "list in place of bytes": array((2,), OBJECTS),
    "other byte order": array((1,), text(b"\x00" * 4), dtype(b"f4", b">")),
    "type without an order": array((1,), text(b"\x00" * 4), b"cnumpy\ndtype\n(" + text(b"f4") + b"tR(K\x03tb"),
    "text array": array((1,), text(b"\x00" * 4), dtype(b"U1")),
    "complex array": array((1,), text(b"\x00" * 8), dtype(b"c8")),
    "shorter than its shape": array((4,), text(b"\x00" * 12)),
    "longer than its shape": array((2,), text(b"\x00" * 12)),
    "huge shape": array((2**31 - 1, 2**31 - 1), text(b"")),
    "shape that overflows": array((2**62, 8), text(b"")),
    "negative shape": array((-1, -4), text(b"\x00" * 16)),
    "shape that is no tuple": ARRAY + b"(K\x01" + text(b"ab") + dtype(b"f4") + b"\x89" + text(b"\x00" * 4) + b"tb",
    "three dimensions": array((1, 1, 1), text(b"\x00" * 4)),
    "array without content": ARRAY,
    "array with half a state": ARRAY + b"(K\x01tb",
    "type that is no type": array((1,), text(b"\x00" * 4), b"K\x05"),
    "scalar": b"cnumpy.core.multiarray\nscalar\n(" + dtype(b"O8") + OBJECTS + b"tR",
    "index out of range": matrix(floats(5, 7), integers(2, 3), integers(0, 1, 2)),
    "negative index": matrix(floats(5, 7), integers(2, -1), integers(0, 1, 2)),
    "negative indptr": matrix(floats(5, 7), integers(2, 0), integers(0, -1, 2)),
    "indptr beyond the end": matrix(floats(5, 7), integers(2, 0), integers(0, 1, 2**30)),
    "indptr that falls": matrix(floats(5, 7), integers(2, 0), integers(0, 2, 1)),
    "indptr of another length": matrix(floats(5, 7), integers(2, 0), integers(0, 2)),
    "indptr not from 0 on": matrix(floats(5, 7), integers(2, 0), integers(1, 1, 2)),
    "indices that are floats": matrix(floats(5, 7), floats(2, 0), integers(0, 1, 2)),
    "fewer values than indices": matrix(floats(5), integers(2, 0), integers(0, 1, 2)),
    "parts of objects": matrix(array((2,), OBJECTS, dtype(b"O8", b"|", flags=63)), integers(2, 0), integers(0, 1, 2)),
    "parts that are lists": matrix(OBJECTS, OBJECTS, OBJECTS),
    "huge rows": matrix(floats(), integers(), integers(0), b"(" + number(2**62) + number(2**62) + b"t"),
    "huge columns": matrix(floats(), integers(), integers(0, 0, 0), b"(K\x02" + number(2**40) + b"t"),
    "negative rows": matrix(floats(), integers(), integers(), b"(" + number(-1) + b"K\x02t"),
    "shape of text": matrix(floats(), integers(), integers(0, 0, 0), text(b"ab")),
    "matrix without parts": MATRIX,
    "matrix of a list": MATRIX + b"]b",
    "note far away": b"Nr\xff\xff\xff\x7f",
    "note far away, as text": b"Np2147483647\n",
    "one list for everybody": LISTS + b"](" + b"K\x01" * 500 + b"eq\x010(K\x00h\x01K\x01h\x01K\x02h\x01u",
    "neighbours that are text": LISTS + b"K\x00]" + text(b"ab") + b"as",
    "neighbours that are a number": LISTS + b"K\x00K\x01s",
    "nodes that are text": LISTS + text(b"ab") + b"]s",
    "a number": b"K\x07",
    "a bare type": dtype(b"f4"),
    "the reader's own helper": b"cgraphsde.datasets.planetoid\nread_pickle\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_typed_error(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_pickle(file(HOSTILE[name]), "ind.cora.x")
    assert caught.value.code == "E-PICKLE" and caught.value.place == "ind.cora.x"


def test_arrays_of_objects_as_todays_numpy_writes_them(tmp_path: Path) -> None:
    for value in (np.array([{}, ()], dtype=object), np.float64(1.5), np.array([(1, "a")], dtype="i4,O")):
        for protocol in (0, 2, 4):
            with pytest.raises(BadInput):
                read_pickle(pickle.dumps(value, protocol=protocol), "ind.cora.x")


def test_every_flipped_byte_is_a_value_or_a_typed_error() -> None:
    content = file(matrix(floats(5, 7), integers(2, 0), integers(0, 1, 2)))
    refused = 0
    for position in range(len(content)):
        for value in (0, 0x2E, 0x72, 0xFF, content[position] ^ 1):
            damaged = content[:position] + bytes([value]) + content[position + 1 :]
            try:
                read_pickle(damaged, "ind.cora.x")
            except BadInput:
                refused += 1
    assert refused > len(content)
