"""Calibration labels that come after the fit: kept by the run, added to, never changed, never trained on."""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.runs import looks

FILE = "further-labels.json"


def ids_in(path: Path) -> list[str]:
    return [row["id"] for row in csv.DictReader(path.open())]


def answered(folder: Path, path: Path, out: Path, first: int | None = None) -> Path:
    """A file of questions with the truth filled in: the sign of the column ``x``."""
    kind = {row["id"]: "ab"[float(row["x"]) > 0.5] for row in csv.DictReader((folder / "graph" / "nodes.csv").open())}
    lines = [f"{node},{kind[node]},calibration,{rank}" for rank, node in enumerate(ids_in(path), 1)]
    out.write_text("id,label,role,rank\n" + "\n".join(lines[:first]) + "\n")
    return out


def test_labels_given_once_are_part_of_every_later_test(fitted: Path, run: Path) -> None:
    told = graphsde("decide", run, "--further-labels", fitted / "cal.csv")
    assert "40 calibration labels are new. The run keeps all 40 that came after the fit" in told.stdout
    found = answer("decide", run, "--json")
    assert found["calibration"]["nodes"] == 115 and found["frontier"]["anytime"]
    assert len(looks.looks_of(run)) == 1, "the same test, not another look"
    assert answer("plan", run, "--json")["frontier"]["calibration"]["nodes"] == 115
    assert graphsde("report", run).exit_code == 0 and len(looks.looks_of(run)) == 1
    opened = gs.open_run(run)
    assert int(opened.graph.role("further").sum()) == 40
    assert int(gs.decide(opened.prediction(), opened.graph).frontier.calibration.sum()) == 115


def test_a_second_draw_asks_others_and_adds_to_the_first(fitted: Path, run: Path, tmp_path: Path) -> None:
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    before = set(ids_in(fitted / "cal.csv"))
    for purpose in ("calibration", "training"):
        asked = tmp_path / f"{purpose}.csv"
        assert graphsde("ask", run, "--for", purpose, "--budget", 260, "--out", asked).exit_code == 0
        assert len(ids_in(asked)) == 260 and not before & set(ids_in(asked))
    second = answered(fitted, tmp_path / "calibration.csv", tmp_path / "second.csv", first=50)
    found = answer("decide", run, "--further-labels", second, "--json")
    assert found["calibration"]["nodes"] == 165 and len(json.loads((run / FILE).read_text())["labels"]) == 90
    both = graphsde("decide", run, "--further-labels", second)
    assert "0 calibration labels are new. The run keeps all 90" in both.stdout


def test_a_later_draw_asks_first_what_was_left_open(fitted: Path, run: Path, tmp_path: Path) -> None:
    """Otherwise a hard node could be passed over by leaving it open and drawing again."""
    part = answered(fitted, fitted / "cal.csv", tmp_path / "part.csv", first=15)
    assert graphsde("decide", run, "--further-labels", part).exit_code == 0
    asked = tmp_path / "asked.csv"
    assert graphsde("ask", run, "--for", "calibration", "--budget", 60, "--out", asked).exit_code == 0
    assert ids_in(asked)[:25] == ids_in(fitted / "cal.csv")[15:] and not set(ids_in(asked)) & set(ids_in(part))


def test_labels_that_are_lost_are_missed(fitted: Path, run: Path) -> None:
    told = answer("decide", run, "--further-labels", fitted / "cal.csv", "--json")
    assert told["further_labels"] == {"new": 40, "kept": 40}
    kept = json.loads((run / FILE).read_text())
    (run / FILE).write_text(json.dumps(kept | {"labels": kept["labels"][:30]}))
    refused = graphsde("decide", run)
    assert refused.exit_code == 65 and "it has 30 of the 40 calibration labels" in " ".join(refused.stderr.split())
    (run / FILE).unlink()
    for words in (["decide", run], ["plan", run]):
        assert "it has 0 of the 40 calibration labels" in " ".join(graphsde(*words).stderr.split())
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    assert answer("decide", run, "--json")["calibration"]["nodes"] == 115


def test_a_graph_that_has_grown_can_not_change_a_label_that_was_tested_with(
    fitted: Path, run: Path, tmp_path: Path
) -> None:
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    rows = list(csv.DictReader((fitted / "cal.csv").open()))
    grown, turned = Path(shutil.copytree(fitted / "graph", tmp_path / "grown")), {"a": "b", "b": "a"}
    lines = (grown / "nodes.csv").read_text().splitlines()
    place = next(at for at, line in enumerate(lines) if line.startswith(f"{rows[0]['id']},"))
    plain = tmp_path / "plain.csv"
    fresh = next(node for node in range(300, 600) if str(node) not in {row["id"] for row in rows})
    plain.write_text(f"id,label\n{fresh},a\n")
    for label, code in ((turned[rows[0]["label"]], 65), (rows[0]["label"], 0)):
        node, _, x = lines[place].split(",")
        lines[place] = f"{node},{label},{x}"
        (grown / "nodes.csv").write_text("\n".join(lines) + "\n")
        learned = graphsde("learn", run, plain, "--graph", grown)
        assert learned.exit_code == code, learned.output
        assert code == 0 or "E-LABEL-CONFLICT" in learned.stderr
    assert int(gs.open_run(run).graph.role("further").sum()) == 40


def test_a_file_without_calibration_nodes_is_refused_also_later(fitted: Path, run: Path, tmp_path: Path) -> None:
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    graph = gs.open_run(run).graph
    known = np.flatnonzero(graph.role("train"))[:3]
    assert graph.labels is not None
    names = [graph.class_names[graph.labels[node]] for node in known]
    lines = [f"{node},{name},calibration,{rank}" for rank, (node, name) in enumerate(zip(known, names, strict=True), 1)]
    (tmp_path / "train.csv").write_text("id,label,role,rank\n" + "\n".join(lines) + "\n")
    refused = graphsde("decide", run, "--further-labels", tmp_path / "train.csv")
    assert refused.exit_code == 2 and "E-CAL-USED" in refused.stderr, refused.output


def test_a_plan_states_the_probability_that_is_left(fitted: Path, run: Path) -> None:
    assert graphsde("decide", run).exit_code == 0
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    assert "With probability 90%" in " ".join(graphsde("plan", run).stdout.split())


def test_a_calibration_label_is_never_changed_and_never_trained_on(fitted: Path, run: Path, tmp_path: Path) -> None:
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    rows = list(csv.DictReader((fitted / "cal.csv").open()))
    other = tmp_path / "other.csv"
    turned = {"a": "b", "b": "a"}
    lines = [f"{row['id']},{turned[row['label']]},calibration,{row['rank']}" for row in rows]
    other.write_text("id,label,role,rank\n" + "\n".join(lines) + "\n")
    refused = graphsde("decide", run, "--further-labels", other)
    assert refused.exit_code == 65 and "E-LABEL-CONFLICT" in refused.stderr
    plain = tmp_path / "plain.csv"  # the same nodes in a file that does not say what they are for
    plain.write_text("id,label\n" + "\n".join(f"{row['id']},{row['label']}" for row in rows) + "\n")
    nothing = graphsde("learn", run, plain)
    assert nothing.exit_code == 2 and "already in use" in nothing.stderr
    fresh = [node for node in range(300, 600) if str(node) not in set(ids_in(fitted / "cal.csv"))][:5]
    plain.write_text(plain.read_text() + "".join(f"{node},a\n" for node in fresh))
    learned = answer("learn", run, plain, "--json")
    assert learned["added"] == 5 and learned["known"] == 40
    graph = gs.open_run(run).graph
    assert int(graph.role("further").sum()) == 40 and not (graph.role("further") & graph.role("train")).any()
    assert answer("decide", run, "--json")["calibration"]["nodes"] == 115
    past = gs.open_run(run / "history" / "0").graph
    assert int(past.role("further").sum()) == 40, "a past round has them, too"


def test_the_first_draw_of_a_size_stays(fitted: Path, run: Path) -> None:
    first = gs.open_run(run)
    drawn = gs.decide(first.prediction(), first.graph, size=30).frontier.calibration
    found = answer("decide", run, "--calibration-size", 30, "--further-labels", fitted / "cal.csv", "--json")
    assert found["calibration"]["nodes"] == int(drawn.sum()) + 40
    again = gs.open_run(run)
    tested = gs.decide(again.prediction(), again.graph, size=30).frontier.calibration
    assert tested[drawn].all()


def test_labels_without_a_role_that_are_given_as_further_are_not_drawn_first() -> None:
    graph = gs.load("digits")
    even = np.arange(graph.num_nodes) % 2 == 0
    spare = graph.with_masks(**{name: mask & even for name, mask in graph.masks.items() if name != "calibration"})
    pred = gs.LabelPropagation().fit(spare).predict(spare)
    found = gs.decide(pred, spare, size=200, further=np.flatnonzero(~even)[:300])
    assert int(found.frontier.calibration.sum()) == 500, "200 drawn among the others, and these 300"


def test_a_new_fit_starts_without(fitted: Path, run: Path) -> None:
    assert graphsde("decide", run, "--further-labels", fitted / "cal.csv").exit_code == 0
    assert graphsde("calibrate", run, "--by", "none").exit_code == 0
    assert answer("decide", run, "--json")["calibration"]["nodes"] == 115, "the same labels for another calibrator"
    again = ("fit", fitted / "graph", "--model", "logistic-hops", "--no-controls", "--out", run, "--overwrite")
    assert graphsde(*again).exit_code == 0
    assert not (run / FILE).exists() and answer("decide", run, "--json")["calibration"]["nodes"] == 75


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        '{"format": 2, "labels": []}',
        '{"format": 1, "labels": [{"id": 77777, "label": "a"}]}',
        '{"format": 1, "labels": [{"id": 599, "label": "z"}]}',
    ],
)
def test_a_damaged_file_is_an_error_with_a_way_out(run: Path, damage: str) -> None:
    (run / FILE).write_text(damage)
    refused = graphsde("decide", run)
    assert refused.exit_code == 65 and "further-labels.json is damaged" in refused.stderr, refused.output
    assert "remove it and give all labels again" in " ".join(refused.stderr.split())
    (run / FILE).unlink()
    assert graphsde("decide", run).exit_code == 0


def test_a_run_that_keeps_nothing_says_so(fitted: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_LOCK", "config.yaml")  # can't be a folder, like one in a folder nobody may write to
    done = graphsde("decide", run, "--further-labels", fitted / "cal.csv")
    assert done.exit_code == 0 and "the further labels are not kept" in done.output
    assert "The run keeps" not in done.output and not (run / FILE).exists()


def test_a_node_that_was_learned_meanwhile_is_not_calibrated_on(fitted: Path, run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    assert graphsde("decide", copy, "--further-labels", fitted / "cal.csv").exit_code == 0
    taught = tmp_path / "taught.csv"
    rows = list(csv.DictReader((fitted / "cal.csv").open()))[:10]
    taught.write_text("id,label\n" + "\n".join(f"{row['id']},{row['label']}" for row in rows) + "\n")
    assert answer("learn", run, taught, "--json")["added"] == 10
    shutil.copy(copy / FILE, run / FILE)  # as if both had been done at the same time
    graph = gs.open_run(run).graph
    assert int(graph.role("further").sum()) == 30 and int((graph.role("further") & graph.role("train")).sum()) == 0


def test_numbers_are_kept_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    (tmp_path / "graph").mkdir()
    rows = [f"{i},{f'{3 * x[i]:.3f}' if i < 250 else ''},{x[i]:.3f}" for i in range(400)]
    (tmp_path / "graph" / "nodes.csv").write_text("id,price,x\n" + "\n".join(rows) + "\n")
    near = np.argsort(x)
    edges = [f"{near[i]},{near[i + 1]}" for i in range(399)]
    (tmp_path / "graph" / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    run = tmp_path / "run"
    read = ("--read", "label=price", "--read", "target=regression")
    done = graphsde("fit", tmp_path / "graph", "--model", "gcn", *read, "--no-controls", "--out", run)
    assert done.exit_code == 0, done.output
    asked = tmp_path / "asked.csv"
    assert graphsde("ask", run, "--for", "calibration", "--budget", 30, "--out", asked).exit_code == 0
    lines = [f"{node},{3 * x[int(node)]:.3f},calibration,{rank}" for rank, node in enumerate(ids_in(asked), 1)]
    asked.write_text("id,label,role,rank\n" + "\n".join(lines) + "\n")
    first = answer("decide", run, "--tolerance", 2, "--further-labels", asked, "--json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = gs.open_run(run).graph
    further = graph.role("further")
    assert int(further.sum()) == 30 and graph.values is not None
    assert np.allclose(graph.values[further], np.round(3 * x[further], 3))
    assert answer("decide", run, "--tolerance", 2, "--json")["calibration"] == first["calibration"]
