"""Damaged headers of ``.npz`` files, and directories that lie: a valid graph or a typed error, nothing else."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from file_makers import npy

from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.io.read import read

CASES = 300
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


def good_file(compressed: bool) -> bytes:
    """Every layout at once: dense and sparse parts, text, masks."""
    stream = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(
        stream,
        features=np.arange(8, dtype=np.float32).reshape(4, 2),
        adj_data=np.ones(3, dtype=np.float32),
        adj_indices=np.array([1, 2, 3]),
        adj_indptr=np.array([0, 1, 2, 3, 3]),
        adj_shape=np.array([4, 4]),
        labels=np.array([0, 1, 0, 1]),
        node_ids=np.array(["a", "b", "c", "d"]),
        class_names=np.array([b"no", b"yes"]),
        train_masks=np.eye(4, dtype=bool)[:2],
        val_mask=np.array([3]),
    )
    return stream.getvalue()


def header_bytes(content: bytes) -> list[int]:
    """Where the headers are: of members, of arrays (where these are not compressed), the directory and its end."""
    positions: list[int] = []
    for signature, length in ((LOCAL, 50), (CENTRAL, 70), (END, 22), (b"\x93NUMPY", 128)):
        at = content.find(signature)
        while at >= 0:
            positions += range(at, min(at + length, len(content)))
            at = content.find(signature, at + 1)
    return positions


def damaged(content: bytes, cases: int, seed: int) -> Iterator[bytes]:
    """One to four bytes of the headers changed: flipped bits, extreme values, or other characters of a header."""
    random = np.random.default_rng(seed)
    where = header_bytes(content)
    for _ in range(cases):
        changed = bytearray(content)
        for position in random.choice(where, size=random.integers(1, 5)):
            kind = random.integers(3)
            extreme = int(random.choice([0, 1, 0x7F, 0x80, 0xFF]))
            letter = int(random.choice(list(b"0123456789,()<>|fiuSUOVMc'{}: \n")))
            changed[position] = (
                changed[position] ^ 1 << int(random.integers(8)) if kind == 0 else (extreme, letter)[kind - 1]
            )
        yield bytes(changed)


def read_or_refused(path: Path, contents: Iterator[bytes]) -> None:
    """Each content gives a graph or a typed error; at least a quarter of them the error."""
    refused = 0
    for content in contents:
        path.write_bytes(content)
        try:
            assert isinstance(read(path), Graph)
        except GraphsdeError as error:
            assert error.code.startswith("E-") and error.exit_code in (65, 71, 74), error
            refused += 1
    assert refused > CASES // 4, "the damage should be felt"


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_headers(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "graph.npz"
    content = good_file(compressed)
    path.write_bytes(content)
    assert read(path).num_nodes == 4
    read_or_refused(path, damaged(content, CASES, seed=int(compressed)))


def damaged_arrays(cases: int, seed: int) -> Iterator[bytes]:
    """As above within the headers of arrays, with checksums that are right."""
    random = np.random.default_rng(seed)
    with zipfile.ZipFile(io.BytesIO(good_file(True))) as archive:
        arrays = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    names = sorted(arrays)
    for _ in range(cases):
        name = names[random.integers(len(names))]
        changed = next(damaged(arrays[name], 1, seed=int(random.integers(2**31))))
        yield replaced(**{name: changed})


def test_damaged_headers_with_right_checksums(tmp_path: Path) -> None:
    read_or_refused(tmp_path / "graph.npz", damaged_arrays(CASES, seed=7))


def replaced(**members: bytes) -> bytes:
    """A good file with the raw content of some arrays replaced."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good_file(True))) as source, zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            target.writestr(name, members.get(name.removesuffix(".npy"), source.read(name)))
    return stream.getvalue()


def written(header: bytes, version: bytes = b"\x01\x00") -> bytes:
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    return b"\x93NUMPY" + version + size + header + bytes(32)


@pytest.mark.parametrize(
    "array",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        written(b"{" * 3000),
        written(b"(" * 3000 + b")" * 3000),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2)}", b"\x03\x00"),
        written(b"{'descr': '<f4', 'fortran_order': 2, 'shape': (4, 2)}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 8)}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2.0)}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': 8}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -2)}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), 'more': 1}"),
        written(b"{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (4,)}"),
        written(b"{'descr': ('<f4', (99999999, 99999999)), 'fortran_order': False, 'shape': (4,)}"),
        written(b"{'descr': '<f0', 'fortran_order': False, 'shape': (4, 2)}"),
        written(b"{'descr': '<U0', 'fortran_order': False, 'shape': (4, 2)}"),
        written(b"{'descr': '<U999999999999', 'fortran_order': False, 'shape': (4,)}"),
        written(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 2000 + b",)}"),
        written(b"__import__('os').getpid()"),
        npy((10**9, 10**9)),
        npy((2**63, 2)),
        npy((0, 10**12)),
        npy((4, 2), bytes(16)),
        npy((1, 1, 1, 8), bytes(32)),
        npy((), bytes(4)),
    ],
)
@pytest.mark.parametrize("name", ["features", "labels", "adj_indptr"])
def test_headers_that_no_program_writes(tmp_path: Path, name: str, array: bytes) -> None:
    path = tmp_path / "graph.npz"
    path.write_bytes(replaced(**{name: array}))
    with pytest.raises(BadInput):
        read(path)


def refused(tmp_path: Path, content: bytes) -> BadInput:
    path = tmp_path / "graph.npz"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read(path)
    return caught.value


def crowd(members: int) -> tuple[bytes, int]:
    """A zip directory of so many empty members, and where it begins."""
    entry = CENTRAL + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"a"
    assert len(entry) == 47
    return LOCAL + bytes(26) + entry * members, 30


def test_a_million_members_are_not_listed(tmp_path: Path) -> None:
    body, at = crowd(200_000)
    size = len(body) - at
    plain = body + END + struct.pack("<4H2LH", 0, 0, 0xFFFF, 0xFFFF, size, at, 0)
    assert refused(tmp_path, plain).code == "E-BOMB"
    few = body + END + struct.pack("<4H2LH", 0, 0, 1, 1, size, at, 0)
    assert refused(tmp_path, few).code == "E-BOMB"


def test_a_zip64_directory_behind_a_harmless_record(tmp_path: Path) -> None:
    """The old record speaks of one member; the standard library goes by the other one."""
    body, at = crowd(200_000)
    record = b"PK\x06\x06" + struct.pack("<Q2H2L4Q", 44, 45, 45, 0, 0, 200_000, 200_000, len(body) - at, at)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, len(body), 1)
    end = END + struct.pack("<4H2LH", 0, 0, 1, 1, 47, at, 0)
    error = refused(tmp_path, body + record + locator + end)
    assert error.code == "E-BOMB" and "directory" in str(error.found)


def test_zip64_sizes_of_honest_files_are_read(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in (("features", np.eye(3, dtype=np.float32)), ("edge_index", np.array([[0], [1]]))):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value)
    path = tmp_path / "graph.npz"
    path.write_bytes(stream.getvalue())
    assert read(path).num_nodes == 3


def test_two_members_for_one_array(tmp_path: Path) -> None:
    content = io.BytesIO(good_file(True))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("features", npy((4, 1), bytes(16)))  # numpy takes 'features.npy' and 'features' for the same
    error = refused(tmp_path, content.getvalue())
    assert error.code == "E-PATH" and "occurs twice" in error.message


@pytest.mark.parametrize(("offset", "value"), [(8, 0), (14, 1), (18, 1), (22, 1)])
def test_a_member_that_differs_from_the_directory(tmp_path: Path, offset: int, value: int) -> None:
    """Method, checksum and sizes: another program would go by these and see other content."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", npy((4, 2), bytes(32)))
        archive.writestr("edge_index.npy", npy((2, 1), np.array([0, 1]).tobytes(), "<i8"))
    content = bytearray(stream.getvalue())
    path = tmp_path / "graph.npz"
    path.write_bytes(bytes(content))
    assert read(path).num_nodes == 4
    content[offset] = value if content[offset] != value else value + 1
    assert refused(tmp_path, bytes(content)).code == "E-CORRUPT"
