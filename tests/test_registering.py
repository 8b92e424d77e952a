"""Parts from outside: the one decorator, and plugins that installed packages bring along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphsde as gs
from graphsde.acting.acquisition import ACQUISITIONS
from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry
from graphsde.bench.tasks import TASKS, Task
from graphsde.datasets.shifts import SHIFTS
from graphsde.metrics import METRICS
from graphsde.models import GCN, MODELS
from graphsde.sde.diffusion import DIFFUSIONS, ConstantDiffusion
from graphsde.sde.drift import DRIFTS, GCNDrift
from graphsde.sde.field import PRIORS
from graphsde.sde.prior import ConstantPrior
from graphsde.sde.solvers import SOLVERS, Euler
from graphsde.uncertainty.calibration import CALIBRATORS
from graphsde.uncertainty.calibration.calibrators import Temperature
from graphsde.uncertainty.conformal import CONFORMAL_SCORES
from graphsde.uncertainty.scores import SCORES


@pytest.mark.parametrize(
    ("base", "registry"),
    [
        (GCN, MODELS),
        (GCNDrift, DRIFTS),
        (ConstantDiffusion, DIFFUSIONS),
        (ConstantPrior, PRIORS),
        (Euler, SOLVERS),
        (Temperature, CALIBRATORS),
        (Task, TASKS),
    ],
)
def test_a_class_goes_where_its_base_class_says(base: type, registry: Registry) -> None:
    own = type("Own", (base,), {"name": "of my own", "summary": "mine", "version": 1, "headline": ()})
    try:
        assert gs.register(own) is own
        assert registry.get("of my own") is own and registry.entry("of my own").summary == "mine"
    finally:
        registry._entries.pop("of my own", None)


@pytest.mark.parametrize(
    ("kind", "registry"),
    [
        ("score", SCORES),
        ("conformal_score", CONFORMAL_SCORES),
        ("acquisition", ACQUISITIONS),
        ("metric", METRICS),
        ("shift", SHIFTS),
    ],
)
def test_a_function_is_told_what_it_is(kind: str, registry: Registry) -> None:
    def own() -> None:
        """first line

        more
        """

    try:
        assert getattr(gs.register, kind)("of my own", year=2026)(own) is own
        entry = registry.entry("of my own")
        assert entry.item is own and entry.summary == "first line" and entry.facts["year"] == 2026
    finally:
        registry._entries.pop("of my own", None)


def test_what_can_not_be_registered_is_told_so() -> None:
    with pytest.raises(BadUsage, match=r"register\.score"):
        gs.register(lambda prediction: prediction)  # type: ignore[type-var]
    with pytest.raises(BadUsage, match="has no summary"):
        gs.register.score("silent")(lambda prediction: prediction)
    nameless = type("Nameless", (gs.Drift,), {})
    with pytest.raises(BadUsage, match="no name"):
        gs.register(nameless)
    with pytest.raises(BadUsage, match="year"):
        gs.register(type("Ageless", (gs.Drift,), {"name": "x", "summary": "y", "paper": "z"}))
    assert "silent" not in SCORES and "x" not in DRIFTS


GOOD = '''
import graphsde as gs

@gs.register.score("warmth", needs=("probs",), paper="none", year=2026)
def warmth(prediction):
    """one minus the first probability"""
    return 1 - prediction.mean[:, 0]
'''


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder on the path with two installed packages: one good plugin, one that can't be imported."""
    for package, code in (("warm", GOOD), ("cold", "raise OSError('out of order')")):
        (tmp_path / f"{package}_plugin.py").write_text(code)
        facts = tmp_path / f"{package}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[graphsde.plugins]\n{package}er = {package}_plugin\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_an_installed_plugin_is_known_to_python_when_it_is_missed(installed: Path) -> None:
    lines = [
        "import sys, graphsde as gs",
        "from graphsde.uncertainty.scores import SCORES",
        "SCORES.get('entropy')",
        "assert 'warm_plugin' not in sys.modules",  # not before a name is missing
        "print(SCORES.get('warmth').__name__)",
    ]
    done = run(installed, "-W", "always", "-c", "\n".join(lines))
    assert done.returncode == 0 and done.stdout.strip() == "warmth", done.stderr
    assert "'colder' of the package 'cold'" in done.stderr and "out of order" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_installed_plugin_is_known_to_the_command_line(installed: Path) -> None:
    done = run(installed, "-m", "graphsde", "list", "scores")
    assert done.returncode == 0 and "warmth" in done.stdout
    (line,) = done.stderr.splitlines()  # the broken one, and nothing else
    assert line.startswith("E-PLUGIN") and "'colder' of the package 'cold'" in line


def test_a_fresh_process_knows_the_parts_of_the_package(tmp_path: Path) -> None:
    """Whoever asks a registry must have imported what is in it."""
    asked = "import graphsde as gs; print(*(len(dir(part)) for part in (gs.prior, gs.drift, gs.diffusion, gs.solver)))"
    done = run(tmp_path, "-c", asked)
    assert [int(count) for count in done.stdout.split()] == [4, 6, 7, 8], done.stderr
