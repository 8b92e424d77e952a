"""The page in a real browser: from data to decisions and labels, and what it does with hostile visitors' files."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_names import HOSTILE
from page_driver import Visit, browser, server

from graphsde.datasets.benchmarks import load
from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder

# `--dist loadfile` keeps them in one worker: two browsers and two servers on two cores only wait for each other


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def folder(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser") / "runs"


@pytest.fixture(scope="module")
def address(chromium: Any, folder: Path) -> Iterator[str]:
    with server(folder) as found:
        yield found


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_from_data_to_decisions_and_labels(chromium: Any, address: str, folder: Path) -> None:
    visit = Visit(chromium, address)
    page = visit.page
    visit.open()
    visit.sees("No problems: a model can be fitted.")

    # fit, watched
    page.get_by_text("More settings").click()
    page.get_by_label("Maximum epochs").fill("12")
    visit.press("Fit the model")
    visit.sees(re.compile(r"Epoch \d+ of at most 12"))
    visit.sees("Fitted. Look at")
    assert RunFolder(folder / "digits").finished

    # a node by its id, then one of its neighbours
    visit.go("Nodes")
    visit.sees("1,797 of 1,797 nodes")
    page.get_by_label("Open a node by its id").fill("5")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Node 5", exact=True).wait_for()
    visit.sees(re.compile("How the probabilities arise along (sample paths|the path)"))
    neighbour = page.get_by_role("button", name=re.compile(r"^\d+$")).first
    wanted = neighbour.inner_text()
    neighbour.click()
    page.get_by_role("heading", name=f"Node {wanted}", exact=True).wait_for()

    # a node by a click into the picture
    visit.go("Graph")
    dots = visit.dots()
    dots.first.wait_for()
    visit.settled()
    heading = page.get_by_role("heading", name=re.compile(rf"^Node (?!{wanted}$)\d+$"))
    for _ in range(100):  # on a busy machine the picture may still move under the mouse
        box = dots.nth(100).bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(2000)
        if heading.count():
            break
    heading.wait_for()

    # the slider, then a click into the frontier
    visit.go("Decide")
    visit.sees("guaranteed error at most")
    page.get_by_role("slider").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")  # 7.5 %, 10 %
    page.locator(".gs-card b").get_by_text("10%", exact=True).first.wait_for()
    visit.sees("Which limits hold")
    visit.settled()
    click_the_strictest_limit(visit)
    page.get_by_role("slider").focus()
    for _ in range(7):
        page.keyboard.press("ArrowRight")  # from 1 % back to 20 %
    page.locator(".gs-card b").get_by_text("20%", exact=True).first.wait_for()
    visit.settled()
    page.get_by_text("List nodes whose label is known as well").click()
    review = table(visit.download("Review list (CSV)"))
    assert [int(row["rank"]) for row in review] == list(range(1, len(review) + 1)) and review[0]["reason"]
    decisions = table(visit.download("Decisions (CSV)"))
    assert len(decisions) == 1797 and {"accept", "ood"} <= {row["action"] for row in decisions}

    # five labels
    visit.go("Label")
    graph = load("digits")
    assert graph.labels is not None
    given = {}
    for number in range(5):
        heading = page.get_by_role("heading", name="Which class is node")
        heading.wait_for()
        asked = heading.inner_text()
        node = int(re.findall(r"\d+", asked)[0])
        assert page.get_by_text("The model says").count() == page.locator(".gs-bar").count() == 0
        given[node] = graph.class_names[graph.labels[node]]
        visit.press(given[node], exact=True)
        visit.sees(f"Labels given: {number + 1}")
        page.get_by_role("heading", name=asked, exact=True).wait_for(state="hidden")
    visit.sees("begins here once the model has learned some")
    page.get_by_text("Show what the model thinks").first.click()
    visit.sees("The model says")
    visit.press("Learn from 5 labels")
    visit.sees("5 new labels in round 1")
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()  # the curve has begun to move
    visit.sees("205")
    labels = table(visit.download("All labels (labels.csv)"))
    assert {int(row["id"]): row["label"] for row in labels} == given and {row["round"] for row in labels} == {"1"}

    visit.go("Compare")
    visit.sees("Errors that remain when only the most certain nodes are answered")
    visit.harmless()
    page.close()


def click_the_strictest_limit(visit: Visit) -> None:
    """A click on the leftmost point of the frontier moves the slider to 1 %."""
    page = visit.page
    points = page.locator(".js-plotly-plot").first.locator(".scatterlayer .point")
    limit = page.get_by_test_id("stSliderThumbValue")
    points.first.wait_for()
    for _ in range(100):  # on a busy machine the picture may still move under the mouse
        boxes = [one.bounding_box() for one in points.all()]
        box = min((one for one in boxes if one), key=lambda one: one["x"])
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(1500)
        if limit.inner_text().strip() == "1%":
            return
    pytest.fail(f"the limit is {limit.inner_text()}")


@pytest.fixture(scope="module")
def hostile_run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty nodes whose names, classes and columns attack whoever shows them."""
    data = tmp_path_factory.mktemp("hostile")
    classes = [HOSTILE[1], HOSTILE[30], HOSTILE[34]]
    with open(data / "nodes.csv", "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "label", HOSTILE[0], "kind"])
        for place, name in enumerate(HOSTILE):
            rows.writerow([name, classes[place % 3], place % 3 + place / 100, HOSTILE[place % 7]])
    with open(data / "edges.csv", "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["source", "target"])
        rows.writerows([name, HOSTILE[(place + 3) % 50]] for place, name in enumerate(HOSTILE))
    fit_run(FitRequest(GraphSource(str(data)), "gcn", {"epochs": 20}), RunFolder(folder / "hostile"))
    return data


def test_hostile_names_are_only_shown(chromium: Any, address: str, hostile_run: Path) -> None:
    visit = Visit(chromium, address)
    page = visit.page
    visit.open()  # on the newest run
    visit.sees("50 of 50 nodes")
    for name in (HOSTILE[1], HOSTILE[31]):
        page.get_by_label("Open a node by its id").fill(name)
        page.keyboard.press("Enter")
        page.locator(".gs-node h3").filter(has_text=name[:30]).wait_for()
        visit.settled()
    visit.go("Graph")
    dots = visit.dots()
    dots.first.wait_for()
    for place in (0, 20, 49):
        dots.nth(place).hover(force=True)
    visit.go("Label")
    page.get_by_role("heading", name="Which class is node").wait_for()
    visit.press(HOSTILE[1], exact=False)
    visit.sees("Labels given: 1")
    visit.settled()
    assert page.locator("a[href*='evil'], img[src*='evil'], a[href^='javascript']").count() == 0
    visit.go("Decide")
    visit.settled()
    visit.go("Compare")
    visit.settled()
    visit.go("Data")
    page.get_by_text("My own files").click()
    # the same graph as an upload, under a file name that attacks too
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file in ("nodes.csv", "edges.csv"):
            archive.write(hostile_run / file, file)
    name = "<img src=x onerror=window.__hit=1>.zip"
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "", "buffer": stream.getvalue()})
    visit.sees("No problems: a model can be fitted.")
    visit.settled()
    visit.harmless()
    page.close()


def upload(visit: Visit, file: Any) -> None:
    visit.open()
    visit.go("Data")
    visit.page.get_by_text("My own files").click()
    visit.page.locator("input[type=file]").set_input_files(file)


def test_too_large_uploads_and_bombs_are_refused_with_words(chromium: Any, address: str, tmp_path: Path) -> None:
    visit = Visit(chromium, address, width=390, height=844)  # a phone
    large = tmp_path / "large.npz"
    with open(large, "wb") as stream:
        stream.truncate(100 * 2**20)
    upload(visit, str(large))
    visit.sees(re.compile("50(.0)? ?MB or smaller"))

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nodes.csv", bytes(40_000_000))
    upload(visit, {"name": "bomb.zip", "mimeType": "", "buffer": stream.getvalue()})
    visit.sees("E-BOMB")
    visit.sees("would unpack to")

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("nodes.csv", f"id,label,price\na,x,1\nb,y,{HOSTILE[1]}\n")
        archive.writestr("edges.csv", "source,target\na,nobody <b>\n")
    upload(visit, {"name": "wrong.zip", "mimeType": "", "buffer": stream.getvalue()})
    visit.sees("E-EDGE-UNKNOWN")
    assert "Traceback" not in visit.page.content()
    visit.harmless()
    visit.page.close()


def test_the_token_is_asked_for(chromium: Any, folder: Path) -> None:
    token = "only-for-those-who-know"
    with server(folder, "--host", "127.0.0.1", GRAPHSDE_TOKEN=token) as guarded:
        visit = Visit(chromium, guarded)
        visit.open("nodes")
        visit.sees("Enter the token")
        visit.page.get_by_label("Token").fill("a guess")
        visit.press("Open the page")
        visit.sees("Wrong token.")
        visit.page.get_by_label("Token").fill(token)
        visit.press("Open the page")
        visit.page.get_by_test_id("stApp").wait_for()
        visit.page.close()
