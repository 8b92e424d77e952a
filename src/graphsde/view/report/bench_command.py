"""The commands that make a bench and look at it, from what its journal says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from graphsde.runs.cells import Cell
from graphsde.tasks.task import TASKS


def bench_commands(question: Mapping[str, Any], records: Sequence[Mapping[str, Any]], out: str) -> list[str]:
    """``graphsde bench`` that goes on with it, ``compare`` and ``report``.

    Models that are there twice with different settings can't be named on one command line; each then has its own.
    """
    cells = [Cell(**record["cell"]) for record in records]
    groups: list[dict[str, dict[str, Any]]] = []
    for label_settings in {cell.label: cell for cell in cells}.values():
        text, settings = _spelt(label_settings)
        home = next((group for group in groups if text not in group), None)
        if home is None:
            home = {}
            groups.append(home)
        home[text] = settings
    datasets = ",".join(dict.fromkeys(cell.dataset for cell in cells))
    seeds = _seeds(sorted({cell.seed for cell in cells}))
    commands = []
    for group in groups:
        words = ["graphsde", "bench", str(question["task"]), "--datasets", datasets, "--models", ",".join(group)]
        words += ["--seeds", seeds]
        for text, settings in group.items():
            for key, value in settings.items():
                words += ["--set", f"{text}.{key}={_yaml(value)}"]
        for key, value in _options(question).items():
            words += ["--option", f"{key}={_yaml(value)}"]
        commands.append(shlex.join([*words, "--out", out]))
    return [*commands, shlex.join(["graphsde", "compare", out]), shlex.join(["graphsde", "report", out])]


def _spelt(cell: Cell) -> tuple[str, dict[str, Any]]:
    preset = cell.settings.get("preset")
    text = f"{cell.model}@{preset}" if preset else cell.model
    return text, {key: value for key, value in cell.settings.items() if key != "preset"}


def _options(question: Mapping[str, Any]) -> dict[str, Any]:
    known = TASKS.get(str(question["task"])).Options.model_fields
    return {key: value for key, value in question["options"].items() if key in known}


def _seeds(seeds: list[int]) -> str:
    if seeds == list(range(len(seeds))):
        return str(len(seeds))
    return ",".join(str(seed) for seed in seeds) + ("," if len(seeds) == 1 else "")


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
