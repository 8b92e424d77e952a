"""How verbs speak: tables and sentences for people, one JSON document for programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from graphsde.base.terminal import make_console, printable, printable_json

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph
    from graphsde.models import Model
    from graphsde.runs.folder import RunFolder
    from graphsde.runs.opened import OpenedRun

UNBROKEN = 10_000  # columns


def tell(*lines: str) -> None:
    """Results, one line each: a line break inside of a line is somebody's odd name and is escaped."""
    for line in lines:
        typer.echo(printable(line))


def say(text: str) -> None:
    """A line about what is going on, on standard error: standard output is for results."""
    typer.echo(printable(text), err=True)


def open_run(run: Path) -> tuple[RunFolder, Model, Graph]:
    """The folder of a finished run, its model and its graph."""
    found = opened_run(run)
    return found.folder, found.model, found.graph


def opened_run(run: Path) -> OpenedRun:
    """A finished run, of which nothing is read before it is needed and nothing is solved that it has kept."""
    from graphsde.runs.folder import RunFolder

    return RunFolder(run, say=say).opened()


def print_of_run(run: Path, model: Model, graph: Graph, found: dict[str, Any]) -> None:
    print_json({"run": str(run), "model": model.name, "graph": graph.name, **found})


def print_json(value: Any) -> None:
    typer.echo(printable_json(value))


def print_rows(rows: list[dict[str, Any]], json: bool, columns: list[str] | None = None) -> None:
    """Rows for whoever asked: a program or a person, who sees ``columns`` alone."""
    if json:
        print_json(rows)
    else:
        print_table(rows, columns)


def print_table(rows: list[dict[str, Any]], columns: list[str] | None = None) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from graphsde.base.errors import shorten

    if not rows:
        return
    names = columns or list(rows[0])
    table = Table(box=SIMPLE)
    for name in names:
        numeric = all(isinstance(row.get(name), int | float | type(None)) for row in rows)
        table.add_column(
            Text(printable(name.replace("_", " "))), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        # Text: names from files are not markup
        table.add_row(*[Text(shorten(str(row[name]) if name == "year" else cell(row.get(name)))) for name in names])

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # a reader that has seen enough is no failure; rich would end with code 1

    console = make_console(Piped)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # a file has no edge to break lines at: whoever searches it wants a row on a line
        unbroken = console.options.update(max_width=UNBROKEN)
        console = make_console(Piped, width=Measurement.get(console, unbroken, table).maximum)
    console.print(table)


def cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
