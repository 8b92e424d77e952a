"""The picture and the lists of ``docs/architecture.md``, drawn from the real tree.

    python studies/architecture.py

A test compares the page with the tree; run this where it fails because a file was added, moved or taken away.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "graphsde"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "house.png"
ROOMS = {
    "base": "errors, registries, keyed random streams, safe storage",
    "graph": "Graph, Target, cleaning, checks",
    "io": "files and objects in and out",
    "datasets": "benchmarks, synthetic graphs, splits, shifts",
    "nn": "layers, likelihoods, the training loop",
    "sde": "drift, diffusion, prior, solvers, gradients",
    "prediction": "the interface: what a model returns",
    "uncertainty": "scores, calibration, conformal prediction",
    "metrics": "how good predictions and their uncertainty are",
    "models": "classes with fit and predict; recipes",
    "acting": "abstain, decide, ask, explain",
    "runs": "one run: its folder, fit, resume, learn, export",
    "bench": "many runs: tasks, paper, theory, engines, search",
    "view": "figures, report, app",
    "cli": "the command line, one file per kind of command",
    "testing": "contract tests for your own components",
}
# where code of ours runs in either verb, as a trace of `fit digits` and of `decide` on that run shows
_SHARED = {
    "base",
    "graph",
    "io",
    "datasets",
    "nn",
    "sde",
    "prediction",
    "uncertainty",
    "metrics",
    "models",
    "runs",
    "cli",
}
WAYS = {"fit": _SHARED, "decide": _SHARED | {"acting"}}


def files_of(room: str) -> list[str]:
    """Files of a folder and its subfolders, as the page lists them."""
    folder = PACKAGE / room
    found = (path.relative_to(folder).with_suffix("") for path in sorted(folder.rglob("*.py")))
    return [path.as_posix() for path in found if path.name != "__init__"]


def imports() -> Counter[tuple[str, str]]:
    """How many files of one folder import something of another."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE).parts[0]
        rooms = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("graphsde."):
                rooms.add(node.module.split(".")[1])
        counts.update((here, there) for there in rooms if there != here and there in ROOMS and here in ROOMS)
    return counts


def draw() -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    figure = Figure(figsize=(9.2, 8.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    counts, rooms = imports(), list(ROOMS)
    for place, (room, words) in enumerate(ROOMS.items()):
        y = -place
        axes.add_patch(FancyBboxPatch((0, y - 0.36), 7.2, 0.72, boxstyle="round,pad=0.02", fc="#eef4f8", ec="#0072B2"))
        axes.text(0.15, y, room, va="center", weight="bold", fontsize=11)
        axes.text(1.75, y, words, va="center", fontsize=9.5)
        axes.text(7.1, y, f"{len(files_of(room))} files", va="center", ha="right", fontsize=8.5, color="#555555")
    for (here, there), count in counts.items():
        low, high = -rooms.index(here), -rooms.index(there)
        reach = 0.08 * abs(high - low)
        axes.annotate(
            "", xy=(7.25, high), xytext=(7.25, low),
            arrowprops={"arrowstyle": "-", "color": "#8A8F98", "alpha": 0.15 + min(count, 12) / 30,
                        "connectionstyle": f"arc3,rad={0.25 + reach / 4}", "linewidth": 0.6 + min(count, 20) / 12},
        )  # fmt: skip
    for column, (verb, way) in enumerate(WAYS.items()):
        x, colour = 9.6 + 0.9 * column, ("#D55E00", "#009E73")[column]
        heights = [-place for place, room in enumerate(rooms) if room in way]
        axes.plot([x] * len(heights), heights, "-o", color=colour, markersize=6, linewidth=2)
        axes.text(x, 0.75, verb, ha="center", weight="bold", color=colour)
    axes.text(8.2, 0.75, "imports", ha="center", color="#555555")
    axes.set_xlim(-0.1, 11.0)
    axes.set_ylim(-len(rooms) + 0.3, 1.1)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def table() -> str:
    rows = [
        f"| `{room}` | {words} | {', '.join(f'`{one}`' for one in files_of(room))} |" for room, words in ROOMS.items()
    ]
    return "\n".join(["| folder | what it holds | files |", "|---|---|---|", *rows])


def main() -> None:
    draw()
    page = PAGE.read_text(encoding="utf-8")
    new = re.sub(r"(?<=<!-- rooms -->\n).*?(?=\n<!-- /rooms -->)", lambda match: table(), page, flags=re.DOTALL)
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
