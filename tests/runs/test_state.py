"""A run goes from one whole state to the next, and every file of it is guarded."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphsde as gs
from cli_support import graphsde
from graphsde.base.errors import BadInput, BadUsage, StorageError
from graphsde.datasets.source import GraphSource
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.runs.calibrate import calibrate_run
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.state import GUARDED, NewState, read_state

from support import as_before_guards, block_graph

FILES = [name for name in GUARDED if name not in ("labels.json", "learned.json", "controls.json")]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    gs.write_tables(block_graph(), folder)
    return folder


def request(tables: Path, **settings: Any) -> FitRequest:
    return FitRequest(GraphSource.typed(str(tables)), "gcn", {"epochs": 4, "hidden": 4, **settings})


@pytest.fixture(scope="module")
def fitted(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_run(request(tables), RunFolder(tmp_path_factory.mktemp("runs") / "run")).folder.path


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted, tmp_path / "run"))


def content(run: Path) -> dict[str, bytes]:
    """Files of the state; what says when and how long is not compared."""
    found = {name: (run / name).read_bytes() for name in GUARDED if (run / name).is_file()}
    found.pop("environment.json", None)
    *lines, last = found.pop("metrics.jsonl").splitlines()
    figures = {key: value for key, value in json.loads(last).items() if key != "fit_seconds"}
    losses = [json.loads(line)["loss"] for line in lines]
    return found | {"metrics": json.dumps([losses, figures]).encode()}


# guards


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["flipped", "emptied", "deleted"])
def test_a_file_that_is_not_the_one_that_was_written_is_named(run: Path, name: str, harm: str) -> None:
    path = run / name
    kept = path.read_bytes()
    if harm == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"" if harm == "emptied" else kept[:-2] + bytes([kept[-2] ^ 1]) + kept[-1:])
    with pytest.raises(BadInput, match=name) as caught:
        RunFolder(run).open()
    assert caught.value.code == "E-CORRUPT"
    path.write_bytes(kept)
    assert RunFolder(run).open()


def test_an_edited_model_is_no_result(run: Path) -> None:
    """A class name, a mean, a scaling: whatever is changed by hand, no verb prints figures of it."""
    path = run / "model.json"
    description = json.loads(path.read_text())
    description["class_names"] = description["class_names"][::-1]
    path.write_text(json.dumps(description, indent=2))
    verbs = ["evaluate", "predict", "calibrate", "decide", "ask", "explain", "report", "doctor"]
    rest = {"predict": ("--out", run / "p.csv"), "decide": ("--out", run / "d.csv"), "explain": (0,)}
    for verb in verbs:
        done = graphsde(verb, run, *rest.get(verb, ()))
        assert done.exit_code == 65 and "model.json" in done.output, (verb, done.output)


def test_a_model_outside_of_a_run_guards_itself(blocks: gs.Graph, tmp_path: Path) -> None:
    gs.GCN(epochs=2).fit(blocks).save(tmp_path)
    path = tmp_path / "model.json"
    path.write_text(path.read_text().replace('"class 0"', '"class 9"'))
    with pytest.raises(BadInput, match="its content has changed"):
        gs.load_model(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "\xff", "[" * 100_000, '{"format": 1}', '{"format": 2, "state": 1, "files": {}}',
        '{"format": 1, "state": 0, "files": {}}', '{"format": 1, "state": 1, "files": {"../x": {}}}',
        '{"format": 1, "state": 1, "files": {"x": {"sha256": "' + "0" * 64 + '", "bytes": 1}}}',
    ],
)  # fmt: skip
def test_a_damaged_manifest_is_named(run: Path, text: str) -> None:
    (run / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=r"manifest\.json"):
        RunFolder(run).open()


def test_a_manifest_that_is_gone_is_missed(run: Path) -> None:
    (run / "manifest.json").unlink()
    with pytest.raises(BadInput, match=r"manifest\.json is missing"):
        RunFolder(run).open()


def test_a_run_without_a_manifest_can_be_used_and_gets_one_when_it_changes(run: Path) -> None:
    as_before_guards(run)
    folder = RunFolder(run)
    assert not folder.state().guarded
    calibrate_run(folder, "temperature")
    assert folder.state().guarded and set(folder.state().files) == set(FILES)


DAMAGED = ["", "{", "[]", "null", "3", "\xff\xfe", "[" * 100_000, '{"a": NaN}', '{"kind": "epoch"}', "a: *b", "x: [1"]


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize("name", ["graph.json", "config.yaml", "metrics.jsonl", "model.json", "labels.json"])
def test_damage_is_typed_also_where_no_manifest_says_so(run: Path, name: str, text: str) -> None:
    as_before_guards(run)
    (run / name).write_bytes(text.encode("latin-1"))
    folder = RunFolder(run)
    with pytest.raises(BadInput) as caught:
        folder.open()
        folder.read_metrics()
    assert caught.value.code == "E-CORRUPT" and name in str(caught.value)


def test_a_configuration_that_stands_for_a_billion_values_is_refused_at_once(run: Path) -> None:
    as_before_guards(run)
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))]
    (run / "config.yaml").write_text("\n".join(lines))
    with pytest.raises(BadInput, match="alias"):
        RunFolder(run).read_config()


# changes


class Killed(BaseException):
    pass


CALLS = ("rename", "replace", "link", "fsync", "unlink", "mkdir")


def cut_everywhere(
    change: Callable[[Path], object],
    make: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    stride: int = 1,
) -> list[dict[str, bytes] | None]:
    """What is left after ``change`` was cut off at its first call to the disk, its second, and so on to its last.

    ``make reliability`` does so at every write of every verb; here a ``stride`` keeps it short.
    """
    real = {name: getattr(os, name) for name in CALLS}
    left: list[dict[str, bytes] | None] = []
    for at in range(1, 300, stride):
        target, calls = make(tmp_path / f"run{at}"), 0

        def counted(name: str, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:  # noqa: B023
                raise failure
            return real[name](*args, **kwargs)

        for name in CALLS:
            monkeypatch.setattr(os, name, lambda *a, _name=name, **k: counted(_name, *a, **k))
        try:
            change(target)
        except (Killed, StorageError):
            finished = False
        else:
            finished = calls < at
        monkeypatch.undo()
        folder = RunFolder(target)
        if folder.finished:
            folder.open()  # whole, whatever happened
            left.append(content(target))
        else:
            left.append(None)
        change(target)
        assert folder.open() and not [path for path in target.iterdir() if path.name.startswith(".state")]
        shutil.rmtree(target)
        if finished:
            return left
    raise AssertionError("the change never came to an end")


FAILURES = [Killed(), OSError(errno.ENOSPC, "No space left on device")]


@pytest.mark.parametrize("failure", FAILURES, ids=["kill", "full disk"])
def test_calibrating_leaves_the_old_state_or_the_new_one(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def copied(path: Path) -> Path:
        return Path(shutil.copytree(fitted, path))

    def calibrate(run: Path) -> None:
        calibrate_run(RunFolder(run), "vector")

    calibrate(reference := copied(tmp_path / "reference"))
    old, new = content(fitted), content(reference)
    assert old["predictions.parquet"] != new["predictions.parquet"]
    left = cut_everywhere(calibrate, copied, tmp_path, monkeypatch, failure, stride=2)
    assert all(state in (old, new) for state in left) and old in left and new in left and len(left) > 15


@pytest.mark.parametrize("failure", FAILURES, ids=["kill", "full disk"])
def test_a_fit_leaves_nothing_or_a_whole_run(
    tables: Path, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fit(run: Path) -> None:
        fit_run(request(tables), RunFolder(run))

    left = cut_everywhere(fit, lambda path: path, tmp_path, monkeypatch, failure, stride=3)
    new = content(fitted)
    assert all(state in (None, new) for state in left) and None in left and new in left


def test_a_run_that_is_replaced_stays_until_the_new_one_is_whole(
    tables: Path, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(run: Path) -> None:
        fit_run(request(tables, hidden=5), RunFolder(run), overwrite=True)

    replace(reference := Path(shutil.copytree(fitted, tmp_path / "reference")))
    copy = lambda path: Path(shutil.copytree(fitted, path))  # noqa: E731
    left = cut_everywhere(replace, copy, tmp_path, monkeypatch, FAILURES[0], stride=3)  # make reliability: every call
    old, new = content(fitted), content(reference)
    assert all(state in (old, new) for state in left) and old in left and new in left


def test_a_damaged_run_can_be_replaced(tables: Path, run: Path) -> None:
    (run / "manifest.json").write_text("{")
    (run / "graph.json").write_text("{")
    assert fit_run(request(tables), RunFolder(run), overwrite=True).folder.open()


def test_a_process_that_comes_late_moves_nothing_of_a_later_state(run: Path) -> None:
    """Whoever was slow to finish a change finds its own prepared folder gone, never that of the next one."""
    calibrate_run(RunFolder(run), "temperature")
    state = read_state(run)
    with NewState(run) as new:
        assert state is not None and new.folder.name == f".state-{state.number + 1}"
        (new.folder / "model.json").write_text("not yet")
        assert read_state(run) == state
    assert RunFolder(run).open() and not new.folder.exists()


class Epochs(Callback):
    def __init__(self) -> None:
        self.seen = 0

    def on_epoch(self, record: EpochRecord) -> None:
        self.seen += 1


@pytest.mark.parametrize("where", ["predict", "save"])
def test_no_training_is_lost(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A process that dies between its last epoch and the finished folder need not train again, however short it was."""
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:

        def die(*args: Any, **kwargs: Any) -> None:
            raise Killed

        class Afterwards(Callback):
            """Once all epochs are done: before, a prediction is rehearsed."""

            def on_end(self, best_epoch: int) -> None:
                patch.setattr(gs.GCN, where, die)

        with pytest.raises(Killed):
            fit_run(request(tables), folder, callbacks=[Afterwards()])
    epochs = Epochs()
    outcome = fit_run(request(tables), folder, callbacks=[epochs])
    assert outcome.resumed and epochs.seen == 0 and len(outcome.model.history) == 4
    assert not folder.work.folder.exists()


def test_a_second_fit_is_refused_before_the_graph_is_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    nowhere = FitRequest(GraphSource("no such graph"), "gcn")
    with folder.locked():
        with pytest.raises(BadUsage, match="E-LOCKED"):
            fit_run(nowhere, folder)
        done = graphsde("fit", "no such graph", "--out", folder.path)
        assert done.exit_code == 2 and "E-LOCKED" in done.output
    with pytest.raises(BadInput, match="E-NOT-A-FILE"):
        fit_run(nowhere, folder)
