"""Every registered model keeps every promise."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from graphsde.models import MODELS
from graphsde.models.contract import MODEL_CHECKS, Check, ModelCase

# what makes a model small and quick enough for this; models that ignore features or edges say so
SMALL = {
    "gcn": ({"epochs": 5, "hidden": 8}, {}),
    "mlp": ({"epochs": 5, "hidden": 8}, {"uses_edges": False}),
    "lgnsde": ({"epochs": 5, "hidden": 8, "evaluate_every": 1}, {}),
    "gnode": ({"epochs": 5, "hidden": 8}, {}),
    "label-propagation": ({}, {"uses_features": False, "inductive": False}),
}


@cache
def case(name: str) -> ModelCase:
    settings, traits = SMALL[name]
    return ModelCase(lambda **given: MODELS.get(name)(**{**settings, **given}), **traits)


def test_every_model_is_held_to_the_contract() -> None:
    assert set(SMALL) == set(MODELS.names())
    assert len(MODEL_CHECKS) >= 40


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", list(SMALL))
def test_contract(name: str, check: Check, tmp_path: Path) -> None:
    check(case(name), tmp_path)
