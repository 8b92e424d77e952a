"""Whom to cite."""

from __future__ import annotations

import graphsde as gs
from graphsde.models import MODELS


def test_every_model_has_somebody_to_cite_and_parts_have_too() -> None:
    for name in MODELS:
        assert gs.citation(name), name
    told = gs.citation(gs.LGNSDE(drift="gat"))
    assert "Bergna" in told[0] and any("attention" in one for one in told) and any("Rößler" in one for one in told)
    assert any("Kipf" in one for one in gs.citation("ensemble"))
