"""What a verb must not import: ``list`` answers from a catalogue, and a fit needs neither compiler nor data frames."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsde.cli.show import KINDS

HEAVY = {"torch", "numpy", "scipy", "sklearn", "pyarrow", "pandas"}


@pytest.fixture(scope="module")
def told() -> list[str]:
    """By a process that has imported every registry, as workers of a bench do: what differs from the catalogue, and
    what was loaded."""
    lines = [  # another process: tests of this one may have registered parts
        "import json, sys",
        "from importlib import import_module",
        "from graphsde.cli.output import cell",
        "from graphsde.cli.show import KINDS, rows_of",
        "def shown(rows, names):",
        "    return [[cell(row.get(name)) for name in names or list(rows[0])] for row in rows]",
        "kept = {kind: rows_of(kind) for kind in KINDS}",
        "for module, _, _ in KINDS.values():",
        "    import_module(f'graphsde.{module}')",
        "live = {kind: rows_of(kind) for kind in KINDS}",
        "differ = [kind for kind in KINDS if json.dumps(kept[kind]) != json.dumps(live[kind])]",
        "differ += [kind for kind in KINDS if shown(kept[kind], KINDS[kind][2]) != shown(live[kind], KINDS[kind][2])]",
        "print('DIFFER', *differ)",
        "print('LOADED', *sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_catalogue_says_what_the_registries_say(told: list[str]) -> None:
    """If this fails, run studies/catalogue.py."""
    assert told[0].split() == ["DIFFER"]


def test_a_worker_of_a_bench_starts_without_what_few_cells_need(told: list[str]) -> None:
    """All of scipy.stats takes as long to import as a third of torch."""
    loaded = set(told[1].split())
    assert "graphsde.bench.tasks.adaptive_depth" in loaded
    assert not loaded & {"torch._dynamo", "sympy", "pandas", "sklearn", "scipy.stats"}


def test_lists_load_nothing_heavy() -> None:
    verbs = [["list", kind] for kind in KINDS] + [["list", kind, "--json"] for kind in KINDS] + [["--version"]]
    lines = ["import sys", "from graphsde.cli import main", f"for verb in {verbs!r}:", "    sys.argv = ['x', *verb]"]
    lines += ["    try:", "        main()", "    except SystemExit as end:", "        assert not end.code, verb"]
    lines += ["print(*sys.modules, file=sys.stderr)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stderr.split()} & HEAVY
    assert "lgnsde" in done.stdout and '"graph-heat"' in done.stdout


@pytest.mark.parametrize("model", ["gcn", "lgnsde", "grand"])
def test_a_fit_loads_what_it_needs(model: str, tmp_path: Path) -> None:
    """The first optimiser of torch imports torch._dynamo and sympy, arithmetic on the device meta as well; arrays for
    Arrow import pandas; scikit-learn imports all of scipy.stats."""
    words = ["fit", "synthetic:300", "--model", model, "--out", str(tmp_path / "run"), "--set", "epochs=2"]
    lines = ["import sys", f"sys.argv = ['graphsde', *{words!r}]", "from graphsde.cli import main", "code = 0"]
    lines += ["try:", "    main()", "except SystemExit as end:", "    code = end.code or 0"]
    lines += ["print('LOADED', *sys.modules)", "sys.exit(code)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.partition("LOADED")[2].split())
    assert "torch" in loaded and not loaded & {"torch._dynamo", "sympy", "pandas", "sklearn", "scipy.stats"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, ["1000", "4"]),
        ({"GOMP_SPINCOUNT": "7", "OPENBLAS_THREAD_TIMEOUT": "20"}, ["7", "20"]),
        ({"OMP_WAIT_POLICY": "active"}, ["None", "4"]),
    ],
)
def test_threads_sleep_soon_unless_told_otherwise(given: dict[str, str], kept: list[str]) -> None:
    """Whoever sets one of the variables is obeyed; neither torch nor numpy may have been imported by then."""
    lines = [
        "import os, sys",
        "from graphsde.cli import app as program",
        "names = 'GOMP_SPINCOUNT', 'OPENBLAS_THREAD_TIMEOUT'",
        "loaded = {'torch', 'numpy'} & set(sys.modules)",
        "program.app = lambda **words: print(*map(os.environ.get, names), *loaded)",
        "program.main()",
    ]
    ours = {"GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY"}
    free = {name: value for name, value in os.environ.items() if name not in ours}
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=free | given)
    assert done.stdout.split() == kept
