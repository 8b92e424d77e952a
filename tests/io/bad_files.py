"""Files that users and enemies hand over, and what is expected of each.

Every case is (name, build, expected): ``build(folder)`` writes files and returns the path to read; ``expected`` is the
code of an error (``E-…``), the code of a finding about a graph that reads (``W-…``), or ``ok``.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import NamedTuple

import numpy as np
from file_makers import (
    EDGES,
    GRAPHML,
    NODES,
    Build,
    arrays,
    compressed_table,
    corrupt_parquet,
    csr,
    declared_size,
    file,
    labelled,
    link_out,
    malicious,
    member,
    npy,
    parquet,
    pickled_array,
    scrambled_parquet,
    special,
    tables,
    truncated,
    with_ids,
    with_member,
    with_split,
    with_x,
)


class Case(NamedTuple):
    name: str
    build: Build
    expected: str


_nfc, _nfd = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
_wide = ",".join(f"c{column}" for column in range(100_001))
_billion_laughs = "a: &a [x, x]\nb: &b [*a, *a]\nname: *b\n"
_entities = b'<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>'
_nested = '<graph><node id="a"><graph/></node></graph></graphml>'
_wrong_type = (
    '<key id="k" for="node" attr.name="x" attr.type="int"/>'
    '<graph><node id="a"><data key="k">1,5</data></node></graph></graphml>'
)

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
    Case("labels that look the same", labelled(_nfc, _nfd, _nfc, "x"), "E-LABEL-COLLIDE"),
    Case("class names that look the same", tables(settings=f"classes: [{_nfc}, {_nfd}]\n"), "E-LABEL-COLLIDE"),
    Case(
        "no label, but names of classes",
        tables(nodes="id,x,label\na,1,\nb,2,\nc,3,\nd,4,\n", settings="classes: [u, v]\n"),
        "W-UNLABELLED",
    ),
    Case(
        "no label column, and too many classes",
        tables(nodes="id,x\na,1\nb,2\nc,3\nd,4\n", settings=f"classes: [{', '.join(map(str, range(10_001)))}]\n"),
        "E-TOO-MANY-CLASSES",
    ),
    Case("source and target are one column", tables(settings="source: source\ntarget: source\n"), "E-YAML"),
    Case("target is called source", tables(settings="target: source\n"), "E-YAML"),
    Case("the weight is the source", tables(settings="weight: source\n"), "E-YAML"),
    Case("the label is the id", tables(settings="label: id\n"), "E-YAML"),
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
    Case("unlabelled in train", labelled("", "red", "blue", "red", split="train"), "E-SPLIT-UNLABELLED"),
    Case("overlapping masks", arrays(train_mask=np.array([0, 1]), test_mask=np.array([1, 2])), "E-SPLIT-OVERLAP"),
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
    Case("compressed table in a folder", compressed_table, "E-NOT-A-FILE"),
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
    Case("pickle as pt", malicious("graph.pt"), "E-PICKLE"),
    Case("pickle as pth", malicious("graph.PTH"), "E-PICKLE"),
    Case("pickle as pkl", malicious("graph.pkl"), "E-PICKLE"),
    Case("pickle as pickle", malicious("graph.pickle"), "E-PICKLE"),
    Case("pickle as ckpt", malicious("graph.ckpt"), "E-PICKLE"),
    Case("pickle as joblib", malicious("graph.joblib"), "E-PICKLE"),
    Case("pickle renamed", malicious("graph.npz"), "E-CORRUPT"),
    # parquet
    Case("parquet", parquet(x=[1.0, 2.0, 3.0, 4.0], label=["a", "b", "a", "b"]), "ok"),
    Case("parquet with lists", parquet(x=[[1.5], [2.5], [3.5], [4.5]]), "E-DTYPE"),
    Case("parquet with bytes", parquet(x=[b"1", b"2", b"3", b"4"]), "E-DTYPE"),
    Case("parquet with gaps", parquet(x=[1.0, None, 3.0, 4.0]), "E-FEAT-NAN"),
    Case("corrupt parquet", corrupt_parquet, "E-CORRUPT"),
    Case("scrambled parquet", scrambled_parquet, "E-CORRUPT"),
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
    Case("entities", file("g.graphml", _entities), "E-XML-DTD"),
    Case("external entity", file("g.xml", b'<!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>'), "E-XML-DTD"),
    Case("other XML", file("g.xml", b"<html/>"), "E-FORMAT"),
    Case("broken XML", file("g.graphml", f"{GRAPHML}<graph><node".encode()), "E-CORRUPT"),
    Case("empty XML", file("g.graphml", b""), "E-EMPTY"),
    Case("deep XML", file("g.graphml", (GRAPHML + "<graph>" + "<a>" * 1000).encode()), "E-CORRUPT"),
    Case("node without an id", file("g.graphml", f"{GRAPHML}<graph><node/></graph></graphml>".encode()), "E-CORRUPT"),
    Case("wrong type", file("g.graphml", f"{GRAPHML}{_wrong_type}".encode()), "E-FEAT-TYPE"),
    Case("nested graph", file("g.graphml", f"{GRAPHML}{_nested}".encode()), "E-FORMAT"),
]  # fmt: skip
