"""Diffusions by name."""

from __future__ import annotations

from graphsde.dynamics.field import Diffusion
from graphsde.registry import Registry

DIFFUSIONS: Registry[type[Diffusion]] = Registry("diffusion")
"""Every diffusion. The facts of an entry are ``paper``, ``year`` and ``noise`` (additive or diagonal); the constructor
takes ``width``, ``sigma`` and the diffusion's own settings."""


def register_diffusion(cls: type[Diffusion]) -> type[Diffusion]:
    """Class decorator: makes a diffusion known by its name."""
    DIFFUSIONS.add(cls.name, cls, summary=cls.summary, paper=cls.paper, year=cls.year, noise=cls.noise)
    return cls
