"""The rule of studies/diffusion.py, on journals made by hand."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphsde as gs

PATH = Path(__file__).resolve().parents[2] / "studies" / "diffusion.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diffusion_study", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(PATH.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(PATH.parent))
    return module


def line(graph: str, seed: int, **gaps: float) -> dict[str, Any]:
    noise = float(np.random.default_rng(seed).normal()) * 1e-3
    candidates = {"temperature": {"nll": 0.5, "aurc": 0.1}}
    candidates |= {name: {"nll": 0.5 + gap + noise, "aurc": 0.1 + noise} for name, gap in gaps.items()}
    return {"graph": graph, "protocol": "closed-world", "seed": seed, "model": "m", "settings": {}, "judge": "test",
            "candidates": candidates}  # fmt: skip


def test_three_better_and_none_worse(study: ModuleType) -> None:
    graphs = ("a", "b", "c", "d")
    found = [
        line(graph, seed, good=-0.02, few=-0.02 if graph in "ab" else 0.0, mixed=0.02 if graph == "d" else -0.02)
        for graph in graphs
        for seed in range(8)
    ]
    told = study.verdict(study.compared(found))
    assert told["good"] == (["a", "b", "c", "d"], [], True)
    assert told["few"] == (["a", "b"], [], False)
    assert told["mixed"] == (["a", "b", "c"], ["d"], False)


def test_more_is_better_for_detection_alone(study: ModuleType) -> None:
    found = []
    for seed in range(8):
        record = line("a", seed, one=0.0)
        record["protocol"] = "label-leave-out"
        record["candidates"]["temperature"]["ood_auroc"] = 0.8
        record["candidates"]["one"]["ood_auroc"] = 0.85 + 1e-3 * seed
        found.append(record)
    (row,) = study.compared(found)
    assert (row["metric"], row["sign"], row["runs"]) == ("ood_auroc", 1, 8)


def test_a_line_cut_short_is_left_out(study: ModuleType, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(json.dumps(line("a", 0, one=0.0)) + "\n" + '{"graph": "a", "prot')
    assert [record["seed"] for record in study.graphs.records(journal)] == [0]


def test_validation_figures_hold_nothing_of_test_nodes(study: ModuleType) -> None:
    graph = gs.load("digits")
    assert graph.labels is not None
    probs = np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
    labels = graph.labels.copy()
    labels[graph.role("test")] = 0
    scrambled = graph.with_labels(labels)
    assert study.figures(probs, graph, "val") == study.figures(probs, scrambled, "val")


def test_the_page_has_the_verdict_and_the_table_of_the_journal(study: ModuleType) -> None:
    page = study.PAGE.read_text("utf-8")
    records = [json.loads(text) for text in study.JOURNAL.read_text("utf-8").splitlines()]
    assert study.with_results(page, records) == page, "python studies/diffusion.py --page"
    assert study.with_results(page, records[:-20]) != page
