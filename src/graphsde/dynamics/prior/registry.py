"""Priors by name."""

from __future__ import annotations

from graphsde.dynamics.field import Prior
from graphsde.registry import Registry

PRIORS: Registry[type[Prior]] = Registry("prior")
"""Every prior. The facts of an entry are ``paper`` and ``year``; the constructor takes ``width`` and the prior's own
settings."""


def register_prior(cls: type[Prior]) -> type[Prior]:
    """Class decorator: makes a prior known by its name."""
    PRIORS.add(cls.name, cls, summary=cls.summary, paper=cls.paper, year=cls.year)
    return cls
