"""Pictures of every panel of the page, at the width of a desk and of a phone, for docs/app.md.

``python studies/page_screenshots.py [--out docs/images/page] [--runs FOLDER]`` fits three small runs where the folder
has none: a shop that is made up here (products with names and words), patients with a number to predict, and
handwritten digits, the newest. Needs the extra ``app``, playwright, Pillow and Chromium.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests" / "view" / "app"))  # one way to start a browser and a server is enough

from page_driver import Visit, browser, server  # noqa: E402

from graphsde.datasets.source import GraphSource  # noqa: E402
from graphsde.runs.fit import FitRequest, fit_run  # noqa: E402
from graphsde.runs.folder import RunFolder  # noqa: E402

WIDTHS = {"desk": (1280, 800), "phone": (390, 844)}
MOST_BYTES = 150_000
WORDS = {
    "kitchen": ["steel", "pan", "lid", "oven", "non-stick", "whisk", "bowl", "recipe", "handle", "ceramic", "knife"],
    "garden": ["seed", "soil", "rake", "outdoor", "hose", "pot", "compost", "shears", "lawn", "watering", "bulb"],
    "office": ["paper", "desk", "ink", "stapler", "folder", "pen", "lamp", "keyboard", "screen", "chair", "clip"],
}
COMMON = ["new", "blue", "small", "set", "sturdy", "gift", "quality", "price", "colour", "easy", "fast", "design"]
THINGS = {
    "kitchen": ("Pan", "Whisk", "Kettle", "Bowl", "Knife", "Grater"),
    "garden": ("Rake", "Pot", "Hose", "Shears", "Trowel", "Lantern"),
    "office": ("Lamp", "Folder", "Stapler", "Chair", "Notebook", "Tray"),
}
MAKERS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel", "Ivy", "Juniper", "Kauri", "Larch")


def write_shop(folder: Path, size: int = 360) -> Path:
    """Products with a name, words of their descriptions, and the kind of each; bought together mostly within a kind."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    kinds = list(WORDS)
    kind = rng.integers(len(kinds), size=size)
    columns = sorted({word for words in WORDS.values() for word in words} | set(COMMON))
    with open(folder / "nodes.csv", "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "name", "label", *columns])
        for node in range(size):
            mixed = rng.random() < 0.5  # some descriptions could be of either of two kinds
            own = WORDS[kinds[kind[node]]] + (WORDS[kinds[rng.integers(len(kinds))]] if mixed else [])
            has = set(rng.choice(own, 3, replace=False)) | set(rng.choice(COMMON, 3, replace=False))
            maker = MAKERS[node % len(MAKERS)]
            name = f"{maker} {rng.choice(THINGS[kinds[kind[node]]])} {node // len(MAKERS) + 1}"
            label = kinds[kind[node]] if rng.random() < 0.6 else ""
            rows.writerow([f"p{node:03}", name, label, *(int(word in has) for word in columns)])
    with open(folder / "edges.csv", "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["source", "target"])
        for node in range(size):
            alike = rng.permutation(np.flatnonzero(kind == kind[node]))[:2].tolist()
            others = [*alike, *rng.integers(size, size=2).tolist()]
            rows.writerows([f"p{node:03}", f"p{other:03}"] for other in others if other != node)
    return folder


def fit_runs(folder: Path) -> None:
    """The newest last: the page opens on it."""
    shop = folder.parent / "shop"
    if not shop.is_dir():
        write_shop(shop)
    named = GraphSource(str(shop), options={"node_name": "name"})
    for name, source, model, settings in (
        ("shop", named, "gcn", {"epochs": 60}),
        ("patients", GraphSource("diabetes"), "gcn", {"epochs": 60}),
        ("digits", GraphSource("digits"), "lgnsde", {"epochs": 40}),
    ):
        if not RunFolder(folder / name).finished:
            fit_run(FitRequest(source, model, settings, 0, 64), RunFolder(folder / name))


def choose_run(visit: Visit, name: str) -> None:
    """By the list at the side, which a phone keeps folded away."""
    page = visit.page
    opener = page.get_by_test_id("stExpandSidebarButton")
    if opener.count() and opener.first.is_visible():
        opener.first.click()
    page.get_by_test_id("stSidebar").get_by_test_id("stSelectbox").locator("input").first.click()
    page.get_by_role("option", name=name, exact=True).click()
    visit.settled()
    if page.viewport_size["width"] < 700:
        page.get_by_test_id("stSidebarCollapseButton").locator("button").first.click()
        page.wait_for_timeout(500)


def _opened(visit: Visit) -> None:
    visit.sees("of 1,797 nodes")
    visit.page.locator('[data-testid="stDataFrame"] canvas').first.wait_for()


def _data(visit: Visit) -> None:
    visit.go("Data")
    visit.sees("No problems: a model can be fitted.")


def _node(visit: Visit) -> None:
    visit.go("Nodes")
    visit.page.get_by_label("Open a node by its id").fill("1603")
    visit.page.keyboard.press("Enter")
    visit.page.get_by_role("heading", name="Node 1603", exact=True).wait_for()
    visit.page.get_by_role("heading", name="Node 1603", exact=True).evaluate(
        "one => one.scrollIntoView({block: 'center'})"
    )
    visit.page.mouse.move(0, 0)


def _graph(visit: Visit) -> None:
    visit.go("Graph")
    visit.dots().first.wait_for()


def _decide(visit: Visit) -> None:
    visit.go("Decide")
    visit.sees("Which limits hold")
    visit.page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()


def _compare(visit: Visit) -> None:
    visit.go("Compare")
    visit.sees("Errors that remain")
    visit.page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()


def _label(visit: Visit) -> None:
    choose_run(visit, "shop")
    visit.go("Label")
    visit.page.get_by_role("heading", name="Which class is node").wait_for()


def _label_answered(visit: Visit) -> None:
    visit.press("garden", exact=True)
    visit.sees("Labels given: 1")
    visit.page.get_by_text("Show what the model thinks").first.click()
    visit.sees("The model says")


def _number(visit: Visit) -> None:
    choose_run(visit, "patients")
    visit.go("Nodes")
    visit.page.get_by_label("Open a node by its id").fill("17")
    visit.page.keyboard.press("Enter")
    heading = visit.page.get_by_role("heading", name="Node 17", exact=True)
    heading.wait_for()
    heading.evaluate("one => one.scrollIntoView({block: 'center'})")


def _label_number(visit: Visit) -> None:
    visit.go("Label")
    visit.page.get_by_role("heading", name="What is the value of node").wait_for()


SHOTS: dict[str, Callable[[Visit], None]] = {
    "opened": _opened,
    "data": _data,
    "node": _node,
    "graph": _graph,
    "decide": _decide,
    "compare": _compare,
    "label": _label,
    "label-guess": _label_answered,
    "number": _number,
    "label-number": _label_number,
}


def save(visit: Visit, path: Path) -> None:
    """With a palette where that is needed to stay small: it shifts colours a little."""
    from PIL import Image

    visit.settled()
    visit.page.wait_for_timeout(700)  # pictures fade in
    image = Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB")
    image.save(path, optimize=True)
    for colours in (256, 128, 64):
        if path.stat().st_size <= MOST_BYTES:
            break
        image.quantize(colours).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


@contextmanager
def folder_of(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="graphsde-page-") as made:
        yield Path(made) / "runs"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=HERE / "docs" / "images" / "page")
    words.add_argument("--runs", type=Path, help="where the runs are kept; a temporary folder if not given")
    words.add_argument("--tall", action="store_true", help="the whole panel, also what is below the fold")
    given: Any = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with folder_of(given.runs) as runs:
        fit_runs(runs)
        with server(runs) as address, browser() as chromium:
            for width, (across, down) in WIDTHS.items():
                for waiting in runs.glob(".labels/*"):
                    waiting.unlink()
                visit = Visit(chromium, address, across, 2600 if given.tall else down)
                visit.page.set_default_timeout(60_000)
                visit.open()
                for name, prepare in SHOTS.items():
                    prepare(visit)
                    save(visit, given.out / f"{name}-{width}.png")
                visit.page.close()


if __name__ == "__main__":
    main()
