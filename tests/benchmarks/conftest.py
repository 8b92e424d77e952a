"""The scripts of ``benchmarks`` import each other by bare names, as scripts do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a script by its name; afterwards all of them are forgotten, as their names are everyday words."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    own = {path.stem for path in BENCHMARKS.glob("*.py")}
    for name in set(sys.modules) - before:
        if name in own:
            del sys.modules[name]
