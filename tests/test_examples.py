"""The examples run as they stand, and say what they guarantee."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from warm_process import start

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAYS = {
    "01_own_files.py": "test nodes are right",
    "02_models_on_a_benchmark.py": "| gcn |",
    "03_a_model_of_your_own.py": "guarantees kept",
    "04_noisy_graph_resnet.py": "the same network",
    "05_parts_of_your_own.py": "guarantees kept",
    "06_a_score_of_your_own.py": "guarantees kept",
    "07_a_pyg_model_that_you_have.py": "With probability 95%",
}
LINES = [
    ("03_a_model_of_your_own.py", ("SmoothedSettings", "SmoothedModule", "Smoothed"), 50),
    ("05_parts_of_your_own.py", ("Pull", "BoundPull"), 30),
    ("06_a_score_of_your_own.py", ("runners_up",), 12),
]


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", list(SAYS))
def test_example(name: str, tmp_path: Path) -> None:
    done = start(EXAMPLES / name, folder=tmp_path)
    assert done.ended() == 0, done.errors.read_text()
    assert SAYS[name] in done.out.read_text()


def test_an_example_as_people_start_it() -> None:
    name = "04_noisy_graph_resnet.py"  # the quickest
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


@pytest.mark.parametrize(("name", "parts", "most"), LINES)
def test_a_part_of_ones_own_is_short_and_needs_public_names_alone(name: str, parts: tuple[str, ...], most: int) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    tree = ast.parse(text)
    used = 0
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in parts:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            used += sum(1 for line in text.splitlines()[first - 1 : node.end_lineno] if line.strip())
    assert 0 < used <= most
    imported = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)}
    assert {line for line in imported if "graphsde" in line} == {"import graphsde as gs"}
    assert "gs.testing.check_" in text
