from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import JSON
from graphsde.cli.output import cell, print_json

EXTRAS = {
    "torch_geometric": "pyg",
    "gpytorch": "gp",
    "ray": "cluster",
    "optuna": "cluster",
    "streamlit": "app",
    "numba": "kernels",
}


def doctor(
    run: Annotated[Path | None, typer.Argument(help="A run's folder, to check that it is whole.")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Tell what this machine has, and whether a run is whole."""
    from importlib.util import find_spec

    from graphsde.base.memory import available_bytes, human_bytes
    from graphsde.datasets.benchmarks import DATASETS, where_is
    from graphsde.runs.folder import environment

    facts: dict[str, Any] = environment()
    del facts["command"], facts["started"]
    facts["memory_available"] = human_bytes(available_bytes())
    facts["extras"] = {name: find_spec(name) is not None for name in EXTRAS}
    facts["datasets"] = {name: where_is(name) for name in DATASETS}
    if run is not None:
        facts["run"] = _examine(run)
    if json:
        print_json(facts)
    else:
        _print(facts)
    if run is not None and facts["run"]["problems"]:
        raise typer.Exit(65)


def _examine(run: Path) -> dict[str, Any]:
    from graphsde.base.errors import GraphsdeError
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    problems = []
    for look in (folder.read_config, folder.load_model, folder.load_graph, folder.read_metrics):
        try:
            look()
        except GraphsdeError as error:
            problems.append(str(error))
    return {"path": str(run), "finished": folder.finished, "problems": problems}


def _print(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            typer.echo(f"{name.replace('_', ' ')}:")
            for key, inner in value.items():
                hint = f"  (pip install 'graphsde[{EXTRAS[key]}]')" if inner is False and key in EXTRAS else ""
                typer.echo(f"  {key}: {cell(inner) if not isinstance(inner, list) else inner or 'none'}{hint}")
        else:
            typer.echo(f"{name.replace('_', ' ')}: {value}")
