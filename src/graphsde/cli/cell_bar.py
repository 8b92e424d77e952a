"""A progress bar over the cells of a bench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from graphsde.cli.output import say

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from graphsde.runs.bench import Progress

# cells may take minutes: speed is measured over hours, not over the half minute that is usual for files
ESTIMATE_SECONDS = 6 * 3600


class CellBar:
    """Cells, failures and time left on standard error; words appear above the bar."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def show(self, state: Progress) -> None:
        if self._bar is None or self._task is None:
            if state.skipped:
                self.say(f"{state.skipped:,} cells are there already, {state.total:,} are to be run")
            self._bar = _make_bar()
            self._task = self._bar.add_task(self.title, total=state.total, status="")
            self._bar.start()
        failures = sum(state.failed.values())
        self._bar.update(self._task, completed=state.finished, status=f"{failures} failed" if failures else "")

    def say(self, text: str) -> None:
        if self._bar is None:
            say(text)
            return
        from rich.text import Text

        self._bar.console.print(Text(text), soft_wrap=True)


def _make_bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=ESTIMATE_SECONDS,
    )
