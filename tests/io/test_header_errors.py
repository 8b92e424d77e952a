"""Missing columns: which one was meant, and what to do about it; a header that is missing altogether."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_makers import NODES, parquet, tables

from graphsde.base.errors import BadInput, BadUsage
from graphsde.cli.options import key_values
from graphsde.io.read import read

HOUSES = "side,house,price\nN,h1,1.5\nS,h2,2.5\nN,h3,3.5\n"


def refused(folder: Path, **options: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        read(folder, **options)
    assert caught.value.code == "E-HEADER"
    return caught.value


def as_told(folder: Path, error: BadInput) -> dict[str, object]:
    """The options that the fix names."""
    pairs = re.findall(r"--read ('[^']*'|[^\s;,]+)", str(error.fix))
    return key_values([shlex.split(pair)[0] for pair in pairs if "COLUMN" not in pair], "--read")


def test_a_column_whose_values_all_differ_may_be_the_id(tmp_path: Path) -> None:
    folder = tables(nodes=HOUSES, edges="source,target\nh1,h2\n")(tmp_path)
    error = refused(folder)
    assert "side" not in str(error.fix) and "price" not in str(error.fix)
    assert read(folder, **as_told(folder, error)).node_ids.tolist() == ["h1", "h2", "h3"]


def test_no_column_may_be_the_id(tmp_path: Path) -> None:
    error = refused(tables(nodes="side,price\nN,1.5\nN,2.5\n")(tmp_path))
    assert error.fix == "rename a column to 'id', or name another: --read id=COLUMN"


def test_columns_that_hold_ids_may_be_the_ends(tmp_path: Path) -> None:
    folder = tables(edges="day,from,to,strength\n1,a,b,2\n2,b,c,3\n")(tmp_path / "a")
    error = refused(folder)
    assert as_told(folder, error) == {"source": "from", "target": "to"}
    assert read(folder, **as_told(folder, error)).num_edges == 4
    one = tables(edges="source,other,day\na,b,1\nb,c,2\n")(tmp_path / "b")
    assert as_told(one, refused(one)) == {"target": "other"}
    typed = parquet(x=[1.0, 2.0, 3.0, 4.0])(tmp_path / "c")
    (typed / "edges.csv").write_text("a,b,day\na,b,1\n")
    assert "seems to be missing" in refused(typed).message  # a and b are nodes


@pytest.mark.parametrize(("header", "meant"), [("Id", "Id"), ("ids", "ids"), ("side", "")])
def test_only_very_similar_names_are_suggested(tmp_path: Path, header: str, meant: str) -> None:
    error = refused(tables(nodes=f"{header},x\nN,1.5\nN,2\n")(tmp_path))
    assert (f"did you mean '{meant}'? Then: --read id={meant}" in str(error.fix)) == bool(meant)


def test_a_setting_that_names_no_column(tmp_path: Path) -> None:
    folder = tables()(tmp_path / "a")
    error = refused(folder, label="foo")
    assert error.fix == "choose one of the columns found: --read label=COLUMN" and "id, x, label" in str(error.found)
    assert refused(folder, label="lable").fix == "did you mean 'label'?"
    assert refused(folder, drop=["y7"]).fix == "remove it from 'drop', or choose one of the columns found"
    assert refused(folder, target="regresion").fix == "did you mean target=regression?"
    error = refused(tables(settings="words: [y7]\n")(tmp_path / "b"))
    assert error.place == "graph.yaml, line 1" and "remove it from 'words'" in str(error.fix)


@pytest.mark.parametrize(
    ("nodes", "edges", "place"),
    [
        ("0,buyer,1.304,-0.179\n1,seller,2,3\n", "source,target\n0,1\n", "nodes.csv, line 1"),
        ("ann,red,1.5\nbob,blue,2\n", "source,target\nann,bob\n", "nodes.csv, line 1"),
        ("0,1,1,0.5\n1,0,1,2\n", "source,target\n0,1\n", "nodes.csv, line 1"),  # not: two columns are named '1'
        ("0,,1.5\n1,red,2\n", "source,target\n0,1\n", "nodes.csv, line 1"),  # not: column 2 has no name
        (NODES, "a,b,1\nb,c,2\n", "edges.csv, line 1"),
        ("id,x\n7,1\n8,2\n", "7,8\n8,7\n", "edges.csv, line 1"),
    ],
)
def test_a_missing_header_line(tmp_path: Path, nodes: str, edges: str, place: str) -> None:
    error = refused(tables(nodes=nodes, edges=edges)(tmp_path))
    assert f"the header line of {place.partition(',')[0]} seems to be missing" in error.message
    assert error.place == place and str(error.found).split(", ")[0] in ("0", "ann", "a", "7")


@pytest.mark.parametrize(
    ("nodes", "edges", "place", "example"),
    [
        ("0,1,2\nann,red,1.5\nbob,blue,2\n", "source,target\nann,bob\n", "nodes.csv, line 1", "id,label,…"),
        (NODES, "0,1\na,b\nb,c\n", "edges.csv, line 1", "source,target"),
    ],
)
def test_names_of_columns_that_only_count(tmp_path: Path, nodes: str, edges: str, place: str, example: str) -> None:
    error = refused(tables(nodes=nodes, edges=edges)(tmp_path))
    assert error.place == place and "have no names, only numbers, or its header line is missing" in error.message
    assert str(error.fix).startswith("name the columns: replace the first line") and example in str(error.fix)


def test_a_typed_table_has_no_lines(tmp_path: Path) -> None:
    pq.write_table(pa.table({"0": ["ann", "bob"], "1": ["red", "blue"], "2": [1.5, 2.0]}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\n")
    error = refused(tmp_path)
    assert error.message == "the columns of nodes.parquet seem to have no names, only numbers"
    assert error.fix == "name the columns" and "line" not in f"{error.place} {error.expected}"


@pytest.mark.parametrize("header", ["from,to", "From,To,a"])
def test_usual_names_of_ends_are_no_data_even_if_nodes_are_called_so(tmp_path: Path, header: str) -> None:
    nodes = "id,x\nfrom,1\nto,2\nFrom,3\nTo,4\na,5\n"
    extra = ",7" * (header.count(",") - 1)
    folder = tables(nodes=nodes, edges=f"{header}\nfrom,a{extra}\na,to{extra}\n")(tmp_path)
    error = refused(folder)
    assert "seems to be missing" not in error.message
    assert read(folder, **as_told(folder, error)).num_edges == 4


def test_years_are_names_of_columns(tmp_path: Path) -> None:
    error = refused(tables(nodes="house,2019,2020\nh1,1,2\nh2,3,4\n", edges="source,target\nh1,h2\n")(tmp_path))
    assert "seems to be missing" not in error.message and "--read id=house" in str(error.fix)


def test_regression_in_the_file_of_settings_leaves_the_columns_of_edges_free(tmp_path: Path) -> None:
    settings = "id: house\nlabel: price\ntarget: regression\n"
    folder = tables(nodes=HOUSES, edges="a,b\nh1,h2\nh2,h3\n", settings=settings)(tmp_path)
    graph = read(folder)
    assert graph.target_kind == "regression" and graph.num_edges == 4
    assert read(folder, target="regression").fingerprint == graph.fingerprint
    named = tables(nodes=HOUSES, edges="a,b\nh1,h2\n", settings="id: house\nsource: b\ntarget: a\n")(tmp_path / "b")
    assert read(named, directed=True).adjacency.matrix[1, 0] == 1  # a target that is a column still is one


@pytest.mark.parametrize(
    ("wrong", "right"), [("lable", "label"), ("word", "words"), ("dorp", "drop"), ("imputed", "impute")]
)
def test_options_of_tables_are_listed_and_suggested(tmp_path: Path, wrong: str, right: str) -> None:
    with pytest.raises(BadUsage) as caught:
        read(tables()(tmp_path), **{wrong: "x"})
    assert caught.value.fix == f"did you mean '{right}'?"
    assert {"label", "id", "words", "drop", "impute"} <= set(
        str(caught.value.expected).removeprefix("one of ").split(", ")
    )


def test_a_run_is_not_a_graph(tmp_path: Path) -> None:
    for name in ("config.yaml", "model.json", "predictions.parquet"):
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput, match="is a run, not a graph"):
        read(tmp_path)
