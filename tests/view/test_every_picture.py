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
from graphsde.view.figures.chart import Axis, Bars, Chart, Dots, Line, Panel, Words
from graphsde.view.figures.page_face import draw_page
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.print_face import draw_print
from graphsde.view.figures.style import CLASS_COLOURS, LINE_COLOURS, RIGHT, WRONG, look

HOSTILE = ["<img src=x onerror=alert(1)>", r"$\frac{1}", "n" * 500, "a\u202eb", "{{ 7 * 7 }}"]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return every_picture()


NAMES = [
    "entropy-histogram", "entropy-by-model", "risk-coverage", "risk-coverage-two", "reliability", "confusion",
    "per-class", "detection", "active", "sample-paths", "phase-portrait", "uncertainty-graph", "uncertainty-scatter",
    "noise-robustness", "theory", "cost", "beside-paper", "critical-difference", "training", "metric-intervals",
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


@pytest.mark.parametrize("page", ["figures.md", "gallery.md"])
def test_images_of_the_documentation_stay_small(page: str) -> None:
    root = Path(__file__).resolve().parents[2] / "docs"
    shown = re.findall(r"\]\((images/[^)]+)\)", (root / page).read_text(encoding="utf-8"))
    assert len(shown) >= 3
    assert all((root / name).stat().st_size < 150_000 for name in shown)


def test_the_gallery_shows_what_its_command_draws() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    command = (root / "studies" / "gallery.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "([a-z-]+)": ', command, flags=re.MULTILINE)
    assert len(names) > 15 and set(re.findall(r"images/gallery/([a-z-]+)\.png", page)) == set(names)
    assert {path.stem for path in (root / "docs" / "images" / "gallery").glob("*.png")} == set(names)


# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB
BLINDNESS = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour: str, kind: str) -> np.ndarray:
    """A colour in CIELAB, as somebody sees it; 2 is about the smallest difference that anybody notices."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(BLINDNESS[kind]) @ linear, 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ seen / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_stay_apart_for_every_kind_of_colour_vision(kind: str) -> None:
    for palette in (CLASS_COLOURS, LINE_COLOURS):
        seen = [lab(colour, kind) for colour in palette]
        apart = [np.linalg.norm(a - b) for place, a in enumerate(seen) for b in seen[:place]]
        assert min(apart) > 15, kind
        assert min(np.linalg.norm(one - lab("#ffffff", kind)) for one in seen) > 30
    assert np.linalg.norm(lab(RIGHT, kind) - lab(WRONG, kind)) > 50
    assert np.linalg.norm(lab("#CC79A7", "deuteranopia") - lab("#8A8F98", "deuteranopia")) < 5  # what was wrong once


def test_colour_is_never_alone(pictures: dict[str, Picture]) -> None:
    """What a legend tells apart differs in dash, symbol, filling or hatching too."""
    for title, picture in pictures.items():
        if title == "beside-paper":  # its shapes are graphs, so that fourteen systems are colour and filling
            continue
        for panel in picture.chart().panels:
            looks: dict[tuple[Any, ...], str] = {}
            for mark in panel.marks:
                if not isinstance(mark, Line | Dots | Bars) or not mark.legend:
                    continue
                if isinstance(mark, Line):
                    look_of: tuple[Any, ...] = ("line", mark.dash, mark.symbol if mark.dots else None)
                elif isinstance(mark, Dots):
                    look_of = ("dots", mark.symbol, mark.filled)
                else:
                    look_of = ("bars", mark.pattern)
                other = looks.setdefault(look_of, mark.name)
                assert other == mark.name, f"{title}: {other} and {mark.name} differ by colour alone"
