from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest

from graphsde.graph.raw import Finding
from graphsde.view.report import ReportContent, render_report
from graphsde.view.report.figure_blocks import script_json

Make = Callable[..., ReportContent]

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "report\u202efdp.exe",
    "\x1b[31mred\x1b[0m",
    "n" * 10_000,
    '" onmouseover=alert(1) x="',
    "{{ 7 * 7 }}{% raw %}",
    "\ud800 lone surrogate",
]


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._code = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.found.append((tag, dict(attributes)))
        self._code = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._code = False

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.text.append(data)


@pytest.fixture
def hostile(make_content: Make) -> str:
    ids = np.array([HOSTILE[i % len(HOSTILE)] + f" {i}" for i in range(60)], dtype=object)
    ids[2::8] = [f"{i}\u202e" for i in range(len(ids[2::8]))]
    finding = Finding(HOSTILE[0], "warning", HOSTILE[1], 3, tuple(HOSTILE), HOSTILE[5])
    return render_report(
        make_content(
            classes=len(HOSTILE),
            node_ids=ids,
            class_names=tuple(HOSTILE),
            title=HOSTILE[1],
            findings=[finding],
            metrics={HOSTILE[0]: 1.0, HOSTILE[1]: 2.0},
            model_name=HOSTILE[1],
            model_settings={name: {name: name} for name in HOSTILE},
            split=HOSTILE[0],
            facts={name: name for name in HOSTILE},
        )
    )


def test_hostile_names_make_no_elements(hostile: str, make_content: Make) -> None:
    ordinary = Elements(render_report(make_content())).found
    found = Elements(hostile).found
    assert {tag for tag, _ in found} <= {tag for tag, _ in ordinary} | {"details", "summary", "tr", "code"}
    assert not [tag for tag, _ in found if tag == "img"]
    scripts = [a.get("type") for tag, a in found if tag == "script"]
    assert scripts == [a.get("type") for tag, a in ordinary if tag == "script"]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]


def test_hostile_names_are_shown_as_text(hostile: str) -> None:
    text = "".join(Elements(hostile).text)
    assert "<img src=x onerror=alert(1)>" in text
    assert "{{ 7 * 7 }}" in text and "49" not in Elements(hostile).text
    assert "\\u202e" in text and "\\x1b[31mred" in text


def test_no_control_or_bidirectional_character_is_left(hostile: str) -> None:
    own_part = hostile.split("<footer>")[0]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\ud800-\udfff]", own_part)
    hostile.encode("utf-8")


def test_long_names_are_cut(hostile: str) -> None:
    assert "n" * 199 in hostile  # as much as a reader can use
    assert "n" * 201 not in hostile


def test_nothing_is_fetched(hostile: str, make_content: Make) -> None:
    for html in (hostile, render_report(make_content(image=True))):
        for tag, attributes in Elements(html).found:
            assert tag not in ("link", "iframe", "object", "embed", "base", "form", "video", "audio"), tag
            for name, value in attributes.items():
                if name in ("src", "href", "srcset", "action", "data", "poster"):
                    assert (value or "").startswith(("#", "data:image/png;base64,")), (tag, name, value)
                if name == "style":
                    assert "url(" not in (value or "")
        styles = re.findall("<style>(.*?)</style>", html, re.DOTALL)
        assert styles and not any("url(" in style or "@import" in style for style in styles)


def test_policy_allows_exactly_the_scripts_in_the_page(make_content: Make) -> None:
    html = render_report(make_content())
    policy = next(a["content"] for tag, a in Elements(html).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    for rule in ("default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'"):
        assert rule in policy
    assert "unsafe-eval" not in policy and "http" not in policy
    scripts = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(digests) == 2
    assert re.findall("'sha256-([^']+)'", policy) == digests


def test_policy_comes_before_anything_that_could_run(make_content: Make) -> None:
    tags = [tag for tag, _ in Elements(render_report(make_content())).found]
    assert tags.index("meta") + 1 < min(tags.index("script"), tags.index("style"))


def test_script_json_can_not_be_left() -> None:
    import json

    value = {"name": "</script><!--<script>&\u2028", "x": [1.5, None]}
    text = script_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value
    with pytest.raises(ValueError):
        script_json(float("nan"))
