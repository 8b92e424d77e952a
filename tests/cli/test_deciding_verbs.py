"""calibrate and decide from the command line, as people and programs use them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from cli_support import answer, graphsde


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("deciding") / "run"
    assert graphsde("fit", "digits", "--model", "gcn", "--out", out, "--set", "epochs=30").exit_code == 0
    return out


def test_decide_writes_a_row_per_node_and_keeps_its_guarantee(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # where there is less room, cells are folded
    out = tmp_path / "decisions.csv"
    found = answer("decide", run, "--max-error", "0.05", "--out", out, "--json")
    rows = list(csv.DictReader(out.open()))
    uncertainty = ["total", "aleatoric", "epistemic", "ood_score", "ood_p_value", "ood_group", "prediction_set"]
    assert (
        list(rows[0]) == ["id", "split", "label", "confidence", *uncertainty, "action", "reason"] and len(rows) == 1797
    )
    assert {row["action"] for row in rows} <= {"accept", "review", "ood"} == set(found["actions"])
    assert sum(row["action"] == "accept" for row in rows) == found["actions"]["accept"]
    assert all(row["label"] in row["prediction_set"].split(" | ") for row in rows if row["action"] == "accept")
    assert found["upper_bound"] <= 0.05 and found["test"]["error"] <= 0.05
    assert found["calibration"]["nodes"] == 1297 == found["test"]["nodes"] and found["test"]["cross_fitted"]
    assert [one["limit"] for one in found["frontier"]["rungs"]][:3] == [0.3, 0.2, 0.15]
    assert {row["kind"] for row in found["sets"]["coverage"]} == {"all", "class", "degree"}

    words = graphsde("decide", run, "--max-error", "0.05", "--out", tmp_path / "again.parquet").stdout
    for part in (
        "Guarantee certified: With probability 95%",
        "5%      certified, in use",
        "It assumes: the calibration nodes are drawn at random",
        "Calibrated on 1,297 nodes",
        "Rule per-node",
        "Rule fdr",
        "can be flagged",
        "hold individually",
        "On 1,297 test nodes (calibrated on one half",
        "class 3",
        "degree",
        "with known labels left out",
    ):
        assert part in words, part
    assert pq.read_table(tmp_path / "again.parquet").num_rows == 1797
    assert pq.read_table(tmp_path / "review.parquet").num_rows == 0  # every label is known


def test_decide_writes_into_the_run_where_nothing_is_said(run: Path) -> None:
    files = [run / "decisions.csv", run / "review.csv", run / "predictions.csv", run / "questions.csv"]
    assert not any(path.exists() for path in files)
    for verb in ("decide", "predict"):
        done = graphsde(verb, run)
        assert done.exit_code == 0 and str(run) in done.stdout, done.output
    assert graphsde("ask", run, "--budget", 3).exit_code == 0
    assert all(path.is_file() for path in files)
    assert graphsde("doctor", run).exit_code == 0  # they are no part of what the run guards
    filled = files[-1].read_text().replace(',"",1,', ',"5",1,')
    files[-1].write_text(filled)
    again = graphsde("ask", run, "--budget", 3)
    assert "questions-2.csv" in again.stdout and files[-1].read_text() == filled  # answers are not written over
    assert graphsde("calibrate", run).exit_code == 0
    assert not files[0].exists() and files[-1].exists()  # decisions of another state of the run are gone
    assert graphsde("calibrate", run, "--by", "none").exit_code == 0


@pytest.mark.parametrize("guarantee", ["expected", "accepted-and-wrong"])
def test_every_guarantee_has_its_name(run: Path, tmp_path: Path, guarantee: str) -> None:
    words = (
        "decide",
        run,
        "--guarantee",
        guarantee,
        "--ood-rule",
        "fdr",
        "--sets",
        "degree",
        "--out",
        tmp_path / "d.csv",
    )
    found = answer(*words, "--json")
    assert found["stated"]["name"] == guarantee and found["ood"]["rule"] == "fdr" and found["sets"]["kind"] == "degree"
    assert f"Guarantee {guarantee}: On average" in graphsde(*words).stdout


def test_nothing_certified_ends_in_a_way_out(run: Path, tmp_path: Path) -> None:
    small = graphsde("decide", run, "--out", tmp_path / "d.csv", "--calibration-size", "40", "--max-error", "0.02")
    assert small.exit_code == 0, small.output
    for part in ("Nothing can be accepted at a limit of 2%", "a looser limit: ", "labels", "Calibrated on 40 nodes"):
        assert part in small.stdout, part
    assert {row["action"] for row in csv.DictReader((tmp_path / "d.csv").open())} <= {"review", "ood"}


def test_decide_refuses_what_makes_no_sense(run: Path, tmp_path: Path) -> None:
    for option, value, part in (
        ("--guarantee", "learn-then-test", "certified, expected, accepted-and-wrong"),
        ("--ood-rule", "both", "per-node, fdr"),
        ("--sets", "node", "marginal, class, degree"),
        ("--importance", "pixel", "did you mean"),
    ):
        refused = graphsde("decide", run, "--out", tmp_path / "d.csv", option, value)
        assert refused.exit_code == 2 and part in refused.stderr, refused.output
    assert graphsde("decide", run, "--out", tmp_path / "review.csv").exit_code == 2
    assert not (tmp_path / "d.csv").exists()
    assert graphsde("decide", run, "--out", tmp_path / "d.txt").exit_code == 2
    assert graphsde("decide", run, "--out", tmp_path / "d.csv", "--max-error", "1.5").exit_code == 2
    wrong = graphsde("decide", run, "--out", tmp_path / "d.csv", "--sets-by", "apps")
    assert wrong.exit_code == 2 and "did you mean 'aps'" in wrong.stderr
    assert graphsde("decide", tmp_path / "nowhere", "--out", tmp_path / "d.csv").exit_code == 65


def test_names_can_not_become_formulas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "graph"
    folder.mkdir()
    nodes = [f"=node{i},{['=SUM(A1)', '@risk'][i % 2]},{(i % 2) + 0.3 * rng.normal():.3f}" for i in range(300)]
    (folder / "nodes.csv").write_text("id,label,x\n" + "\n".join(nodes) + "\n")
    edges = [f"=node{i},=node{(i + 2) % 300}" for i in range(300)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    assert graphsde("fit", folder, "--model", "label-propagation", "--out", tmp_path / "run").exit_code == 0
    words = ("decide", tmp_path / "run", "--max-error", "0.2", "--out", tmp_path / "d.csv")
    result = graphsde(*words)
    assert result.exit_code == 0, result.output
    for row in csv.DictReader((tmp_path / "d.csv").open()):
        assert not any(str(value).startswith(("=", "@", "+")) for value in row.values())


@pytest.mark.parametrize("by", ["temperature", "vector", "gats"])
def test_calibrate_rewrites_the_model_and_its_predictions(run: Path, by: str) -> None:
    plain = answer("calibrate", run, "--by", "none", "--json")["after"]
    before = pq.read_table(run / "predictions.parquet")["confidence"].to_numpy()
    found = answer("calibrate", run, "--by", by, "--json")
    assert found["before"] == plain and found["after"] != plain and found["calibrator"] == by
    after = pq.read_table(run / "predictions.parquet")["confidence"].to_numpy()
    assert not np.allclose(before, after)
    again = answer("evaluate", run, "--json")
    assert again["nll"] == found["after"]["nll"] and again["ece"] == found["after"]["ece"]
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["nll"] == found["after"]["nll"] and "fit_seconds" in last
    gone = answer("calibrate", run, "--by", "none", "--json")
    assert gone["after"] == plain and gone["calibrator"] is None


def test_calibrate_speaks(run: Path) -> None:
    assert "on the validation nodes and updated" in graphsde("calibrate", run).stdout
    wrong = graphsde("calibrate", run, "--by", "gatts")
    assert wrong.exit_code == 2 and "did you mean 'gats'" in wrong.stderr
    names = {row["name"] for row in answer("list", "calibrators", "--json")}
    assert names == {"temperature", "vector", "gats", "deviation", "diffusion", "distance-aware"}
    assert {row["name"] for row in answer("list", "conformal", "--json")} == {"thr", "lac", "aps", "raps", "daps"}


@pytest.fixture(scope="module")
def partly(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of files with 700 labels of 1,000, names and prices, and a run of it."""
    folder = tmp_path_factory.mktemp("partly")
    rng, graph = np.random.default_rng(0), folder / "shop"
    graph.mkdir()
    kinds = rng.integers(0, 2, 1000)
    rows = [f"{i},{'ab'[kinds[i]] if i < 700 else ''},{kinds[i] + 0.35 * rng.normal():.3f},{i % 5},Item {i}"
            for i in range(1000)]  # fmt: skip
    (graph / "nodes.csv").write_text("id,label,x,price,title\n" + "\n".join(rows) + "\n")
    same = [np.flatnonzero(kinds == kind) for kind in (0, 1)]
    edges = [f"{i},{rng.choice(same[kinds[i]])}" for i in range(1000)]
    (graph / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    out = folder / "run"
    done = graphsde("fit", graph, "--model", "logistic-hops", "--read", "node_name=title", "--out", out)
    assert done.exit_code == 0, done.output
    return graph, out


def test_the_review_list_is_ranked_and_short_of_known_labels(partly: tuple[Path, Path], tmp_path: Path) -> None:
    _, run = partly
    said = graphsde("decide", run, "--max-error", "0.01", "--out", tmp_path / "d.csv")
    assert said.exit_code == 0 and "most uncertain first" in said.stdout and "Item" in said.stdout
    rows = list(csv.DictReader((tmp_path / "review.csv").open()))
    kinds = Counter(row["action"] for row in rows)
    total = f"To review: {len(rows)} nodes ({kinds['review']} review + {kinds['ood']} ood), most uncertain first"
    assert total in said.stdout
    assert rows and all(int(row["id"]) >= 700 and row["name"] == f"Item {row['id']}" for row in rows)
    assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1)) and all(row["reason"] for row in rows)
    assert graphsde("decide", run, "--importance", "price", "--out", tmp_path / "d.csv").exit_code == 0
    prices = [float(row["importance"]) for row in csv.DictReader((tmp_path / "review.csv").open())]
    assert prices == sorted(prices, reverse=True) and len(set(prices)) > 1


def test_calibration_labels_are_drawn_and_never_trained_on(partly: tuple[Path, Path], tmp_path: Path) -> None:
    _, run = partly
    labels = tmp_path / "more.csv"
    asked = graphsde("ask", run, "--for", "calibration", "--budget", 40, "--out", labels)
    assert asked.exit_code == 0 and "Drawn at random, for calibration" in asked.stdout, asked.output
    rows = list(csv.DictReader(labels.open()))
    assert len(rows) == 40 and {row["role"] for row in rows} == {"calibration"}
    assert all(int(row["id"]) >= 700 and row["reason"].startswith("drawn at random") for row in rows)
    longer = answer("ask", run, "--for", "calibration", "--budget", 60, "--out", tmp_path / "longer.csv", "--json")
    assert [one["id"] for one in longer["questions"]][:40] == [int(row["id"]) for row in rows]
    labels.write_text("id,label,role\n" + "".join(f"{row['id']},a,calibration\n" for row in rows))
    before = (run / "model.json").read_bytes()
    refused = graphsde("learn", run, labels)
    assert refused.exit_code == 2 and "E-CAL-USED" in refused.stderr and "--further-labels" in refused.stderr
    first = answer("decide", run, "--anytime", "--out", tmp_path / "d.csv", "--json")
    again = answer("decide", run, "--further-labels", labels, "--out", tmp_path / "d.csv", "--json")
    assert again["calibration"]["nodes"] == first["calibration"]["nodes"] + 40 and again["frontier"]["anytime"]
    assert (run / "model.json").read_bytes() == before
    plain = tmp_path / "plain.csv"
    plain.write_text("id,label\n900,a\n")
    chosen = graphsde("decide", run, "--further-labels", plain, "--out", tmp_path / "d.csv")
    assert chosen.exit_code == 2 and "not drawn at random" in chosen.stderr
    assert graphsde("ask", run, "--for", "calibration", "--by", "entropy").exit_code == 2
    assert graphsde("ask", run, "--for", "fun").exit_code == 2


def test_a_draw_of_which_nodes_were_left_out_is_not_random(partly: tuple[Path, Path], tmp_path: Path) -> None:
    """Of 40 nodes drawn in random order, any first ones are a random sample; those that were easy are not."""
    _, run = partly
    path = tmp_path / "cal.csv"
    assert graphsde("ask", run, "--for", "calibration", "--budget", 40, "--out", path).exit_code == 0
    rows = list(csv.DictReader(path.open()))

    def decided(kept: list[dict[str, str]], names: tuple[str, ...] = ("id", "label", "role", "rank")) -> Result:
        lines = [",".join(row[name] for name in names) for row in kept]
        path.write_text("\n".join([",".join(names), *lines]) + "\n")
        return graphsde("decide", run, "--further-labels", path, "--out", tmp_path / "d.csv")

    def answered(ranks: Collection[int]) -> list[dict[str, str]]:
        return [row | {"label": "a" if int(row["rank"]) in ranks else ""} for row in rows]

    assert decided(answered(range(1, 41))).exit_code == 0
    assert decided(answered(range(1, 26))).exit_code == 0  # the first ones of a random order
    gaps = decided(answered([*range(1, 11), *range(13, 31)]))
    told = " ".join(gaps.stderr.split())
    assert gaps.exit_code == 2 and "E-CAL-GAPS: 2 of 30 nodes drawn for calibration have no label" in told
    assert "none at rank 11" in told and "empty the labels after rank 10" in told
    removed = decided([row for row in answered(range(1, 41)) if row["rank"] != "7"])
    assert removed.exit_code == 2 and "E-CAL-GAPS: 1 of 40" in removed.stderr
    first = decided(answered(range(2, 41)))
    assert "none at rank 1" in first.stderr and "empty the labels" not in first.stderr
    nameless = decided(answered(range(1, 26)), ("id", "label", "role"))  # nothing tells which ones are first
    assert nameless.exit_code == 2 and "E-CAL-GAPS: 15 of 40" in nameless.stderr


def test_a_plan_before_and_after_the_fit(partly: tuple[Path, Path]) -> None:
    graph, run = partly
    found = answer("plan", graph, "--max-error", "0.05", "--json")
    assert found["labelled"] == 700 and found["calibration"] == 175 and found["fewest"] == 59
    words = graphsde("plan", graph, "--accuracy", "0.9").stdout
    for part in ("700 of them labelled", "at most 94.7% of the nodes can be accepted", "What 175 calibration labels",
                 "out of reach: too few labels", "certified: With probability", "expected: On average"):  # fmt: skip
        assert part in words, part
    later = graphsde("plan", run, "--max-error", "0.05")
    assert later.exit_code == 0 and "what the others need" in later.stdout and "--for calibration" in later.stdout
    assert len(answer("plan", run, "--json")["frontier"]["rungs"]) == 9
    assert graphsde("plan", graph, "--max-error", "2").exit_code == 2
