"""The option that a message offers is the one that works when pasted into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphsde.cli.options import key_values
from graphsde.graph.read_option import read_option
from graphsde.io.read import read


@pytest.mark.parametrize(
    "name",
    [
        *("zip", "page type", "it's", "a, b", "2019", "1e5", "yes", "x: y", "[x]", 'the "x"', "#", "Infinity", "a\\b"),
        *("a\tb", "bell\a", "\u202eright", "x\xa0y", "\U0001f600 smile", "é" * 300),
    ],
)
def test_an_option_names_the_column_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    flag, pair = shlex.split(read_option("drop", [name, "other"]))
    assert flag == "--read"
    quoted = '"' + name.replace('"', '""') + '"'
    (tmp_path / "nodes.csv").write_text(f"id,label,x,other,{quoted}\na,u,1,2,3\nb,v,2,3,4\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    assert read(tmp_path, **key_values([pair], "--read")).feature_names == ("x",)
    _, pair = shlex.split(read_option("label", name))
    graph = read(tmp_path, **key_values([pair], "--read"))
    assert graph.class_names == ("3", "4")


def test_an_option_is_printable_and_not_endless() -> None:
    assert read_option("label", "a\tb\x1b[2J").isprintable()
    assert read_option("label", "x" * 5000) == "--read label=COLUMN"
    assert read_option("drop", [f"column {one}" for one in range(5000)]) == "--read 'drop=[COLUMN, …]'"
