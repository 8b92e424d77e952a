from __future__ import annotations

from typing import Annotated

from graphsde.cli.options import GRAPH, JSON, READ, key_values
from graphsde.cli.output import print_json


def check(
    graph: Annotated[str, GRAPH],
    read: Annotated[list[str], READ] = [],  # noqa: B006
    json: Annotated[bool, JSON] = False,
) -> None:
    """Say in plain words what a graph is and what is odd about it."""
    import typer

    from graphsde.datasets.source import open_graph
    from graphsde.graph.checks import check as check_graph

    report = check_graph(open_graph(graph, **key_values(read, "--read")))
    if json:
        print_json(report.as_dict())
    else:
        typer.echo(str(report))
