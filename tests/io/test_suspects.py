"""Columns that were probably read as something else than they are: each is named, with the option that mends it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from file_makers import parquet, tables

from graphsde.cli.options import key_values
from graphsde.graph.checks import check
from graphsde.graph.graph import Graph
from graphsde.graph.raw import Finding
from graphsde.io.read import read

ROWS = 60


def column(name: str, *cells: object, folder: Path, edges: str = "source,target\nn0,n1\n", **options: object) -> Graph:
    """A graph with one column of interest, whose cells repeat."""
    lines = [f"n{row},{'ab'[row % 2]},{row % 7 + 0.5},{cells[row % len(cells)]}" for row in range(ROWS)]
    return read(tables(nodes="\n".join([f"id,label,x,{name}", *lines]) + "\n", edges=edges)(folder), **options)


def told(graph: Graph, code: str) -> Finding | None:
    return next((one for one in check(graph).findings if one.code == code), None)


def mended(graph: Graph, code: str, folder: Path) -> Graph:
    """The graph, read with the option that the finding ends with."""
    finding = told(graph, code)
    assert finding is not None and finding.level == "warning" and finding.hint is not None
    start = finding.hint.index("--read ")
    _, pair = shlex.split(finding.hint[start:])
    again = read(folder, **key_values([pair], "--read"))
    assert told(again, code) is None
    return again


def test_leading_zeros(tmp_path: Path) -> None:
    graph = column("code", "01005", "20095", "", folder=tmp_path, impute="mean")
    assert "code" in (graph.feature_names or ())
    again = mended(graph, "W-LEADING-ZEROS", tmp_path)
    assert again.categorical["code"].tolist()[:3] == ["01005", "20095", None]


@pytest.mark.parametrize("cells", [("0", "10", "-3"), ("0.5", "00.5", "7.25"), ("1", "0"), ("0.0", "12")])
def test_zeros_that_lead_nothing(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert told(column("amount", *cells, folder=tmp_path, impute="mean"), "W-LEADING-ZEROS") is None


def test_numbers_whose_name_says_codes(tmp_path: Path) -> None:
    graph = column("zipCode", "20095", "10115", folder=tmp_path)
    assert mended(graph, "W-CODE-LIKE", tmp_path).categorical["zipCode"].tolist()[:2] == ["20095", "10115"]
    finding = told(graph, "W-CODE-LIKE")
    assert finding is not None
    assert finding.message == "column zipCode was read as numbers, although the name says codes"


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        *((name, True) for name in ("PLZ", "postal_code", "customer_zip_code_prefix", "zip_5", "code_postal")),
        *((name, False) for name in ("zipper", "distance_to_postal_office_m", "zip_population", "5")),
    ],
)
def test_a_name_says_codes_with_its_last_words(tmp_path: Path, name: str, codes: bool) -> None:
    assert (told(column(name, "20095", "10115", folder=tmp_path), "W-CODE-LIKE") is not None) == codes


def test_several_columns_were_read_as_numbers(tmp_path: Path) -> None:
    finding = told(column("a,b", "01,02", "03,04", folder=tmp_path), "W-LEADING-ZEROS")
    assert finding is not None and finding.message.startswith("2 columns (a, b) of nodes.csv were read as numbers, wi")


def test_leading_zeros_are_found_in_any_row_and_column(tmp_path: Path) -> None:
    names = [f"c{one}" for one in range(40)]
    rows = [[10 + row + one for one in range(40)] for row in range(30)]
    lines = [f"{row:03d},{','.join(map(str, cells))}" for row, cells in enumerate(rows)]
    lines[29] = lines[29].replace(",49,", ",049,").replace(",60,", ",060,")
    folder = tables(nodes="\n".join([f"id,{','.join(names)}", *lines]) + "\n", edges="source,target\n000,001\n")
    finding = told(read(folder(tmp_path)), "W-LEADING-ZEROS")
    assert finding is not None and finding.where == ("c10", "c21")


@pytest.mark.parametrize(
    ("name", "cells", "ids"),
    [
        ("amount", range(900_000, 900_000 + ROWS), True),  # no gaps: counted
        ("account_no", range(1, 1_000_000, 997), True),  # far apart, but the name says id
        ("CustomerId", range(1, 1_000_000, 997), True),
        ("population", range(1, 1_000_000, 997), False),  # all different by chance
        ("phone number", range(1, 1_000_000, 997), True),
        *((name, range(1, 1_000_000, 997), False) for name in ("num_citations", "number_of_followers", "no_of_items")),
        *((name, range(1, 1_000_000, 997), False) for name in ("price_index", "account_balance", "Number")),
        ("account_no", [5, *range(ROWS - 1)], False),  # one twice
        ("account_no", [one + 0.5 for one in range(ROWS)], False),
    ],
)
def test_whole_numbers_that_all_differ(tmp_path: Path, name: str, cells: list[float], ids: bool) -> None:
    graph = column(name, *list(cells)[:ROWS], folder=tmp_path)
    assert (told(graph, "W-ID-LIKE") is not None) == ids
    if ids:
        assert "a different whole number for every node" in str(told(graph, "W-ID-LIKE"))
        assert mended(graph, "W-ID-LIKE", tmp_path).feature_names == ("x",)


def test_one_repeated_number_far_down_is_no_id(tmp_path: Path) -> None:
    def numbers(last: int) -> Path:
        lines = [f"n{row},{row}" for row in range(149)] + [f"n149,{last}"]
        folder = tmp_path / str(last)
        return tables(nodes="\n".join(["id,key", *lines]) + "\n", edges="source,target\nn0,n1\n")(folder)

    assert told(read(numbers(149)), "W-ID-LIKE") is not None
    assert told(read(numbers(148)), "W-ID-LIKE") is None


def test_ids_of_parquet_files(tmp_path: Path) -> None:
    names = [f"n{one}" for one in range(40)]
    folder = parquet(id=names, x=[one / 3 for one in range(40)], key=list(range(40)))(tmp_path)
    (folder / "edges.csv").write_text("source,target\nn0,n1\n")
    finding = told(read(folder), "W-ID-LIKE")
    assert finding is not None and finding.where == ("key",)


@pytest.mark.parametrize(
    "cells",
    [("2023-01-05", "2024-12-31"), ("5.1.2023", "31.12.2024"), ("01/05/2023 10:30", ""), ("12/31/24", "31/12/24")],
)
def test_dates(tmp_path: Path, cells: tuple[str, ...]) -> None:
    graph = column("joined", *cells, folder=tmp_path)
    assert "joined" in graph.categorical
    assert mended(graph, "W-DATE-TEXT", tmp_path).categorical == {}


def test_a_date_in_every_cell_is_not_called_a_name(tmp_path: Path) -> None:
    dates = [f"2023-{1 + row // 28:02d}-{1 + row % 28:02d}" for row in range(ROWS)]
    graph = column("joined", *dates, folder=tmp_path)
    assert told(graph, "W-DATE-TEXT") is not None and told(graph, "W-CATEGORY-MANY") is None


def test_percentages(tmp_path: Path) -> None:
    graph = column("share", "55%", "7.5 %", "NA", folder=tmp_path)
    assert mended(graph, "W-PERCENT-TEXT", tmp_path).categorical == {}


@pytest.mark.parametrize(
    "cells",
    [
        ("red", "2023-01-05", "green"),
        ("v1.2.3", "1.2"),
        ("half", "50%"),
        ("1-2", "3-4"),
        ("12-34-5678", "98-76-5432"),
        ("1.2.23", "10.10.20"),
        ("2023-13-05", "2023-01-32"),
        ("31.31.2023", "1/2-2023"),
    ],
)
def test_other_text_is_a_category(tmp_path: Path, cells: tuple[str, ...]) -> None:
    graph = column("what", *cells, folder=tmp_path)
    assert told(graph, "W-DATE-TEXT") is told(graph, "W-PERCENT-TEXT") is None


def test_a_column_that_was_named_as_text_needs_no_advice(tmp_path: Path) -> None:
    graph = column("joined", "2023-01-05", "2024-12-31", folder=tmp_path, categorical=["joined"])
    assert told(graph, "W-DATE-TEXT") is None


def test_the_name_of_a_role_in_other_case(tmp_path: Path) -> None:
    graph = column("Split", "train", "val", "test", folder=tmp_path)
    assert "Split" in graph.categorical
    again = mended(graph, "W-COLUMN-CASE", tmp_path)
    assert set(again.masks) == {"train", "val", "test"} and again.categorical == {}
    assert told(column("Split", "a", "b", folder=tmp_path, drop=["Split"]), "W-COLUMN-CASE") is None
    weighted = column("y", 1, 2, folder=tmp_path / "w", edges="source,target,Weight\nn0,n1,2\n")
    assert mended(weighted, "W-COLUMN-CASE", tmp_path / "w").adjacency.is_weighted


def test_an_exact_name_is_the_likeliest_label(tmp_path: Path) -> None:
    lines = [f"n{row},{'uv'[row % 2]},{'abc'[row % 3]}" for row in range(ROWS)]
    folder = tables(nodes="\n".join(["id,type,Label", *lines]) + "\n", edges="source,target\nn0,n1\n")(tmp_path)
    finding = told(read(folder), "W-LABEL-LIKELY")
    assert finding is not None and "--read label=Label" in str(finding.hint)


def test_columns_are_listed_by_kind(tmp_path: Path) -> None:
    nodes = "id,label,zip,town,note\na,u,1,Ulm,red big old new\nb,v,2,Bonn,red\n"
    report = check(read(tables(nodes=nodes, edges="source,target\na,b\n")(tmp_path), words=["note"]))
    text = str(report)
    assert "Features: 5 numeric columns" in text and ", 1 categorical column\n" in text
    assert "\n  numeric: zip, note:… (4 words)\n  categorical: town\n" in text
    columns = report.as_dict()["facts"]["features"]["columns"]
    assert columns["categorical"] == ["town"] and columns["numeric"][0] == "zip" and len(columns["numeric"]) == 5
    header = ",".join(["id", *(f"f{one}" for one in range(40))])
    wide = "\n".join([header, *(f"{name},{','.join('12345' * 8)}" for name in "abcd")]) + "\n"
    text = str(check(read(tables(nodes=wide)(tmp_path / "wide"))))
    assert "numeric: f0, f1, f2" in text and "and 28 more" in text and "f30" not in text


def test_text_and_names_get_different_advice(tmp_path: Path) -> None:
    notes = [f"order {row} again" for row in range(ROWS)]
    finding = told(column("note", *notes, folder=tmp_path / "a"), "W-CATEGORY-MANY")
    assert finding is not None and "--read 'words=[note]'" in str(finding.hint) and "'drop=[note]'" in str(finding.hint)
    finding = told(column("nick", *[f"nick{row}" for row in range(ROWS)], folder=tmp_path / "b"), "W-CATEGORY-MANY")
    assert finding is not None and "words" not in str(finding.hint) and "--read 'drop=[nick]'" in str(finding.hint)
    assert "in Python gs.read(…, drop=['nick']), or leave it out of the data frame" in str(finding.hint)
