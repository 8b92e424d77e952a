"""Commands that show things: ``check``, ``report``, ``app``, ``list``, ``doctor``."""

from __future__ import annotations

import json as json_format
import os
import sys
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsde.base.errors import GraphsdeError
from graphsde.base.registry import unknown_name
from graphsde.cli.options import GRAPH, JSON, MEMORY, READ, SAMPLES, key_values, run_folders, within_its_memory
from graphsde.cli.output import cell, print_json, print_rows, say, tell

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


def check(
    graph: Annotated[str, GRAPH],
    read: Annotated[list[str], READ] = [],  # noqa: B006
    json: Annotated[bool, JSON] = False,
) -> None:
    """Describe a graph and report problems in its data."""
    from graphsde.base.memory import human_bytes
    from graphsde.datasets.source import open_graph
    from graphsde.graph.checks import check as check_graph

    opened = open_graph(graph, **key_values(read, "--read"))
    divided = _divided(opened)
    report = check_graph(opened, divided=None if divided is opened else divided)
    default = {} if report.problems or divided is None else _default_model(divided)
    if json:
        print_json({**report.as_dict(), **default})
        return
    tell(*str(report).split("\n"))
    if default:
        told = default["default_model"]
        tell("", f"fit would choose '{told['members'][0]}' of the LGNSDE family ({told['why']})")
        tell(f"or the winner of a race with {', '.join(told['members'][1:])}; --no-race skips the race.")
        tell(f"Estimated memory: about {human_bytes(told['memory'])}.")


def _divided(graph: Graph) -> Graph | None:
    """The graph with the split that ``fit`` would use; ``None`` if it can't be fitted."""
    from graphsde.datasets.source import files_split
    from graphsde.datasets.splits import make_split

    if graph.train_mask is not None and graph.train_mask.any():
        return graph
    try:
        return make_split(graph, files_split(graph)).apply(graph)
    except GraphsdeError:
        return None


def _default_model(graph: Graph) -> dict[str, Any]:
    """What the rule chooses for a graph with its split; nothing for numbers, for which there is no rule."""
    from graphsde.base.memory import resident_bytes
    from graphsde.models.lgnsde import LGNSDE
    from graphsde.models.lgnsde.rule import choose

    if not graph.class_names:
        return {}
    found = choose(graph)
    held, needed = resident_bytes(), LGNSDE().needed_memory(graph)
    return {"default_model": {"members": list(found.members), "why": found.why, "memory": held + needed}}


@within_its_memory
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a run or of a bench.", autocompletion=run_folders)
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Default: report.html in that folder.")] = None,
    samples: Annotated[int, SAMPLES] = 64,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write every figure here, as print-ready PNG and as CSV."),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", help="Of numbers: how far off an accepted one may be.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
) -> None:
    """Write one self-contained HTML page about a run, or about all runs of a bench."""
    from graphsde.bench.folder import BenchFolder

    bench = BenchFolder(folder)
    if bench.question.is_file():
        from graphsde.view.report.bench import report_on_bench

        path = report_on_bench(bench, out, figures=figures)
    else:
        from graphsde.runs.folder import RunFolder
        from graphsde.view.report.run import report_on_run

        path = report_on_run(RunFolder(folder), out, samples=samples, figures=figures, tolerance=tolerance)
    tell(f"Wrote the report to {path}. Open it in a browser; it needs no network.")
    if figures is not None:
        tell(f"Wrote its figures to {figures}, as PNG and CSV.")


def page(
    runs: Annotated[Path, typer.Argument(help="The folder that holds runs; created if missing.")] = Path("runs"),
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on; any address other than this machine's own needs a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8501,
    token: Annotated[
        str | None,
        typer.Option("--token", help="Token that visitors enter; better set as GRAPHSDE_TOKEN, which ps doesn't show."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="PEM", help="Serve over TLS (https) with this certificate.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PEM", help="The certificate's private key, without a passphrase.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser window.")] = True,
) -> None:
    """Open the page in a browser: data, fit, nodes, decisions, labels."""
    from graphsde.view.app.serve import TOKEN_VARIABLE, Place, serve
    from graphsde.view.app.tls import certificate_of

    place = Place(host, port, token or os.environ.get(TOKEN_VARIABLE) or None, certificate_of(certificate, key))
    serve(runs, place, browser=browser, say=say)


DATED = ["name", "year", "summary"]
NAMED = ["name", "summary"]
# where each registry is, and which of its columns to show in a terminal (all if none is named)
KINDS: dict[str, tuple[str, str, list[str] | None]] = {
    "models": ("models", "MODELS", DATED),
    "drifts": ("sde.drift", "DRIFTS", DATED),
    "priors": ("sde.prior", "PRIORS", DATED),
    "diffusions": ("sde.diffusion", "DIFFUSIONS", DATED),
    "solvers": ("sde.solvers", "SOLVERS", DATED),
    "scores": ("uncertainty.scores", "SCORES", NAMED),
    "calibrators": ("uncertainty.calibration", "CALIBRATORS", DATED),
    "conformal": ("uncertainty.conformal", "CONFORMAL_SCORES", DATED),
    "metrics": ("metrics", "METRICS", ["name", "better", "summary"]),
    "datasets": ("datasets.benchmarks", "DATASETS", ["name", "nodes", "edges", "features", "classes", "default_split"]),
    "splits": ("datasets.splits", "SPLITS", None),
    "shifts": ("datasets.shifts", "SHIFTS", None),
    "tasks": ("bench.tasks", "TASKS", NAMED),
    "acquisitions": ("acting.acquisition", "ACQUISITIONS", NAMED),
    "tables": ("bench.paper", "TABLES", None),
    "engines": ("bench.engines", "ENGINES", NAMED),
}

CATALOGUE = "catalogue.json"
"""Written by ``studies/catalogue.py``; a test compares it with the registries."""


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def listing(
    what: Annotated[
        str, typer.Argument(help=", ".join(list(KINDS)[:-1]) + f" or {list(KINDS)[-1]}.", autocompletion=_kinds)
    ],
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the available models, scores, datasets, and so on."""
    rows = rows_of(what)
    print_rows(rows, json, KINDS[what][2])


def rows_of(kind: str) -> list[dict[str, Any]]:
    """The names and summaries of a registry's entries.

    Importing one takes seconds. Until it (or torch) has been imported, its entries are those of the package, which
    are in ``catalogue.json``: nothing can be added to a registry without importing it.
    """
    if kind not in KINDS:
        raise unknown_name("list", kind, list(KINDS))
    module, name, _ = KINDS[kind]
    rows: list[dict[str, Any]]
    if not sys.modules.keys().isdisjoint(("torch", f"graphsde.{module}")):
        rows = getattr(import_module(f"graphsde.{module}"), name).describe()
    else:
        text = resources.files(__package__).joinpath(CATALOGUE).read_text(encoding="utf-8")
        rows = json_format.loads(text)[kind]
    return rows


EXTRAS = {
    "torch_geometric": "pyg",
    "gpytorch": "gp",
    "ray": "cluster",
    "optuna": "cluster",
    "streamlit": "app",
    "numba": "kernels",
    "pymetis": "scale",
}


def doctor(
    run: Annotated[
        Path | None, typer.Argument(help="The folder of a run whose files to check.", autocompletion=run_folders)
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show what is installed on this machine, and check a run's files."""
    from graphsde.base.device import available_devices
    from graphsde.base.memory import available_bytes, human_bytes
    from graphsde.datasets.benchmarks import DATASETS, where_is
    from graphsde.runs.folder import environment

    facts: dict[str, Any] = environment()
    del facts["command"], facts["started"]
    facts["devices"] = ", ".join(available_devices())
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
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    problems: list[str] = []
    for look in (
        folder.state,
        folder.read_config,
        folder.read_environment,
        folder.load_model,
        folder.load_graph,
        folder.read_metrics,
    ):
        try:
            look()
        except GraphsdeError as error:
            if str(error) not in problems:  # every check refuses an incomplete run
                problems.append(str(error))
    return {
        "path": str(run),
        "finished": folder.finished,
        "interrupted": folder.work.request() is not None,
        "guarded": not problems and folder.state().guarded,
        "problems": problems,
    }


def _print(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            tell(f"{name.replace('_', ' ')}:")
            for key, inner in value.items():
                hint = f"  (pip install 'graphsde[{EXTRAS[key]}]')" if inner is False and key in EXTRAS else ""
                tell(f"  {key}: {cell(inner) if not isinstance(inner, list) else inner or 'none'}{hint}")
        else:
            tell(f"{name.replace('_', ' ')}: {value}")
