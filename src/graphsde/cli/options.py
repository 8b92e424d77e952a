"""Options that several commands share, and ``key=value`` on the command line."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from graphsde.base.device import on_device
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.memory import within_memory

MOST_LOOKED_AT, DEEPEST = 500, 3  # folders, when a shell asks for runs: it waits for the answer


def names_in(kind: str) -> Callable[[str], list[tuple[str, str]]]:
    """What a shell offers where the name of a ``kind`` is typed (see: graphsde list), after a comma as well."""

    def offer(incomplete: str) -> list[tuple[str, str]]:
        from graphsde.cli.show import rows_of

        before, comma, typed = incomplete.rpartition(",")
        rows = [(row["name"], row.get("summary") or "") for row in rows_of(kind)]
        return [(f"{before}{comma}{name}", summary) for name, summary in rows if name.startswith(typed)]

    return offer


def run_folders(incomplete: str) -> list[str]:
    """Folders of runs and benches that begin as typed, at most three levels down."""
    head, _, typed = incomplete.rpartition("/")
    start = f"{head}/" if "/" in incomplete else ""
    left = iter(range(MOST_LOOKED_AT))
    return [f"{start}{found}" for found in _marked_folders(Path(start or "."), "", typed, DEEPEST, left)]


def _marked_folders(place: Path, inside: str, typed: str, levels: int, left: Iterator[int]) -> Iterator[str]:
    try:
        names = sorted(one.name for one in os.scandir(place) if one.is_dir())
    except OSError:
        return
    for name in names:
        if not name.startswith(typed) or (name.startswith(".") and not typed) or next(left, None) is None:
            continue
        if any((place / name / mark).is_file() for mark in ("manifest.json", "model.json", "bench.json")):
            yield f"{inside}{name}"
        elif levels > 1:
            yield from _marked_folders(place / name, f"{inside}{name}/", "", levels - 1, left)


def graphs_and_runs(incomplete: str) -> list[str]:
    """Benchmarks by name, and folders of runs."""
    return [*(name for name, _ in names_in("datasets")(incomplete)), *run_folders(incomplete)]


# where nothing that is offered begins as typed, the shell offers files by itself
GRAPH = typer.Argument(
    help="A benchmark's name (see: graphsde list datasets), a folder of tables, or a file.",
    autocompletion=names_in("datasets"),
)
MODEL = typer.Option("--model", help="See: graphsde list models.", autocompletion=names_in("models"))
RUN = typer.Argument(help="The folder of a run.", autocompletion=run_folders)
JSON = typer.Option("--json", help="Print one JSON document on standard output.")
READ = typer.Option(
    "--read", metavar="KEY=VALUE", help="How to read the files, e.g. directed=true, impute=mean, encoding=latin-1."
)
SAMPLES = typer.Option("--samples", min=1, help="Samples per node, for models that draw samples.")
DEVICE = typer.Option("--device", help="Where to compute: auto, cpu, cuda, cuda:1 or mps.")
MEMORY = typer.Option(
    "--memory",
    metavar="SIZE",
    help="Memory limit, such as 512M or 2G, without memory-mapped files; default: what is free.",
)
DATASETS = typer.Option(
    "--datasets", help="Comma-separated benchmark names or paths.", autocompletion=names_in("datasets")
)
ENGINE = typer.Option("--engine", help="See: graphsde list engines.", autocompletion=names_in("engines"))
ADDRESS = typer.Option("--address", help="Address of a Ray cluster, HOST:PORT.")
WORKERS = typer.Option("--workers", min=1, help="Number of cells to run at once.")
CELL_MINUTES = typer.Option("--cell-minutes", help="CPU-time limit per cell, in minutes; a cell that exceeds it fails.")
RETRY_FAILED = typer.Option("--retry-failed", help="Run failed cells again.")


def on_its_device(verb: Callable[..., None]) -> Callable[..., None]:
    """A command that computes on the device given by its option ``device``."""

    @functools.wraps(verb)
    def run(*args: Any, **options: Any) -> None:
        device = options.get("device")
        if device is not None and options.get("engine") == "ray":
            raise BadUsage(
                "--device only applies to this machine", fix="set GRAPHSDE_DEVICE on the machines of the cluster"
            )
        with on_device(device):
            verb(*args, **options)

    return run


def within_its_memory(verb: Callable[..., None]) -> Callable[..., None]:
    """A command that stays within the limit of its option ``memory``."""

    @functools.wraps(verb)
    def run(*args: Any, **options: Any) -> None:
        with within_memory(options.get("memory")):
            verb(*args, **options)

    return run


def refuse_given(context: typer.Context, names: Sequence[str], why: str, fix: str) -> None:
    """Refuse options that would have no effect, rather than ignore them."""
    if given := [name for name in names if _typed(context, name)]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BadUsage(f"{flags}: {why}", fix=fix)


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def key_values(pairs: list[str], option: str) -> dict[str, Any]:
    """``["solver.steps=10", "lr=0.1"]`` as nested plain values; values are read as YAML scalars."""
    from graphsde.io.graph_yaml import load_plain_yaml

    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise BadUsage(f"{option} {pair!r} must have the form key=value", found=pair)
        try:
            value = load_plain_yaml(text, option)
        except BadInput:
            raise BadUsage(f"the value of {option} {pair!r} can't be read", found=text) from None
        if isinstance(value, str) and value == text.strip():  # text in quotes stays text
            value = _number(value)
        target = result
        *parents, last = key.strip().split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                raise BadUsage(f"{option} {pair!r}: '{parent}' is a value and a group at once", found=pair)
        target[last] = value
    return result


def _number(text: str) -> str | float:
    """A number such as 1e-3, which YAML reads as text."""
    try:
        return float(text)
    except ValueError:
        return text
