from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.output import say


def page(
    runs: Annotated[Path, typer.Argument(help="The folder that holds runs; it is made if it is not there.")] = Path(
        "runs"
    ),
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; any but this machine itself needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8501,
    token: Annotated[
        str | None,
        typer.Option("--token", help="What visitors type in; better given as GRAPHSDE_TOKEN, which ps doesn't show."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser window.")] = True,
) -> None:
    """Open the page in a browser: data, fit, nodes, decisions, labels."""
    from graphsde.view.app.serve import TOKEN_VARIABLE, Place, serve

    place = Place(host, port, token or os.environ.get(TOKEN_VARIABLE) or None)
    serve(runs, place, browser=browser, say=say)
