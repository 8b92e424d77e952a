"""Parts from outside: modules whose import registers a model, a task, a drift, …"""

from __future__ import annotations

import importlib
import os
import sys

from graphsde.base.errors import BadUsage, shorten

VARIABLE = "GRAPHSDE_PLUGINS"


def search_path() -> str:
    """Where this process finds modules, as ``PYTHONPATH`` for a worker that must find the same ones."""
    return os.pathsep.join(place or os.getcwd() for place in sys.path)


def load_plugins(names: str | None = None) -> None:
    """Import the modules that ``GRAPHSDE_PLUGINS`` names, separated by commas.

    The command line and every worker of a bench do this at their start, so that a part registered in one short file is
    known wherever a cell may run.

    Args:
        names: instead of the variable's value.
    """
    text = os.environ.get(VARIABLE, "") if names is None else names
    for name in filter(None, (part.strip() for part in text.split(","))):
        try:
            importlib.import_module(name)
        except Exception as error:
            raise BadUsage(
                f"the plugin '{shorten(name)}' can't be imported: {shorten(f'{type(error).__name__}: {error}')}",
                code="E-PLUGIN",
                place=VARIABLE,
                fix="name a module that Python finds, for instance with PYTHONPATH=.",
            ) from error
