"""Every registered model keeps every guarantee."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from graphsde.models import MODELS
from graphsde.testing.models import MODEL_CHECKS, Check, ModelCase

# what makes a model small and quick enough for this; models that ignore features or edges say so
SMALL = {
    "gcn": ({"epochs": 5, "hidden": 8}, {}),
    "mlp": ({"epochs": 5, "hidden": 8}, {"uses_edges": False}),
    "lgnsde": ({"epochs": 5, "hidden": 8, "evaluate_every": 1}, {}),
    "gnode": ({"epochs": 5, "hidden": 8}, {}),
    "label-propagation": ({}, {"uses_features": False, "inductive": False}),
    "gat": ({"epochs": 5, "heads": 2, "head_width": 4}, {}),
    "appnp": ({"epochs": 5, "hidden": 8}, {}),
    "sgc": ({"epochs": 5}, {}),
    "gnnsafe++": ({"epochs": 5, "hidden": 8}, {}),
    "mc-dropout": ({"epochs": 5, "hidden": 8}, {}),
    "bgcn": ({"epochs": 5, "hidden": 8, "layers": 2, "evaluate_every": 1}, {}),
    "bgcn-meanfield": ({"epochs": 5, "hidden": 8}, {}),
    "ensemble": ({"members": 2, "base_settings": {"epochs": 4, "hidden": 8}}, {"fixed_samples": True}),
    "grand": ({"epochs": 5, "hidden": 8, "heads": 2, "attention_width": 4, "steps": 2}, {}),
    "gread": ({"epochs": 5, "hidden": 8, "heads": 2, "attention_width": 4, "steps": 2}, {}),
    "gnsd": ({"epochs": 5, "hidden": 8, "steps": 2}, {}),
    "gkde": ({"epochs": 5, "hidden": 8}, {}),
    "graph-gp": ({"epochs": 5}, {"uses_features": False, "inductive": False}),
    "logistic": ({}, {"uses_edges": False}),
    "logistic-hops": ({"hops": 2}, {}),
    "gpn": ({"epochs": 5, "hidden": 8, "latent": 4, "flow_layers": 2}, {}),
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
