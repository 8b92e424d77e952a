"""One model on the parts of a graph: what the whole graph gives, to rounding; resumable; refusals by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage, NotEnoughMemory
from graphsde.base.interrupt import Interrupted
from graphsde.base.memory import within_memory
from graphsde.base.world import run_parts
from graphsde.models import partitioned, ways
from graphsde.models.lgnsde.learner import LGNSDELearner, path_likelihood
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.over_parts import add_gradients, total

from support import needs_real_data

PLAIN: dict[str, Any] = {
    "preset": "auto",
    "race": False,
    "epochs": 6,
    "feature_dropout": 0.0,
    "encoder_dropout": 0.0,
    "node_dropout": 0.0,
    "latent_dropout": 0.0,
    "decoder_dropout": 0.0,
    "consistency": {"kind": "confident", "weight": 1.0, "begin": 2, "by_evidence": True},
}


@pytest.fixture(scope="module")
def graph() -> gs.Graph:
    return gs.split(gs.load("synthetic:400"), "fractions")


def losses(model: gs.LGNSDE) -> list[float]:
    return [one.loss for one in model.history]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sigma": 0.25},
        {"state": "wide", "hidden": 8, "encoder_norm": "batch", "ego": True, "consistency": {}},
        {"drift": {"name": "graph-filter", "options": {"learn": True}}},
        {"drift": {"name": "graph-filter", "options": {"residual": "gcn"}}},
        {"objective": "elbo", "sigma": 0.25, "kl_weight": 0.1},
        {"objective": "importance", "sigma": 0.25, "kl_weight": 0.1, "noise_by": "paths", "consistency": {}},
        {
            "preset": "paper",
            "steps": 3,
            "hidden": 8,
            "drift": {"name": "gcn", "options": {"dropout": 0.0}},
            "consistency": {},
        },
        {"preset": "universal"},
    ],
    ids=["default", "noise", "wide-normed", "learned", "residual", "elbo", "importance", "paper", "universal"],
)
def test_parts_train_to_what_the_whole_graph_gives(graph: gs.Graph, settings: dict[str, Any]) -> None:
    given = {**PLAIN, **settings}
    whole = gs.LGNSDE(**given).fit(graph)
    parts = gs.LGNSDE(**given, way="partitioned", parts=3).fit(graph)
    assert losses(parts) == pytest.approx(losses(whole), rel=2e-4)
    val = [[one.val_nll for one in model.history if one.val_nll] for model in (whole, parts)]
    assert val[1] == pytest.approx(val[0], rel=2e-3)
    assert np.abs(parts.predict(graph, samples=4).mean - whole.predict(graph, samples=4).mean).max() < 2e-2


def test_one_part_has_the_bits_of_the_whole_graph(graph: gs.Graph) -> None:
    given = {"preset": "auto", "race": False, "epochs": 4, "sigma": 0.25}
    whole = gs.LGNSDE(**given).fit(graph)
    one = gs.LGNSDE(**given, way="partitioned", parts=1).fit(graph)
    assert losses(one) == losses(whole)
    assert np.array_equal(one.predict(graph, samples=4).probs, whole.predict(graph, samples=4).probs)


def test_a_limit_of_memory_changes_no_bit(graph: gs.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into files is the same."""
    monkeypatch.setattr(partitioned, "_method", lambda entries: "stream")  # which a limit may choose
    for more in ({}, {"preset": "paper", "steps": 3, "hidden": 8, "gradients": "checkpoint"}):
        given = {"preset": "auto", "race": False, "epochs": 3, "way": "partitioned", "parts": 3, **more}
        free = gs.LGNSDE(**given).fit(graph)
        with within_memory(2**17):  # 4 KB and more in files
            limited = gs.LGNSDE(**given).fit(graph)
        assert losses(free) == losses(limited)


def test_gradients_are_exact_in_double_precision(graph: gs.Graph, tmp_path: Path, monkeypatch: Any) -> None:
    """The loss of the paper's network and its gradient, whole and in parts, without the noise of single precision."""
    model = gs.LGNSDE(preset="paper", steps=3, hidden=8, sigma=0.0, race=False, epochs=3)
    model.resolve(graph)
    partitioned.prepare(model, graph, tmp_path, 3)
    job = partitioned.Job(tmp_path)

    def gradient(on: gs.Graph) -> tuple[float, torch.Tensor]:
        learner = model.learner(on) if on is graph else job.model().learner(on)
        assert isinstance(learner, LGNSDELearner)
        learner.module.double().eval()
        inputs = replace(
            learner.inputs,
            features=learner.inputs.features.double(),
            adjacency=learner.inputs.adjacency.to(torch.float64),
        )
        initial, final = learner.module.mean_path(inputs)
        logits = learner.module.decode_at(inputs, learner.module.beside(final, initial), learner.train)
        loss = path_likelihood(logits, learner.train_labels, "elbo", learner.likelihood)
        loss.backward()
        weights = list(learner.module.parameters())
        add_gradients(weights)
        found = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in weights])
        return float(total(loss.detach())), found

    value, expected = gradient(graph)
    for loss, found in run_parts(lambda part: gradient(job.part(part, shared=True)), range(3)).values():
        assert loss == pytest.approx(value, rel=1e-12)
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)


class StopAt(Callback):
    def __init__(self, epoch: int, guard: Any) -> None:
        self.epoch, self.guard = epoch, guard

    def on_epoch(self, record: Any) -> None:
        if record.epoch == self.epoch:
            self.guard.received = 2


class Guard:
    received: int | None = None


def test_an_interrupted_training_goes_on_to_the_same_bits(graph: gs.Graph, tmp_path: Path) -> None:
    given = {"preset": "auto", "race": False, "epochs": 8, "way": "partitioned", "parts": 3}
    whole = gs.LGNSDE(**given).fit(graph)
    checkpoint, guard = Checkpoint(tmp_path / "state"), Guard()
    with pytest.raises(Interrupted):
        gs.LGNSDE(**given).fit(graph, checkpoint=checkpoint, interrupt=guard, callbacks=[StopAt(3, guard)])  # type: ignore[arg-type]
    resumed = gs.LGNSDE(**given).fit(graph, checkpoint=checkpoint)
    assert losses(resumed) == losses(whole)
    assert np.array_equal(resumed.predict(graph).mean, whole.predict(graph).mean)
    assert not (tmp_path / "parts").exists()


def test_a_race_is_run_on_parts_too(graph: gs.Graph) -> None:
    model = gs.LGNSDE(preset="auto", race=True, epochs=60, way="partitioned", parts=2).fit(graph)
    assert len({one.name for one in model.standings}) >= 4
    assert model.predict(graph, samples=2).mean.shape == (400, 5)
    assert model.settings.way == "partitioned"


def test_regression_in_parts(tmp_path: Path) -> None:
    numbers = gs.split(gs.load("synthetic-regression:300"), "fractions")
    given = {**PLAIN, "epochs": 4, "preset": "universal", "consistency": {}, "temperature": False}
    whole, parts = (gs.LGNSDE(**given, **more).fit(numbers) for more in ({}, {"way": "partitioned", "parts": 3}))
    assert losses(parts) == pytest.approx(losses(whole), rel=2e-4)
    assert np.allclose(parts.predict(numbers).mean, whole.predict(numbers).mean, atol=1e-2)


def test_a_saved_model_remembers_its_way(graph: gs.Graph, tmp_path: Path) -> None:
    model = gs.LGNSDE(preset="auto", race=False, epochs=2, way="partitioned", parts=2).fit(graph)
    model.save(tmp_path)
    again = gs.load_model(tmp_path)
    assert np.array_equal(again.predict(graph).mean, model.predict(graph).mean)
    assert again.settings.way == "partitioned"  # type: ignore[attr-defined]


def test_attention_is_refused_by_name(graph: gs.Graph) -> None:
    with pytest.raises(BadUsage, match="E-PARTS"):
        gs.LGNSDE(preset="paper", drift="gat", steps=2, epochs=1, way="partitioned", parts=2).fit(graph)


@needs_real_data
def test_words_are_read_part_by_part() -> None:
    cora = gs.load("cora")
    given = {**PLAIN, "epochs": 4}
    whole, parts = (gs.LGNSDE(**given, **more).fit(cora) for more in ({}, {"way": "partitioned", "parts": 4}))
    assert losses(parts) == pytest.approx(losses(whole), rel=2e-4)


def test_metis_is_left_out_where_it_would_take_much_of_a_limit() -> None:
    assert partitioned._method(10**7) == "auto"
    with within_memory("2G"):
        assert partitioned._method(10**6) == "auto" and partitioned._method(10**7) == "stream"


class TestChoice:
    """Which way a fit takes within a limit."""

    def model(self, **settings: Any) -> gs.LGNSDE:
        return gs.LGNSDE(**{"preset": "auto", "race": False, **settings})

    def test_whole_where_it_fits(self, graph: gs.Graph) -> None:
        found = ways.choose_way(self.model(), graph, 10**10)
        assert (found.name, found.settings) == ("full", {})

    def test_exact_ways_come_before_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        large = gs.split(gs.load("synthetic:60000"), "fractions")
        monkeypatch.setattr(ways, "anonymous_bytes", lambda: 0)
        paper = self.model(preset="paper", hidden=64, steps=10)
        whole = paper.needed_memory(large)
        names = []
        for limit in (2 * whole, whole - 1, whole // 2, whole // 6):
            found = ways.choose_way(paper, large, limit)
            names.append(found.name)
            assert found.name in found.why or "graph" in found.why
        assert names == ["full", "checkpointed", "partitioned", "batched"]
        assert ways.choose_way(paper, large, whole // 2).settings["gradients"] == "checkpoint"

    def test_less_room_means_more_parts(self, graph: gs.Graph) -> None:
        model = self.model(state="wide", hidden=64)
        model.resolve(graph)
        working = model.working_memory(graph)
        counts = [ways.parts_for(model, graph, limit) for limit in (working * 4, working, working // 4)]
        assert counts == [4, 4, 16]

    def test_a_model_without_another_way_says_so(self, graph: gs.Graph) -> None:
        with pytest.raises(NotEnoughMemory, match="has no other way"):
            ways.choose_way(gs.GCN(), graph, 1_000)
