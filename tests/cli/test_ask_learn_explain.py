"""From questions to answers to a better model, on the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import graphsde as gs
from cli_support import answer, graphsde


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "digits"
    result = graphsde("fit", "digits", "--model", "gcn", "--out", out, "--set", "epochs=30")
    assert result.exit_code == 0, result.output
    return out


def fill(questions: Path, answers: Path, wrong: bool = False) -> list[str]:
    truth = gs.load("digits")
    assert truth.labels is not None
    with questions.open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        assert row["label"] == ""
        row["label"] = truth.class_names[truth.labels[truth.position[int(row["id"])]] - wrong]
    with answers.open("w") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return [row["id"] for row in rows]


def test_ask_fill_in_learn(run: Path, tmp_path: Path) -> None:
    questions, answers = tmp_path / "questions.csv", tmp_path / "answers.csv"
    shown = graphsde("ask", run, "--budget", 6, "--out", questions)
    assert shown.exit_code == 0 and ("classes are close" in shown.stdout or "no class is clear" in shown.stdout)
    assert "leaves the test" in shown.stdout and f"graphsde learn {run}" in shown.stdout.replace("\n", "")
    found = answer("ask", run, "--budget", 6, "--json")
    assert found["score"] == "entropy" and found["from_test"] and len(found["questions"]) == 6
    asked = fill(questions, answers)
    assert asked == [str(one["id"]) for one in found["questions"]]

    unfilled = graphsde("learn", run, questions)
    assert unfilled.exit_code == 65 and "E-EMPTY" in unfilled.stderr and "fill in the label column" in unfilled.stderr
    fill(questions, tmp_path / "wrong.csv", wrong=True)
    wrong = graphsde("learn", run, tmp_path / "wrong.csv")
    assert wrong.exit_code == 65 and "E-LABEL-CONFLICT" in wrong.stderr and "wrong.csv, line 2" in wrong.stderr

    learned = answer("learn", run, answers, "--json")
    assert learned["round"] == 1 and learned["added"] == 6 and learned["after"]["n_test"] == 1291
    assert Path(learned["history"]).name == "0"
    again = graphsde("learn", run, answers)
    assert again.exit_code == 0 and "Nothing to do" in again.stdout and "Nodes that changed most" in again.stdout
    assert answer("evaluate", run, "--json")["accuracy"] == learned["after"]["accuracy"]
    assert answer("evaluate", run / "history" / "0", "--json")["n_test"] == 1297
    assert not set(asked) & {str(one["id"]) for one in answer("ask", run, "--budget", 6, "--json")["questions"]}


def test_explain_in_words_in_numbers_and_as_a_picture(run: Path, tmp_path: Path) -> None:
    words = graphsde("explain", run, 5, "--out", tmp_path / "five.png")
    assert words.exit_code == 0, words.output
    assert "Node 5 is predicted as" in words.stdout and "pixel" in words.stdout and "without it" in words.stdout
    assert (tmp_path / "five.png").read_bytes()[:4] == b"\x89PNG"
    found = answer("explain", run, 5, "--neighbours", 2, "--features", 3, "--json")
    assert len(found["neighbours"]) == 2 and len(found["features"]) == 3 and found["degree"] > 2


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["explain", "RUN", "nobody"], 65, "E-NODE-UNKNOWN"),
        (["explain", "RUN", "5", "--out", "x.doc"], 2, ".png"),
        (["ask", "RUN", "--by", "entropie"], 2, "did you mean 'entropy'"),
        (["ask", "RUN", "--by", "bald"], 2, "E-SCORE"),
        (["ask", "nowhere"], 65, "E-NO-RUN"),
        (["learn", "RUN", "nothing.csv"], 65, "E-NOT-A-FILE"),
        (["learn", "nowhere", "nothing.csv"], 65, "E-"),
    ],
)
def test_mistakes_are_told_without_a_traceback(run: Path, words: list[str], code: int, text: str) -> None:
    result = graphsde(*[run if word == "RUN" else word for word in words])
    assert result.exit_code == code, result.output
    assert text in result.stderr and "Traceback" not in result.output
    assert not Path("nowhere").exists()
