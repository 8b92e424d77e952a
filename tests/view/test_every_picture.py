"""Every picture has three faces that show the same data, and nothing that is written in it is cut off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from picture_gallery import every_picture

from graphsde.base.errors import BadUsage
from graphsde.view.figures.chart import Axis, Chart, Dots, Line, Panel, Words
from graphsde.view.figures.page_face import draw_page
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.print_face import draw_print
from graphsde.view.figures.style import look

HOSTILE = ["<img src=x onerror=alert(1)>", r"$\frac{1}", "n" * 500, "a\u202eb", "{{ 7 * 7 }}"]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return every_picture()


NAMES = [
    "entropy-histogram", "entropy-by-model", "risk-coverage", "risk-coverage-two", "reliability", "detection", "active",
    "sample-paths", "phase-portrait", "uncertainty-graph", "uncertainty-scatter", "noise-robustness", "theory", "cost",
    "beside-paper", "critical-difference", "training", "metric-intervals",
]  # fmt: skip


def test_the_list_is_complete(pictures: dict[str, Picture]) -> None:
    assert list(pictures) == NAMES


def drawn_texts(figure: Figure) -> list[Text]:
    """What is really written: labels of ticks beyond the limits exist but are never drawn."""
    from matplotlib.backends.backend_agg import RendererAgg

    found: list[Text] = []
    plain = RendererAgg.draw_text

    def draw(self: Any, *given: Any, **more: Any) -> None:
        found.append(more.get("mtext") or given[-1])
        plain(self, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RendererAgg, "draw_text", draw)
        figure.canvas.draw()
    return [text for text in found if isinstance(text, Text)]


def cut_off(figure: Figure) -> list[str]:
    """Texts that reach beyond the paper, with a pixel of grace."""
    texts, paper = drawn_texts(figure), figure.bbox
    assert texts
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [
        words
        for words, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > paper.width + 1 or box.y1 > paper.height + 1
    ]


def test_what_is_cut_off_is_noticed() -> None:
    figure = draw_print(Chart((Panel(Axis(), Axis(), (Line("a", [0.0, 1.0], [0.0, 1.0]),)),)))
    assert cut_off(figure) == []
    figure.text(0.9, 0.5, "reaches beyond the paper")
    assert cut_off(figure) == ["reaches beyond the paper"]


def overlapping_titles(figure: Figure) -> list[tuple[str, str]]:
    boxes = [(ax.title, ax._left_title) for ax in figure.axes]  # type: ignore[attr-defined]
    shown = [t for pair in boxes for t in pair if t.get_text()]
    extents = [(t.get_text(), t.get_window_extent()) for t in shown]
    return [(a, b) for i, (a, x) in enumerate(extents) for b, y in extents[i + 1 :] if x.overlaps(y)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off_on_paper(pictures: dict[str, Picture], name: str) -> None:
    figure = pictures[name].matplotlib()
    assert cut_off(figure) == []
    assert overlapping_titles(figure) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_page_draws_every_mark_without_eval(pictures: dict[str, Picture], name: str) -> None:
    chart, figure = pictures[name].chart(), pictures[name].plotly()
    drawn = [mark for panel in chart.panels for mark in panel.marks if not isinstance(mark, Words)]
    bands = sum(isinstance(mark, Line) and mark.low is not None for mark in drawn)
    assert len(figure.data) == len(drawn) + 2 * bands
    assert {trace.type for trace in figure.data} <= {"scatter", "bar", "heatmap"}
    named = [trace.name for trace in figure.data if trace.showlegend and trace.name]
    assert len(named) == len(set(named))
    assert figure.layout.height > 100


@pytest.mark.parametrize("name", NAMES)
def test_tables_come_back_as_they_were(pictures: dict[str, Picture], name: str, tmp_path: Path) -> None:
    columns = pictures[name].columns()
    pictures[name].save(tmp_path / "data.csv")
    back = pa_csv.read_csv(tmp_path / "data.csv").to_pydict()
    assert list(back) == list(columns) and len(next(iter(back.values()))) == len(next(iter(columns.values()))) > 0
    for key, values in columns.items():
        for given, read in zip(values, back[key], strict=True):
            if isinstance(given, float):
                assert read == pytest.approx(given, rel=1e-12), key


def test_the_table_of_a_chart_has_what_the_page_shows(pictures: dict[str, Picture]) -> None:
    picture = pictures["risk-coverage"]
    columns = picture.columns()
    for trace in picture.plotly().data:
        rows = [i for i, series in enumerate(columns["series"]) if series == trace.name]
        np.testing.assert_allclose([columns["y"][i] for i in rows], np.array(trace.y, dtype=float), rtol=1e-4)


def test_png_and_svg_are_the_same_every_time(pictures: dict[str, Picture], tmp_path: Path) -> None:
    picture = pictures["reliability"]
    for suffix in (".png", ".svg"):
        first, second = picture.save(tmp_path / f"a{suffix}"), picture.save(tmp_path / f"b{suffix}")
        assert first.read_bytes() == second.read_bytes() and first.stat().st_size > 2000
    with pytest.raises(BadUsage, match="jpg"):
        picture.save(tmp_path / "a.jpg")


def test_names_of_any_origin_are_harmless() -> None:
    marks = tuple(Dots(name, [1.0], [float(i)], texts=[name]) for i, name in enumerate(HOSTILE))
    panel = Panel(Axis(HOSTILE[0]), Axis(HOSTILE[1], names=tuple(HOSTILE)), marks, title=HOSTILE[0])
    chart = Chart((panel,), title=HOSTILE[1])
    figure = draw_page(chart)
    # plotly reads a subset of HTML: what came as text must not have become markup
    assert not re.search(r"<(?!b>|/b>|extra>|/extra>|br>)", str(figure.to_plotly_json()))
    drawn = draw_print(chart)
    drawn.canvas.draw()  # a formula that can't be read would raise here
    written = [text.get_text() for text in drawn.findobj(Text)]
    assert all(len(text) <= 125 and "\u202e" not in text for text in written)


def test_systems_never_look_alike() -> None:
    dots = [(look(i).colour, look(i).filled) for i in range(16)]
    curves = [(look(i).colour, look(i).dash) for i in range(32)]
    assert len(set(dots)) == 16 and len(set(curves)) == 32


def test_beside_the_paper_fourteen_systems_have_fourteen_looks(pictures: dict[str, Any]) -> None:
    keys = [m for m in pictures["beside-paper"].chart().panels[0].marks if isinstance(m, Dots) and m.legend]
    systems = [mark for mark in keys if mark.name.startswith("system")]
    assert len(systems) == 14 and len({(mark.colour, mark.filled) for mark in systems}) == 14


def test_images_of_the_documentation_stay_small() -> None:
    root = Path(__file__).resolve().parents[2] / "docs"
    page = (root / "figures.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\((images/[^)]+)\)", page)
    assert len(shown) >= 3
    assert all((root / name).stat().st_size < 150_000 for name in shown)
