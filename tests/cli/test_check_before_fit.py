"""What check says and what fit does agree; whatever is refused names the option that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_support import answer, graphsde


def folder_of(path: Path, labels: list[str], split: list[str] | None = None, rows: int = 90) -> Path:
    """Labels and roles repeat; two features, one of which goes with the class."""
    path.mkdir()
    lines = ["id,x,y,label" + (",split" if split else "")]
    for row in range(rows):
        label = labels[row % len(labels)]
        role = f",{split[row % len(split)]}" if split else ""
        lines.append(f"n{row},{len(label) + row % 3 / 7:.2f},{row % 5 + 0.5},{label}{role}")
    (path / "nodes.csv").write_text("\n".join(lines) + "\n")
    pairs = [f"n{row},n{(row + step) % rows}" for row in range(rows) for step in (len(labels), 2 * len(labels))]
    (path / "edges.csv").write_text("\n".join(["source,target", *pairs]) + "\n")
    return path


def codes(path: Path, level: str) -> set[str]:
    return {one["code"] for one in answer("check", path, "--json")["findings"] if one["level"] == level}


def test_roles_without_training_nodes(tmp_path: Path) -> None:
    data, run = folder_of(tmp_path / "data", ["a", "bbb"], ["val", "test", ""]), tmp_path / "run"
    assert codes(data, "problem") == {"E-SPLIT-EMPTY"}
    assert "fit would choose" not in graphsde("check", data).stdout
    quick = ["fit", data, "--out", run, "--model", "label-propagation", "--no-controls"]
    refused = graphsde(*quick)
    assert refused.exit_code == 65 and "E-SPLIT-EMPTY" in refused.stderr and not run.exists()
    assert "Found: val 30, test 30" in refused.stderr
    assert graphsde(*quick, "--split", "stratified-60-15-25").exit_code == 0
    assert graphsde(*quick[:3], tmp_path / "other", *quick[4:], "--read", "drop=[split]").exit_code == 0


def test_no_model_is_named_for_a_graph_that_cannot_be_fitted(tmp_path: Path) -> None:
    data = folder_of(tmp_path / "data", ["a"])
    assert codes(data, "problem") == {"E-ONE-CLASS"}
    assert "fit would choose" not in graphsde("check", data).stdout
    assert "fit would choose" in graphsde("check", folder_of(tmp_path / "two", ["a", "bbb"])).stdout


def test_few_labels_are_warned_about_before_a_split_is_drawn(tmp_path: Path) -> None:
    few = folder_of(tmp_path / "few", ["a", "bbb", *[""] * 13])
    assert {"W-CLASS-FEW", "W-SPLIT-SMALL"} <= codes(few, "warning")
    told = graphsde("check", few).stdout
    assert "of the split that fit would draw" in told and "No problems" in told
    assert not {"W-CLASS-FEW", "W-SPLIT-SMALL"} & codes(folder_of(tmp_path / "many", ["a", "bbb"], rows=200), "warning")


def test_a_run_is_not_written_into_the_data(tmp_path: Path) -> None:
    data = folder_of(tmp_path / "data", ["a", "bbb"])
    refused = graphsde("fit", data, "--out", data, "--model", "label-propagation")
    assert refused.exit_code == 2 and "E-NOT-A-RUN" in refused.stderr
    assert sorted(one.name for one in data.iterdir()) == ["edges.csv", "nodes.csv"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "DATA", "--read", "lable=label"], "did you mean 'label'?"),
        (["check", "DATA", "--read", "word=[x]"], "did you mean 'words'?"),
        (["check", "DATA", "--read", "target=regresion"], "did you mean target=regression?"),
        (["decide", "DATA", "--max-error", "5%"], "'--max-error': A number such as 0.05 is expected"),
        (["fit", "DATA", "--out", "RUN", "--model", "gcn", "--set", "hidden=abc"], "Expected: an integer."),
        (["fit", "DATA", "--out", "RUN", "--model", "gcn", "--set", "dropout=3"], "Expected: less than 1."),
    ],
)
def test_wrong_values_are_told_in_plain_words(tmp_path: Path, words: list[str], told: str) -> None:
    places = {"DATA": folder_of(tmp_path / "data", ["a", "bbb"]), "RUN": tmp_path / "run"}
    refused = graphsde(*(places.get(word, word) for word in words), env={"COLUMNS": "200"})
    assert refused.exit_code in (2, 65) and told in refused.stderr
    assert "unable to parse" not in refused.stderr and not (tmp_path / "run").exists()
