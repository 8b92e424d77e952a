"""Folders of tables: what columns mean, what graph.yaml changes, how much is read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from file_makers import EDGES, NODES, parquet, tables

from graphsde.base.errors import BadInput
from graphsde.graph.build import from_arrays
from graphsde.io.graph_yaml import parse_strict_yaml
from graphsde.io.read import read


def test_a_folder_against_arrays(tmp_path: Path) -> None:
    nodes = "id,age,city,label,split\nann,31,Rome,x,train\nbob,25.5,Oslo,y,train\neve,1e2,,x,test\n"
    graph = read(tables(nodes=nodes, edges="source,target,weight\nann,bob,2\nbob,eve,.5\n")(tmp_path / "people"))
    expected = from_arrays(
        [[31.0], [25.5], [100.0]],
        [[0, 1], [1, 2]],
        weights=np.array([2, 0.5]),
        labels=["x", "y", "x"],
        node_ids=["ann", "bob", "eve"],
        categorical={"city": ["Rome", "Oslo", None]},
    )
    assert graph.fingerprint == expected.fingerprint
    assert graph.name == "people"
    assert graph.feature_names == ("age",)
    assert graph.masks["test"].tolist() == [False, False, True]


def test_settings_rename_drop_and_force(tmp_path: Path) -> None:
    settings = """
name: renamed
id: key
label: topic
source: from
target: to
weight: strength
categorical: [zip]
drop: [comment]
classes: [no, yes]     # as written, not as truth values
directed: yes
"""
    nodes = "key,zip,comment,label,topic\n1,00184,x,5,yes\n2,0150,y,6,no\n3,00184,z,7,\n"
    graph = read(tables(nodes=nodes, edges="from,to,strength\n1,2,3\n", settings=settings)(tmp_path))
    assert graph.name == "renamed"
    assert graph.adjacency.directed
    assert graph.adjacency.matrix[0, 1] == 3.0
    assert graph.class_names == ("no", "yes")
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.feature_names == ("label",)
    assert {name: column.tolist() for name, column in graph.categorical.items()} == {"zip": ["00184", "0150", "00184"]}


def test_arguments_win_over_settings(tmp_path: Path) -> None:
    folder = tables(settings="directed: true\nname: inside\n")(tmp_path)
    assert read(folder).adjacency.directed
    assert not read(folder, directed=False).adjacency.directed
    assert read(folder, name="outside").name == "outside"


def test_class_positions_with_names(tmp_path: Path) -> None:
    folder = tables(nodes="id,x,label\na,1,1\nb,2,0\nc,3,-1\nd,4,1\n", settings="classes: [zero, one]\n")(tmp_path)
    graph = read(folder)
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, -1, 1]
    assert graph.class_names == ("zero", "one")


def test_a_class_may_have_any_listed_name(tmp_path: Path) -> None:
    nodes = "id,x,label\na,1,NA\nb,2,1\nc,3,0\nd,4,\n"
    graph = read(tables(nodes=nodes, settings="classes: [NA, 1, 0]\n")(tmp_path))
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 1, 2, -1]


def test_options_reach_the_graph(tmp_path: Path) -> None:
    folder = tables(nodes="id,x\na,1\nb,\nc,3\nd,4\n", edges=EDGES + "a,zoe\n")(tmp_path)
    graph = read(folder, impute="mean", unknown_edges="drop")
    assert np.allclose(graph.features[:, 0], [1, 8 / 3, 3, 4])
    assert {"W-IMPUTED", "W-EDGE-DROPPED"} <= {note.code for note in graph.notes}
    assert read(folder, features="degree", unknown_edges="drop").feature_names == ("log_degree",)


def test_space_around_cells_does_not_matter(tmp_path: Path) -> None:
    folder = tables(nodes="id, x, label\n a, 1, red\n b, 2, blue\n", edges="source, target\na, b\n")(tmp_path)
    graph = read(folder)
    assert graph.num_edges == 2
    assert graph.class_names == ("blue", "red")


def test_quotes_are_not_part_of_a_cell(tmp_path: Path) -> None:
    folder = tables(nodes='"id","x"\n"a ""b"", c","1"\nd,2\n', edges='source,target\n"a ""b"", c",d\n')(tmp_path)
    assert read(folder).node_ids.tolist() == ['a "b", c', "d"]


def test_parquet_columns_keep_their_types(tmp_path: Path) -> None:
    import pyarrow as pa

    words = pa.array(["u", "v", "u", None]).dictionary_encode()
    columns = {"n": pa.array([1, 2, 3, 4], pa.int8()), "flag": [True, False, True, True], "word": words}
    graph = read(parquet(**columns, label=pa.array([3, 1, None, 3]), code=["1", "2", "1", "2"])(tmp_path))
    assert graph.feature_names == ("n", "flag")
    assert graph.features.tolist() == [[1, 1], [2, 0], [3, 1], [4, 1]]
    assert graph.categorical["word"].tolist() == ["u", "v", "u", None]
    assert graph.categorical["code"].tolist() == ["1", "2", "1", "2"]
    assert graph.class_names == ("1", "3")
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, -1, 1]


def test_parquet_places_name_the_row(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nodes\.parquet, row 2, column x"):
        read(parquet(x=[1.0, float("inf"), 1.0, 1.0])(tmp_path))


@pytest.mark.parametrize(("one", "other"), [("007", "8"), ("0x10", "16"), ("00", "0")])
def test_ids_stay_as_they_are_written(one: str, other: str, tmp_path: Path) -> None:
    folder = tables(nodes=f"id,x\n{one},1\n{other},2\n", edges=f"source,target\n{one},{other}\n")(tmp_path)
    graph = read(folder)
    assert graph.node_ids.tolist() == [one, other]
    assert graph.num_edges == 2


def test_two_tables_of_the_same_name(tmp_path: Path) -> None:
    parquet(x=[1, 2, 3, 4])(tmp_path)
    (tmp_path / "nodes.csv").write_text(NODES)
    with pytest.raises(BadInput, match=r"both nodes\.csv and nodes\.parquet"):
        read(tmp_path)


def test_a_file_name_that_is_nearly_right(tmp_path: Path) -> None:
    tables(nodes=None)(tmp_path)
    (tmp_path / "node.csv").write_text(NODES)
    with pytest.raises(BadInput, match=r"did you mean 'node\.csv'"):
        read(tmp_path)


def test_many_edges_and_wide_tables(tmp_path: Path) -> None:
    count, width = 200_000, 3_000
    header = "id," + ",".join(f"c{column}" for column in range(width))
    rows = "".join(f"{row}," + ",".join([str(row)] * width) + "\n" for row in range(30))
    ends = np.arange(count) % 30
    edges = "source,target\n" + "".join(f"{one},{(one * 7 + 1) % 30}\n" for one in ends.tolist())
    graph = read(tables(nodes=f"{header}\n{rows}", edges=edges)(tmp_path))
    assert graph.features.shape == (30, width)
    assert (graph.features == np.arange(30)[:, None]).all()
    assert next(note.count for note in graph.notes if note.code == "W-DUP-EDGES") > count - 60


def test_order_of_rows_and_edges_does_not_matter(tmp_path: Path) -> None:
    one = read(tables(edges="source,target\na,b\nb,c\n")(tmp_path / "one"))
    other = read(tables(edges="source,target\nb,c\na,b\n")(tmp_path / "other"))
    assert one.fingerprint == other.fingerprint


def test_yaml_is_read_as_written() -> None:
    text = "a: yes\nb: 1e5\nc: [on, 007, '']\nd: {x: 1}\ne: ~\nf: 'null'\n"
    values = {key: setting.value for key, setting in parse_strict_yaml(text, "any.yaml").items()}
    assert values == {"a": "yes", "b": "1e5", "c": ["on", "007", ""], "d": {"x": "1"}, "e": None, "f": "null"}


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1",
        "a: *x",
        "a: !!str 1",
        "a: !x 1",
        "a: 1\na: 2",
        "a: {b: 1, b: 2}",
        "[a]: 1",
        "a: 1\n---\nb: 2",
        "a: \x01",
    ],
)
def test_yaml_tricks_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_strict_yaml(text, "any.yaml")
    assert caught.value.code == "E-YAML"
    assert "any.yaml" in str(caught.value)
