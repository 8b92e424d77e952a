"""The tutorials run as they stand, and the committed notebooks are of the present sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studies import tutorials

from graphsde.sde.field import DRIFTS

NAMES = sorted(path.stem for path in tutorials.SOURCES.glob("*.py"))


def text_of(name: str) -> str:
    return (tutorials.SOURCES / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_of_its_source(name: str) -> None:
    kept = json.loads((tutorials.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert kept["nbformat"] == 4
    cells = tutorials.read_cells(text_of(name))
    made = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in kept["cells"]]
    assert made == [(cell.source, cell.code) for cell in cells], f"python studies/tutorials.py {name}"
    assert sum(bool(cell.get("outputs")) for cell in kept["cells"]) >= 3


# short trainings may accept nothing, so that there is nothing to take the mean of
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered in scalar divide")
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs(name: str, short_trainings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHSDE_DATA", str(tutorials.data_folder()))
    text = text_of(name)
    if (place := tutorials.missing(text)) is not None:
        pytest.skip(f"{place} is not on this machine")
    try:
        made = tutorials.notebook(name, tutorials.read_cells(text))
    finally:
        DRIFTS._entries.pop("pull", None)  # what a tutorial registers is forgotten
    assert [cell for cell in made["cells"] if cell["cell_type"] == "code" and cell["outputs"]]


def test_cells_and_what_they_show() -> None:
    text = "# nothing\n# %% [markdown]\n# # Title\n#\n# text\n\n# %% A picture\nx = 2\nprint('a')\nx + 1\n"
    cells = tutorials.read_cells(text)
    assert cells[0] == tutorials.Cell("# Title\n\ntext", "", False)
    assert cells[1:] == [tutorials.Cell("x = 2\nprint('a')\nx + 1", "A picture", True)]
    printed, value = tutorials.run_cell(cells[1], {}, "cell")
    assert printed["text"] == ["a\n"] and value["data"] == {"text/plain": ["3"]}
    assert tutorials.run_cell(tutorials.Cell("y = 1", "", True), {}, "cell") == []
    with pytest.raises(ZeroDivisionError):
        tutorials.run_cell(tutorials.Cell("1 / 0", "", True), {}, "cell")
