"""Docstrings as the site shows them: an extension of griffe, which reads the sources for mkdocstrings.

* A model's docstring is that of ``help(gs.GCN)``, which lists its settings.
* ``:func:`` and its like become links where the name is public, and code elsewhere.
* ``:math:`` becomes a drawing by matplotlib inside the page: no script, nothing loaded.
"""

from __future__ import annotations

import html
import importlib
import inspect
import re
from functools import cache
from typing import Any

import griffe
import numpy as np

SIZE = 10.0
_ROLE = re.compile(r":(?:func|class|meth|attr|data|mod):`~?([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_DISPLAYED = re.compile(r"^( *)\.\. math::((?:.+|\n(?! *\n))+)$", flags=re.MULTILINE)
_SETTINGS = re.compile(r"^(Settings, as keywords[^\n]*):\n((?: {4}[^\n]*\n?)+)", flags=re.MULTILINE)
# what TeX knows and matplotlib writes otherwise
_WRITTEN = {
    r"\\[td]frac": r"\\frac",
    r"\\frac(\w)(?=[\w{])": r"\\frac{\1}",
    r"\\frac(\{\w\})(\w)": r"\\frac\1{\2}",
    r"\\sqrt (\w)": r"\\sqrt{\1}",
    r"\\(le|ge)(?![a-zA-Z])": r"\\\1q",
    r"\\iff(?![a-zA-Z])": r"\\Leftrightarrow",
    r"\\[lr]Vert(?![a-zA-Z])": r"\\|",
    r"\\[bB]ig+[lr]?(?![a-zA-Z])": "",
}


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it has been read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if obj.is_class and obj.path.startswith("graphsde.models."):
            made = inspect.getdoc(getattr(importlib.import_module(obj.module.path), obj.name, None)) or ""
            text = made if _SETTINGS.search(made) else text
        obj.docstring.value = readable(text)


def readable(text: str) -> str:
    """A docstring of this package as Markdown with sections that griffe knows."""
    text = _SETTINGS.sub(lambda found: f"**{found[1]}**\n\n{_as_list(found[2])}\n", text)
    text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
    text = _DISPLAYED.sub(lambda found: f"{found[1]}:math:`{' '.join(found[2].split())}`", text)
    text = _MATH.sub(lambda found: drawn(" ".join(found[1].split())), text)
    return _ROLE.sub(_link, text)


def _as_list(block: str) -> str:
    """Settings as a list; lines of a longer explanation are indented further."""
    rows = re.sub(r"\n {8}", " ", block)
    return re.sub(r"^ {4}(\w+): ", r"* `\1`: ", rows, flags=re.MULTILINE)


def _link(found: re.Match[str]) -> str:
    name = found[1].removeprefix("graphsde.")
    return f"[`{name}`][graphsde.{name}]" if name in _public() else f"`{name}`"


@cache
def _public() -> frozenset[str]:
    import graphsde

    return frozenset(graphsde.__all__)


@cache
def drawn(formula: str) -> str:
    """A formula as SVG in the size and colour of the text; as code where matplotlib does not know a word of it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import text_to_path

    known = re.sub(r"\\text\{([^}]*)\}", lambda found: rf"\mathrm{{{found[1]}}}".replace(" ", r"\ "), formula)
    for pattern, written in _WRITTEN.items():
        known = re.sub(pattern, written, known)
    font = FontProperties(math_fontfamily="cm", size=SIZE)
    try:
        points, codes = text_to_path.get_text_path(font, f"${known}$", ismath=True)
        width, height, descent = text_to_path.get_text_width_height_descent(f"${known}$", font, True)
    except ValueError:
        return f"`{formula}`"
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
    path = Path(np.asarray(points) * (1, -1) * SIZE / text_to_path.FONT_SCALE, codes)
    steps = (
        letters[code] + " ".join(f"{one:.2f}" for one in xy if code != Path.CLOSEPOLY)
        for xy, code in path.iter_segments(simplify=False)
    )
    place = f"height:{height / SIZE:.2f}em;vertical-align:{-descent / SIZE:.2f}em"
    return (
        f'<svg class="formula" role="img" aria-label="{html.escape(formula)}" '
        f'viewBox="0 {descent - height:.2f} {width:.2f} {height:.2f}" '
        f'style="{place}"><path d="{"".join(steps)}"/></svg>'
    )
