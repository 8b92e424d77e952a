"""Uploads: what is kept, and what is refused with words."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.io.read import read
from graphsde.view.app.serve import UPLOAD_BYTES
from graphsde.view.app.uploads import Upload, keep_upload

NODES = b"id,label,price\na,x,1\nb,y,2\nc,x,3\nd,y,4\n"
EDGES = b"source,target\na,b\nb,c\nc,d\n"


def packed(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def refused(files: list[Upload], folder: Path) -> GraphsdeError:
    with pytest.raises(BadInput) as refusal:
        keep_upload(files, folder)
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert not left, "nothing of a refused upload stays"
    return refusal.value


@pytest.mark.parametrize("inside", ["", "shop/"])
def test_a_folder_of_tables_as_a_zip(tmp_path: Path, inside: str) -> None:
    members = {f"{inside}nodes.csv": NODES, f"{inside}edges.csv": EDGES, f"{inside}README.txt": b"hi"}
    members["__MACOSX/nodes.csv"] = b"junk"
    upload = Upload("my shop.zip", packed(members))
    path = keep_upload([upload], tmp_path)
    assert path.name == "my-shop" and sorted(p.name for p in path.iterdir()) == ["edges.csv", "nodes.csv"]
    assert read(path).num_nodes == 4
    assert keep_upload([upload], tmp_path) == path, "the same files are kept once"


def test_two_tables_and_single_files(tmp_path: Path) -> None:
    path = keep_upload([Upload("Nodes.csv", NODES), Upload("edges.csv", EDGES)], tmp_path)
    assert read(path).num_nodes == 4
    stream = io.BytesIO()
    np.savez(stream, features=np.eye(4, dtype=np.float32), edge_index=[[0, 1], [1, 2]], labels=[0, 1, 0, 1])
    path = keep_upload([Upload("../../../etc/graph.npz", stream.getvalue())], tmp_path)
    assert path.parent.parent == tmp_path and path.name == "graph.npz" and read(path).num_nodes == 4


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([], "E-EMPTY"),
        ([Upload("nodes.csv", NODES)], "E-EMPTY E-NOT-A-FILE E-FORMAT"),
        ([Upload("x.pt", b"\x80\x04")], "E-PICKLE"),
        ([Upload("x.exe", b"MZ")], "E-FORMAT"),
        ([Upload("x.npz", b"PK not a zip")], "E-CORRUPT"),
        ([Upload("x.zip", b"PK not a zip")], "E-CORRUPT"),
        ([Upload("x.zip", packed({"a.txt": b"x"}))], "E-FORMAT"),
        ([Upload("x.zip", packed({"../nodes.csv": NODES, "edges.csv": EDGES}))], "E-PATH"),
        ([Upload("x.zip", packed({"/nodes.csv": NODES}))], "E-PATH"),
        ([Upload("x.zip", packed({"C:\\nodes.csv": NODES}))], "E-PATH"),
        ([Upload("x.zip", packed({"a/nodes.csv": NODES, "b/nodes.csv": NODES}))], "E-PATH"),
        ([Upload("x.zip", packed({"a/b/nodes.csv": NODES}))], "E-PATH"),
        ([Upload("x.zip", packed({f"{i}.txt": b"" for i in range(1001)}))], "E-BOMB"),
        ([Upload("x.zip", packed({"inner.zip": packed({"nodes.csv": NODES})}))], "E-FORMAT"),
        ([Upload("nodes.csv", b"id,label,price\na,x,<img>\n"), Upload("edges.csv", EDGES)], "E-"),
    ],
)
def test_what_is_no_graph_is_refused_with_words(tmp_path: Path, files: list[Upload], code: str) -> None:
    error = refused(files, tmp_path)
    assert any(error.code.startswith(one) for one in code.split()), error


def test_too_large(tmp_path: Path) -> None:
    error = refused([Upload("x.npz", bytes(UPLOAD_BYTES + 1))], tmp_path)
    assert error.code == "E-BOMB" and "at most 50 MB" in str(error)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    content = packed({"nodes.csv": bytes(30_000_000), "edges.csv": EDGES})
    assert len(content) < 100_000
    assert refused([Upload("small.zip", content)], tmp_path).code == "E-BOMB"


def test_a_bomb_that_lies_about_its_size(tmp_path: Path) -> None:
    """Both headers announce 100 bytes; what comes out is counted."""
    true_size, content = 5_000_000, bytearray(packed({"nodes.csv": bytes(5_000_000), "edges.csv": EDGES}))
    announced = struct.pack("<I", true_size)
    assert content.count(announced) == 2
    content = content.replace(announced, struct.pack("<I", 100))
    assert refused([Upload("small.zip", bytes(content))], tmp_path).code in ("E-BOMB", "E-CORRUPT")


def test_an_encrypted_zip_and_a_link(tmp_path: Path) -> None:
    content = bytearray(packed({"nodes.csv": NODES}))
    at = content.rfind(b"PK\x01\x02")
    content[at + 8] |= 1
    assert refused([Upload("x.zip", bytes(content))], tmp_path).code == "E-CORRUPT"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        link = zipfile.ZipInfo("nodes.csv")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert refused([Upload("x.zip", stream.getvalue())], tmp_path).code == "E-PATH"
