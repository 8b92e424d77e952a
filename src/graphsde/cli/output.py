"""Output of commands: tables and sentences for people, one JSON document for programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from graphsde.base.terminal import make_console, printable, printable_json

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph
    from graphsde.models import Model
    from graphsde.runs.opened import OpenedRun

UNBROKEN = 10_000  # columns


def tell(*lines: str) -> None:
    """Print results, one line each; line breaks inside a line come from odd names and are escaped."""
    for line in lines:
        typer.echo(printable(line))


def say(text: str) -> None:
    """Print a progress message on standard error: standard output is for results."""
    typer.echo(printable(text), err=True)


def opened_run(run: Path) -> OpenedRun:
    """A finished run, read lazily; predictions it has kept are not computed again."""
    from graphsde.runs.folder import RunFolder

    return RunFolder(run, say=say).opened()


def print_of_run(run: Path, model: Model, graph: Graph, found: dict[str, Any]) -> None:
    print_json({"run": str(run), "model": model.name, "graph": graph.name, **found})


def print_json(value: Any) -> None:
    typer.echo(printable_json(value))


def print_rows(rows: list[dict[str, Any]], json: bool, columns: list[str] | None = None) -> None:
    """Print rows: all of them as JSON for a program, ``columns`` alone for a person."""
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
            raise BrokenPipeError  # a closed pipe is no failure; rich would end with code 1

    console = make_console(Piped)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # a file has no width to wrap at, and searching it needs one row per line
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
