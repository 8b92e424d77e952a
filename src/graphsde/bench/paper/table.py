"""A table or figure of the paper as a plan: which cells make it, and which printed figure each of our metrics meets."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from graphsde.base.registry import Registry

PAPER = "Bergna et al., Uncertainty modeling in graph neural networks via stochastic differential equations"


@dataclass(frozen=True)
class Printed:
    """A printed figure; ``mean`` is ``None`` where the paper prints a word instead, such as OOM."""

    mean: float | None
    std: float | None
    text: str


@dataclass(frozen=True)
class System:
    """One of the paper's rows as one of our models.

    Args:
        printed: its name in the printed table; ``None`` for a row that is ours alone.
        model: our model, as ``bench --models`` takes it.
        settings: that differ from the model's own.
        score: by which OOD nodes are told; entropy unless said.
        value: in a sweep, the value that the printed row stands for.
        note: what a reader must know of this row.
    """

    printed: str | None
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    score: str | None = None
    value: str | None = None
    note: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A table: one task on several graphs with several systems.

    Args:
        name: how ``graphsde reproduce`` calls it.
        experiment: its name among the printed figures.
        task, options: the question.
        datasets: in the order of the print.
        systems: rows.
        metrics: printed name to ours.
        scale: what ours is multiplied with to be in the printed unit.
        seeds: how many the full table takes.
        about: where our protocol departs from the text, and why.
    """

    name: str
    experiment: str
    task: str
    options: dict[str, Any]
    datasets: tuple[str, ...]
    systems: tuple[System, ...]
    metrics: dict[str, str]
    scale: float = 1.0
    seeds: int = 10
    about: str = ""

    def metric_of(self, system: System, printed: str) -> str:
        """Our name of a printed metric for a row."""
        ours = self.metrics[printed]
        if system.value is not None:
            ours = f"{ours}@{system.value}"
        return f"{ours}[{system.score}]" if system.score else ours

    def experiment_of(self, system: System) -> str:
        """Sweeps print one experiment per value."""
        return self.experiment.replace("*", system.printed or "") if "*" in self.experiment else self.experiment

    def printed_figure(self, dataset: str, system: System, metric: str) -> Printed | None:
        row = ("lgnsde" if "*" in self.experiment else system.printed) or ""
        figures, experiment = printed_figures(), self.experiment_of(system)
        # the table of times names no graph
        return figures.get((experiment, dataset, row, metric)) or figures.get((experiment, "", row, metric))


TABLES: Registry[tuple[PaperTable, ...]] = Registry("table")
"""Tables by name; most are one plan, some are two that are printed together."""


@cache
def printed_figures() -> dict[tuple[str, str, str, str], Printed]:
    """Every figure that the paper prints, by experiment, dataset, model and metric."""
    text = resources.files(__package__).joinpath("printed.csv").read_text(encoding="utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["experiment"], row["dataset"], row["model"], row["metric"])
        found[key] = Printed(_number(row["mean"]), _number(row["std"]), row["mean"])
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
