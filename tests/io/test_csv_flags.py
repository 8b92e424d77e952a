"""Wide tables of zeros and ones: the quick way gives what the general way gives, or steps aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from file_makers import tables
from hypothesis import given
from hypothesis import strategies as st

from graphsde.base.errors import BadInput
from graphsde.graph.graph import Graph
from graphsde.io import csv_flags
from graphsde.io.csv_flags import LEAST_COLUMNS, cut_flags
from graphsde.io.read import read

WIDE = LEAST_COLUMNS + 3


def content(seed: int, *, before: str = "", after: str = "", end: str = "\n", rows: int = 7) -> str:
    """A table with one named column on either side of the flags, each with the row's number."""
    rng = np.random.default_rng(seed)
    names = ["id", *(["b"] if before else []), *(f"w{c}" for c in range(WIDE)), *(["a"] if after else [])]
    lines = [",".join(names)]
    for row, flags in enumerate(rng.integers(0, 2, (rows, WIDE)).tolist()):
        around = [[before.format(row)] if before else [], [after.format(row)] if after else []]
        lines.append(",".join(map(str, [f"n{row}", *around[0], *flags, *around[1]])))
        lines += [""] * (row == 2)
    return end.join(lines) + end


def both_ways(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[Graph, Graph]:
    quick = read(folder, **options)
    with monkeypatch.context() as patch:
        patch.setattr(csv_flags, "cut_flags", lambda *_: None)
        return quick, read(folder, **options)


@pytest.mark.parametrize("before", ["", "{}.5", "t{}"])
@pytest.mark.parametrize("after", ["", "-{}", "u{}"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_same_graph_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, end: str
) -> None:
    text = content(0, before=before, after=after, end=end)
    assert cut_flags(text.encode(), ",", text.split(end)[0].count(",") + 1) is not None
    folder = tables(text, "source,target\nn0,n1\n")(tmp_path)
    for options in ({}, {"sparse": True}, {"drop": ["w3"]}, {"categorical": ["w5"]}, {"label": "w7"}):
        quick, slow = both_ways(folder, monkeypatch, **options)
        assert quick.fingerprint == slow.fingerprint and quick.is_sparse == slow.is_sparse
        assert quick.feature_names == slow.feature_names and quick.notes == slow.notes
        assert list(quick.categorical) == list(slow.categorical)
        assert quick.features.dtype == np.float32


@given(seed=st.integers(0, 999), row=st.integers(0, 6), column=st.integers(0, WIDE - 1), odd=st.sampled_from("2 .5- "))
def test_one_odd_cell_is_seen(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row: int, column: int, odd: str
) -> None:
    lines = content(seed).split("\n")
    at = row + 1 + (row > 2)
    cells = lines[at].split(",")
    cells[column + 1] = odd
    lines[at] = ",".join(cells)
    data = "\n".join(lines).encode()
    found = cut_flags(data, ",", WIDE + 1)
    # what is left of the run may still be long enough, without the odd column
    assert found is None or not found[1].first <= column + 1 < found[1].stop


def test_places_are_told_as_always(tmp_path: Path) -> None:
    lines = content(1, after="{}").split("\n")
    lines[6] = lines[6].rpartition(",")[0] + ",x,"
    folder = tables("\n".join(lines), "source,target\nn0,n1\n")(tmp_path)
    with pytest.raises(BadInput) as error:
        read(folder)
    assert error.value.code == "E-ROW-LEN" and "line 7" in str(error.value) and f"{WIDE + 2} cells" in str(error.value)


def test_quotes_and_narrow_tables_go_the_general_way() -> None:
    assert cut_flags(content(0, before='"{}"').encode(), ",", WIDE + 2) is None
    assert cut_flags(b"id,x\na,1\n", ",", 2) is None
