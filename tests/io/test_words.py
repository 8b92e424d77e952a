"""Bags of words: from JSON, from lists and texts in tables, from data frames; by their counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_makers import tables
from hypothesis import given
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.graph.checks import check
from graphsde.graph.graph import Graph
from graphsde.io.pandas_frames import from_pandas
from graphsde.io.read import read
from graphsde.io.words import bag_of_words
from graphsde.io.write import write_tables

FACEBOOK = Path(__file__).resolve().parents[3] / "shared" / "data" / "more" / "facebook"
THREE = tables("id,label\na,x\nb,y\nc,x\n", "source,target\na,b\nb,c\n")


def folder_with(tmp_path: Path, words: Any, settings: str | None = None) -> Path:
    folder = THREE(tmp_path / "graph")
    text = words if isinstance(words, str) else json.dumps(words)
    (folder / "features.json").write_text(text, encoding="utf-8")
    if settings is not None:
        (folder / "graph.yaml").write_text(settings)
    return folder


def dense(graph: Graph) -> list[list[float]]:
    assert graph.is_sparse
    return graph.features.toarray().tolist()  # type: ignore[union-attr]


@given(st.lists(st.lists(st.text("abcé ", min_size=1, max_size=3).filter(str.strip), max_size=6), max_size=8))
def test_counts_are_those_of_a_counter(lists: list[list[str]]) -> None:
    bag = bag_of_words(lists, str)
    assert bag.names == sorted({word for one in lists for word in one})
    for row, words in enumerate(lists):
        found = dict(zip(bag.names, bag.counts[[row]].toarray()[0].tolist(), strict=True))
        assert {word: count for word, count in found.items() if count} == Counter(words)


def test_words_of_a_folder(tmp_path: Path) -> None:
    graph = read(folder_with(tmp_path, {"c": ["red"], "a": ["tall", "red", "red"]}))
    assert graph.feature_names == ("red", "tall")
    assert dense(graph) == [[2, 1], [0, 0], [1, 0]]
    assert [(one.code, one.where) for one in graph.notes if one.code == "W-NO-WORDS"] == [("W-NO-WORDS", ("b",))]


def test_positions_of_words(tmp_path: Path) -> None:
    graph = read(folder_with(tmp_path, {"a": [3, 0], "b": [], "c": [3]}))
    assert graph.feature_names == ("0", "1", "2", "3")
    assert dense(graph) == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_numeric_ids_are_found_by_their_text(tmp_path: Path) -> None:
    folder = tables("id,label\n10,x\n20,y\n", "source,target\n10,20\n")(tmp_path)
    (folder / "features.json").write_text('{"20": [1], "10": [0]}')
    assert dense(read(folder)) == [[1, 0], [0, 1]]


def test_columns_beside_words_are_used_where_they_are_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": ["w"], "b": [], "c": []})
    (folder / "nodes.csv").write_text("id,label,age,town\na,x,1,Ulm\nb,y,2,Bonn\nc,x,3,Ulm\n")
    graph = read(folder)
    assert graph.feature_names == ("w",) and not graph.categorical
    assert next(one for one in graph.notes if one.code == "W-NODE-COLUMNS").where == ("age", "town")
    assert list(read(folder, categorical=["town"]).categorical) == ["town"]
    assert read(folder, features="degree").feature_names == ("log_degree",)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": [1], "a": [2]}', "E-JSON"),
        ('{"a": [NaN]}', "E-JSON"),
        ('{"a": [Infinity]}', "E-JSON"),
        ('{"a": [' + "9" * 5000 + "]}", "E-JSON"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "E-JSON"),
        ('{"a": [1', "E-JSON"),
        ("[[1], [2], [3]]", "E-JSON"),
        ('{"a": 1}', "E-JSON"),
        ("", "E-JSON"),
        ('{"a": [1.5]}', "E-WORDS"),
        ('{"a": [-1]}', "E-WORDS"),
        ('{"a": [1000000000000]}', "E-WORDS"),
        ('{"a": [true]}', "E-WORDS"),
        ('{"a": [null]}', "E-WORDS"),
        ('{"a": [[1]]}', "E-WORDS"),
        ('{"a": [1], "b": ["red"]}', "E-WORDS"),
        ('{"a": [" "]}', "E-WORDS"),
        ('{"z": [1]}', "E-NODE-UNKNOWN"),
        ('{"a": []}', "E-NO-FEATURES"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(BadInput) as error:
        read(folder_with(tmp_path, text))
    assert error.value.code == code


def test_json_in_another_encoding(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "{}")
    (folder / "features.json").write_bytes('{"a": ["é"]}'.encode("latin-1"))
    with pytest.raises(BadInput, match="E-ENCODING"):
        read(folder)


@given(st.binary(max_size=60))
def test_any_bytes_are_words_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = THREE(tmp_path_factory.getbasetemp() / "any words")
    (folder / "features.json").write_bytes(content)
    try:
        read(folder)
    except GraphsdeError as error:
        assert error.code in {"E-JSON", "E-ENCODING", "E-WORDS", "E-NODE-UNKNOWN", "E-NO-FEATURES"}


def test_lists_in_parquet_and_text_in_words(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"id": [1, 2, 3], "tags": [["b", "a", "b"], None, []], "said": ["hello you", "", None], "age": [1, 2, 3]}
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "edges.parquet")
    graph = read(tmp_path, words="said")
    assert graph.feature_names == ("age", "tags:a", "tags:b", "said:hello", "said:you")
    assert dense(graph) == [[1, 1, 2, 1, 1], [2, 0, 0, 0, 0], [3, 0, 0, 0, 0]]
    # text is a category unless it is named
    assert list(read(tmp_path).categorical) == ["said"]


def test_text_of_a_csv_file_as_words(tmp_path: Path) -> None:
    folder = tables("id,said\na,red wine\nb,red\nc,\n", "source,target\na,b\n", "words: [said]")(tmp_path)
    graph = read(folder)
    assert graph.feature_names == ("said:red", "said:wine")
    assert dense(graph) == [[1, 1], [1, 0], [0, 0]]
    with pytest.raises(BadInput, match="E-HEADER"):
        read(folder, words="nothing")


def test_files_and_columns_by_other_names(tmp_path: Path) -> None:
    (tmp_path / "x_edges.csv").write_text("one,two\na,b\n")
    (tmp_path / "x_target.csv").write_text("id,kind,name\na,p,Ann\nb,q,\n")
    (tmp_path / "x_features.json").write_text('{"a": [0], "b": [1]}')
    graph = read(tmp_path, label="kind", node_name="name")
    assert graph.class_names == ("p", "q") and graph.num_edges == 2 and graph.num_features == 2
    assert graph.node_names is not None and graph.node_names.tolist() == ["Ann", None]
    codes = [one.code for one in graph.notes]
    assert codes.count("W-FILE-CHOSEN") == 3 and "W-COLUMNS-CHOSEN" in codes
    said = read(
        tmp_path, nodes="x_target.csv", edges="x_edges.csv", features="x_features.json", source="two", target="one"
    )
    assert not {"W-FILE-CHOSEN", "W-COLUMNS-CHOSEN"} & {one.code for one in said.notes}
    with pytest.raises(BadInput, match="E-NOT-A-FILE"):
        read(tmp_path, nodes="../x_target.csv")
    with pytest.raises(BadInput, match="E-NOT-A-FILE"):
        read(tmp_path, features="y.json")
    with pytest.raises(BadUsage, match="label"):
        read(tmp_path, label=["a", "b"])


def test_an_edge_list_without_a_header_is_not_guessed(tmp_path: Path) -> None:
    for header in ("a,b", "1,2", "a,other"):
        folder = tables("id,x\na,1\nb,2\n", f"{header}\nb,a\n")(tmp_path)
        with pytest.raises(BadInput, match="E-HEADER"):
            read(folder)


def test_lists_in_a_frame() -> None:
    pd = pytest.importorskip("pandas", reason="the extra 'pandas' is not installed")
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "tags": [["v", "u"], None, {"v"}], "age": [1, 2, 3]})
    graph = from_pandas(nodes, pd.DataFrame({"source": ["a"], "target": ["b"]}))
    assert graph.feature_names == ("age", "tags:u", "tags:v")
    assert dense(graph) == [[1, 1, 1], [2, 0, 0], [3, 0, 1]]


def test_columns_are_for_tables_only(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    arrays = {"features": np.eye(3), "edge_index": np.array([[0], [1]]), "train_masks": np.eye(3, dtype=bool)}
    np.savez(path, labels=np.array([0, 1, 1]), **arrays)  # type: ignore[arg-type]
    assert read(path, split=2).role("train").tolist() == [False, False, True]
    for options in ({"label": "y"}, {"split": "train"}, {"split": 1, "mask": 1}):
        with pytest.raises(BadUsage):
            read(path, **options)


def test_node_names_are_kept(tmp_path: Path) -> None:
    nodes = "id,label,who,x\na,p,Ann,1\nb,q,,2\nc,p,=Cid,3\n"
    graph = read(tables(nodes, "source,target\na,b\n", "node_name: who")(tmp_path / "in"))
    plain = read(tables(nodes, "source,target\na,b\n", "drop: [who]")(tmp_path / "plain"))
    assert graph.fingerprint == plain.fingerprint and plain.node_names is None
    assert graph.node_names is not None and graph.node_names.tolist() == ["Ann", None, "=Cid"]
    assert graph.called(0) == "a (Ann)" and graph.called(1) == "b" and plain.called(0) == "a"
    assert graph.subgraph(np.array([2, 0])).node_names.tolist() == ["=Cid", "Ann"]  # type: ignore[union-attr]
    assert graph.with_features(np.zeros((3, 1), np.float32)).node_names is graph.node_names
    for form in ("csv", "parquet"):
        write_tables(graph, tmp_path / form, form)  # type: ignore[arg-type]
        again = read(tmp_path / form)
        assert again.fingerprint == graph.fingerprint and again.node_names is not None
        assert again.node_names.tolist() == graph.node_names.tolist()


@pytest.mark.skipif(not FACEBOOK.is_dir(), reason=f"the Facebook pages are not in {FACEBOOK}")
def test_facebook_pages_as_they_are_published() -> None:
    graph = read(FACEBOOK, label="page_type", node_name="page_name")
    assert (graph.num_nodes, graph.num_edges, graph.features.shape[1]) == (22_470, 2 * 170_823, 4_714)
    assert graph.is_sparse and graph.features.nnz == 314_583  # type: ignore[union-attr]
    assert graph.class_names == ("company", "government", "politician", "tvshow")
    assert graph.node_name(2) == "ESET"
    words = json.loads((FACEBOOK / "features.json").read_text())
    for row in (0, 1, 22_469):
        assert sorted(words[str(graph.node_ids[row])]) == graph.features[[row]].indices.tolist()  # type: ignore[union-attr]
    assert not [one for one in check(graph).findings if one.level == "problem"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("vocabulary.json", '["red", "tall", "old", "new"]'),
        ("vocab.txt", "red\ntall\nold\nnew\n"),
        ("my_vocab.json", '{"tall": 1, "red": 0, "new": 3, "old": 2}'),
        ("feature_names.json", '{"0": "red", "1": "tall", "2": "old", "3": "new", "4": "never used"}'),
    ],
)
def test_a_vocabulary_spells_out_words_given_by_position(tmp_path: Path, file: str, text: str) -> None:
    folder = folder_with(tmp_path, {"a": [0, 3], "b": [], "c": [3]})
    bare = read(folder)
    (folder / file).write_text(text)
    graph = read(folder)
    assert graph.feature_names == ("red", "tall", "old", "new")
    assert graph.fingerprint == bare.fingerprint
    assert any(file in note.message for note in graph.notes if note.code == "W-FILE-CHOSEN")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["red", "tall"]', "goes up to word 3|go up to word 3"),
        ('["red", "red", "old", "new"]', "occurs twice"),
        ('["red", "", "old", "new"]', "a word is empty"),
        ('{"red": 0, "tall": 5, "old": 2, "new": 3}', "not consecutive"),
        ('{"red": "x", "tall": 1}', "not pairs"),
        ("[1, 2, 3, 4]", "not text"),
        ("[[", "can't be read as a vocabulary"),
    ],
)
def test_a_vocabulary_that_does_not_fit(tmp_path: Path, text: str, words: str) -> None:
    folder = folder_with(tmp_path, {"a": [0, 3], "b": [], "c": [3]})
    (folder / "vocabulary.json").write_text(text)
    with pytest.raises(BadInput, match=words):
        read(folder)


def test_words_in_letters_need_no_vocabulary(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": ["x"], "b": [], "c": ["y"]})
    (folder / "vocabulary.json").write_text("[broken")
    assert read(folder).feature_names == ("x", "y")
