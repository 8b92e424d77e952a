"""The floor of the default model is made of the products that it does, no more and no fewer."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import graphsde as gs
from graphsde.datasets.splits import default_split, make_split
from graphsde.datasets.synthetic import synthetic

Script = Callable[[str], ModuleType]


@pytest.fixture
def graph() -> gs.Graph:
    whole = synthetic(120, classes=4, features=16, degree=6.0)
    return make_split(whole, default_split(whole)).apply(whole)


def test_multiplications_by_hand(script: Script, graph: gs.Graph) -> None:
    learner = gs.LGNSDE(race=False, preset="auto", encoder_width=8, horizon=3.0, steps=3, paths=2).learner(graph)
    found = {one.what: one.multiplications for one in script("_family_products").products(learner)}
    nodes, inputs, width, classes, paths, steps = 120, 16, 8, 4, 2, 3
    entries = learner.inputs.adjacency.nnz
    assert found == {
        "features × W₁": paths * nodes * inputs * width,
        "hidden × W₂": paths * nodes * width * classes,
        "Â × state": steps * entries * paths * classes,
        "Âᵀ × gradient": steps * entries * paths * classes,
        "gradient × W₂ᵀ": paths * nodes * classes * width,
        "hiddenᵀ × gradient": paths * nodes * width * classes,
        "featuresᵀ × gradient": paths * nodes * inputs * width,
    }


def test_dense_products_are_those_of_a_real_epoch(script: Script, graph: gs.Graph) -> None:
    learner = gs.LGNSDE(race=False).learner(graph)
    listed = script("_family_products").products(learner)
    dense = sum(one.multiplications for one in listed if isinstance(one.left, Tensor))
    with FlopCounterMode(display=False) as counter:
        learner.loss(20).backward()
    assert counter.get_total_flops() == 2 * dense


def test_products_have_the_shapes_of_what_they_stand_for(script: Script, graph: gs.Graph) -> None:
    learner = gs.LGNSDE(race=False).learner(graph)
    for one in script("_family_products").products(learner):
        assert one.left.shape[1] == one.right.shape[0], one.what
    script("_family_products").products_of(learner)()


def test_other_members_are_refused(script: Script, graph: gs.Graph) -> None:
    wide = {"state": "wide", "hidden": 8}
    learner = gs.LGNSDE(race=False, preset="auto", **wide).learner(graph)
    with pytest.raises(ValueError, match="logits"):
        script("_family_products").products(learner)
