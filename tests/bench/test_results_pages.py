"""Every table under docs/results is what its journal under results gives, and every figure there leads to a journal."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_support import graphsde
from graphsde.bench.cells import Cell, plan_cells
from graphsde.bench.compare import compare
from graphsde.bench.paper import TABLES
from graphsde.bench.reproduce import Beside, spec_of

from support import needs_real_data

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "studies"))

import calibrators  # noqa: E402
import conformal  # noqa: E402
import decide  # noqa: E402
import figure_tables  # noqa: E402
import frontier  # noqa: E402
import graphs  # noqa: E402
import one_backbone  # noqa: E402
import ood_score  # noqa: E402
import results_pages  # noqa: E402
import results_summary  # noqa: E402
import systems  # noqa: E402
import ways  # noqa: E402
from study_table import with_table  # noqa: E402

PAGES = ROOT / "docs" / "results"


@needs_real_data
@pytest.mark.parametrize("name", [*results_pages.PAGES_OF_TABLES, *results_pages.STUDIES])
def test_a_table_is_what_its_journal_gives(tmp_path: Path, name: str) -> None:
    """Made anew and compared to the byte: a table that nobody has remade since its journal grew is found here."""
    if not results_pages.write_page(name, tmp_path, draw=False):
        assert not (PAGES / f"{name}.md").exists(), "a page without a journal"
        return
    for made in sorted(tmp_path.iterdir()):
        assert (PAGES / made.name).read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), (
            f"docs/results/{made.name} is not what the journal gives: python studies/results_pages.py"
        )


def made_up(model: str, seed: int, **metrics: float) -> dict[str, Any]:
    """The record of a cell of the extended benchmark on the embedded digits."""
    label, *_ = TABLES.get("extended-ood")
    (system,) = (row for row in label.systems if row.name == model and row.score is None)
    (cell,) = plan_cells(label.task, label.options, ["digits"], [spec_of(system)], [seed])
    facts = {"address": cell.address, "cell": cell.as_dict(), "status": "done", "cause": None, "seconds": {"cpu": 1.0}}
    return {"id": cell.id, "metrics": metrics, **facts}


def test_a_row_with_a_score_of_its_own_is_judged_by_it() -> None:
    label, *_ = TABLES.get("extended-ood")
    records = [
        made_up("gnsd", s, **{"ood_auroc": 0.5 + 0.01 * s, "ood_auroc[gnsd]": 0.95 + 0.012 * s}) for s in range(4)
    ]
    records += [made_up("lgnsde", s, ood_auroc=0.8 + 0.011 * s) for s in range(4)]
    judged = results_pages.judged_records(label, records)
    (best, *others) = compare(judged, ["ood_auroc"])
    assert (best.model, best.verdict) == ("gnsd by gnsd", "best") and [row.model for row in others] == [
        "lgnsde",
        "gnsd",
    ]
    (line,) = results_pages.rivals(label, judged, {"ood_auroc": "auroc"})[1].splitlines()[2:]
    assert line == "| digits | auroc ↑ | gnsd |  | gnsd by gnsd | 4 |"
    (verdict,) = results_summary.verdicts_of(label, judged, "lgnsde")
    assert verdict.rivals == {"ahead": ["gnsd"], "tied": [], "behind": ["gnsd by gnsd"]}
    assert str(verdict) == "label leave out, auroc on digits"


def shown(graph: str, model: str, **facts: Any) -> Beside:
    kept = dict.fromkeys(("printed", "printed_std", "mean", "std", "ci_low", "ci_high"), None)
    kept |= {"printed_text": "", "n": 5, "failed": 0, "agreement": "", "note": ""}
    return Beside("t", graph, "", model, "auroc", **(kept | facts))


def test_what_is_planned_and_not_run_is_told() -> None:
    printed, _ = TABLES.get("active-printed")
    rows = [shown("cora", name) for name in ("lgnsde@paper (tuned)", "lgnsde", "gcn", "ensemble", "gnode")]
    assert results_pages.not_run("active-printed", printed, rows) == [
        "Not run yet: citeseer, pubmed.",
        "Rows not run yet: appnp, bgcn-meanfield, graph-gp on cora.",
        "Not planned: computers, photo.",
    ]
    label, *_ = TABLES.get("extended-ood")
    rows = [shown("cora", f"{name} by vacuity") for name in ("gpn", "gkde, prior weight .1")]
    (_, told) = results_pages.not_run("extended-ood", label, rows)
    assert "gcn" in told and "gpn" not in told and "prior weight" not in told  # a row by a score is a row


def test_a_note_is_told_of_rows_that_are_shown() -> None:
    rows = [shown("cora", "a", note="what it is"), shown("cora", "b", n=0, note="never run"), shown("cora", "c")]
    assert results_pages.notes(rows) == ["Rows: `a`: what it is."]


def test_the_rule_of_agreement_is_told_where_it_is_used() -> None:
    with_spread = [shown("cora", "a", agreement="agrees", printed=0.8, printed_std=0.01)]
    assert "three points" not in results_pages.legend("t", with_spread)
    assert "three points" in results_pages.legend("t", [shown("cora", "a", agreement="agrees", printed=0.8)])
    assert "agrees" not in results_pages.legend("t", [shown("cora", "a", printed=0.8)])


def test_rows_of_earlier_versions_are_neither_shown_nor_judged() -> None:
    label, *_ = TABLES.get("extended-ood")
    present = made_up("gcn", 0, ood_auroc=0.8)
    former = made_up("lgnsde", 0, ood_auroc=0.9)
    former["cell"] = former["cell"] | {"versions": former["cell"]["versions"] | {"model": 0}}
    former["id"] = "of an earlier version"
    assert {row.model for row in results_pages.rows_beside(label, [present, former]) if row.n} == {"gcn"}
    assert {Cell(**one["cell"]).label for one in results_pages.judged_records(label, [present, former])} == {"gcn"}


def test_leaders_are_in_the_unit_of_their_table() -> None:
    records = [
        made_up(name, s, ood_auroc=level * (1 + 0.01 * s))
        for name, level in (("gcn", 0.5), ("lgnsde", 0.8))
        for s in range(3)
    ]
    label, *_ = TABLES.get("extended-ood")
    judged = results_pages.judged_records(label, records)
    text = results_pages.verdict_table(compare(judged, ["ood_auroc"]), judged, {"ood_auroc": "auroc"}, label.scale)
    assert "| lgnsde 80.80 | yes |  | gcn | 3 |" in text


def test_tuned_rows_are_shown_on_graphs_that_the_papers_table_does_not_have() -> None:
    _, citeseer = (PAGES / "time.md").read_text(encoding="utf-8").split("**citeseer**")
    assert "| lgnsde@paper (tuned) |" in citeseer and TABLES.get("time")[0].datasets == ("cora",)


def test_every_journal_that_a_page_names_is_there() -> None:
    named = {
        (page.name, place)
        for page in PAGES.glob("*.md")
        for place in re.findall(r"\]\(\.\./\.\./(results/[^)#]+)\)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [(page, place) for page, place in sorted(named) if not (ROOT / place).exists()] == []


@needs_real_data
def test_the_page_that_sums_up_is_short_and_its_table_is_what_the_journals_give() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert results_summary.with_overview(text) == text, "python studies/results_pages.py"


TOLD = {
    "lower on Photo ({}) and": [("standard", "photo", "lgnsde@paper (tuned)", "accuracy", True)],
    "and CiteSeer ({}),": [("standard", "citeseer", "lgnsde@paper (tuned)", "accuracy", True)],
    "network has {} (": [("standard", "citeseer", "lgnsde@released", "accuracy", False)],
    "accuracy of {} on the shifted copy (GCN {})": [
        ("shifted-answers:structure", "photo", name, "accuracy on the shifted copy", False)
        for name in ("lgnsde", "gcn")
    ],
    "AUROC of {} (GCN {}, tied)": [
        ("shifted-answers:structure", "photo", name, "auroc of wrong answers", False) for name in ("lgnsde", "gcn")
    ],
    "doubts it less: {} against {} (": [
        ("shifted-answers:feature-perturbation", "photo", name, "auroc", False) for name in ("lgnsde", "gcn")
    ],
    "on Photo and Computers ({}, {})": [
        ("extended-ood:label-leave-out", graph, "lgnsde", "auroc of the OOD score", False)
        for graph in ("photo", "computers")
    ],
    "published figures ({}, {}), the default has {} by entropy, a GCN {} (": [
        ("gnsd-draw:label-leave-out", "computers", name, "auroc", False)
        for name in ("GNNSafe's GCN by gnnsafe", "gpn by vacuity", "lgnsde", "gcn")
    ],
    "(GNNSafe's GCN {}, {})": [
        ("extended-ood:label-leave-out", graph, "GNNSafe's GCN", "auroc of the OOD score", False)
        for graph in ("photo", "computers")
    ],
}
"""Figures in words of the page that sums up: table, graph, row, metric, and whether it is what is missing there."""


@needs_real_data
@pytest.mark.parametrize("words", TOLD)
def test_figures_in_the_words_of_the_page_that_sums_up_are_those_of_its_tables(words: str) -> None:
    shares = [results_summary.share_of(*one, missing=missing) for *one, missing in TOLD[words]]
    text = " ".join((PAGES / "README.md").read_text(encoding="utf-8").split())
    assert words.format(*(f"{share:.3f}".removeprefix("0") for share in shares)) in text


@needs_real_data
def test_the_tables_of_the_figures_are_what_the_journals_give() -> None:
    text = figure_tables.PAGE.read_text(encoding="utf-8")
    assert figure_tables.with_tables(text) == text, "python studies/figure_tables.py"


@needs_real_data
@pytest.mark.parametrize(
    ("figure", "journals", "folder"),
    [
        ("figure-entropy", ("figure-entropy-errors", "figure-entropy-ood"), "figures"),
        ("figure-dynamics", ("figure-dynamics",), "figures"),
        ("figure-active", ("active-entropy", "active-random"), "."),
    ],
)
def test_a_figure_of_the_paper_is_what_its_journals_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str, journals: tuple[str, ...], folder: str
) -> None:
    place = ROOT / "results" / folder
    for name in journals:
        shutil.copytree(place / name, tmp_path / name)
    kept = place / figure
    graphs = ",".join(sorted(path.stem for path in kept.glob("*.csv") if path.stem != "table"))
    monkeypatch.chdir(ROOT)  # settings that searches found are read from there
    shown = graphsde("reproduce", figure, "--datasets", graphs, "--show", "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    command = f"graphsde reproduce {figure} --datasets {graphs} --show --out {place.relative_to(ROOT)}"
    for name in ("figure.md", *(f"{graph}.csv" for graph in graphs.split(","))):
        made = (tmp_path / figure / name).read_text(encoding="utf-8")
        assert made == (kept / name).read_text(encoding="utf-8"), command


@pytest.mark.parametrize(
    "study",
    [calibrators, conformal, decide, frontier, pytest.param(one_backbone, marks=needs_real_data), ood_score],
    ids=lambda study: study.__name__,
)
def test_a_table_inside_a_page_is_what_its_journal_gives(study: Any) -> None:
    text = study.PAGE.read_text(encoding="utf-8")
    assert with_table(text, study.COMMAND, study.table()) == text, study.COMMAND
    assert study.JOURNAL.relative_to(ROOT).as_posix() in text


def test_the_page_of_training_in_batches_is_what_its_journal_gives() -> None:
    assert ways.page(graphs.records(ways.JOURNAL)) == ways.PAGE.read_text(encoding="utf-8"), "studies/ways.py page"


def test_the_draws_of_labels_of_facebook_pages_are_told_as_they_were() -> None:
    told = (ROOT / "docs" / "decide.md").read_text(encoding="utf-8").replace("\n", " ")
    kept = (ROOT / "results" / "decide" / "facebook.txt").read_text(encoding="utf-8")
    draws = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+)% accepted, ([\d.]+)% of them wrong", kept)]
    some = [(share, wrong) for share, wrong in draws if share]
    assert (len(draws), len(some)) == (10, 9) and "nine accepted" in told and "one accepted nothing" in told
    shares, errors = zip(*some, strict=True)
    assert f"{min(shares):.0f} to {max(shares):.0f} % of the other pages" in told
    assert f"a true error of {min(errors):.1f} to {max(errors):.1f} % among them" in told


@needs_real_data
def test_the_table_of_all_systems_is_what_its_journals_give() -> None:
    assert systems.page(seeds=5) == systems.PAGE.read_text(encoding="utf-8"), "python studies/systems.py --show"


def test_the_table_of_the_propositions_is_what_was_measured() -> None:
    """Ratios of right and left sides, to two digits."""
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    lines = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in text.splitlines() if " | " in line}
    sides = {
        "1: logits given Var(H)": ("proposition_1", "right", "left"),
        "1: probabilities given Var(H)": ("proposition_1", "right_probabilities", "left_probabilities"),
        "1: Var(H), exponential": ("proposition_1", "latent_right", "latent_left"),
        "1: Var(H), chain": ("proposition_1", "latent_right_chain", "latent_left"),
        "1: Var(H), contractive": ("proposition_1", "latent_right_contractive", "latent_left"),
        "2: distance, exponential": ("proposition_2", "right", "left"),
        "2: distance, chain": ("proposition_2", "right_chain", "left"),
        "2: distance, contractive": ("proposition_2", "right_contractive", "left"),
    }
    for column, preset in enumerate(("universal", "paper")):
        found = json.loads((ROOT / "results" / "theory" / f"{preset}.json").read_text(encoding="utf-8"))
        for name, (proposition, right, left) in sides.items():
            cell, bound = lines[name][column].strip("| *").removesuffix("** (reached)"), found[proposition][right]
            if bound is None:
                assert cell == "none", name
            else:
                told = float(cell.replace(",", ""))
                assert told == pytest.approx(bound / found[proposition][left], rel=0.05), name
        slopes = [float(one) for one in lines["L_f, L_h (logits)"][column].strip("| ").split(", ")]
        assert slopes == [round(found["l_f"], 1), round(found["l_h_logits"], 1)]
    counts = [found[one]["n"] for one in ("proposition_1", "proposition_2")]
    assert f"{sum(counts):,} (paper) comparisons" in text and "no violation" in text
