"""Searches: where to look next, what a trial may cost, when it is given up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphsde.base.errors import BadUsage
from graphsde.bench import search as study
from graphsde.bench.cells import ModelSpec
from graphsde.bench.engines import Limits
from graphsde.bench.folder import BenchFolder
from graphsde.bench.journal import Outcome
from graphsde.bench.run import BenchRequest, run_bench
from graphsde.bench.search import (
    LOST_SECONDS,
    SearchRequest,
    Trial,
    _trial,
    best_trial,
    next_point,
    nothing_left,
    read_trials,
    run_search,
    space_of,
    thresholds,
)
from graphsde.bench.tasks import TASKS
from graphsde.bench.tasks.tuning import RUNGS
from graphsde.datasets.source import open_graph
from graphsde.models import GCN
from graphsde.models.ensemble import Ensemble

from support import block_graph

pytest.importorskip("optuna", reason="the extra 'cluster' is not installed")

GRAPH = "digits"


def request(**changes: Any) -> SearchRequest:
    return SearchRequest(GRAPH, ModelSpec("gcn"), engine="serial", **changes)


def tried(count: int, good: float = 0.001) -> list[Trial]:
    """Trials at random points, of which those with one learning rate are far better."""
    found = [Trial(0, {}, {}, 1.0, "", (), 1.0, False)]
    while len(found) < count:
        point = next_point(request(), found)
        value = 0.1 if point["lr"] == good else 5.0
        found.append(Trial(len(found), point, {}, value, "", (), 1.0, False))
    return found


def test_points_are_new_ones_of_the_grid_and_the_same_at_every_start() -> None:
    trials = tried(10)
    points = [trial.chosen for trial in trials[1:]]
    assert all(point[name] in values for point in points for name, values in space_of("gcn").items())
    assert len({repr(point) for point in points}) == len(points)
    assert next_point(request(), trials) == next_point(request(), trials)


def test_tpe_thinks_within_a_search_of_eight() -> None:
    """With the same numbers drawn, it would go where a random search goes if it did not think."""
    trials = tried(8)
    points = {
        sampler: [next_point(request(sampler=sampler, seed=seed), trials) for seed in range(30)]
        for sampler in ("random", "tpe")
    }
    assert points["tpe"] != points["random"]
    good = {sampler: sum(point["lr"] == 0.001 for point in found) for sampler, found in points.items()}
    assert good["tpe"] > good["random"]
    assert next_point(request(sampler="tpe"), trials[:3]) == next_point(request(), trials[:3])  # at random at first


def test_near_changes_a_few_of_the_own_settings_and_every_parameter_equally_often() -> None:
    asked = request(sampler="near", trials=8, also={"temperature": (False, True)})
    before = [Trial(0, {}, {}, 1.0, "", (), 1.0, False)] * 8
    points = [next_point(asked, before[:number]) for number in range(1, 8)]
    model = GCN()
    model.resolve(open_graph(GRAPH))
    own = {name: getattr(model.settings, name) for name in ("lr", "weight_decay", "dropout", "hidden")}
    assert len({repr(sorted(point.items())) for point in points}) == 7
    for name in (*own, "epochs", "temperature"):
        changed = [point[name] for point in points if name in point]
        assert len(changed) in (2, 3), name
        assert name == "temperature" or len(set(changed)) >= 2
        assert own.get(name) not in changed
    assert {len(point) for point in points} <= {1, 2, 3, 4}


def trials_at(*points: dict[str, Any]) -> list[Trial]:
    return [Trial(number, point, {}, 1.0 - number / 100, "", (), 1.0, False) for number, point in enumerate(points)]


@pytest.mark.parametrize("sampler", ["near", "random", "tpe"])
def test_named_points_come_first_and_those_named_later_last(sampler: str) -> None:
    named = [{"dropout": 0.1}, {"hidden": 33}]  # one is not in the grid
    asked = request(sampler=sampler, trials=4, around=2, named=named)
    assert next_point(asked, []) == {}
    assert [next_point(asked, trials_at({}, *named[:done])) for done in range(2)] == named
    assert next_point(asked, trials_at({}, *named)) not in ({}, *named)
    ended = trials_at({}, *({"lr": lr, "dropout": drop} for lr in (0.001, 0.1) for drop in (0.0, 0.1, 0.3)))
    assert next_point(asked, ended) == named[0]
    assert asked.question() == request(sampler=sampler, trials=4, around=2).question()  # the others stay what they were


def test_a_step_beyond_the_grid_is_not_tried_as_a_new_point() -> None:
    """A GCN's own dropout is the last of the grid: a step further ends where it began."""
    model = GCN()
    model.resolve(open_graph(GRAPH))
    assert model.settings.dropout == space_of("gcn")["dropout"][-1]
    for seed in range(30):
        point = next_point(request(sampler="near", trials=1, around=1, seed=seed), trials_at({}))
        assert any(getattr(model.settings, name) != value for name, value in point.items()), seed


def test_the_best_trial_wins_whatever_it_took() -> None:
    def trial(number: int, value: float | None, seconds: float) -> Trial:
        return Trial(number, {}, {}, value, "", (), seconds, False)

    trials = [trial(0, 1.0, 1.0), trial(1, 0.500, 90.0), trial(2, 0.501, 9.0), trial(3, 0.5, 1.0), trial(4, None, 0.0)]
    assert best_trial(trials).number == 1  # the earlier one in a tie
    assert best_trial(trials, "accuracy").number == 0


@pytest.mark.parametrize("sampler", ["near", "random"])
def test_a_search_ends_when_every_point_has_been_tried(sampler: str, tmp_path: Path) -> None:
    """A GCN with two parameters of two values has four points, its own settings among them."""
    few = {"lr": [0.01, 0.1], "dropout": [0.5, 0.1]}
    asked = request(sampler=sampler, trials=9, without=list(space_of("gcn")), also=few)
    points: list[dict[str, Any]] = [{}]
    while not nothing_left(asked, trials_at(*points)):
        points.append(next_point(asked, trials_at(*points)))
        assert len(points) < 10
    assert len(points) >= 4
    empty = replace(request(trials=5), model=ModelSpec("label-propagation"))
    assert nothing_left(empty, trials_at({}))
    said: list[str] = []
    assert len(run_search(empty, tmp_path / "search", say=said.append)) == 1
    assert "every point of the grid has been tried" in said[-1]


def test_runs_of_an_interrupted_trial_of_another_point_are_not_counted(tmp_path: Path) -> None:
    two = request(runs=2, trials=2, sampler="near", without=["epochs"])
    two = replace(two, model=ModelSpec("gcn", {"epochs": 2}))
    run_search(replace(two, trials=1), tmp_path)
    study.write_choice(tmp_path, 1, {"lr": 0.1}, {"epochs": 2, "lr": 0.1})
    place = study.trial_folder(tmp_path, 1)
    bench = BenchRequest("tuning", (GRAPH,), (ModelSpec("gcn", {"epochs": 2, "lr": 0.1}),), (0,), engine="serial")
    run_bench(bench, place)
    assert len(read_trials(tmp_path, runs=2)) == 1 and len(read_trials(tmp_path, runs=1)) == 2
    done = run_search(replace(two, named=[{"hidden": 16}]), tmp_path)
    assert done[1].chosen == {"hidden": 16}
    settings = [record["cell"]["settings"] for record in BenchFolder(place).read()[1].latest.values()]
    assert len(settings) == 2 and all("lr" not in own for own in settings)


def test_without_pruning_no_trial_is_given_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(study, "run_bench", lambda bench, *_, **__: asked.append(bench.options["thresholds"]))
    monkeypatch.setattr(study, "thresholds", lambda trials: (0.5,))
    monkeypatch.setattr(study, "read_trials", lambda *_: [Trial(0, {}, {}, 1.0, "", (), 1.0, False)])
    for prune in (True, False):
        study._try(request(prune=prune), tmp_path / str(prune), [], 60.0, lambda text: None)
    assert asked == [(0.5,), ()]


def test_the_median_of_four_trials_is_what_a_fifth_must_reach() -> None:
    def trial(*reached: float) -> Trial:
        return Trial(0, {}, {}, 1.0, "", reached, 1.0, False)

    known = [trial(1.0, 0.5), trial(2.0, 0.6), trial(3.0, 0.7), trial(4.0)]
    assert thresholds(known[:3]) == ()
    assert thresholds(known) == (2.5, None, None, None)


@pytest.mark.parametrize("select, hopeless", [("nll", 1e-9), ("accuracy", -1.01)])
def test_a_trial_is_given_up_by_the_figure_that_counts(select: str, hopeless: float) -> None:
    graph = block_graph(per_class=20)
    options = {"split": "given", "select": select}

    def make(**own: Any) -> GCN:
        return GCN(**{"hidden": 4, "epochs": 60, "patience": 60, **own})

    free = TASKS.get("tuning")(**options).measure(make, graph, 0)
    assert free.metrics["pruned"] == 0.0 and len(free.curves["reached"]) == 2  # after 25 and 50 epochs
    assert free.curves["reached"][0] >= free.curves["reached"][1]
    stopped = TASKS.get("tuning")(**options, thresholds=(None, hopeless)).measure(make, graph, 0)
    assert stopped.metrics["pruned"] == 1.0 and stopped.curves["reached"] == free.curves["reached"]
    figure = stopped.metrics[f"val_{select}"]
    assert figure == (free.curves["reached"][1] if select == "nll" else -free.curves["reached"][1])


def test_one_member_of_an_ensemble_stands_for_all() -> None:
    member = {"hidden": 4, "epochs": 60, "patience": 60}

    def make(**own: Any) -> Ensemble:
        return Ensemble(**{"members": 3, "base_settings": member, **own})

    found = TASKS.get("tuning")(split="given").measure(make, block_graph(per_class=20), 0)
    assert len(found.curves["reached"]) == sum(rung <= 60 for rung in RUNGS)


def test_no_trial_may_take_more_than_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = []

    def instead(bench: Any, out: Path, say: Any) -> None:
        allowed.append(bench.limits.cpu_seconds)
        real(bench, out, say=say)

    real = study.run_bench
    monkeypatch.setattr(study, "run_bench", instead)
    short = ModelSpec("gcn", {"epochs": 1})
    asked = SearchRequest(GRAPH, short, trials=3, without=["epochs"], cpu_minutes=5.0, engine="serial")
    trials = run_search(asked, tmp_path / "short")
    assert len(trials) == 3 and allowed[0] == 300.0
    assert allowed[1] == pytest.approx(300.0 - trials[0].cpu_seconds)
    long = SearchRequest(GRAPH, ModelSpec("label-propagation"), trials=1, cpu_minutes=50.0, engine="serial")
    run_search(long, tmp_path / "long")
    assert allowed[-1] == Limits().cpu_seconds


def test_a_lost_trial_is_not_for_free() -> None:
    lost = Outcome.failed("killed", 3)
    record = {"id": "x", "cell": {"data": ""}, **lost.as_dict()}
    assert _trial(0, {}, {}, record, "nll").cpu_seconds == LOST_SECONDS


def test_reading_again_selects_by_what_is_asked_now(tmp_path: Path) -> None:
    run_search(request(trials=1), tmp_path)
    nll, accuracy = (read_trials(tmp_path, select)[0].value for select in ("nll", "accuracy"))
    assert nll is not None and accuracy is not None and nll != accuracy and accuracy > 0.9


def test_the_last_trials_are_neighbours_of_the_best() -> None:
    trials = tried(8)
    trials[3] = replace(trials[3], value=0.01)
    asked, best = request(around=4), trials[3].chosen
    space = space_of("gcn")
    seen = []
    for _ in range(4):
        point = next_point(asked, trials)
        changed = [name for name in space if point[name] != best[name]]
        assert len(changed) == 1 and point not in [trial.chosen for trial in trials]
        (name,) = changed
        assert abs(space[name].index(point[name]) - space[name].index(best[name])) == 1
        trials.append(Trial(len(trials), point, {}, 9.0, "", (), 1.0, False))
        seen.append(point)
    assert len({repr(point) for point in seen}) == 4


def test_neighbours_of_own_settings_start_where_the_grid_is_nearest() -> None:
    """The model's own learning rate is .01, its weight decay 5e-4, its width 16; what does not change stays its own."""
    own = [Trial(0, {}, {}, 0.1, "", (), 1.0, False)]
    for length in range(1, 9):
        point = next_point(request(trials=1, around=20, seed=length), own)
        ((name, value),) = point.items()
        near = {"lr": (0.005, 0.1), "weight_decay": (0.001, 1e-4), "hidden": (16, 32)}.get(name, space_of("gcn")[name])
        assert value in near


def test_settings_beside_the_grid_are_searched_too() -> None:
    space = space_of("lgnsde", {"preset": "paper"}, {"sigma": [1.0, 7.0]})
    assert space["sigma"] == (1.0, 7.0) and "step" in space
    found = study.settings_of("lgnsde", {"sigma": 7.0, "step": 0.2}, {"preset": "paper"})
    assert found == {"preset": "paper", "sigma": 7.0, "steps": 5}


def test_a_trial_of_two_trainings_counts_by_their_mean_and_is_redone_until_both_are_there(tmp_path: Path) -> None:
    asked = SearchRequest(GRAPH, ModelSpec("label-propagation"), trials=1, runs=2, engine="serial")
    (trial,) = run_search(asked, tmp_path)
    assert trial.value is not None and read_trials(tmp_path, runs=3) == []
    singles = [read_trials(tmp_path)[0].value for _ in range(1)]
    assert trial.value == pytest.approx(singles[0])  # the same for every seed: nothing is drawn in it
    with pytest.raises(BadUsage, match="another search"):
        run_search(SearchRequest(GRAPH, ModelSpec("label-propagation"), trials=1, engine="serial"), tmp_path)


def test_one_training_that_was_given_up_decides_for_its_trial() -> None:
    done, pruned = Trial(3, {}, {}, 0.5, "a", (0.9, 0.7), 2.0, False), Trial(3, {}, {}, None, "b", (0.7,), 1.0, True)
    both = study._together([done, replace(done, value=0.7, reached=(0.5, 0.5))])
    assert (both.value, both.reached, both.cpu_seconds) == (pytest.approx(0.6), pytest.approx((0.7, 0.6)), 4.0)
    mixed = study._together([done, pruned])
    assert mixed.value is None and mixed.pruned and mixed.reached == (pytest.approx(0.8),)
