"""Every bad file gives its own code, names its place, and runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_files import BAD_FILES, Case
from file_makers import arrays, declared_size, malicious, pickled_array, tables

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError, StorageError
from graphsde.graph.checks import check
from graphsde.io.read import read


def outcome(path: Path) -> tuple[set[str], GraphsdeError | None]:
    try:
        graph = read(path)
    except GraphsdeError as error:
        return {error.code}, error
    return {"ok", *(finding.code for finding in (*graph.notes, *check(graph).findings))}, None


@pytest.mark.parametrize("case", BAD_FILES, ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    path = case.build(tmp_path / "graph")
    codes, error = outcome(path)
    assert case.expected in codes, f"{codes}: {error}"
    if error is not None:
        assert isinstance(error, BadInput)
        assert error.exit_code == 65
        assert error.fix or error.expected
    assert not list(tmp_path.rglob("marker"))


def test_names_of_cases_are_different() -> None:
    assert len({case.name for case in BAD_FILES}) == len(BAD_FILES)


def message(build: object, folder: Path, **options: object) -> str:
    with pytest.raises(BadInput) as caught:
        read(build(folder), **options)  # type: ignore[operator]
    return str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("id,x,y\na,1,2\nb,1\n", ["nodes.csv, line 3", "2 cells", "header has 3"]),
        ('id,x\n"a\n\nb",1\nc,2,3\n', ["nodes.csv, line 5", "3 cells"]),
        ("id,x\n\n\na,1\nb,2,3\n", ["nodes.csv, line 5"]),
        ('id,x\r\n"a",1\r\n"b",2,3\r\n', ["nodes.csv, line 3"]),
        ("id,x\ra,1\rb,2,3\r", ["nodes.csv, line 3"]),
        ('id,x\na",1\nb,2,3\n', ["nodes.csv, line 3"]),
        ("id,x\na,1\nb,2\na,3\n", ["nodes.csv, line 4", "nodes.csv, line 2", "E-NODE-DUP"]),
        ('id,x\n"a\nb",1\nc,2\nc,3\n', ["nodes.csv, line 5", "E-NODE-DUP"]),
        ("id,x\na,1\nb,two\nc,3\n", ["nodes.csv, line 3, column x", "two", "categorical"]),
        ('id,x\na,1\nb,"2,5"\nc,3\n', ["nodes.csv, line 3, column x", "2,5", "1234.5"]),
        ("id,x\na,1\nb,\nc,3\n", ["nodes.csv, line 3, column x", "impute"]),
        ("Id,x\na,1\nb,2\n", ["nodes.csv, line 1", "did you mean 'Id'", "Found: Id, x"]),
    ],
)
def test_messages_name_file_and_line(nodes: str, words: list[str], tmp_path: Path) -> None:
    text = message(tables(nodes=nodes, edges="source,target\n"), tmp_path)
    for word in words:
        assert word in text


def test_an_unknown_edge_is_named_with_its_line(tmp_path: Path) -> None:
    text = message(tables(edges="source,target\na,b\nb,zebra\n"), tmp_path)
    assert "zebra" in text
    assert "edges.csv, line 3" in text


def test_encoding_error_names_the_byte_and_the_way_out(tmp_path: Path) -> None:
    content = "id,x,label\na,1,é\nb,2,u\n".encode("cp1252")
    build = tables(nodes=content, edges="source,target\na,b\n")
    text = message(build, tmp_path)
    assert f"byte {content.index(0xE9)}" in text
    assert "encoding=cp1252" in text
    assert read(build(tmp_path), encoding="cp1252").class_names == ("u", "é")
    with_settings = tables(nodes=content, edges="source,target\na,b\n", settings="encoding: cp1252\n")
    assert read(with_settings(tmp_path)).class_names == ("u", "é")


def test_encoding_error_beyond_the_first_megabyte(tmp_path: Path) -> None:
    content = b"id,x\n" + b"1,2\n" * 400_000 + "5,é\n".encode()[:-2] + b"\n"
    assert f"byte {len(content) - 2}" in message(tables(nodes=content), tmp_path)


def test_utf16_is_read_when_named(tmp_path: Path) -> None:
    build = tables(nodes="id,x\na,1\nb,2\n".encode("utf-16"), edges="source,target\na,b\n".encode("utf-16"))
    assert read(build(tmp_path), encoding="utf-16").num_edges == 2


@pytest.mark.parametrize("encoding", ["zip", "rot13", "punycode", "no-such", "idna", "base64", "", "unicode_escape"])
def test_encodings_that_are_none(encoding: str, tmp_path: Path) -> None:
    with pytest.raises(BadUsage):
        read(tables()(tmp_path), encoding=encoding)


def test_bombs_are_refused_from_the_directory(tmp_path: Path) -> None:
    text = message(declared_size(1_600_000_000), tmp_path)
    assert "1.6 GB" in text


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    assert "numpy.savez" in message(malicious("graph.pt"), tmp_path)
    text = message(pickled_array, tmp_path)
    assert "allow_pickle is never used" in text
    assert "labels" in text
    assert not (tmp_path / "marker").exists()


def test_unknown_options_suggest_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="did you mean 'directed'"):
        read(tables()(tmp_path), direct=True)
    with pytest.raises(BadUsage, match="True or False"):
        read(tables()(tmp_path), directed="yes")
    with pytest.raises(BadUsage):
        read(tables()(tmp_path), impute="median")


def test_a_misspelt_setting_suggests_the_right_one(tmp_path: Path) -> None:
    text = message(tables(settings="# comment\nimputed: mean\n"), tmp_path)
    assert "graph.yaml, line 2" in text
    assert "did you mean 'impute'" in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("impute: maen", "did you mean 'mean'"),
        ("label_kind: regresion", "did you mean 'regression'"),
        ("duplicates: [sum]", "one of error, sum, first"),
        ("directed: perhaps", "'directed' should be true or false"),
        ("drop: [[x]]", "'drop' should be a list of words"),
        ("name: {a: b}", "'name' should be a word"),
        ("image_shape: [2, 0]", "'image_shape' should be a height and a width"),
        ("encoding: klingon", "unknown encoding"),
        ("options: {impute: mean}", "unknown setting 'options'"),
    ],
)
def test_a_wrong_value_in_graph_yaml_is_named_with_its_line(line: str, expected: str, tmp_path: Path) -> None:
    text = message(tables(settings=f"# comment\ntarget: target\n{line}\n"), tmp_path)
    assert "E-YAML" in text and "graph.yaml, line 3" in text
    assert expected in text


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsde.io import npz

    path = arrays()(tmp_path)
    honest = npz.ZipArrays

    def grows(*args: object) -> object:
        with open(path, "ab") as stream:
            stream.write(b"more")
        return honest(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(npz, "ZipArrays", grows)
    with pytest.raises(StorageError, match="changed while it was being read"):
        read(path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    honest = os.open

    def refuse(path: object, *args: object, **kwargs: object) -> int:
        if str(path).endswith("nodes.csv"):
            raise PermissionError(13, "Permission denied")
        return honest(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match="Permission denied") as caught:
        read(tables()(tmp_path))
    assert caught.value.exit_code == 74
    assert "nodes.csv" in str(caught.value)


def test_a_path_that_is_none() -> None:
    with pytest.raises(BadInput) as caught:
        read("a\0b")
    assert caught.value.code == "E-NOT-A-FILE"
