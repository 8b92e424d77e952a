"""From the raw Facebook pages to a decision, with the hidden truth as the judge."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphsde.cli.app import app

from support import more_data

LABELS, DRAWS, LIMIT = 2000, 10, 0.05
READ = ["--read", "label=page_type", "--read", "node_name=page_name"]


def with_labels_of_few(source: Path, folder: Path, seed: int) -> dict[str, str]:
    """The published files with the classes of :data:`LABELS` pages; all classes by id."""
    folder.mkdir()
    with (source / "target.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kept = set(np.random.default_rng(seed).permutation(len(rows))[:LABELS].tolist())
    with (folder / "target.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(row | ({} if place in kept else {"page_type": ""}) for place, row in enumerate(rows))
    for name in ("edges.csv", "features.json"):
        shutil.copyfile(source / name, folder / name)
    return {row["id"]: row["page_type"] for row in rows}


def said(*command: str) -> dict[str, object]:
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_half_of_the_pages_are_decided_with_two_thousand_labels(tmp_path: Path) -> None:
    """In at least 8 of 10 draws of labels, at least half of all other pages are accepted at 5 %; a guarantee of 95 %
    may break in one of them, not in two."""
    source = more_data("facebook/target.csv").parent
    shares, errors = [], []
    for draw in range(DRAWS):
        folder, run = tmp_path / f"pages-{draw}", tmp_path / f"run-{draw}"
        truth = with_labels_of_few(source, folder, seed=1000 + draw)
        said("fit", str(folder), *READ, "--out", str(run), "--no-controls")
        said("decide", str(run), "--max-error", str(LIMIT))
        with (run / "decisions.csv").open(encoding="utf-8", newline="") as file:
            decided = [row for row in csv.DictReader(file) if row["split"] == ""]
        accepted = [row for row in decided if row["action"] == "accept"]
        wrong = sum(row["label"] != truth[row["id"]] for row in accepted)
        shares.append(len(accepted) / len(decided))
        errors.append(wrong / max(len(accepted), 1))
        print(f"draw {draw}: {shares[-1]:.1%} accepted, {errors[-1]:.2%} of them wrong", flush=True)
    assert sum(share >= 0.5 for share in shares) >= 8, shares
    assert sum(error > LIMIT for error in errors) <= 1, errors
