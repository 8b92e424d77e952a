"""All benchmarks one after the other, then the page that shows them: what ``make bench`` runs.

    python benchmarks/everything.py [--again] [--only TEXT] [--list] [--quick] [--out DIR]

Each writes its JSON into results/benchmarks. What was measured by the same source on the same CPU is not measured again
unless --again asks for it, so that a run that was stopped goes on. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from _machine import as_without_avx512, describe, machine
from _report import RESULTS, same_source

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parent / "docs" / "images" / "scale.png"


@dataclass(frozen=True)
class Step:
    """One run of one script, and what it writes."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    minutes: float = 1.0
    environment: dict[str, str] = field(default_factory=dict)

    def done(self, out: Path, here: dict[str, Any]) -> bool:
        path = out / f"{self.name}.json"
        if not path.exists() or self.name == "scale":  # which has a journal of its own
            return False
        found = json.loads(path.read_text(encoding="utf-8"))
        # one with switches of its own was measured by other instruction sets than this process uses
        asked = {**here, "torch_uses": found["machine"]["torch_uses"]} if self.environment else here
        return same_source(found, asked) and found.get("complete", True)


def steps() -> list[Step]:
    """The short ones first."""
    found = [
        Step("default", "default.py", minutes=1.2),
        Step("default-no-kernels", "default.py", ("--no-kernels",), 1.2),
        Step("memory-computers", "memory.py", ("--computers",), 0.3),
        Step("memory", "memory.py", minutes=1),
        Step("wide_csv", "wide_csv.py", minutes=1),
        Step("race", "race.py", minutes=5),
        Step("reading", "reading.py", minutes=1.5),
        Step("limits", "limits.py", minutes=12),
        Step("ways", "ways.py", minutes=12),
        Step("estimates", "estimates.py", minutes=8),
        Step("threads", "solver.py", ("--threads",), 0.5),
        Step("threads-no-kernels", "solver.py", ("--threads", "--no-kernels"), 0.5),
        Step("solver", "solver.py", minutes=3),
        Step("solver-no-kernels", "solver.py", ("--no-kernels",), 3),
        Step("adjoint", "solver.py", ("--adjoint",), 2),
        Step("peers", "peers.py", minutes=10),
        Step("workers", "scale.py", ("--workers",), 6),
        Step("scale", "scale.py", minutes=13),
    ]
    if torch.backends.cpu.get_cpu_capability() != "AVX2":  # else it is what has been measured already
        found.insert(-2, Step("solver-avx2", "solver.py", (), 3, as_without_avx512()))
    return found


def run(step: Step, out: Path, *, quick: bool, again: bool) -> int:
    words = [sys.executable, str(HERE / step.script), *step.arguments, "--out", str(out)]
    words += ["--quick"] if quick else []
    if step.name == "scale":
        words += ["--journal", str(out / "scale.jsonl")]
        words += ["--picture", str(out / "scale.png" if quick else PICTURE)] + (["--again"] if again else [])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **step.environment}
    return subprocess.run(words, env=environment, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure what is there already")
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose name has it")
    parser.add_argument("--list", action="store_true", help="say what would be run, and for how long")
    parser.add_argument("--quick", action="store_true", help="small graphs, once: whether all run, not how fast")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR")
    given = parser.parse_args()
    here = machine()
    print(describe(here))
    wanted = [step for step in steps() if given.only in step.name]
    left = [step for step in wanted if given.again or not step.done(given.out, here)]
    print(f"{len(left)} of {len(wanted)} runs, some {sum(step.minutes for step in left):.0f} minutes\n", flush=True)
    failed = []
    for step in left:
        print(f"== {step.name} (some {step.minutes:g} minutes)", flush=True)
        begin = time.perf_counter()
        if not given.list and run(step, given.out, quick=given.quick, again=given.again):
            failed.append(step.name)
        if not given.list:
            print(f"-- {step.name}: {(time.perf_counter() - begin) / 60:.1f} minutes\n", flush=True)
    if not given.list and not given.quick and given.out == RESULTS:
        subprocess.run([sys.executable, str(HERE / "page.py")], check=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
