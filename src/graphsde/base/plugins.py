"""Plugins: modules that register a model, a task, a drift, … when imported."""

from __future__ import annotations

import importlib
import os
import sys
import warnings

from graphsde.base.errors import BadUsage, shorten

VARIABLE = "GRAPHSDE_PLUGINS"
GROUP = "graphsde.plugins"

_looked_for_installed = False


class PluginWarning(UserWarning):
    """An installed plugin can't be loaded; everything else works."""


def search_path() -> str:
    """The import path of this process, as ``PYTHONPATH`` for a worker that must find the same modules."""
    return os.pathsep.join(place or os.getcwd() for place in sys.path)


def load_plugins(names: str | None = None) -> None:
    """Import the modules that ``GRAPHSDE_PLUGINS`` names, separated by commas.

    The command line and every worker of a bench do this at start-up, so that a part registered in one short file is
    available wherever a cell runs.

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
                fix="name a module that Python can find, for instance with PYTHONPATH=.",
            ) from error


def load_installed() -> None:
    """Load what installed packages offer under the entry point ``graphsde.plugins``, once in a process.

    A registry does this when a name is missing or all names are listed. A package that can't be loaded is named in a
    warning and left out: a broken plugin must not stop everything else.
    """
    global _looked_for_installed
    if _looked_for_installed:
        return
    _looked_for_installed = True  # first: a plugin may itself query a registry
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            package = "" if point.dist is None else f" of the package '{shorten(point.dist.name)}'"
            told = shorten(f"{type(error).__name__}: {error}")
            warnings.warn(
                f"E-PLUGIN: the plugin '{shorten(point.name)}'{package} can't be loaded: {told}. "
                "Fix: repair or uninstall it; everything else works.",
                PluginWarning,
                stacklevel=2,
            )
