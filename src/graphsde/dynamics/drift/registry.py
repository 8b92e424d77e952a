"""Drifts by name."""

from __future__ import annotations

from graphsde.dynamics.field import Drift
from graphsde.registry import Registry

DRIFTS: Registry[type[Drift]] = Registry("drift")
"""Every drift. The facts of an entry are ``paper`` and ``year``; the constructor takes ``width``, the drift's own
settings and ``generator``."""


def register_drift(cls: type[Drift]) -> type[Drift]:
    """Class decorator: makes a drift known by its name."""
    DRIFTS.add(cls.name, cls, summary=cls.summary, paper=cls.paper, year=cls.year)
    return cls
