"""The folder of a bench: its question, and whether its results still match it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.renames import as_currently
from graphsde.bench.cells import Cell
from graphsde.bench.journal import Journal, JournalContents, Record

FORMAT = 1


class BenchFolder:
    """A bench on disk: ``bench.json`` has the question, ``journal.jsonl`` the results.

    One folder is about one task with one set of options; graphs, models and seeds may be added at any time.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.question = self.path / "bench.json"
        self.journal = Journal(self.path)

    def read(self) -> tuple[dict[str, Any], JournalContents]:
        """``{"task": …, "options": …}`` and the journal; needs no lock, and may be called while a bench runs."""
        return self.read_question(), self.journal.read()

    def read_question(self) -> dict[str, Any]:
        if not self.question.is_file():
            raise BadInput(
                f"no bench in {self.path}",
                code="E-NO-BENCH",
                place=str(self.question),
                fix=f"create one with: graphsde bench TASK … --out {self.path}",
            )
        try:
            found = storage.read_json(self.question)
            known = found["format"] == FORMAT
            question = as_currently({"task": str(found["task"]), "options": dict(found["options"])})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadInput(
                "bench.json is damaged",
                code="E-CORRUPT",
                place=str(self.question),
                fix="delete it and run the same command again: the journal is kept",
            ) from error
        if not known:
            raise BadInput(
                f"bench.json has format {found['format']}", code="E-CORRUPT", place=str(self.question), expected="1"
            )
        return question

    def write_question(self, task: str, options: dict[str, Any]) -> None:
        if not self.question.is_file():
            storage.write_json(self.question, {"format": FORMAT, "task": task, "options": options})

    def refuse_another(self, task: str, options: dict[str, Any]) -> None:
        """One folder, one question: another one is refused with the differences."""
        if not self.question.is_file():
            return
        then = self.read_question()
        differences = [f"task: {then['task']} then, {task} now"] if then["task"] != task else []
        if not differences:
            for name in sorted(set(then["options"]) | set(options)):
                before, now = then["options"].get(name, "default"), options.get(name, "default")
                if before != now:
                    differences.append(f"{name}: {before} then, {now} now")
        if differences:
            raise BadUsage(
                f"{self.path} holds another bench ({'; '.join(differences[:5])})",
                code="E-BENCH-CHANGED",
                fix="choose another --out",
            )


def set_former_aside(wanted: Iterable[Cell], journal: Journal) -> int:
    """Records of another results version, or of settings that a later search has replaced, move out of the rows (a
    model on a graph) that are about to be run again."""
    now = {(cell.dataset, cell.label): (cell.versions, cell.settings) for cell in wanted}

    def former(record: Record) -> bool:
        cell = Cell(**record["cell"])
        then = (cell.versions, cell.settings)
        return then != now.get((cell.dataset, cell.label), then)

    return journal.set_aside(former)


def refuse_changes(wanted: Iterable[Cell], records: Iterable[Record], folder: Path, renewed: bool = False) -> None:
    """Results of other data or another version of the code must not be mixed with new ones.

    ``renewed``: each row is of one version and of one choice of settings, as :func:`set_former_aside` has seen to;
    others may still be of another.
    """
    data: dict[str, str] = {}
    versions: dict[tuple[str, str], int] = {}
    meant: dict[tuple[str, str], dict[str, Any]] = {}
    for known in (Cell(**record["cell"]) for record in records):
        data[known.dataset] = known.data
        versions["task", known.task] = known.versions.get("task", 0)
        versions["model", known.model] = known.versions.get("model", 0)
        meant[known.dataset, known.label] = known.settings
    for cell in wanted:
        if meant.setdefault((cell.dataset, cell.label), cell.settings) != cell.settings:
            raise BadUsage(
                f"'{cell.label}' had other settings on {cell.dataset} when {folder} was started",
                code="E-BENCH-CHANGED",
                found=cell.settings,
                expected=str(meant[cell.dataset, cell.label]),
                fix="choose another --out: old and new results must not be mixed; reproduce --renew runs rows again "
                "whose settings a search has replaced",
            )
        before = data.get(cell.dataset, cell.data)
        if before != cell.data:
            raise BadInput(
                f"the data of {cell.dataset} has changed since {folder} was started",
                code="E-DATA-CHANGED",
                found=cell.data[:12],
                expected=before[:12],
                fix="restore the data, or choose another --out",
            )
        for kind, name in () if renewed else (("task", cell.task), ("model", cell.model)):
            then, now = versions.get((kind, name)), cell.versions.get(kind, 0)
            if then is not None and then != now:
                raise BadUsage(
                    f"the results version of {kind} '{name}' was {then} when {folder} was started and is {now} now",
                    code="E-BENCH-CHANGED",
                    fix="choose another --out: old and new results must not be mixed; reproduce --renew runs "
                    "rows of an earlier version again",
                )
