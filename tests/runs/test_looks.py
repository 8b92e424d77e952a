"""Testing again with more labels: what a first look without --anytime costs is told, and told before it is too late."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.acting.certified import certify, limits_to_test
from graphsde.acting.decide import decide
from graphsde.base.errors import BadInput, BadUsage
from graphsde.runs.looks import Look, looks_of, spent_before

USUAL = Look.of(max_error=0.05, delta=0.05, focus=0.05, samples=64)
AGAIN = Look.of(max_error=0.05, delta=0.05, focus=0.05, samples=64, anytime=True)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with 75 test nodes and 300 nodes without a label, and the labels of 40 of these, drawn at random."""
    folder = tmp_path_factory.mktemp("looks")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 600)
    rows = [f"{i},{'ab'[kind[i]] if i < 300 else ''},{kind[i] + 0.3 * rng.normal():.3f}" for i in range(600)]
    (folder / "graph").mkdir()
    (folder / "graph" / "nodes.csv").write_text("id,label,x\n" + "\n".join(rows) + "\n")
    edges = [f"{i},{rng.choice(np.flatnonzero(kind == kind[i]))}" for i in range(600)]
    (folder / "graph" / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    done = graphsde("fit", folder / "graph", "--model", "logistic-hops", "--no-controls", "--out", folder / "run")
    assert done.exit_code == 0, done.output
    asked = folder / "cal.csv"
    assert graphsde("ask", folder / "run", "--for", "calibration", "--budget", 40, "--out", asked).exit_code == 0
    drawn = [row["id"] for row in csv.DictReader(asked.open())]
    lines = [f"{node},{'ab'[kind[int(node)]]},calibration,{rank}" for rank, node in enumerate(drawn, 1)]
    asked.write_text("id,label,role,rank\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted / "run", tmp_path / "run"))


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
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 84%"
    assert (
        chance(decided(run, "--focus", "0.02")) == "With probability 95%"
    )  # an ordinary test says that it is run once


def test_a_plan_and_a_report_are_looks_too(fitted: Path, run: Path) -> None:
    for words in (["plan", run], ["report", run]):
        assert graphsde(*words).exit_code == 0
        assert looks_of(run) == (USUAL,)
        (run / "looks.json").unlink()


def test_without_a_record_of_the_first_look_an_ordinary_one_is_assumed(fitted: Path, run: Path) -> None:
    assert chance(decided(run, "--further-labels", fitted / "cal.csv")) == "With probability 90%"


def test_labels_too_few_to_certify_anything_cost_nothing(run: Path) -> None:
    decided(run, "--calibration-size", 8)  # 9 are the fewest for 30 %
    (look,) = looks_of(run)
    assert look.idle and spent_before(run, AGAIN, further=True) == 0.0
    decided(run, "--calibration-size", 9)
    assert spent_before(run, AGAIN, further=True) == 0.05


def test_another_model_has_not_been_looked_at(run: Path) -> None:
    decided(run)
    assert looks_of(run) == (USUAL,)
    assert graphsde("calibrate", run).exit_code == 0
    assert looks_of(run) == ()


def test_the_cost_is_said_next_to_the_suggestion(run: Path) -> None:
    words = " ".join(graphsde("decide", run, "--max-error", "0.01").stdout.split())
    assert "ask RUN --for calibration" in words and "with probability 90% instead of 95%" in words
    planned = " ".join(graphsde("plan", run, "--max-error", "0.01").stdout.split())
    assert "with probability 90% instead of 95%" in planned
    patient = graphsde("decide", run, "--max-error", "0.01", "--anytime").stdout
    assert "ask RUN --for calibration" in patient and "instead of" not in patient
    few = graphsde("decide", run, "--calibration-size", "5").stdout
    assert "ask RUN --for calibration" in few and "instead of" not in few


def test_a_record_that_was_edited_is_refused(fitted: Path, run: Path) -> None:
    decided(run)
    told = json.loads((run / "looks.json").read_text())
    (run / "looks.json").write_text(json.dumps(told | {"format": 2}))
    with pytest.raises(BadInput, match=r"E-CORRUPT.*delete the file"):
        looks_of(run)
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 65


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
