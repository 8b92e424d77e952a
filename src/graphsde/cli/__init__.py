"""The command line: one file per kind of verb, heavy parts imported only when a verb runs."""

from graphsde.cli.app import main

__all__ = ["main"]
