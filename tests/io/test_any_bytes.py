"""Whatever the bytes, reading gives a graph or a typed error."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from file_makers import EDGES, GRAPHML, NODES, arrays, csr, parquet, tables
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphsde.base.errors import GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.io.read import read

quick = settings(max_examples=120, deadline=None)
csv_like = st.lists(
    st.sampled_from([*'abc019,;"\n\r\t.-e', "id", "x", "label", "split", "train", "\n", ",", "NA", "1e400", "é"])
).map(lambda parts: "".join(parts).encode())
xml_pieces = [
    "<graph>",
    "</graph>",
    "<node id='a'/>",
    "<node id='b'>",
    "</node>",
    "<edge source='a' target='b'/>",
    "<data key='k'>",
    "</data>",
    "1\n",
    "<key id='k' for='node' attr.type='int'/>",
    "<default>",
    "</default>",
    "&amp;",
    "<!--",
    "-->",
    "<?x?>",
]
xml_like = st.lists(st.sampled_from(xml_pieces), max_size=12).map("".join)
array_names = [
    "features",
    "x",
    "edge_index",
    "edges",
    "labels",
    "node_ids",
    "class_names",
    "train_mask",
    "edge_weight",
    "feature_names",
    "image_shape",
    "adj_data",
    "adj_indices",
    "adj_indptr",
    "adj_shape",
]
dtypes = ["<f8", "<i8", ">i4", "?", "S2", "<U2", "<f2", "<c8", "u1", "<u8", "|O", "<M8[s]", "V3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables()(tmp_path_factory.mktemp("any"))


def survives(path: Path) -> None:
    try:
        assert isinstance(read(path), Graph)
    except GraphsdeError as error:
        assert error.code.startswith("E-")
        assert error.exit_code in (65, 74)


def scratched(content: bytes, position: int, value: int) -> bytes:
    position %= max(len(content), 1)
    return content[:position] + bytes([value]) + content[position + 1 :]


@quick
@given(st.binary(max_size=300) | csv_like | csv_like.map(lambda rest: b"id,x,label\n" + rest))
@example(b"id\n" + b"0x10\n1\n")
@example(b'id,x\n"')
@example(b"\xef\xbb\xbf")
@example(b"id,x\na,1\nb,\xc3\xa9\n")
def test_nodes_csv(folder: Path, content: bytes) -> None:
    (folder / "nodes.csv").write_bytes(content)
    survives(folder)
    (folder / "nodes.csv").write_bytes(NODES.encode())


@quick
@given(st.binary(max_size=200) | csv_like.map(lambda rest: b"source,target,weight\n" + rest))
def test_edges_csv(folder: Path, content: bytes) -> None:
    (folder / "edges.csv").write_bytes(content)
    survives(folder)
    (folder / "edges.csv").write_bytes(EDGES.encode())


@quick
@given(
    st.binary(max_size=100)
    | st.text(st.sampled_from("namedirectclss:[]{}&*!|>'\"\n -#?,~%@"), max_size=60).map(str.encode)
)
@example(b"name: \x00")
@example(b"? [a]\n: b")
@example(b"%YAML 9.9\n---\nname: a")
@example(b"name: a\n---\nname: b")
@example(b"name: '\\ud800'\nclasses: {a: b}")
def test_graph_yaml(folder: Path, content: bytes) -> None:
    (folder / "graph.yaml").write_bytes(content)
    survives(folder)
    (folder / "graph.yaml").unlink()


@quick
@given(st.binary(max_size=300), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_npz(folder: Path, content: bytes, position: int, value: int, sparse: bool) -> None:
    build = csr([0, 1, 2, 3, 4], [0, 1, 0, 1], [4, 2]) if sparse else arrays()
    good = build(folder).read_bytes()
    for attempt in (content, scratched(good, position, value), good[: position % len(good)]):
        (folder / "graph.npz").write_bytes(attempt)
        survives(folder / "graph.npz")


@quick
@given(
    st.dictionaries(
        st.sampled_from(array_names),
        st.tuples(st.sampled_from(dtypes), st.lists(st.integers(0, 4), max_size=4), st.integers(0, 255)),
    )
)
def test_npz_of_any_arrays(folder: Path, parts: dict[str, tuple[str, list[int], int]]) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, (dtype, shape, fill) in parts.items():
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": dtype, "fortran_order": False, "shape": tuple(shape)}
            )
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            archive.writestr(f"{name}.npy", header.getvalue() + bytes([fill]) * size)
    (folder / "graph.npz").write_bytes(stream.getvalue())
    survives(folder / "graph.npz")


@quick
@given(st.binary(max_size=200) | xml_like.map(lambda body: (GRAPHML + body + "</graphml>").encode()))
@example(b"<?xml version='1.0' encoding='utf-7'?><graphml/>")
@example(b"<?xml version='1.0' encoding='zip'?><graphml/>")
@example(b"<?xml version='1.0' encoding='shift_jis'?><graphml/>")
def test_graphml(folder: Path, content: bytes) -> None:
    (folder / "graph.graphml").write_bytes(content)
    survives(folder / "graph.graphml")


@quick
@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_parquet(tmp_path_factory: pytest.TempPathFactory, position: int, value: int, cut: bool) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    parquet(x=[1.0, 2.0, None, 4.0], label=["a", "b", "a", None])(folder)
    good = (folder / "nodes.parquet").read_bytes()
    bad = good[: position % len(good)] if cut else scratched(good, position, value)
    (folder / "nodes.parquet").write_bytes(bad)
    survives(folder)
