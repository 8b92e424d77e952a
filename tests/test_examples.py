"""The examples run as they stand, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAYS = {
    "01_own_files.py": "test nodes are right",
    "02_models_on_a_benchmark.py": "| gcn |",
    "03_a_model_of_your_own.py": "promises kept",
    "04_noisy_graph_resnet.py": "the same network",
    "05_parts_of_your_own.py": "promises kept",
}


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", list(SAYS))
def test_example(name: str) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
