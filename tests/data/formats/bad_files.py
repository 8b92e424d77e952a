"""Files that users and enemies hand over, and what is expected of each.

Every case is (name, build, expected): ``build(folder)`` writes files and returns the path to read; ``expected`` is the
code of an error (``E-…``), the code of a finding about a graph that reads (``W-…``), or ``ok``.
"""

from __future__ import annotations

import io
import os
import struct
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

NODES = "id,x,label\na,1,red\nb,2,blue\nc,3,red\nd,4.5,blue\n"
EDGES = "source,target\na,b\nb,c\nc,d\n"
GRAPHML = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'

Build = Callable[[Path], Path]


class Case(NamedTuple):
    name: str
    build: Build
    expected: str


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
            import warnings

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


def with_split(*words: str) -> Build:
    rows = "".join(f"{node},1.{row},{row % 2},{word}\n" for row, (node, word) in enumerate(zip("abcd", words, strict=True)))
    return tables(nodes="id,x,label,split\n" + rows)


def labelled(*labels: str) -> Build:
    return tables(
        nodes="id,x,label\n" + "".join(f"{node},{row},{one}\n" for row, (node, one) in enumerate(zip("abcd", labels, strict=True)))
    )


def with_x(*cells: str) -> Build:
    """Twelve nodes whose feature column ends with the given cells."""
    column = [str(number) for number in range(12 - len(cells))] + list(cells)
    nodes = "id,x,y\n" + "".join(f"{row},{cell},0.5\n" for row, cell in enumerate(column))
    return tables(nodes=nodes, edges="source,target\n0,1\n")


def with_ids(*ids: str) -> Build:
    return tables(nodes="id,x\n" + "".join(f"{node},{row}\n" for row, node in enumerate(ids)), edges="source,target\n")


_nfc, _nfd = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
_wide = ",".join(f"c{column}" for column in range(100_001))
_billion_laughs = "a: &a [x, x]\nb: &b [*a, *a]\nname: *b\n"

BAD_FILES: list[Case] = [
    # edges
    Case("self loop", tables(edges=EDGES + "a,a\n"), "W-SELF-LOOPS"),
    Case("duplicate edges", tables(edges=EDGES + "a,b\n"), "W-DUP-EDGES"),
    Case("duplicate edges, other weight", tables(edges="source,target,weight\na,b,1\na,b,2\n"), "E-DUP-WEIGHT"),
    Case("directed edges", tables(), "W-SYMMETRISED"),
    Case("no edges", tables(edges="source,target\n"), "W-NO-EDGES"),
    Case("edge to an unknown node", tables(edges=EDGES + "a,z\n"), "E-EDGE-UNKNOWN"),
    Case("negative weight", tables(edges="source,target,weight\na,b,-1\n"), "E-WEIGHT"),
    Case("missing weight", tables(edges="source,target,weight\na,b,\n"), "E-WEIGHT"),
    Case("weight as text", tables(edges='source,target,weight\na,b,1\nb,c,"1,5"\n'), "E-WEIGHT"),
    Case("zero weight", tables(edges="source,target,weight\na,b,0\nb,c,1\n"), "W-WEIGHT-ZERO"),
    Case("more edge columns", tables(edges="source,target,since\na,b,2001\n"), "W-EDGE-COLUMNS"),
    Case("no source column", tables(edges="from,target\na,b\n"), "E-HEADER"),
    # ids
    Case("ids with gaps", with_ids("5", "900", "10000000"), "ok"),
    Case("an id of a thousand million", with_ids("1", "2", "1000000000"), "ok"),
    Case("unicode ids", with_ids("ä", "日本", "🙂"), "ok"),
    Case("ids that look the same", with_ids(_nfc, _nfd), "E-ID-COLLIDE"),
    Case("id 2**63", with_ids("1", str(2**63)), "E-ID-RANGE"),
    Case("id -1", with_ids("1", "-1"), "E-ID-RANGE"),
    Case("id 1e30", with_ids("1", "1e30"), "E-ID-FORM"),
    Case("id 1.0 beside 1", with_ids("1", "1.0"), "E-ID-FORM"),
    Case("node twice", tables(nodes=NODES + "a,9,red\n"), "E-NODE-DUP"),
    Case("no id", with_ids("a", "", "c"), "E-ID-FORM"),
    # features
    Case("empty cell", with_x(""), "E-FEAT-NAN"),
    Case("NA", with_x("NA", "null", "NaN"), "E-FEAT-NAN"),
    Case("infinite", with_x("inf"), "E-FEAT-INF"),
    Case("too large for a double", with_x("1e400"), "E-FEAT-INF"),
    Case("too large for a float", with_x("1e308"), "E-FEAT-OVERFLOW"),
    Case("constant column", with_x(), "W-CONSTANT"),
    Case("text among numbers", with_x("abc"), "E-FEAT-TYPE"),
    Case("decimal comma", with_x('"1,5"'), "E-FEAT-TYPE"),
    Case("nothing but decimal commas", with_x(*['"1,5"'] * 12), "E-FEAT-TYPE"),
    Case("thousands with a comma", with_x('"1,000"'), "E-FEAT-TYPE"),
    Case("thousands with a space", with_x("1 000"), "E-FEAT-TYPE"),
    Case("exponent", with_x("1e3", "1E-3", "+5", ".5", "5."), "ok"),
    Case("half text, half numbers", with_x(*"abcde"), "W-MIXED-COLUMN"),
    Case("no features", tables(nodes="id,label\na,1\nb,2\nc,1\nd,2\n"), "E-NO-FEATURES"),
    Case("too short a row", tables(nodes=NODES + "e,5\n"), "E-ROW-LEN"),
    Case("too long a row", tables(nodes=NODES + "e,5,red,more\n"), "E-ROW-LEN"),
    # labels and splits
    Case("labels missing", labelled("red", "", "NA", "blue"), "W-UNLABELLED"),
    Case("labels of two kinds", labelled("1", "1.0", "2", "2"), "E-LABEL-MIXED"),
    Case("labels are measurements", labelled("0.5", "1.5", "0.5", "1.5"), "E-LABEL-FLOAT"),
    Case("one-hot labels", arrays(labels=np.eye(4)), "E-LABEL-SHAPE"),
    Case("classes 0, 7, 42", labelled("0", "7", "42", "7"), "W-CLASS-NUMBERED"),
    Case(
        "too many classes",
        tables(nodes="id,x,label\n" + "".join(f"{row},1,c{row}\n" for row in range(10_001)), edges="source,target\n"),
        "E-TOO-MANY-CLASSES",
    ),
    Case("no labels", tables(nodes="id,x\na,1\nb,2\nc,3\nd,4\n"), "ok"),
    Case("unknown split", with_split("train", "tset", "val", "test"), "E-SPLIT-NAME"),
    Case("class only in test", with_split("train", "test", "train", "test"), "W-CLASS-UNSEEN"),
    Case("unlabelled in train", tables(nodes="id,x,label,split\na,1,,train\nb,2,r,test\nc,1,s,train\nd,2,r,val\n"), "E-SPLIT-UNLABELLED"),
    Case("overlapping masks", arrays(train_mask=np.array([1, 1, 0, 0], bool), test_mask=np.array([0, 1, 1, 1], bool)), "E-SPLIT-OVERLAP"),
    Case("mask too short", arrays(train_mask=np.array([True, False])), "E-LEN"),
    Case("mask of unknown nodes", arrays(train_mask=np.array([0, 99])), "E-SPLIT-UNKNOWN"),
    Case("labels too short", arrays(labels=np.array([0, 1, 0])), "E-LEN"),
    # text
    Case("latin-1", tables(nodes=NODES.replace("red", "ré").encode("latin-1")), "E-ENCODING"),
    Case("UTF-16", tables(nodes=NODES.encode("utf-16")), "E-ENCODING"),
    Case("UTF-16 without a mark", tables(nodes=NODES.encode("utf-16-le")), "E-ENCODING"),
    Case("NUL", tables(nodes=NODES.replace("red", "r\0d")), "E-ENCODING"),
    Case("byte-order mark", tables(nodes=NODES.encode("utf-8-sig")), "ok"),
    Case("CRLF", tables(nodes=NODES.replace("\n", "\r\n"), edges=EDGES.replace("\n", "\r\n")), "ok"),
    Case("CR", tables(nodes=NODES.replace("\n", "\r"), edges=EDGES.replace("\n", "\r")), "ok"),
    Case("no last newline", tables(nodes=NODES.rstrip(), edges=EDGES.rstrip()), "ok"),
    Case("newline in quotes", tables(nodes=NODES.replace("red", '"r\ned"')), "ok"),
    Case("semicolons", tables(nodes=NODES.replace(",", ";"), edges=EDGES.replace(",", "\t")), "ok"),
    Case("semicolons, sometimes", tables(nodes="id;x;label\na,1,red\nb,2,blue\n"), "E-DELIM"),
    Case("bars", tables(nodes=NODES.replace(",", "|")), "E-DELIM"),
    Case("spaces", tables(edges=EDGES.replace(",", " ")), "E-DELIM"),
    Case("open quote", tables(nodes=NODES + '"e,5,red\n' + "f,6,red\n" * 20_000), "E-QUOTE"),
    Case("a line of two megabytes", tables(nodes=NODES + "e" * 2_000_000), "E-LINE-LEN"),
    Case("a hundred thousand columns and one", tables(nodes=f"id,{_wide}\n"), "E-LINE-LEN"),
    Case("formula", tables(nodes=NODES.replace("red", "=cmd()")), "ok"),
    Case("column twice", tables(nodes="id,x,x\na,1,1\nb,2,2\n"), "E-HEADER"),
    Case("column without a name", tables(nodes=",id,x\n0,a,1\n1,b,2\n"), "E-HEADER"),
    Case("no id column", tables(nodes="ID,x\na,1\nb,2\n"), "E-HEADER"),
    # things that are no files
    Case("empty file", tables(nodes=b""), "E-EMPTY"),
    Case("blank file", tables(nodes=b"\n\n \n"), "E-EMPTY"),
    Case("header only", tables(nodes="id,x\n"), "E-EMPTY"),
    Case("one node", tables(nodes="id,x\na,1\n", edges="source,target\n"), "E-TOO-SMALL"),
    Case("no such path", lambda folder: folder / "nothing", "E-NOT-A-FILE"),
    Case("empty folder", tables(None, None), "E-NOT-A-FILE"),
    Case("no edges file", tables(edges=None), "E-NOT-A-FILE"),
    Case("compressed table", file("nodes.csv.gz", b"\x1f\x8b"), "E-FORMAT"),
    Case("folder as a file", special(lambda path: path.mkdir()), "E-NOT-A-FILE"),
    Case("pipe", special(lambda path: os.mkfifo(path)), "E-NOT-A-FILE"),
    Case("device", special(lambda path: path.symlink_to("/dev/zero")), "E-NOT-A-FILE"),
    Case("device itself", lambda folder: Path("/dev/zero"), "E-NOT-A-FILE"),
    Case("link out of the folder", special(link_out), "E-NOT-A-FILE"),
    Case("a table alone", file("nodes.csv", NODES.encode()), "E-FORMAT"),
    Case("unknown suffix", file("graph.dot", b"graph {}"), "E-FORMAT"),
    # npz
    Case("npz", arrays(), "ok"),
    Case("npz without edges", arrays(edge_index=None), "E-HEADER"),
    Case("npz without nodes", arrays(features=None, labels=None), "E-HEADER"),
    Case("edges the wrong way round", arrays(edge_index=np.array([[0, 1], [1, 2], [2, 3]])), "E-SHAPE"),
    Case("edges as decimals", arrays(edge_index=np.array([[0.5], [1.5]])), "E-DTYPE"),
    Case("edge to position 99", arrays(edge_index=np.array([[0], [99]])), "E-EDGE-UNKNOWN"),
    Case("complex features", arrays(features=np.ones((4, 2), complex)), "E-DTYPE"),
    Case("text features", arrays(features=np.array([["a"]] * 4)), "E-DTYPE"),
    Case("dates", arrays(features=np.zeros((4, 2), "M8[s]")), "E-DTYPE"),
    Case("a single number as labels", arrays(labels=np.array(3)), "E-SHAPE"),
    Case("zip bomb", declared_size(1_600_000_000), "E-BOMB"),
    Case("zip bomb of gigabytes", declared_size(4_000_000_000), "E-BOMB"),
    Case("header lies", member("features.npy", npy((10**12,), b"1234")), "E-HEADER-LIE"),
    Case(
        "header lies about edges",
        with_member(arrays(edge_index=None), "edge_index.npy", npy((2, 10**8), b"12345678", "<i8")),
        "E-HEADER-LIE",
    ),
    Case("header lies about empty rows", member("features.npy", npy((10**12, 0))), "E-HEADER-LIE"),
    Case("header with a negative size", member("features.npy", npy((-4, -2), b"\0" * 32)), "E-HEADER-LIE"),
    Case("pickle inside", pickled_array, "E-PICKLE"),
    Case("pickled names", arrays(class_names=np.array(["a", "b"], dtype=object)), "W-NAMES-IGNORED"),
    Case("CSR", csr([0, 1, 2, 3, 4], [0, 1, 0, 1], [4, 2]), "ok"),
    Case("CSR rows fall", csr([0, 3, 1, 3, 4], [0, 1, 0, 1], [4, 2]), "E-CSR"),
    Case("CSR column out of range", csr([0, 1, 2, 3, 4], [0, 1, 0, 9], [4, 2]), "E-CSR"),
    Case("CSR negative column", csr([0, 1, 2, 3, 4], [0, 1, 0, -1], [4, 2]), "E-CSR"),
    Case("CSR too few values", csr([0, 1, 2, 3, 4], [0, 1, 0, 1], [4, 2], values=3), "E-CSR"),
    Case("CSR too many values", csr([0, 1, 1, 1, 1], [0, 1, 0, 1], [4, 2]), "E-CSR"),
    Case("CSR too short", csr([0, 1], [0], [4, 2]), "E-CSR"),
    Case("CSR very wide", csr([0] * 1000 + [1], [7], [1000, 10**8]), "E-CSR"),
    Case("CSR of 2**62 rows", csr([0, 1], [0], [2**62, 2]), "E-CSR"),
    Case("member outside", member("../features.npy", npy((0,))), "E-PATH"),
    Case("member at the root", member("/etc/features.npy", npy((0,))), "E-PATH"),
    Case("member twice", member("features.npy", npy((0,)), twice=True), "E-PATH"),
    Case("member is a link", member("features.npy", b"/etc/passwd", mode=0o120777), "E-PATH"),
    Case("nested zip", member("features.npy", b"PK\x05\x06" + b"\0" * 18), "E-CORRUPT"),
    Case("truncated npz", truncated(arrays(), 0.6), "E-CORRUPT"),
    Case("empty npz", file("graph.npz", b""), "E-CORRUPT"),
    Case("not an npz", file("graph.npz", NODES.encode()), "E-CORRUPT"),
    # pickles
    *(Case(f"pickle as {suffix}", malicious(f"graph.{suffix}"), "E-PICKLE") for suffix in ("pt", "pth", "pkl", "pickle", "ckpt", "joblib")),
    Case("pickle renamed", malicious("graph.npz"), "E-CORRUPT"),
    # parquet
    Case("parquet", parquet(x=[1.0, 2.0, 3.0, 4.0], label=["a", "b", "a", "b"]), "ok"),
    Case("parquet with lists", parquet(x=[[1], [2], [3], [4]]), "E-DTYPE"),
    Case("parquet with bytes", parquet(x=[b"1", b"2", b"3", b"4"]), "E-DTYPE"),
    Case("parquet with gaps", parquet(x=[1.0, None, 3.0, 4.0]), "E-FEAT-NAN"),
    Case("corrupt parquet", corrupt_parquet, "E-CORRUPT"),
    # graph.yaml
    Case("settings", tables(settings="name: demo\ndirected: yes\n"), "ok"),
    Case("no settings", tables(settings=""), "ok"),
    Case("misspelt setting", tables(settings="direted: true\n"), "E-YAML"),
    Case("setting twice", tables(settings="name: a\nname: b\n"), "E-YAML"),
    Case("python object", tables(settings="name: !!python/object/apply:os.system ['touch marker']\n"), "E-YAML"),
    Case("billion laughs", tables(settings=_billion_laughs), "E-YAML"),
    Case("deep nesting", tables(settings="name: " + "[" * 1000), "E-YAML"),
    Case("not YAML", tables(settings="name: [a\n"), "E-YAML"),
    Case("a list", tables(settings="- a\n- b\n"), "E-YAML"),
    Case("wrong choice", tables(settings="impute: maen\n"), "E-YAML"),
    Case("setting without a value", tables(settings="label:\n"), "E-YAML"),
    Case("wrong picture", tables(settings="image_shape: [2, x]\n"), "E-YAML"),
    Case("picture of another size", tables(settings="image_shape: [2, 3]\n"), "E-LEN"),
    Case("two megabytes of settings", tables(settings="# " + "x" * 2_000_000), "E-YAML"),
    Case("label column that is not there", tables(settings="label: topic\n"), "E-HEADER"),
    Case("dropped column that is not there", tables(settings="drop: [y]\n"), "E-HEADER"),
    Case("label not among the classes", tables(settings="classes: [red, green]\n"), "E-LABEL-UNKNOWN"),
    # GraphML
    Case("entities", file("g.graphml", b'<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>'), "E-XML-DTD"),
    Case("external entity", file("g.xml", b'<!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>'), "E-XML-DTD"),
    Case("other XML", file("g.xml", b"<html/>"), "E-FORMAT"),
    Case("broken XML", file("g.graphml", f"{GRAPHML}<graph><node".encode()), "E-CORRUPT"),
    Case("empty XML", file("g.graphml", b""), "E-EMPTY"),
    Case("deep XML", file("g.graphml", (GRAPHML + "<graph>" + "<a>" * 1000).encode()), "E-CORRUPT"),
    Case("node without an id", file("g.graphml", f"{GRAPHML}<graph><node/></graph></graphml>".encode()), "E-CORRUPT"),
    Case(
        "wrong type",
        file("g.graphml", f'{GRAPHML}<key id="k" for="node" attr.name="x" attr.type="int"/><graph><node id="a"><data key="k">1,5</data></node></graph></graphml>'.encode()),
        "E-FEAT-TYPE",
    ),
    Case("nested graph", file("g.graphml", f'{GRAPHML}<graph><node id="a"><graph/></node></graph></graphml>'.encode()), "E-FORMAT"),
]  # fmt: skip
