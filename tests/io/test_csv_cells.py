"""Cutting CSV text into cells, against the standard library's reader."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.io import csv_table as csv_cells
from graphsde.io.csv_table import Block, LooseQuotes, split_cells, split_cells_slowly

letters = st.sampled_from([*'abä🙂,;" \n\r=', "\r\n", '""'])
cells = st.lists(letters, max_size=5).map("".join)
rows = st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=8)


def listed(blocks: list[Block]) -> tuple[list[list[str]], list[int]]:
    table, lines = [], []
    for block in blocks:
        texts, start = block.cells.to_pylist(), 0
        for width, line in zip(block.widths.tolist(), block.lines.tolist(), strict=True):
            table.append(texts[start : start + width])
            lines.append(line)
            start += width
        assert start == len(texts)
    return table, lines


def by_standard_library(text: str) -> tuple[list[list[str]], list[int]]:
    table, lines, line = [], [], 1
    reader = csv.reader(io.StringIO(text, newline=""))
    for row in reader:
        if row:
            table.append(row)
            lines.append(line)
        line = reader.line_num + 1
    return table, lines


@settings(max_examples=150, deadline=None)
@given(rows, st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 40), st.booleans())
def test_what_is_written_is_read(table: list[list[str]], newline: str, block: int, last: bool) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=newline, quoting=csv.QUOTE_ALL).writerows(table)
    text = stream.getvalue() if last else stream.getvalue().removesuffix(newline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_cells, "_BLOCK", block)  # rows across the borders of blocks
        fast = listed(list(split_cells(text.encode(), ",")))
    assert fast == by_standard_library(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(letters, max_size=30).map("".join), st.integers(1, 40))
def test_any_text_is_read_as_the_standard_library_reads_it(text: str, block: int) -> None:
    if not text.strip("\r\n"):
        return
    expected, lines = by_standard_library(text)
    if '"' in text:
        try:
            found = listed(list(split_cells(text.encode(), ",")))
        except LooseQuotes:
            found = listed(list(split_cells_slowly(text.encode(), ",")))
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_cells, "_BLOCK", block)
            found = listed(list(split_cells(text.encode(), ",")))
    # space around cells is taken off unless they are quoted
    assert [[cell.strip() for cell in row] for row in found[0]] == [[cell.strip() for cell in row] for row in expected]
    assert found[1] == lines


def test_space_around_cells_is_kept_in_quotes_only() -> None:
    table, _ = listed(list(split_cells(b'a , b,"c "\n', ",")))
    assert table == [["a", "b", "c "]]


def test_a_quote_in_the_middle_needs_the_slow_way() -> None:
    with pytest.raises(LooseQuotes):
        list(split_cells(b'5" pipe,1\n', ","))
    assert listed(list(split_cells_slowly(b'5" pipe,1\n\nb,2\n', ",")))[0] == [['5" pipe', "1"], ["b", "2"]]


def test_many_rows_keep_their_lines() -> None:
    count = 300_000
    data = "".join(f"{row},x\n" for row in range(count)).encode()
    assert len(data) > csv_cells._BLOCK
    blocks = list(split_cells(data, ","))
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate([block.lines for block in blocks]), np.arange(1, count + 1))
    assert blocks[-1].cells[-2].as_py() == str(count - 1)
