"""Members by their seeds, samples in turns, and a training that survives being stopped anywhere."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.seeds import derive
from graphsde.datasets.source import GraphSource
from graphsde.graph.graph import Graph
from graphsde.models.ensemble import Ensemble
from graphsde.models.files import load_model
from graphsde.models.mc_dropout import MCDropout
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.prediction import Perturb
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.uncertainty.calibration.calibrators import ENOUGH

from support import as_before_guards, block_graph

SMALL: dict[str, Any] = {"members": 3, "base_settings": {"hidden": 4, "epochs": 6}}


def seed_of(seed: int, member: int) -> int:
    return derive(seed, "ensemble member", member)


def test_members_are_the_base_model_with_seeds_of_their_own(blocks: Graph) -> None:
    prediction = Ensemble(**SMALL, seed=5, temperature=False).fit(blocks).predict(blocks)
    alone = [gs.GCN(hidden=4, epochs=6, seed=seed_of(5, m)).fit(blocks).predict(blocks) for m in range(3)]
    np.testing.assert_array_equal(prediction.probs, np.concatenate([one.probs for one in alone]))
    np.testing.assert_array_equal(prediction.logits, np.concatenate([one.logits for one in alone]))
    np.testing.assert_array_equal(prediction.embedding, np.hstack([one.embedding for one in alone]))
    np.testing.assert_allclose(prediction.mean, np.mean([one.mean for one in alone], axis=0))
    assert prediction.kind == "samples" and (prediction.epistemic > 0).all()
    assert prediction.temperature == pytest.approx(np.exp(np.mean([np.log(one.temperature) for one in alone])))


def test_samples_of_a_sampled_base_take_turns(blocks: Graph) -> None:
    model = Ensemble(**SMALL, base="mc-dropout", temperature=False).fit(blocks)
    alone = [MCDropout(hidden=4, epochs=6, seed=seed_of(0, m)).fit(blocks).predict(blocks, samples=3) for m in range(3)]
    for samples in (7, 2):
        prediction = model.predict(blocks, samples=samples)
        assert prediction.num_samples == samples
        for k in range(samples):
            np.testing.assert_array_equal(prediction.probs[k], alone[k % 3].probs[k // 3])
    other = model.predict(blocks, samples=3, seed=1)
    np.testing.assert_array_equal(
        model.predict(blocks, samples=3, seed=0).probs, model.predict(blocks, samples=3).probs
    )
    assert not np.array_equal(other.probs, model.predict(blocks, samples=3).probs)


def test_fitted_temperatures_are_undone_member_by_member(blocks: Graph) -> None:
    settings = {"hidden": 4, "epochs": 6, "evaluate_every": 1, "temperature": True}
    model = Ensemble(base="lgnsde", base_settings=settings, members=2, temperature=False).fit(blocks)
    prediction = model.predict(blocks, samples=4)
    temperatures = [member.predict(blocks, samples=2).temperature for member in model.members]
    assert temperatures[0] != temperatures[1]
    assert prediction.temperature == pytest.approx(np.sqrt(np.prod(temperatures)))
    for k in range(4):
        scaled = torch.softmax(torch.tensor(prediction.logits[k]).double() / temperatures[k % 2], -1)
        np.testing.assert_allclose(prediction.probs[k], scaled, atol=1e-5)


@pytest.mark.parametrize("base", ["gcn", "mc-dropout", "gpn", "label-propagation"])
def test_one_temperature_on_top_is_the_best_for_the_mean(base: str, tmp_path: Path) -> None:
    blocks = block_graph(per_class=40)
    own = {} if base == "label-propagation" else {"epochs": 6}
    model = Ensemble(base=base, base_settings=own, members=2).fit(blocks)
    factor, validation, chosen = model._temperature, np.flatnonzero(blocks.val_mask), {}
    seed = derive(0, "ensemble temperature")
    assert len(validation) >= ENOUGH  # fewer move it only a part of the way
    for trial in (factor, 0.9 * factor, 1.1 * factor):
        model._temperature = trial
        mean = model.predict(blocks, samples=32, seed=seed).mean[validation]
        right = mean[np.arange(len(validation)), blocks.labels[validation]].astype(np.float64)
        # as in the search: one wrong answer where all are right
        wrong = -np.log(1 - right).mean() / len(right) if (mean.argmax(1) == blocks.labels[validation]).all() else 0.0
        chosen[trial] = -np.log(right).mean() + wrong
    assert min(chosen, key=chosen.__getitem__) == factor != 1.0
    model._temperature = factor
    model.save(tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path).predict(blocks).probs, model.predict(blocks).probs)
    plain = Ensemble(base=base, base_settings=own, members=2, temperature=False).fit(blocks).predict(blocks)
    assert not np.array_equal(plain.probs, model.predict(blocks).probs)
    assert model.predict(blocks).temperature == pytest.approx(factor * plain.temperature)


def test_numbers_have_no_temperature() -> None:
    numbers = gs.load("diabetes")
    assert not Ensemble(base_settings={"epochs": 2}, members=2).fit(numbers).settings.temperature
    with pytest.raises(BadUsage, match="class probabilities"):
        Ensemble(temperature=True, members=2).fit(numbers)


def test_perturbed_features_are_each_members_own(blocks: Graph) -> None:
    model = Ensemble(**SMALL, temperature=False).fit(blocks)
    step = Perturb(0.5)
    expected = [member.predict(blocks, perturb=step).probs for member in model.members]
    np.testing.assert_array_equal(model.predict(blocks, perturb=step).probs, np.concatenate(expected))
    with pytest.raises(BadUsage, match="no gradient"):
        Ensemble(base="label-propagation", members=2).fit(blocks).predict(blocks, perturb=step)


class StopAt(Callback):
    """Asks to stop in one epoch of one member, or fails there, as a killed process would."""

    def __init__(self, guard: InterruptGuard, member: int, epoch: int, *, kill: bool = False) -> None:
        self.guard, self.member, self.epoch, self.kill = guard, member, epoch, kill
        self.current = -1

    def on_start(self, epochs: int, first: int) -> None:
        self.current += 1

    def on_epoch(self, record: EpochRecord) -> None:
        if (self.current, record.epoch) == (self.member, self.epoch):
            if self.kill:
                raise KeyboardInterrupt
            self.guard.received = 15


@pytest.mark.parametrize("base", ["gcn", "lgnsde"])
@pytest.mark.parametrize(("member", "epoch", "kill"), [(0, 2, False), (1, 1, False), (1, 6, False), (2, 3, True)])
def test_an_interrupted_ensemble_ends_where_the_undisturbed_one_does(
    blocks: Graph, tmp_path: Path, base: str, member: int, epoch: int, kill: bool
) -> None:
    settings = {**SMALL, "base": base, "base_settings": {"hidden": 4, "epochs": 6, "evaluate_every": 1}}
    whole = Ensemble(**settings).fit(blocks)
    guard, path = InterruptGuard(), tmp_path / "checkpoint.safetensors"
    every = 0.0 if kill else 1e9  # an interruption saves by itself, a kill does not
    with pytest.raises(KeyboardInterrupt if kill else Interrupted):
        Ensemble(**settings).fit(
            blocks,
            callbacks=[StopAt(guard, member, epoch, kill=kill)],
            checkpoint=Checkpoint(path, every),
            interrupt=guard,
        )
    assert path.exists()

    class Count(Callback):
        epochs = 0

        def on_epoch(self, record: EpochRecord) -> None:
            self.epochs += 1

    count = Count()
    resumed = Ensemble(**settings).fit(blocks, callbacks=[count], checkpoint=Checkpoint(path))
    assert count.epochs <= 18 - 6 * member  # finished members are not trained again
    assert epoch == 6 or count.epochs == 18 - (6 * member + epoch - int(kill))  # nor are epochs
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, resumed.state()[0][name]), name
    assert [record.loss for record in resumed.history] == [record.loss for record in whole.history]
    assert [record.epoch for record in resumed.history] == list(range(1, 19))
    count.epochs = 0
    again = Ensemble(**settings).fit(blocks, callbacks=[count], checkpoint=Checkpoint(path))
    assert count.epochs == 0 and all(torch.equal(t, again.state()[0][n]) for n, t in whole.state()[0].items())


def test_a_run_is_resumed_from_its_folder(blocks: Graph, tmp_path: Path) -> None:
    import os
    import signal

    gs.write_tables(blocks, tmp_path / "graph")
    request = FitRequest(GraphSource.typed(str(tmp_path / "graph")), "ensemble", SMALL)

    class Terminate(StopAt):
        def on_epoch(self, record: EpochRecord) -> None:
            if (self.current, record.epoch) == (self.member, self.epoch):
                os.kill(os.getpid(), signal.SIGTERM)

    whole = fit_run(request, RunFolder(tmp_path / "whole"))
    with pytest.raises(Interrupted):
        fit_run(request, RunFolder(tmp_path / "cut"), callbacks=[Terminate(InterruptGuard(), 1, 4)])
    resumed = fit_run(request, RunFolder(tmp_path / "cut"))
    assert resumed.resumed and not resumed.folder.work.checkpoint.path.exists()
    for name in ("model.safetensors", "predictions.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(whole.folder.read_metrics()) == 18 + 1


def test_members_take_the_bases_defaults_for_the_graph(blocks: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gs.GCN, "defaults_for", lambda self, graph: {"hidden": 7, "lr": 0.02})
    model = Ensemble(members=2, base_settings={"epochs": 2, "lr": 0.5}).fit(blocks)
    for member in model.members:
        assert (member.settings.hidden, member.settings.lr) == (7, 0.5)  # type: ignore[attr-defined]
    assert model.settings.base_settings["hidden"] == 7 and "seed" not in model.settings.base_settings
    # another graph is resolved anew
    monkeypatch.setattr(gs.GCN, "defaults_for", lambda self, graph: {"hidden": 5})
    model.resolve(dataclasses.replace(blocks, name="other"))
    assert model.settings.base_settings["hidden"] == 5


def test_wrong_settings_are_told_when_the_ensemble_is_made() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gcn'"):
        Ensemble(base="gcnn")
    with pytest.raises(BadUsage, match=r"the members have it: base_settings\.select"):
        Ensemble(select="accuracy")
    with pytest.raises(BadUsage, match="did you mean 'hidden'"):
        Ensemble(base_settings={"hiden": 3})
    with pytest.raises(BadUsage, match="setting 'lr' of model 'gcn'"):
        Ensemble(base_settings={"lr": -1})
    with pytest.raises(BadUsage, match="seed"):
        Ensemble(base_settings={"seed": 3})
    with pytest.raises(BadUsage, match="ensemble of ensembles"):
        Ensemble(base="ensemble")


def test_an_estimate_counts_all_members(blocks: Graph) -> None:
    one, many = gs.GCN(epochs=10).estimate(blocks), Ensemble(members=4, base_settings={"epochs": 10}).estimate(blocks)
    assert many.epochs == 40 and one.bytes < many.bytes < 4 * one.bytes


def test_a_missing_member_is_noticed(blocks: Graph, tmp_path: Path) -> None:
    Ensemble(**SMALL).fit(blocks).save(tmp_path)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    description["values"]["members"].pop()
    path.write_text(json.dumps(description))
    as_before_guards(tmp_path)
    with pytest.raises(BadInput, match="2 members were saved"):
        load_model(tmp_path)


def test_a_warm_start_hands_every_member_its_counterpart(blocks: Graph) -> None:
    first = Ensemble(**SMALL).fit(blocks)
    frozen = {"hidden": 4, "epochs": 1, "lr": 1e-12, "weight_decay": 0.0}
    again = Ensemble(members=3, base_settings=frozen).start_from(first).fit(blocks)
    for name, tensor in first.state()[0].items():
        torch.testing.assert_close(again.state()[0][name], tensor, atol=1e-6, rtol=0)
    with pytest.raises(BadUsage, match="can't continue from"):
        Ensemble(members=2).start_from(first)
