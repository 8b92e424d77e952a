"""How much memory every verb takes on a graph of a million nodes, each a process of its own.

    python benchmarks/limits.py [--json] [--quick] [--out DIR [--add]]
        [--nodes N] [--memory 2G] [--run DIR] [--verbs a,b]

Anonymous memory is what no file backs: the system can't drop it. It is read from ``/proc`` of the process and of its
children every 20 ms, together with the resident set, which has the pages of mapped files as well. A run that is there
already (``--run``) is measured, not fitted again; with ``--out`` a verb that was measured by the same source is not
measured again either, so that a benchmark that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _machine import machine, revision
from _report import answer, arguments, keep, kept, of_source
from _usage import MEBIBYTE

from graphsde.base.memory import parse_bytes

PAUSE = 0.02
NODES, FEW_NODES = 1_000_000, 20_000
EPOCHS = 3
NAMES = ("check", "fit", "predict", "predict --samples", "evaluate", "decide", "ask", "plan", "explain", "report")


@dataclass
class Peaks:
    """Of a process and its children.

    Args:
        anonymous: the most bytes at once that no file backs.
        resident: the most bytes at once in all.
    """

    anonymous: int = 0
    resident: int = 0


def held_by(process: int) -> tuple[int, int]:
    """Bytes that a process and all below it hold: anonymous ones and all (Linux); nothing of one that has ended."""
    anonymous = resident = 0
    waiting = [process]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{one}/status").read_text(encoding="ascii", errors="replace").splitlines():
                if line.startswith("RssAnon:"):
                    anonymous += int(line.split()[1]) * 1024
                elif line.startswith("VmRSS:"):
                    resident += int(line.split()[1]) * 1024
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                waiting += [int(child) for child in children.read_text(encoding="ascii").split()]
    return anonymous, resident


def cpu_of_children() -> float:
    """Seconds that the processes which this one has started and seen end took of all processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch(command: list[str]) -> tuple[float, Peaks]:
    """Run a command; its CPU seconds and peaks."""
    before, peaks = cpu_of_children(), Peaks()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told, stderr=told)
        while process.poll() is None:
            anonymous, resident = held_by(process.pid)
            peaks.anonymous, peaks.resident = max(peaks.anonymous, anonymous), max(peaks.resident, resident)
            time.sleep(PAUSE)
        if process.returncode:
            told.seek(0)
            raise RuntimeError(f"{' '.join(command)}\n{told.read().decode(errors='replace')[-2000:]}")
    return cpu_of_children() - before, peaks


def command_of(verb: str, graph: str, run: Path, out: Path, memory: str) -> list[str]:
    """What is measured under the name of a verb."""
    limit = ["--memory", memory]
    arguments_of = {
        "check": ["check", graph],
        "fit": ["fit", graph, "--no-race", "--set", f"epochs={EPOCHS}", "--out", str(run), *limit],
        "predict": ["predict", str(run), "--out", str(out / "predictions.csv"), *limit],
        "predict --samples": ["predict", str(run), "--samples", "8", "--out", str(out / "anew.parquet"), *limit],
        "evaluate": ["evaluate", str(run), *limit],
        "decide": ["decide", str(run), "--out", str(out / "decisions.csv"), *limit],
        "ask": ["ask", str(run), "--out", str(out / "questions.csv"), *limit],
        "plan": ["plan", str(run), *limit],
        "explain": ["explain", str(run), "0", "--neighbours", "2", *limit],
        "report": ["report", str(run), "--out", str(out / "report.html"), *limit],
    }
    return [sys.executable, "-m", "graphsde", *arguments_of[verb]]


def measure(given: argparse.Namespace, nodes: int, verbs: tuple[str, ...]) -> dict[str, Any]:
    """A row for each verb, in their order; a run is fitted where none is given."""
    graph, limit = f"synthetic:{nodes}", parse_bytes(given.memory) // MEBIBYTE
    found = {"nodes": nodes, "memory": given.memory, "limit_mib": limit}
    before = kept("limits", given, any_source=given.add)
    rows = before.get("verbs", {}) if all(before.get(name) == value for name, value in found.items()) else {}
    files = before.get("files", {}) if rows else {}
    of_source(rows, before)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        run = given.run or out / "run"
        for verb in verbs:
            if verb in rows or (verb == "fit" and (run / "manifest.json").exists()):
                continue
            seconds, peaks = watch(command_of(verb, graph, run, out, given.memory))
            rows[verb] = {
                "cpu_seconds": round(seconds, 1),
                "anonymous_mib": round(peaks.anonymous / MEBIBYTE),
                "resident_mib": round(peaks.resident / MEBIBYTE),
                "revision": revision(),
            }
            files |= {path.name: path.stat().st_size for path in sorted(out.iterdir()) if path.is_file()}
            within = all(row["anonymous_mib"] <= limit for row in rows.values())
            result = {**found, "within": within, "verbs": rows, "files": files}
            keep("limits", {"benchmark": "limits", **result, "quick": given.quick, "machine": machine()}, given)
    return {
        **found,
        "within": all(row["anonymous_mib"] <= limit for row in rows.values()),
        "verbs": rows,
        "files": files,
    }


def show(result: dict[str, Any]) -> None:
    print(f"synthetic:{result['nodes']}, --memory {result['memory']}\n")
    print("| verb | CPU s | anonymous MiB | MiB in all |\n|---|---|---|---|")
    for verb, row in result["verbs"].items():
        figures = (row[name] for name in ("cpu_seconds", "anonymous_mib", "resident_mib"))
        print(f"| {verb} | {' | '.join(map(str, figures))} |")
    print(f"\nwithin {result['limit_mib']} MiB: {'yes' if result['within'] else 'no'}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, help=f"default: {NODES}")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--add", action="store_true", help="keep rows of other sources, each with its revision")
    parser.add_argument("--run", type=Path, metavar="DIR", help="keep the run here, and measure one that is there")
    parser.add_argument("--verbs", default=",".join(NAMES), help="which, with commas between")
    given = parser.parse_args()
    nodes = given.nodes or (FEW_NODES if given.quick else NODES)
    chosen = tuple(name for name in NAMES if name in given.verbs.split(","))
    answer("limits", lambda: measure(given, nodes, chosen), given, show)


if __name__ == "__main__":
    main()
