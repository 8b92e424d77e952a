"""A race ends where its winner would have ended alone, can be interrupted anywhere, and knows no names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import graphsde as gs
from graphsde.base.interrupt import Interrupted
from graphsde.graph.graph import Graph
from graphsde.models import MODELS
from graphsde.models.race import FIRST_EPOCHS, Candidate, Runner, listed_candidates, run_race, rungs, tempered
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.training import Validation

from support import block_graph

EPOCHS = 120


class Notes(Callback):
    def __init__(self) -> None:
        self.told: list[str] = []
        self.progress: list[tuple[int, int]] = []

    def on_note(self, text: str) -> None:
        self.told.append(text)

    def on_race(self, done: int, total: int) -> None:
        self.progress.append((done, total))


class Stop:
    """Says that a signal came once it was asked so many times."""

    def __init__(self, after: int) -> None:
        self.left = after

    @property
    def received(self) -> int | None:
        self.left -= 1
        return 2 if self.left < 0 else None


def raced(graph: Graph, **given: Any) -> gs.GCN:
    return gs.GCN(race=True, epochs=EPOCHS, patience=EPOCHS, seed=3, **given)


def tensors(model: gs.GCN) -> dict[str, torch.Tensor]:
    return dict(model.state()[0])


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return block_graph(per_class=20)


@pytest.fixture(scope="module")
def winner(graph: Graph) -> gs.GCN:
    return raced(graph).fit(graph)


def test_half_of_them_drop_out_at_every_rung() -> None:
    assert rungs(8) == [(8, FIRST_EPOCHS), (4, 2 * FIRST_EPOCHS), (2, 4 * FIRST_EPOCHS)]
    assert rungs(5) == [(5, FIRST_EPOCHS), (2, 2 * FIRST_EPOCHS)]
    assert rungs(1) == []


def test_the_winner_ends_where_it_would_have_ended_alone(graph: Graph, winner: gs.GCN) -> None:
    assert winner._candidate is not None
    alone = raced(graph)
    alone._given = {**winner._candidate.settings, **alone._given, "race": False}
    alone._given |= winner.settings.model_dump(include={"scaling", "temperature"})
    alone.fit(graph)
    assert same(tensors(winner), tensors(alone)) and winner.best_epoch == alone.best_epoch
    assert winner.temperature_of_logits() == alone.temperature_of_logits()


def test_the_best_validation_nll_of_each_rung_goes_on(graph: Graph, winner: gs.GCN) -> None:
    assert winner._candidate is not None
    for rung, (running, epochs) in enumerate(rungs(len(listed_candidates("gcn"))), start=1):
        stood = [one for one in winner.standings if one.rung == rung]
        assert len(stood) == running and {one.epochs for one in stood} == {epochs}
        assert [one.val_nll for one in stood] == sorted(one.val_nll for one in stood)
        assert [one.kept for one in stood] == [place < running // 2 for place in range(running)]
    assert winner.standings[-2].name == winner._candidate.name


def test_it_is_told_as_it_goes(graph: Graph) -> None:
    notes = Notes()
    run_race(raced(graph), graph, listed_candidates("gcn"), callbacks=[notes])
    assert len(notes.told) == 2 and "validation NLL" in notes.told[0] and "remaining: " in notes.told[1]
    done = [one for one, _ in notes.progress]
    assert done == sorted(done) and notes.progress[-1] == (350, 350)  # five for 50 epochs, two of them for 50 more
    assert done.count(350) == 1


@pytest.mark.parametrize("after", [30, 120, 230, 330])
def test_it_can_be_interrupted_anywhere(graph: Graph, winner: gs.GCN, tmp_path: Path, after: int) -> None:
    """At the first member, at the last ones, at the second rung, and after the race."""
    checkpoint = Checkpoint(tmp_path / "checkpoint.safetensors")
    with pytest.raises(Interrupted):
        raced(graph).fit(graph, checkpoint=checkpoint, interrupt=Stop(after))  # type: ignore[arg-type]
    assert checkpoint.path.exists()
    again = raced(graph).fit(graph, checkpoint=checkpoint)
    assert same(tensors(winner), tensors(again)) and again.standings == winner.standings
    once_more = raced(graph).fit(graph, checkpoint=checkpoint, interrupt=Stop(1))  # type: ignore[arg-type]
    assert same(tensors(winner), tensors(once_more)), "nothing was left to train"


def test_callbacks_see_every_epoch_of_the_winner_also_where_the_race_was_all(graph: Graph) -> None:
    class Epochs(Callback):
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_epoch(self, record: EpochRecord) -> None:
            self.seen.append(record.epoch)

    for epochs in (12, 70):
        watching = Epochs()
        gs.GCN(race=True, epochs=epochs, seed=3).fit(graph, callbacks=[watching])
        assert watching.seen == list(range(1, epochs + 1))


def test_what_is_given_stays(graph: Graph) -> None:
    model = raced(graph, hidden=7).fit(graph)
    assert model.settings.hidden == 7 and model.module is not None
    assert {one.shape[-1] for name, one in tensors(model).items() if name.endswith("weight")} >= {7}


def test_files_keep_the_standings(winner: gs.GCN, graph: Graph, tmp_path: Path) -> None:
    winner.save(tmp_path / "model")
    again = gs.load_model(tmp_path / "model")
    assert again.standings == winner.standings and again.settings == winner.settings


def test_a_successor_goes_on_with_the_winner(winner: gs.GCN, graph: Graph) -> None:
    successor = gs.GCN(race=True, epochs=2).start_from(winner).fit(graph)
    assert successor.settings.hidden == winner.settings.hidden and successor.settings.epochs == 2
    assert len(successor.history) == 2 and not successor.standings


def test_which_benchmark_it_is_plays_no_part(graph: Graph) -> None:
    named = dataclasses.replace(graph, benchmark="photo")
    settings = []
    for one in (graph, named):
        model = gs.GCN(race=True)
        model.resolve(one)
        settings.append(model.settings)
    assert settings[0] == settings[1]
    by_name = gs.GCN()
    by_name.resolve(named)
    assert by_name.settings.scaling == "none"  # the recipe that reproduction takes


def test_a_network_that_is_right_but_unsure_does_not_lose_for_it() -> None:
    labels = torch.arange(30) % 3
    unsure = torch.nn.functional.one_hot(labels, 3).float()[:, None] * 0.1
    unsure[::5] = unsure[::5].roll(1, -1)
    assert tempered(unsure, labels).nll == pytest.approx(tempered(unsure * 30, labels).nll, abs=1e-3)
    plain = torch.nn.functional.cross_entropy(unsure[:, 0], labels)
    assert tempered(unsure, labels).nll < float(plain) - 0.3


def test_without_validation_nodes_there_is_nothing_to_race_by(graph: Graph) -> None:
    assert graph.train_mask is not None and graph.val_mask is not None
    bare = graph.with_masks(split="given", train=graph.train_mask, test=~graph.train_mask)
    for one, name in ((graph, "gcn"), (bare, "gcn"), (bare, "lgnsde")):
        model = MODELS.get(name)(race=True, epochs=3, early_stop=False).fit(one)
        assert not model.standings and len(model.history) == 3  # type: ignore[attr-defined]


def test_the_estimate_covers_all_members(graph: Graph) -> None:
    alone = gs.GCN(epochs=EPOCHS)
    # libraries and what passes with an epoch count once, what stands side by side for every member
    assert raced(graph).estimate(graph).bytes > alone.estimate(graph).bytes + alone.standing_memory(graph)


def test_every_candidate_is_a_valid_setting_of_its_model(graph: Graph) -> None:
    for name in ("gcn", "gat", "appnp", "mlp"):
        members = listed_candidates(name)
        assert len(members) >= 4 and len({one.name for one in members}) == len(members)
        for one in members:
            MODELS.get(name)(**one.settings)
    assert listed_candidates("gpn") == []
    assert isinstance(listed_candidates("lgnsde")[0], Candidate)


def test_members_may_be_judged_by_accuracy(graph: Graph, winner: gs.GCN, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later a member is listed, the better its accuracy and the worse its NLL."""
    names = [one.name for one in listed_candidates("gcn")]

    def found(runner: Runner) -> Validation:
        place = names.index(runner.candidate.name)
        return Validation(float(place), place / 10)

    monkeypatch.setattr(Runner, "validation", found)
    for select, first in (("nll", names[0]), ("accuracy", names[-1])):
        notes = Notes()
        runner, standings = run_race(raced(graph, select=select), graph, listed_candidates("gcn"), callbacks=[notes])
        assert runner.candidate.name == first == standings[0].name and runner.training.settings.select == select
        assert f"validation {'NLL' if select == 'nll' else select}" in notes.told[0]
        assert ("val_accuracy" in standings[0].as_dict()) == (select == "accuracy"), "files stay as they were"


def test_a_winner_by_accuracy_keeps_its_best_epoch_by_accuracy(graph: Graph) -> None:
    model = raced(graph, select="accuracy").fit(graph)
    seen = [(-(one.val_accuracy or 0), one.val_nll or 0, one.epoch) for one in model.history]
    assert model.best_epoch == min(seen)[2] and all(one.val_accuracy is not None for one in model.standings)


def test_accuracy_decides_where_nll_would_not() -> None:
    right = torch.tensor([[[9.0, 0.0]], [[9.0, 0.0]], [[0.0, 0.3]], [[0.0, 0.3]]])
    labels = torch.tensor([0, 0, 1, 1])
    one, two = tempered(right, labels), tempered(-right, labels)
    assert (one.accuracy, two.accuracy) == (1.0, 0.0) and one.key("accuracy") < two.key("accuracy")
