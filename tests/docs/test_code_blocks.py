"""Every code block of the documentation runs, or says why not."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from code_blocks import PARSED_ONLY, ROOT, Block, blocks, every_block, pages, words

import graphsde as gs
from cli_support import graphsde
from graphsde.cli.app import app

PLACES = {"GRAPH": "shop", "RUN": "runs/shop", "RUNS": "runs", "BENCH": "benches/standard", "DIR": "figures"}
"""What stands for a name of the reader's own."""
GRAPH_OF = {"runs/digits": "digits", "runs/cora": "cora", "runs/fb": "facebook", "runs/lgnsde": "diabetes"}
"""Runs that a page takes for granted, and the graph they are of; any other is of the shop."""
MODEL_OF = {"runs/graph-gp": ("diabetes", "graph-gp")}


@pytest.fixture(scope="module")
def shop_maker() -> Any:
    spec = importlib.util.spec_from_file_location("own_files", ROOT / "examples" / "01_own_files.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.write_shop


def write_facebook(folder: Path, pages_: int = 90) -> None:
    """Files as the Facebook pages were published: three classes, words by number, one column to be named."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, pages_)
    with (folder / "target.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "facebook_id", "page_name", "page_type"])
        for i, kind in enumerate(kinds.tolist()):
            rows.writerow([i, 10**9 + i, f"page {i}", ["company", "politician", "tvshow"][kind]])
    edges = [(i, int(j)) for i in range(pages_) for j in rng.choice(np.flatnonzero(kinds == kinds[i]), 3) if i != j]
    (folder / "edges.csv").write_text("id_1,id_2\n" + "".join(f"{i},{j}\n" for i, j in edges))
    told = {str(i): [3 * word + kind for word in range(6)] for i, kind in enumerate(kinds.tolist())}
    (folder / "features.json").write_text(json.dumps(told))


@pytest.fixture
def workplace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop_maker: Any, short_trainings: None, small_benchmarks: None
) -> Path:
    """A folder with what the pages speak of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    shop_maker(tmp_path / "shop", items=240)
    write_facebook(tmp_path / "facebook")
    (tmp_path / "answers.csv").write_text("id,label,rank,predicted\n3,3,1,3\n5,5,2,5\n")
    (tmp_path / "bad.csv").write_text("id,label\n3,12\n")
    return tmp_path


def names_given(page: Path, folder: Path) -> dict[str, Any]:
    """Names that a page uses without having made them, as its prose does."""
    graph = gs.read(folder / "shop")
    model = gs.GCN(epochs=3).fit(graph)
    given: dict[str, Any] = {"gs": gs, "graph": graph, "model": model, "prediction": model.predict(graph)}
    if page.name == "own-models.md":
        from sklearn.ensemble import RandomForestClassifier
        from torch_geometric.nn import GCN as PygGCN

        digits = gs.split(gs.load("digits"), "fractions")
        data = gs.to_pyg(digits)
        train = digits.train_mask
        forest = RandomForestClassifier(5, random_state=0).fit(digits.features[train], digits.labels[train].astype(str))
        logits = np.random.default_rng(0).normal(size=(digits.num_nodes, digits.num_classes))
        given |= {"module": PygGCN(64, 8, 2, 10), "data": data, "graph": digits, "X": digits.features, "forest": forest}
        given |= {"logits": logits, "hidden": logits, "mean": logits[:, 0], "std": np.ones(len(logits))}
    return given


def prepared(parts: list[str]) -> None:
    """Make the runs and the files of answers that a command reads and that its page takes for granted."""
    for before, word in pairwise(parts):
        if not word.startswith("runs/") or before in ("--out", "--in") or parts[1] == "fit" or Path(word).suffix:
            continue
        if not (Path(word) / "model.json").is_file():
            graph, model = MODEL_OF.get(word, (GRAPH_OF.get(word, "shop"), "gcn"))
            read = ["--read", "label=page_type", "--read", "node_name=page_name"] if graph == "facebook" else []
            done = graphsde("fit", graph, *read, "--model", model, "--no-controls", "--out", word)
            assert done.exit_code == 0, done.output
    if parts[1] == "learn" and Path(parts[3]).name == "questions.csv":
        answered(Path(parts[3]))


def answered(questions: Path) -> None:
    """Fill in the column ``label`` with what was predicted, as a person would with what they know."""
    with questions.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with questions.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"label": row["predicted"]} for row in rows)


def parsed(parts: list[str]) -> None:
    """The command line knows the verb, its options and the types of their values."""
    group: Any = typer.main.get_command(app)
    with group.make_context("graphsde", [], resilient_parsing=True) as context:
        name, verb, rest = group.resolve_command(context, parts[1:])
        assert verb is not None
        verb.make_context(name, rest, parent=context)


def run_command(command: str, printed: str, *, run: bool) -> None:
    environment, parts = words(command)
    parts = [PLACES.get(word, word) for word in parts]
    if parts[0] != "graphsde":
        if run:
            subprocess.run(parts, check=True, capture_output=True)
        return
    if not run or parts[1] in PARSED_ONLY or PLACES["BENCH"] in parts:
        parsed(parts)
        return
    prepared(parts)
    done = graphsde(*parts[1:], env={**os.environ, **environment})
    code = re.match(r"E-[A-Z-]+", printed)
    if code:
        assert done.exit_code != 0 and code[0] in done.output, f"{command}\n{done.output}"
    else:
        assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception!r}"


def run_block(page: Path, block: Block, names: dict[str, Any]) -> None:
    where = f"{page.relative_to(ROOT)}, line {block.line}"
    if block.info == "python":
        code = compile("\n" * block.line + block.body, str(page.relative_to(ROOT)), "exec")
        if block.why_not is None:
            for run in re.findall(r'open_run\("(runs/[\w-]+)"', block.body):
                prepared(["graphsde", "report", run])
            exec(code, names)  # noqa: S102
    elif block.info == "yaml":
        assert isinstance(yaml.safe_load(block.body), dict), where
    elif block.info == "toml":
        assert tomllib.loads(block.body), where
    else:
        for command, printed in block.commands():
            run_command(command, printed, run=block.why_not is None)


@pytest.mark.parametrize(
    "page", [page for page in pages() if blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_block_of_a_page_runs(page: Path, workplace: Path) -> None:
    found = blocks(page)
    names = names_given(page, workplace) if any(one.info == "python" for one in found) else {}
    for block in found:
        run_block(page, block, names)


def test_no_block_is_left_out_in_silence() -> None:
    """Every fence is of a kind that is run, or holds a command that is, or is plainly something printed or drawn."""
    kinds = {"python", "yaml", "toml", "console", ""}
    for page, block in every_block():
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        assert block.info in kinds, f"{where}: a block of {block.info}"
        if block.info == "console":
            assert block.commands(), where
        if not block.commands() and block.info == "":
            assert not re.search(r"^(\$ )?(graphsde|python|import|from) ", block.body, flags=re.MULTILINE), where
        for command, _ in block.commands():
            first = words(command)[1][0]
            assert first in ("graphsde", "head") or block.why_not, f"{where}: {first} is not run, and nobody says why"


def test_all_fences_are_found() -> None:
    for page in pages():
        fences = len(re.findall(r"^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE))
        assert fences == 2 * len(blocks(page)), page


def test_a_broken_block_is_noticed(workplace: Path) -> None:
    with pytest.raises(AttributeError):
        run_block(ROOT / "README.md", Block(1, "python", "gs.reed('shop')\n", None, ""), {"gs": gs})
    with pytest.raises(AssertionError, match="No such option"):
        run_block(ROOT / "README.md", Block(1, "", "graphsde check shop --deeply\n", None, ""), {})
    with pytest.raises(Exception, match="No such option"):
        run_block(ROOT / "README.md", Block(1, "", "graphsde bench --datasett cora\n", None, ""), {})
    with pytest.raises(AssertionError):
        run_block(ROOT / "README.md", Block(1, "", "$ graphsde check shop\nE-EDGE\n", None, ""), {})
