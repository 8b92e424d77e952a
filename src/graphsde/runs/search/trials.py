"""What a search has tried: read from the journals of its trials, which are all it remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from graphsde import storage
from graphsde.errors import BadInput, BadUsage
from graphsde.runs.bench_folder import BenchFolder

Select = Literal["nll", "accuracy"]

# a trial whose worker was lost tells no time; what a cell may take at most is what it cost
LOST_SECONDS = 600.0


@dataclass(frozen=True)
class Trial:
    """One tried point; ``value`` is ``None`` where the trial failed or was given up, ``data`` is the graph's print."""

    number: int
    chosen: dict[str, Any]
    settings: dict[str, Any]
    value: float | None
    cell: str
    reached: tuple[float, ...]
    cpu_seconds: float
    pruned: bool
    cause: str | None = None
    data: str = ""


def trial_folder(folder: Path, number: int) -> Path:
    return folder / f"trial-{number:03d}"


def write_choice(folder: Path, number: int, chosen: dict[str, Any], settings: dict[str, Any]) -> None:
    """Say what a trial will try, before it begins."""
    place = trial_folder(folder, number)
    place.mkdir(parents=True, exist_ok=True)
    storage.write_json(place / "choice.json", {"chosen": chosen, "settings": settings})


def read_trials(folder: Path, select: Select = "nll") -> list[Trial]:
    """What was tried in ``folder`` so far; a trial without a record was interrupted and is redone."""
    trials: list[Trial] = []
    while (choice := trial_folder(folder, len(trials)) / "choice.json").is_file():
        try:
            asked = json.loads(storage.read_text(choice))
            chosen, settings = dict(asked["chosen"]), dict(asked["settings"])
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(
                "choice.json is damaged",
                code="E-CORRUPT",
                place=str(choice),
                fix="delete the folder of the trial: it is run again",
            ) from error
        bench = BenchFolder(choice.parent)
        records = list(bench.read()[1].records) if bench.question.is_file() else []
        if not records:
            break
        trials.append(_trial(len(trials), chosen, settings, records[-1], select))
    return trials


def best_trial(trials: Sequence[Trial], select: Select = "nll") -> Trial:
    """The finished trial with the best validation figure; the earlier one where two are equal."""
    done = [trial for trial in trials if trial.value is not None]
    if not done:
        causes = sorted({trial.cause for trial in trials if trial.cause})
        raise BadUsage(
            "no trial has finished",
            found="; ".join(causes) or None,
            fix="mend the cause, or allow more time",
        )
    sign = 1.0 if select == "nll" else -1.0
    return min(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def _trial(
    number: int, chosen: dict[str, Any], settings: dict[str, Any], record: Mapping[str, Any], select: Select
) -> Trial:
    metrics = record.get("metrics") or {}
    pruned = bool(metrics.get("pruned"))
    value = None if pruned or record["status"] != "done" else metrics.get(f"val_{select}")
    reached = tuple((record.get("curves") or {}).get("reached", ()))
    seconds = float((record.get("seconds") or {}).get("cpu") or 0.0)
    if record["status"] != "done" and not seconds:
        seconds = LOST_SECONDS
    cell, cause = record["cell"], record.get("cause")
    return Trial(number, chosen, settings, value, record["id"], reached, seconds, pruned, cause, cell["data"])
