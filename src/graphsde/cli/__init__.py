"""The command line: one file per kind of command; heavy modules are imported only when a command runs."""

from graphsde.cli.app import main

__all__ = ["main"]
