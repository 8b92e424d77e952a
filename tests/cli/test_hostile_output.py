"""No verb lets a control character from a file, a name or an argument through to the terminal."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import graphsde as gs
from graphsde.base.terminal import GuardedStream, guarded_output, printable, printable_json
from graphsde.cli.app import _wrong_usage_in_one_line, app
from graphsde.graph.checks import check
from graphsde.graph.raw import Finding

from support import block_graph

# clears the screen, sets the window's title, turns the direction of reading, the C1 form of the first, a forged line
EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\u2066\x9b31m\x7f\nE-FORGED: line\rend"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def graphsde(*words: object) -> Result:
    # color: the framework would otherwise take escape sequences out by itself, which it does not on a terminal
    return CliRunner().invoke(app, [str(word) for word in words], color=True)


def clean(result: Result) -> Result:
    assert not (result.exception and not isinstance(result.exception, SystemExit)), repr(result.exception)
    for text in (result.stdout, result.stderr):
        assert RAW.search(text) is None, ascii(text)
        assert not re.search("^E-FORGED", text, flags=re.MULTILINE), ascii(text)
    return result


def done(result: Result) -> Result:
    assert clean(result).exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    blocks = block_graph(per_class=100)
    named = gs.from_arrays(
        blocks.features,
        blocks.adjacency.matrix,
        labels=blocks.labels,
        node_ids=[f"node {i}{EVIL}" for i in range(blocks.num_nodes)],
        class_names=[f"class {c}{EVIL}" for c in "abc"],
        feature_names=[f"feature {i}{EVIL}" for i in range(8)],
        name=f"blocks{EVIL}",
        **{f"{name}_mask": mask for name, mask in blocks.masks.items()},
    )
    folder = tmp_path_factory.mktemp("hostile") / f"graph{EVIL.replace('/', '')}"
    gs.write_tables(named, folder, "parquet")
    return folder


@pytest.fixture(scope="module")
def run(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / f"run{EVIL}"
    shown = done(graphsde("fit", graph, "--model", "gcn", "--out", out, "--set", "epochs=5"))
    assert "\\x1b[2J" in shown.stdout  # shown, not swallowed
    return out


def test_check(graph: Path) -> None:
    assert "\\u202e" in done(graphsde("check", graph)).stdout
    json.loads(done(graphsde("check", graph, "--json")).stdout)


def test_verbs_on_a_run(run: Path, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / f"out{EVIL}"
    node = f"node 3{EVIL}"
    done(graphsde("fit", graph, "--model", "gcn", "--out", run, "--set", "epochs=5"))  # nothing to do
    done(graphsde("predict", run, "--out", out / "p.parquet"))
    done(graphsde("decide", run, "--out", out / "d.csv", "--max-error", 0.2, "--delta", 0.2))
    done(graphsde("explain", run, node))
    done(graphsde("report", run, "--out", out / "report.html", "--figures", out / "figures"))
    done(graphsde("ask", run, "--budget", 3, "--out", out / "questions.csv"))
    for words in (["evaluate"], ["doctor"], ["ask", "--budget", 3], ["explain", node]):
        verb, *more = words
        done(graphsde(verb, run, *more))
    told = json.loads(done(graphsde("explain", run, node, "--json")).stdout)
    assert told["run"] == str(run)  # escaped in the document, the same once it is read
    done(graphsde("doctor", run, "--json"))


def test_learn(run: Path, graph: Path, tmp_path: Path) -> None:
    table = pq.read_table(run / "predictions.parquet").to_pydict()
    unlabelled = [i for i, role in enumerate(table["split"]) if role == "test"][:2]
    answers = tmp_path / f"answers{EVIL}.parquet"
    from graphsde.io.table_export import write_table

    picked = {"id": [table["id"][i] for i in unlabelled], "label": [table["true_label"][i] for i in unlabelled]}
    write_table(picked, answers)
    done(graphsde("learn", run, answers, "--test-labels"))
    write_table({"id": [f"nobody{EVIL}"], "label": [f"none{EVIL}"]}, answers)
    assert clean(graphsde("learn", run, answers)).exit_code != 0


def test_bench_and_compare(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / f"bench{EVIL}"
    words = ["bench", "misclassification", "--datasets", graph, "--models", "label-propagation,gcn", "--seeds", 2]
    done(graphsde(*words, "--engine", "serial", "--set", "gcn.epochs=2", "--out", out))
    done(graphsde("compare", out))
    done(graphsde("compare", out, "--json"))
    done(graphsde("report", out))
    assert clean(graphsde("compare", out, "--pair", f"a{EVIL},b")).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        [EVIL],
        [f"--{EVIL}"],
        ["check", f"--{EVIL}"],
        ["check", f"/no/such{EVIL}"],
        ["check", "digits", EVIL],
        ["check", "digits", "--read", EVIL],
        ["check", "digits", "--read", f"{EVIL}=1"],
        ["fit", "digits", "--out", "x", "--seed", EVIL],
        ["fit", "digits", "--out", "x", "--model", EVIL],
        ["fit", "digits", "--out", "x", "--set", f"a=[{EVIL}"],
        ["ask", "x", "--budget", EVIL],
        ["evaluate", f"/no/such{EVIL}"],
        ["list", EVIL],
        ["compare", f"/no/such{EVIL}"],
        ["app", "--port", EVIL],
        ["app", "--host", EVIL],
        ["bench", EVIL, "--datasets", EVIL, "--models", EVIL, "--out", EVIL],
    ],
)
def test_wrong_usage_repeats_nothing_raw(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert clean(graphsde(*words)).exit_code != 0


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_program_itself_is_guarded(tmp_path: Path, debug: str) -> None:
    """In a process of its own: also what other libraries print, warnings and tracebacks."""
    lines = [
        "import logging, warnings, graphsde.cli.show",
        "evil = '\\x1b[2J\\u202e\\x9b'",
        "def rows_of(kind):",
        "    print('out' + evil)",
        "    warnings.warn('warn' + evil)",
        "    logging.getLogger('x').warning('log' + evil)",
        "    raise RuntimeError('raised' + evil)",
        "graphsde.cli.show.rows_of = rows_of",
    ]
    (tmp_path / "hostile_plugin.py").write_text("\n".join(lines))
    environment = {**os.environ, "GRAPHSDE_PLUGINS": "hostile_plugin", "PYTHONIOENCODING": "utf-8"}
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "GRAPHSDE_DEBUG": debug}
    command = [sys.executable, "-m", "graphsde", "list", "models"]
    ended = subprocess.run(command, capture_output=True, check=False, env=environment)
    told = ended.stdout.decode() + ended.stderr.decode()
    assert ended.returncode == (1 if debug else 70) and ("Traceback" in told) == bool(debug)
    assert RAW.search(told) is None, ascii(told)
    for word in ("out", "warn", "log", "raised"):
        assert f"{word}\\x1b[2J\\u202e\\x9b" in told


def test_a_verb_is_guarded_whoever_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of(kind: str) -> list[dict[str, Any]]:
        print(f"a library: {EVIL.replace(chr(10), '')}")
        return [{"name": EVIL, "year": EVIL, "summary": EVIL}]

    monkeypatch.setattr("graphsde.cli.show.rows_of", rows_of)
    assert "a library: \\x1b[2J" in done(graphsde("list", "models")).stdout


def test_wrong_usage_is_one_line_whatever_the_framework_does() -> None:
    """Its newer versions escape some characters by themselves, its older ones none."""

    class Wrong(Exception):
        message = f"No such option: --{EVIL}"

        def format_message(self) -> str:
            return self.message

    with pytest.raises(Wrong) as caught, _wrong_usage_in_one_line():
        raise Wrong
    assert RAW.search(caught.value.message) is None and "\n" not in caught.value.message


def test_a_report_on_data_escapes_what_it_tells() -> None:
    found = check(block_graph())
    odd = dataclasses.replace(found, findings=(Finding("W-ODD", "warning", EVIL, 1, (EVIL,), EVIL),))
    assert RAW.search(str(odd)) is None and "\nE-FORGED" not in str(odd) and "\n" in str(odd)


def test_json_reads_back_as_the_same_value() -> None:
    value = {EVIL: [EVIL, "\U000e0041tag", "Zürich ☂", "\ud800", 1.5, None]}
    text = printable_json(value)
    assert json.loads(text) == value and RAW.search(text) is None and "Zürich ☂" in text and "\U000e0041" not in text


def test_lines_keep_what_is_harmless() -> None:
    assert (
        printable("Zürich ☂ 90\u00a0% σ × \U0001f469\u200d\U0001f52c")
        == "Zürich ☂ 90\u00a0% σ × \U0001f469\u200d\U0001f52c"
    )
    assert printable("a\tb\nc\x1b") == "a\\tb\\nc\\x1b"


def test_our_own_line_breaks_stay_and_nothing_goes_around(capsys: Any) -> None:
    with guarded_output():
        assert isinstance(sys.stdout, GuardedStream) and not hasattr(sys.stdout, "buffer")
        print("one\ntwo\x1b[31m\tthree")
        sys.stderr.writelines(["a\x9b", "b\n"])
        with guarded_output():
            print("once\x1b")
    print("\x1b[0m", end="")
    found = capsys.readouterr()
    assert found.out == "one\ntwo\\x1b[31m\tthree\nonce\\x1b\n\x1b[0m" and found.err == "a\\x9bb\n"


def calls(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_nobody_prints_around_the_guard() -> None:
    """Lines are printed by ``cli/output.py``, control sequences are drawn on consoles of ``base/terminal.py``."""
    package = Path(gs.__file__).parent
    printing = {"typer.echo", "typer.secho", "click.echo", "print", "sys.stdout.write", "sys.stderr.write"}
    found = {path.relative_to(package).as_posix(): calls(path) for path in package.rglob("*.py")}
    printers = {name for name, called in found.items() if called & printing}
    # the page's confined reader answers its parent process, in JSON of ASCII alone
    allowed = {"cli/output.py", "nn/callbacks.py", "view/app/confined.py"}
    assert printers == allowed, "use tell or say of graphsde.cli.output"
    assert {name for name, called in found.items() if "Console" in called} == set(), "use base.terminal.make_console"
    assert {name for name in found if name.startswith("cli/") and "json.dumps" in found[name]} == set()
