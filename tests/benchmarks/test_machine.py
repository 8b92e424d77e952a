"""Figures say which machine they are from, and one machine can stand in for another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Script = Callable[[str], ModuleType]


def machine_with(environment: dict[str, str]) -> dict[str, object]:
    code = "import json, _machine; print(json.dumps(_machine.machine()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=BENCHMARKS,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


def test_the_machine_is_described_in_words_and_as_json(script: Script) -> None:
    module = script("_machine")
    found = module.machine()
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"] and found["cpus"] >= 1 and found["numpy_uses"]
    words = module.describe(found)
    for name in ("cpu", "torch_uses", "torch", "numpy", "revision"):
        assert str(found[name]) in words


def test_a_machine_without_avx512_can_be_stood_in_for(script: Script) -> None:
    module = script("_machine")
    if "avx2" not in module.machine()["instructions"]:
        pytest.skip("this CPU has no AVX2")
    switches = module.as_without_avx512()
    found = machine_with(switches)
    assert found["torch_uses"] == "AVX2"
    assert not [name for name in found["numpy_uses"] if "512" in name or name == "X86_V4"]  # type: ignore[attr-defined]
    assert found["switches"].items() >= switches.items()  # type: ignore[attr-defined]


def test_the_name_of_a_result_says_what_was_switched_off(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("_machine")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    assert module.variant(kernels=True) == ""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert module.variant(kernels=False) == "-no-kernels-avx2"


def test_kernels_can_be_left_out() -> None:
    code = "import _machine; _machine.without_kernels(); print(_machine.kernels_at_hand())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=BENCHMARKS)
    assert done.stdout.strip() == "False"


def test_usage_counts_memory_and_page_faults(script: Script) -> None:
    usage = script("_usage")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks are read from Linux's /proc")
    size = 64 * 2**20

    def work() -> None:
        bytearray(size)[::4096] = b"x" * (size // 4096)

    before = usage.resident("VmRSS")
    found = usage.usage_of(work)
    # some of it may be memory that the process had already
    assert found["peak_bytes"] >= before + size // 2
    assert found["page_faults"] > 1000 or found["system_seconds"] >= 0
    assert found["seconds"] > 0
