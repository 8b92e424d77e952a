"""Many cells, from a request to a journal: runs what is missing, keeps what exists, refuses what does not match."""

from __future__ import annotations

import contextlib
import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsde._version import __version__
from graphsde.base.device import device_for
from graphsde.base.interrupt import Interrupted, Stopper
from graphsde.base.lock import exclusive
from graphsde.base.processor import processor_name
from graphsde.bench.cells import Cell, ModelSpec, plan_cells
from graphsde.bench.engines import ENGINES, Engine, Limits
from graphsde.bench.folder import BenchFolder, refuse_changes, set_former_aside
from graphsde.bench.journal import Outcome, make_record
from graphsde.bench.tasks.task import TASKS, Task


@dataclass(frozen=True)
class BenchRequest:
    """What to measure, and where to run it.

    Args:
        task, options: the question; options that differ from its defaults.
        datasets: names of benchmarks, or absolute paths.
        models: to run.
        seeds: one cell each.
        engine, workers, address: see :class:`~graphsde.bench.engines.Engine`.
        limits: when to give up on a cell.
        retry_failed: run failed cells again.
        renew: run rows again that an earlier version of task or model has made, or that used settings which a
            search has since replaced; their records are set aside.
    """

    task: str
    datasets: tuple[str, ...]
    models: tuple[ModelSpec, ...]
    seeds: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    engine: str = "processes"
    workers: int | None = None
    address: str | None = None
    limits: Limits = field(default_factory=Limits)
    retry_failed: bool = False
    renew: bool = False


@dataclass(frozen=True)
class Progress:
    """Progress of a bench, after every cell; ``cell`` is ``None`` at the start.

    Args:
        total: cells to be run now.
        finished: of these.
        skipped: cells that the journal already had.
        failed: of the finished ones, by cause.
    """

    total: int
    finished: int
    skipped: int
    failed: dict[str, int]
    cell: Cell | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True)
class BenchSummary:
    """What a bench has done.

    Args:
        done: cells run now with success.
        skipped: cells that the journal already had, failed ones included.
        failed: cells run now without success, by cause.
        failed_before: of the skipped ones, those that had failed.
    """

    folder: BenchFolder
    done: int
    skipped: int
    failed: dict[str, int]
    failed_before: int


def run_bench(
    request: BenchRequest,
    out: str | Path,
    *,
    progress: Callable[[Progress], None] = lambda state: None,
    say: Callable[[str], None] = lambda text: None,
) -> BenchSummary:
    """Run all cells of ``request`` that ``out`` does not have yet.

    A cell is reported only after its record is on disk. However this process ends, the same call resumes.
    """
    folder = BenchFolder(out)
    engine = ENGINES.get(request.engine)(request.workers, request.address)
    task = TASKS.get(request.task)(**request.options)
    with Stopper() as stopper:
        try:
            with exclusive(folder.path):  # before any graph is opened: a second process is refused at once
                return _run(request, folder, task, engine, stopper, progress, say)
        except BaseException:
            # libraries may turn an exception from a signal into other ones
            if stopper.received is not None:
                fix = f"run the same command again to resume ({folder.path})"
                raise Interrupted(stopper.received, fix=fix) from None
            raise


def _run(
    request: BenchRequest,
    folder: BenchFolder,
    task: Task,
    engine: Engine,
    stopper: Stopper,
    progress: Callable[[Progress], None],
    say: Callable[[str], None],
) -> BenchSummary:
    options = task.options.model_dump(mode="json", exclude_defaults=True)
    folder.refuse_another(request.task, options)
    cells = plan_cells(request.task, request.options, request.datasets, request.models, request.seeds)
    folder.write_question(request.task, options)
    if request.renew and (gone := set_former_aside(cells, folder.journal)):
        say(f"{gone:,} cells of earlier versions or settings are set aside in {folder.journal.former_path.name}")
    with folder.journal.appending(say) as journal:
        refuse_changes(cells, journal.latest.values(), folder.path, request.renew)
        known = {cell.id: journal.latest[cell.id]["status"] for cell in cells if cell.id in journal.latest}
        wanted = ("failed", None) if request.retry_failed else (None,)
        missing = [cell for cell in cells if known.get(cell.id) in wanted]
        skipped = len(cells) - len(missing)
        failed: Counter[str] = Counter()
        progress(Progress(len(missing), 0, skipped, {}))
        facts = environment()
        with contextlib.closing(engine.run(missing, request.limits, stopper=stopper, say=say)) as outcomes:
            for finished, (cell, outcome) in enumerate(outcomes, start=1):
                with stopper.held():
                    journal.append(make_record(cell, outcome, engine.name, facts))
                if outcome.status == "failed":
                    failed[outcome.kind] += 1
                progress(Progress(len(missing), finished, skipped, dict(failed), cell, outcome))
    failed_before = 0 if request.retry_failed else list(known.values()).count("failed")
    return BenchSummary(folder, len(missing) - failed.total(), skipped, dict(failed), failed_before)


def environment() -> dict[str, Any]:
    """What the results were made with; only noted."""
    import torch

    facts = {
        "graphsde": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor_name(),
    }
    device = device_for()
    if device.type != "cpu":
        facts["device"] = str(device)
    commit = _commit()
    return {**facts, "commit": commit} if commit else facts


def _commit() -> str | None:
    """The checked-out commit if the package runs from a checkout, read without git."""
    root = Path(__file__).resolve().parents[3] / ".git"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        head = (root / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: "):
            head = (root / head.removeprefix("ref: ")).read_text(encoding="ascii").strip()
        return head[:40] if head else None
    return None
