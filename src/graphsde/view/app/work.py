"""The process behind a job: ``python -m graphsde.view.app.work FOLDER`` runs the ``request.json`` in it."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from graphsde.base.errors import GraphsdeError
from graphsde.base.interrupt import Interrupted
from graphsde.datasets.source import GraphSource
from graphsde.metrics.intervals import intervals
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder, without_nan
from graphsde.runs.learn import Learned, learn
from graphsde.view.app.jobs import append_line
from graphsde.view.app.words import error_in_words


class ProgressFile(Callback):
    """Writes every epoch to the file that the page reads."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(self, epochs: int, first: int) -> None:
        append_line(self.path, "start", epochs=epochs, first=first)

    def on_epoch(self, record: EpochRecord) -> None:
        row = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.as_dict().items()}
        append_line(self.path, "epoch", **row)

    def on_note(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        append_line(self.path, "say", text=text)


def work(folder: Path) -> int:
    """Do one request; the exit code is that of the command line."""
    progress = ProgressFile(folder / "progress.jsonl")
    try:
        request: dict[str, Any] = json.loads((folder / "request.json").read_text(encoding="utf-8"))
        append_line(progress.path, "result", **_do(request, progress))
    except Interrupted as stop:
        progress.say(str(stop))
        return stop.exit_code
    except Exception as error:
        append_line(progress.path, "error", text=error_in_words(error))
        return error.exit_code if isinstance(error, GraphsdeError) else 70
    return 0


def _do(request: dict[str, Any], progress: ProgressFile) -> dict[str, Any]:
    if request["kind"] == "learn":
        learned = learn(
            request["run"], {node: name for node, name in request["labels"]}, callbacks=[progress], say=progress.say
        )
        return {"run": request["run"], "metrics": learned.after, "words": _what_changed(learned)}
    run = RunFolder(request["out"])
    fit = FitRequest(
        GraphSource(**request["source"]), request["model"], request["settings"], request["seed"], request["samples"]
    )
    outcome = fit_run(
        fit,
        run,
        overwrite=request.get("overwrite", False),
        callbacks=[progress],
        say=progress.say,
        with_controls=request.get("controls", True),
    )
    ends = intervals(outcome.prediction, outcome.graph)
    board = None if outcome.controls is None else outcome.controls.model_dump()
    return {"run": str(run.path), "metrics": without_nan(outcome.metrics), "intervals": ends, "controls": board}


def _what_changed(learned: Learned) -> str:
    text = f"{learned.added} new labels in round {learned.round}, {learned.epochs} epochs. "
    before, after = learned.before, learned.after
    if before.get("accuracy") is not None and after.get("accuracy") is not None:
        text += f"On the same test nodes {before['accuracy']:.2%} were right before, {after['accuracy']:.2%} are now; "
    elif before.get("rmse") is not None and after.get("rmse") is not None:
        text += f"RMSE on the same test nodes {before['rmse']:.4g} before, {after['rmse']:.4g} now; "
    return " ".join(filter(None, [text + learned.change.in_words(), learned.verdict()]))


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1])))
