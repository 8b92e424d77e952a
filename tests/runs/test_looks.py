"""Testing again with more labels: what a first look without --anytime costs is told, and told before it is too late."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.acting.certified import Frontier, certify
from graphsde.acting.decide import decide, first_calibration
from graphsde.acting.ladder import limits_to_test
from graphsde.base.errors import BadUsage
from graphsde.base.lock import exclusive
from graphsde.runs import looks
from graphsde.runs.decided import before_deciding, decide_on_run
from graphsde.runs.looks import ASSUMED, Look, looks_before, looks_of, remember
from graphsde.runs.state import NewState

USUAL = replace(Look.of(max_error=0.05, delta=0.05, focus=0.05, samples=64), state=1)
AGAIN = Look.of(max_error=0.05, delta=0.05, focus=0.05, samples=64, anytime=True)


def decided(run: Path, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = answer("decide", run, *words, "--json")
    return found


def chance(found: dict[str, Any]) -> str:
    return str(found["frontier"]["guarantee"]["meaning"]).split(" over ")[0]


def test_after_an_ordinary_look_the_second_one_states_the_level_of_both(fitted: Path, run: Path) -> None:
    assert chance(decided(run)) == "With probability 95%"
    again = decided(run, "--further-labels", fitted / "cal.csv")
    assert chance(again) == "With probability 90%" and again["frontier"]["spent"] == 0.05
    assert "earlier look" in again["frontier"]["guarantee"]["meaning"] and again["calibration"]["nodes"] == 115
    assert again["stated"]["meaning"] == again["frontier"]["guarantee"]["meaning"]  # also at the limit in use
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 90%"  # no further cost


def test_with_anytime_from_the_first_look_on_nothing_is_lost(fitted: Path, run: Path) -> None:
    assert chance(decided(run, "--anytime")) == "With probability 95%"
    again = decided(run, "--further-labels", fitted / "cal.csv")
    assert chance(again) == "With probability 95%" and again["frontier"]["spent"] == 0.0


def test_every_different_look_counts_and_the_same_one_once(fitted: Path, run: Path) -> None:
    for words in ([], [], ["--max-error", "0.1"], ["--focus", "0.1"], ["--delta", "0.01"]):
        decided(run, *words)
    assert [one.delta for one in looks_of(run)] == [0.05, 0.05, 0.01]  # 10 % is tested by default
    assert chance(decided(run)) == "With probability 95%"  # an ordinary test says that it is run once
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 84%"


def test_a_plan_and_a_report_are_looks_too(fitted: Path, run: Path) -> None:
    for words in (["plan", run], ["report", run]):
        assert graphsde(*words).exit_code == 0
        assert looks_of(run) == (USUAL,)
        (run / "looks.json").write_text('{"format": 1, "looks": []}')


def test_without_a_record_an_ordinary_look_is_assumed_from_then_on(fitted: Path, run: Path) -> None:
    (run / "looks.json").unlink()  # as in a run of an earlier version
    for _ in range(2):
        assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 90%"
    assert ASSUMED in looks_of(run)


@pytest.mark.parametrize("words", [["--anytime"], ["--anytime", "--delta", "0.05"]])
def test_without_a_record_a_test_that_may_be_repeated_is_charged_too(run: Path, words: list[str]) -> None:
    (run / "looks.json").unlink()
    assert [chance(decided(run, *words)) for _ in range(2)] == ["With probability 90%"] * 2


def test_a_small_look_does_not_hide_that_the_record_was_missing(run: Path) -> None:
    (run / "looks.json").unlink()
    decided(run, "--calibration-size", 8)  # which costs nothing
    assert chance(decided(run, "--anytime")) == "With probability 90%"


def test_an_assumed_look_costs_at_least_the_delta_of_the_test(run: Path) -> None:
    (run / "looks.json").unlink()
    assert looks_before(run, replace(AGAIN, delta=0.01)).spent == 0.05
    assert looks_before(run, replace(AGAIN, delta=0.2)).spent == 0.2


def test_a_new_run_is_known_never_to_have_been_looked_at(fitted: Path, run: Path) -> None:
    assert looks_of(run) == ()
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 95%"


def test_a_run_that_keeps_no_record_is_assumed_to_have_been_looked_at(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks_before(run, AGAIN).spent == 0.0
    monkeypatch.setattr(looks, "_LOCK", "config.yaml")  # can't be a folder, like one in a folder nobody may write to
    assert looks_before(run, AGAIN).spent == 0.05
    said: list[str] = []
    remember(run, USUAL, None, said.append)  # type: ignore[arg-type]  # not reached
    assert len(said) == 1 and "is not recorded" in said[0]


def test_labels_too_few_to_certify_anything_cost_nothing(run: Path) -> None:
    decided(run, "--calibration-size", 8)  # 9 are the fewest for 30 %
    (look,) = looks_of(run)
    assert look.idle and looks_before(run, AGAIN).spent == 0.0
    decided(run, "--calibration-size", 9)
    assert looks_before(run, AGAIN).spent == 0.05


def test_another_calibrator_has_the_same_labels_so_looks_carry_on(fitted: Path, run: Path) -> None:
    decided(run)
    assert graphsde("calibrate", run, "--by", "none").exit_code == 0
    assert looks_of(run) == (USUAL,)
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 90%"


def test_the_same_options_test_another_model_in_another_state(run: Path) -> None:
    decided(run)
    assert graphsde("calibrate", run).exit_code == 0
    decided(run)
    assert looks_of(run) == (USUAL, replace(USUAL, state=2))
    assert looks_before(run, AGAIN).spent == pytest.approx(0.1)


def test_a_new_state_keeps_the_record_and_a_new_fit_starts_one(tmp_path: Path) -> None:
    with NewState(tmp_path, fresh=True) as state:
        state.commit()
    assert looks_of(tmp_path) == ()
    (tmp_path / "looks.json").write_text(
        '{"format": 1, "looks": [{"delta": 0.1, "anytime": false, "idle": false, "options": {}}]}'
    )
    with NewState(tmp_path) as state:
        state.commit(round_before=0)  # as learn does
    assert [one.delta for one in looks_of(tmp_path)] == [0.1]
    assert [one.delta for one in looks_of(tmp_path / "history" / "0")] == [0.1]
    with NewState(tmp_path, fresh=True) as state:
        state.commit()
    assert looks_of(tmp_path) == ()


def test_other_tests_are_told_and_count_in_what_a_second_look_will_cost(run: Path) -> None:
    first = " ".join(graphsde("decide", run, "--max-error", "0.01").stdout.split())
    assert "other test" not in first and "with probability 90% instead of 95%" in first
    second = " ".join(graphsde("decide", run, "--max-error", "0.01", "--by", "entropy").stdout.split())
    assert "1 other test was made on these calibration labels; choosing among their results lowers the 95%." in second
    assert "with probability 85% instead of 95%" in second
    planned = " ".join(graphsde("plan", run, "--max-error", "0.01").stdout.split())
    assert "with probability 85% instead of 95%" in planned
    assert decided(run, "--by", "msp")["other_tests"] == 2
    assert "other test" not in graphsde("decide", run, "--guarantee", "expected").stdout
    assert "2 other tests were made" in graphsde("decide", run, "--by", "margin", "--max-error", "0.01").stdout


def test_when_no_probability_is_left_it_is_said(run: Path) -> None:
    for delta in (0.1, 0.2, 0.3, 0.4):
        decided(run, "--delta", delta)
    found = decided(run, "--anytime")
    assert found["frontier"]["spent"] == pytest.approx(1.0)
    assert found["frontier"]["guarantee"]["meaning"].startswith("Nothing is guaranteed: earlier looks")
    assert "105%" in found["frontier"]["guarantee"]["meaning"]
    said = graphsde("decide", run, "--anytime", "--max-error", "0.3").stdout
    assert "Accept if" in said and "error rate among them is at most" not in said
    words = " ".join(graphsde("decide", run, "--max-error", "0.01").stdout.split())
    assert "with no probability that can be stated instead of 95%" in words


def test_the_cost_is_said_next_to_the_suggestion(run: Path) -> None:
    words = " ".join(graphsde("decide", run, "--max-error", "0.01").stdout.split())
    assert "ask RUN --for calibration" in words and "with probability 90% instead of 95%" in words
    planned = " ".join(graphsde("plan", run, "--max-error", "0.01").stdout.split())
    assert "with probability 90% instead of 95%" in planned
    patient = graphsde("decide", run, "--max-error", "0.01", "--anytime").stdout
    assert "ask RUN --for calibration" in patient and "instead of" not in patient
    few = graphsde("decide", run, "--calibration-size", "5").stdout
    assert "ask RUN --for calibration" in few and "instead of" not in few


@pytest.mark.parametrize("damage", ["{", '{"format": 2, "looks": []}', '{"format": 1, "looks": [1]}'])
def test_a_damaged_record_counts_as_none_and_stops_nothing(fitted: Path, run: Path, damage: str) -> None:
    for words in (["plan", run], ["report", run], ["decide", run]):
        (run / "looks.json").write_text(damage)
        done = graphsde(*words)
        assert done.exit_code == 0, done.output
        assert looks_of(run) == (ASSUMED, USUAL)
    (run / "looks.json").write_text(damage)
    done = graphsde("decide", run, "--further-labels", fitted / "cal.csv")
    assert done.output.count("looks.json is damaged") == 1 and "one earlier look" in done.output
    assert "With probability 90%" in done.output


def test_looks_made_at_the_same_time_are_all_recorded(run: Path) -> None:
    frontier = decide_on_digits()
    all_of_them = [replace(USUAL, delta=0.01 * (1 + i)) for i in range(8)]
    threads = [threading.Thread(target=remember, args=(run, one, frontier)) for one in all_of_them]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(map(str, (one.delta for one in looks_of(run)))) == set(map(str, (one.delta for one in all_of_them)))


def test_a_look_waits_for_another_but_not_for_a_run_that_learns(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.monotonic()
    with exclusive(run):  # held for as long as a run learns
        decided(run)
    assert looks_of(run) == (USUAL,) and time.monotonic() - begin < 10
    monkeypatch.setattr(looks, "_PATIENCE", 0.05)
    with exclusive(run / ".looks"), pytest.raises(BadUsage, match="E-LOCKED"):
        remember(run, AGAIN, decide_on_digits())


def decide_on_digits() -> Frontier:
    graph = gs.load("digits")
    return decide(gs.LabelPropagation().fit(graph).predict(graph), graph).frontier


@pytest.mark.parametrize("spent", [-0.1, float("nan"), float("inf")])
def test_spent_is_a_sum_of_deltas(spent: float) -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    with pytest.raises(BadUsage, match="spent can't be"):
        decide(prediction, graph, anytime=True, spent=spent)
    found = decide(prediction, graph, anytime=True, spent=3.0)
    assert found.frontier.guarantee.meaning.startswith("Nothing is guaranteed")


# limits beside the ladder


def test_a_limit_beside_the_ladder_is_tested() -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    usual = decide(prediction, graph)
    assert [one.limit for one in usual.frontier.rungs] == list(limits_to_test(0.05, 0.05)) and len(
        usual.frontier.rungs
    ) == 9
    found = decide(prediction, graph, max_error=0.04)
    rung = next(one for one in found.frontier.rungs if one.limit == 0.04)
    assert rung.certified and found.abstention.max_error == 0.04 and rung.upper_bound <= 0.04
    loose = decide(prediction, graph, max_error=0.4)
    assert loose.frontier.rungs[0].limit == 0.4 and loose.abstention.max_error == 0.4
    given = decide(prediction, graph, max_error=0.04, ladder=(0.2, 0.1))
    assert [one.limit for one in given.frontier.rungs] == [0.2, 0.1]


def unsure(nodes: int = 3000) -> tuple[gs.Prediction, gs.Graph]:
    """Answers that are wrong the more often the less sure they are."""
    rng = np.random.default_rng(1)
    doubt = rng.random(nodes)
    wrong = (rng.random(nodes) < 0.3 * doubt**2).astype(int)
    role = np.arange(nodes) % 10
    graph = gs.from_arrays(
        np.zeros((nodes, 1)), np.zeros((2, 0), int), labels=wrong, class_names=["a", "b"],
        train_mask=role == 0, val_mask=role == 1, test_mask=role > 6,
    )  # fmt: skip
    sure = 1 - 0.49 * doubt
    return gs.Prediction.from_probabilities(np.stack([sure, 1 - sure], 1), graph), graph


def test_a_focus_beside_the_ladder_is_tested_and_none_is_dropped() -> None:
    prediction, graph = unsure()
    ladder = limits_to_test(0.05, 0.04)
    assert ladder[5:8] == (0.05, 0.04, 0.03)
    words = ({"focus": 0.04}, {"focus": 0.04, "ladder": ladder}, {"focus": None, "ladder": ladder})
    found = [
        next(one for one in decide(prediction, graph, **given).frontier.rungs if one.limit == 0.04)
        for given in (*words, {"max_error": 0.04})
    ]
    assert found[0] == found[3]  # the focus is the limit that was asked for
    assert found[0] == found[1] and found[0].certified and found[0].accepted_share > found[2].accepted_share
    with pytest.raises(BadUsage, match=r"the focus 0.04 is not a limit of the ladder"):
        certify(prediction, graph, focus=0.04)
    with pytest.raises(BadUsage, match="focus can't be"):
        decide(prediction, graph, focus=4)


def test_a_guarantee_with_other_calibration_nodes_is_another_look(run: Path) -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    certified, expected = (first_calibration(prediction, graph, one) for one in ("certified", "expected"))
    assert 0 < expected.sum() < certified.sum(), "expected leaves some nodes to measure on"
    for guarantee in ("certified", "expected", "certified", "expected"):
        decide_on_run(run, prediction, graph, None, 64, guarantee=guarantee)
    assert len(looks_of(run)) == 2
    assert before_deciding(run, prediction, graph, 64, anytime=True).spent == pytest.approx(0.1)


def test_what_a_test_with_a_larger_delta_certified_is_not_kept(run: Path) -> None:
    loose, usual = (replace(USUAL, delta=one) for one in (0.2, 0.05))
    (run / "looks.json").write_text(json.dumps({"format": 1, "looks": [asdict(loose), asdict(usual)]}))
    before = looks_before(run, AGAIN)
    assert before.spent == pytest.approx(0.25) and [one.delta for one in before.same_rule] == [0.05]
    assert before.spent_on_others == pytest.approx(0.2)


def test_another_draw_of_calibration_nodes_is_another_look() -> None:
    asked = {"max_error": 0.05, "delta": 0.05, "focus": 0.05, "samples": 64}
    assert Look.of(**asked, seed=1) != Look.of(**asked) == Look.of(**asked, seed=0)
