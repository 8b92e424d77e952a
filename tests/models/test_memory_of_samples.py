"""Samples that memory can't hold are refused before any is drawn, with the number that would fit."""

from __future__ import annotations

import re

import pytest
import torch

import graphsde as gs
from graphsde.base.errors import NotEnoughMemory
from graphsde.base.memory import within_memory
from graphsde.base.scratch import _is_filed
from graphsde.models import MODELS
from graphsde.models.base import encode
from graphsde.models.neural import Inputs, NeuralModel
from graphsde.prediction import require_room_for_samples
from graphsde.prediction.base import BYTES_PER_DRAW

from support import block_graph

SAMPLED = {
    "lgnsde": {"preset": "universal", "epochs": 2, "hidden": 4},
    "mc-dropout": {"epochs": 2, "hidden": 4},
    "gnsd": {"epochs": 2, "hidden": 4},
    "bgcn": {"epochs": 2, "hidden": 4, "layers": 2},
    "bgcn-meanfield": {"epochs": 2, "hidden": 4},
    "graph-gp": {"epochs": 2},
    "ensemble": {"members": 2, "base": "mc-dropout", "base_settings": {"epochs": 2, "hidden": 4}},
}


@pytest.mark.parametrize("name", SAMPLED)
def test_more_than_memory_holds(name: str) -> None:
    graph = block_graph()
    model = MODELS.get(name)(**SAMPLED[name]).fit(graph)
    with pytest.raises(NotEnoughMemory) as caught:
        model.predict(graph, samples=10**12)
    assert caught.value.code == "E-MEM"
    most = re.search(r"at most ([0-9,]+) samples", str(caught.value.fix))
    assert most and 100 < int(most[1].replace(",", "")) < 10**12
    assert model.predict(graph, samples=3).num_samples == 3
    if isinstance(model, NeuralModel):  # which keeps sums over so many otherwise
        with pytest.raises(NotEnoughMemory, match=r"at most [0-9,]+ samples"):
            model.predict(graph, samples=10**12, keep_samples=True)  # type: ignore[call-arg]


def test_models_without_samples_do_not_care() -> None:
    graph = block_graph()
    model = gs.GCN(epochs=2, hidden=4).fit(graph)
    assert model.predict(graph, samples=10**12).num_samples == 1


def test_the_number_that_fits_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_MEMORY_LIMIT", "100")
    each = BYTES_PER_DRAW * 1000 * 7
    most = 100 * 2**20 // each
    require_room_for_samples(most, 1000, 7)
    with pytest.raises(NotEnoughMemory, match=f"at most {most:,} samples"):
        require_room_for_samples(most + 1, 1000, 7)


def test_trajectories(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_graph()
    model = gs.LGNSDE(**SAMPLED["lgnsde"]).fit(graph)
    with pytest.raises(NotEnoughMemory):
        model.trajectories(graph, [0], samples=10**12)


def test_under_a_limit_the_mean_of_states_is_in_a_file() -> None:
    graph = block_graph()
    model = gs.LGNSDE(state="wide", hidden=64, epochs=2, race=False).fit(graph)
    assert model.encoder is not None
    inputs = Inputs(encode(model.encoder, graph), graph.adjacency.operator)
    with torch.no_grad():
        plain = model.respond(inputs, graph, 3, 0)
        with within_memory(2**18):
            filed = model.respond(inputs, graph, 3, 0)
    assert plain.hidden is not None and filed.hidden is not None
    assert _is_filed(filed.hidden) and not _is_filed(plain.hidden)
    assert torch.equal(plain.hidden, filed.hidden) and torch.equal(plain.logits, filed.logits)
