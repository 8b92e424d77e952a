"""The documentation site: built strictly, complete, closed in itself, every link leading somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import graphsde

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mkdocs", reason="the site needs the extra 'docs'")


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.loaded, self.anchors = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and found.get("href"):
            self.links.add(str(found["href"]))
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.add(str(found["src"]))
        if tag == "link" and found.get("rel") != "canonical" and found.get("href"):
            self.loaded.add(str(found["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY_URL": "", "SITE_URL": ""}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder


@pytest.fixture(scope="module")
def site_pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site: Path, site_pages: dict[Path, Page]) -> None:
    lost = []
    for path, page in site_pages.items():
        if path.name == "404.html":  # its addresses are from the root of the host
            continue
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = site_pages.get(target)
            if not target.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                lost.append(f"{path.relative_to(site)}: {link}")
    assert not lost, "\n".join(sorted(set(lost)))


def test_nothing_is_loaded_from_elsewhere(site: Path, site_pages: dict[Path, Page]) -> None:
    assert not {one for page in site_pages.values() for one in page.loaded if urlsplit(one).netloc}
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_public_name_has_its_place(site_pages: dict[Path, Page]) -> None:
    anchors = {one for path, page in site_pages.items() if path.parent.name == "api" for one in page.anchors}
    assert {f"graphsde.{name}" for name in graphsde.__all__} <= anchors
    asked = re.findall(
        r"^::: (\S+)$",
        "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")),
        flags=re.MULTILINE,
    )
    assert sorted(asked) == sorted(f"graphsde.{name}" for name in graphsde.__all__)


def test_docstrings_are_readable(site: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    assert not re.findall(r":(?:func|class|math|meth|data|attr):", text)
    assert ".. math::" not in text and 'class="formula"' in text
    assert "width of the hidden layer" in text  # the settings of a model, which help() shows


def test_notebooks_are_pages(site: Path) -> None:
    page = (site / "tutorials" / "digits.html").read_text(encoding="utf-8")
    assert "Guarantee certified" in page and 'src="digits-1.png"' in page
    assert (site / "tutorials" / "digits.ipynb").is_file() and (site / "tutorials" / "digits-1.png").is_file()


def test_links_out_of_the_docs() -> None:
    from studies.site_pages import relinked, spaced

    text = "[a](../examples/01_own_files.py) [b](model.md#x) [c](../SECURITY.md) [d](../configs) [e](https://a.b/c)"
    here = relinked(text, "docs/start.md", "start.md", "")
    assert '<a href="repository/examples/01_own_files.py">a</a>' in here and " d " in here
    assert "[b](model.md#x)" in here and "[c](security.md)" in here and "[e](https://a.b/c)" in here
    there = relinked(text, "docs/results/x.md", "results/x.md", "https://git.example/o/n/")
    assert "[a](../examples" in there  # no such file: mkdocs says so
    there = relinked(text, "docs/start.md", "start.md", "https://git.example/o/n/")
    assert "[a](https://git.example/o/n/blob/main/examples/01_own_files.py)" in there
    assert "[d](https://git.example/o/n/tree/main/configs)" in there
    assert relinked("[x](docs/decide.md) [n](docs/tutorials/a.ipynb)", "CONTRIBUTING.md", "contributing.md", "") == (
        "[x](decide.md) [n](tutorials/a.md)"
    )
    assert spaced("text\n* a\n* b\n\nmore\n| x |\n|---|") == "text\n\n* a\n* b\n\nmore\n\n| x |\n|---|"


def test_the_page_on_guarantees_tells_what_its_journal_holds() -> None:
    page = " ".join((ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").split())
    found = json.loads((ROOT / "results" / "guarantees.json").read_text(encoding="utf-8"))
    one, draws, ood = found["threshold"], found["draws"], found["ood"]
    wrong, accepted = one["wrong_in_calibration"]
    for sentence in (
        f"{found['graph']['train']} training and {found['graph']['val']} validation images",
        f"Here {one['accepted']:.0%}",
        f"Of the {accepted} calibration nodes among them {wrong} were wrong",
        f"the bound is {one['upper_bound']:.1%}",
        f"above the limit in {draws['certified']['above_the_limit']:.1%} of the draws",
        f"{draws['expected']['mean_error']:.2%} are wrong on average",
        f"{draws['easy nodes only']['mean_error']:.1%} are wrong, in every draw",
        f"at 90 % a set has {found['sets']['0.9']['size']:.1f} classes",
        f"{ood['false_alarms']:.1%} of the other test images are flagged",
        f"Of the {ood['nodes'][1]} eights, {ood['unseen_flagged']:.1%} are flagged",
    ):
        assert sentence.replace("%", " %").replace("  %", " %") in page, sentence
    assert draws["certified"]["above_the_limit"] <= 0.05 and draws["easy nodes only"]["above_the_limit"] == 1
