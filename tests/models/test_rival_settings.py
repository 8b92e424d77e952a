"""Settings that a rival needs to be a fair one: found where it failed without them."""

from __future__ import annotations

import pytest

from graphsde.datasets.benchmarks import load
from graphsde.models import GNODE, BGCNMeanField

from support import needs_real_data

pytestmark = pytest.mark.usefixtures("own_cache")


@needs_real_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "photo", "computers"])
def test_a_graph_ode_takes_words_as_they_are(name: str) -> None:
    model = GNODE()
    model.resolve(load(name))
    assert model.settings.scaling == "none"
    asked = GNODE(scaling="row")
    asked.resolve(load(name))
    assert asked.settings.scaling == "row"


def test_a_graph_ode_scales_measurements() -> None:
    model = GNODE()
    model.resolve(load("digits"))
    assert model.settings.scaling == "auto"


@needs_real_data
def test_gaussian_weights_take_raw_words_on_the_amazon_graphs_alone() -> None:
    chosen = {}
    for name in ("cora", "photo", "computers"):
        model = BGCNMeanField()
        model.resolve(load(name))
        chosen[name] = model.settings.scaling
    assert chosen == {"cora": "auto", "photo": "none", "computers": "none"}
