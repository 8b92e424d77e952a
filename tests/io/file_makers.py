"""Makers of small files, good and bad, for tests of the readers."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

NODES = "id,x,label\na,1,red\nb,2,blue\nc,3,red\nd,4.5,blue\n"
EDGES = "source,target\na,b\nb,c\nc,d\n"
GRAPHML = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'

Build = Callable[[Path], Path]


def tables(
    nodes: str | bytes | None = NODES, edges: str | bytes | None = EDGES, settings: str | bytes | None = None
) -> Build:
    def build(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("nodes.csv", nodes), ("edges.csv", edges), ("graph.yaml", settings)):
            if content is not None:
                (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return build


def file(name: str, content: bytes) -> Build:
    def build(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return folder / name

    return build


def arrays(**changes: np.ndarray | None) -> Build:
    """A good ``.npz`` file with some arrays changed, or left out (``None``)."""

    def build(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        good = {
            "features": np.arange(8.0).reshape(4, 2),
            "edge_index": np.array([[0, 1, 2], [1, 2, 3]]),
            "labels": np.array([0, 1, 0, 1]),
        }
        np.savez(folder / "graph.npz", **{k: v for k, v in {**good, **changes}.items() if v is not None})
        return folder / "graph.npz"

    return build


def csr(indptr: list[int], indices: list[int], shape: list[int], values: int | None = None) -> Build:
    data = np.ones(len(indices) if values is None else values, dtype=np.float32)
    return arrays(
        features=None,
        features_data=data,
        features_indices=np.array(indices, dtype=np.int64),
        features_indptr=np.array(indptr, dtype=np.int64),
        features_shape=np.array(shape, dtype=np.int64),
    )


def member(name: str, content: bytes, *, twice: bool = False, mode: int = 0) -> Build:
    """An ``.npz`` file with one member as given."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, content)
        if twice:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive.writestr(zipfile.ZipInfo(name), content)
    return file("graph.npz", stream.getvalue())


def with_member(build: Build, name: str, content: bytes) -> Build:
    def add(folder: Path) -> Path:
        path = build(folder)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, content)
        return path

    return add


def npy(shape: tuple[int, ...], content: bytes = b"", descr: str = "<f4") -> bytes:
    """An ``.npy`` file whose header says what it likes."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def declared_size(size: int) -> Build:
    """A small ``.npz`` file whose directory announces a large member."""

    def build(folder: Path) -> Path:
        path = member("features.npy", npy((20_000, 20_000)))(folder)
        content = bytearray(path.read_bytes())
        directory = content.index(b"PK\x01\x02")
        content[directory + 24 : directory + 28] = struct.pack("<I", size)
        path.write_bytes(bytes(content))
        return path

    return build


def truncated(build: Build, keep: float) -> Build:
    def cut(folder: Path) -> Path:
        path = build(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])
        return path

    return cut


def special(make: Callable[[Path], None]) -> Build:
    """A folder whose ``nodes.csv`` is no plain file."""

    def build(folder: Path) -> Path:
        tables(nodes=None)(folder)
        make(folder / "nodes.csv")
        return folder

    return build


def link_out(path: Path) -> None:
    outside = path.parent.with_name(path.parent.name + "-outside.csv")
    outside.write_text(NODES)
    path.symlink_to(outside)


class _Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch '{self.marker}'",)


def malicious(name: str) -> Build:
    """A pickle that creates the file ``marker`` beside itself when somebody loads it."""

    def build(folder: Path) -> Path:
        import pickle

        return file(name, pickle.dumps(_Payload(folder / "marker")))(folder)

    return build


def pickled_array(folder: Path) -> Path:
    objects = np.empty(4, dtype=object)
    objects[0] = _Payload(folder / "marker")
    return arrays(labels=objects)(folder)


def parquet(**columns: object) -> Build:
    def build(folder: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables(nodes=None)(folder)
        pq.write_table(pa.table({"id": ["a", "b", "c", "d"], **columns}), folder / "nodes.parquet")
        return folder

    return build


def corrupt_parquet(folder: Path) -> Path:
    parquet(x=[1.0, 2.0, 3.0, 4.0])(folder)
    path = folder / "nodes.parquet"
    path.write_bytes(path.read_bytes()[:-20] + b"x" * 12 + b"PAR1")
    return folder


def scrambled_parquet(folder: Path) -> Path:
    """The frame is good, the facts inside are not."""
    parquet(x=[1.0, 2.0, 3.0, 4.0])(folder)
    path = folder / "nodes.parquet"
    content = path.read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    path.write_bytes(content[: -8 - length] + b"\xff" * length + content[-8:])
    return folder


def with_split(*words: str) -> Build:
    rows = "".join(
        f"{node},1.{row},{row % 2},{word}\n" for row, (node, word) in enumerate(zip("abcd", words, strict=True))
    )
    return tables(nodes="id,x,label,split\n" + rows)


def labelled(*labels: str, split: str = "") -> Build:
    rows = (f"{node},{row},{label},{split}\n" for row, (node, label) in enumerate(zip("abcd", labels, strict=True)))
    return tables(nodes="id,x,label,split\n" + "".join(rows))


def compressed_table(folder: Path) -> Path:
    tables(nodes=None)(folder)
    file("nodes.csv.gz", b"\x1f\x8b")(folder)
    return folder


def with_x(*cells: str) -> Build:
    """Twelve nodes whose feature column ends with the given cells."""
    column = [str(number) for number in range(12 - len(cells))] + list(cells)
    nodes = "id,x,y\n" + "".join(f"{row},{cell},0.5\n" for row, cell in enumerate(column))
    return tables(nodes=nodes, edges="source,target\n0,1\n")


def with_ids(*ids: str) -> Build:
    return tables(nodes="id,x\n" + "".join(f"{node},{row}\n" for row, node in enumerate(ids)), edges="source,target\n")
