"""The data of a figure with its versions: for print, for a page, and as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsde.base.errors import BadUsage
from graphsde.view.figures.chart import Chart

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure


IMAGES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".parquet")


class Picture(ABC):
    """Subclasses are small dataclasses made by a pure function; :meth:`chart` defines what they show."""

    @abstractmethod
    def chart(self) -> Chart:
        """What is drawn, without a drawing library."""

    def plotly(self) -> go.Figure:
        """For a page: interactive, in the reader's colour scheme."""
        from graphsde.view.figures.page_face import draw_page

        return draw_page(self.chart())

    def matplotlib(self) -> Figure:
        """For paper."""
        from graphsde.view.figures.print_face import draw_print

        return draw_print(self.chart())

    def columns(self) -> dict[str, list[Any]]:
        """What is drawn, as the columns of a table."""
        return self.chart().columns()

    def save(self, path: str | Path) -> Path:
        """As an image (.png, .svg, .pdf) or a table (.csv, .parquet), by suffix."""
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix in IMAGES:
            from graphsde.view.figures.style import save_figure

            return save_figure(self.matplotlib(), target)
        if suffix in TABLES:
            from graphsde.io.table_export import write_table

            write_table(self.columns(), target)
            return target
        raise BadUsage(
            f"can't save a figure as '{target.name}'", found=suffix, expected="one of " + ", ".join(IMAGES + TABLES)
        )


def save_both(picture: Picture, folder: Path, name: str) -> None:
    """As PNG and as CSV, under one name."""
    for suffix in (".png", ".csv"):
        picture.save(folder / f"{name}{suffix}")
