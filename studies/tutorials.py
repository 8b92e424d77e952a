"""Run the tutorials and keep what they say: ``examples/tutorials/NAME.py`` becomes ``docs/tutorials/NAME.ipynb``.

    python studies/tutorials.py             # all of them
    python studies/tutorials.py digits      # one

A source is a script in cells: ``# %% [markdown]`` begins a text, ``# %%`` begins code, and what follows ``# %%`` on its
line describes the picture that the cell draws. A cell shows what it prints and the value of its last expression, as in
Jupyter. A comment ``# needs: more/facebook`` before the first cell names data in ``$GRAPHSDE_DATA`` (or in
``../shared/data``) without which a tutorial is left as it is. The notebooks are committed, and the site shows them as
they are: building it runs nothing.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES, NOTEBOOKS = ROOT / "examples" / "tutorials", ROOT / "docs" / "tutorials"
CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?(?P<title>.*)\n", flags=re.MULTILINE)
NEEDS = re.compile(r"^# needs: (\S+)$", flags=re.MULTILINE)
DPI = 110


@dataclass(frozen=True)
class Cell:
    """A text or a piece of code.

    Args:
        source: without the line that begins it.
        title: what its picture shows, in words; empty for a text.
        code: whether it is run.
    """

    source: str
    title: str
    code: bool


def read_cells(text: str) -> list[Cell]:
    """Cells of a source; what stands before the first one is not part of the tutorial."""
    begins = list(CELL.finditer(text))
    cells = []
    for begin, end in zip(begins, [*(one.start() for one in begins[1:]), len(text)], strict=True):
        body = text[begin.end() : end].strip("\n")
        if begin["markdown"]:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        cells.append(Cell(body, begin["title"].strip(), not begin["markdown"]))
    return cells


def missing(text: str) -> Path | None:
    """The data that a tutorial needs and that is not on this machine."""
    need = NEEDS.search(text)
    place = data_folder() / need[1] if need else None
    return None if place is None or place.exists() else place


def data_folder() -> Path:
    return Path(os.environ.get("GRAPHSDE_DATA") or ROOT.parent / "shared" / "data")


def run_cell(cell: Cell, names: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """What a cell prints and shows, in the form that notebooks keep."""
    tree = ast.parse(cell.source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, title, "exec"), names)  # noqa: S102  (our own source)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), title, "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(said.getvalue())})
    if value is not None:
        data, metadata = shown(value, cell.title)
        outputs.append({"output_type": "display_data", "data": data, "metadata": metadata})
    return outputs


def shown(value: Any, title: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A value as Jupyter would show it: a figure as PNG, HTML where it has any, else its text."""
    if hasattr(value, "savefig"):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", dpi=DPI)
        if not title:
            raise SystemExit("a cell that draws says what the picture shows: # %% Error rate against coverage")
        return {"image/png": base64.b64encode(buffer.getvalue()).decode()}, {"alt": title}
    data: dict[str, Any] = {"text/plain": lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = lines(value._repr_html_())
    return data, {}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook(name: str, cells: list[Cell]) -> dict[str, Any]:
    """Run cells one after the other in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made, before = [], os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for place, cell in enumerate(cells):
                same = {"id": f"{name}-{place}", "metadata": {}, "source": lines(cell.source)}
                if cell.code:
                    print(f"{name}: cell {place + 1} of {len(cells)}", file=sys.stderr, flush=True)
                    outputs = run_cell(cell, names, f"{name}, cell {place + 1}")
                    made.append({"cell_type": "code", "execution_count": None, **same, "outputs": outputs})
                else:
                    made.append({"cell_type": "markdown", **same})
        finally:
            os.chdir(before)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="tutorials to run; all of them unless said")
    names = parser.parse_args().names or sorted(path.stem for path in SOURCES.glob("*.py"))
    os.environ["GRAPHSDE_DATA"] = str(data_folder())
    for name in names:
        text = (SOURCES / f"{name}.py").read_text(encoding="utf-8")
        if (place := missing(text)) is not None:
            print(f"{name}: left as it is, {place} is not on this machine", file=sys.stderr)
            continue
        made = json.dumps(notebook(name, read_cells(text)), indent=1, ensure_ascii=False)
        (NOTEBOOKS / f"{name}.ipynb").write_text(made + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
