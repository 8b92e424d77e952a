"""Uploads are read in a process with limits; whatever becomes of it is a typed error."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput, GraphsdeError, NotEnoughMemory, StorageError
from graphsde.view.app import confined, uploads
from graphsde.view.app.confined import check_readable
from graphsde.view.app.library import graphs_of_runs
from graphsde.view.app.uploads import Upload, clear_uploads, keep_upload, stored_bytes

NODES = b"id,label,price\na,x,1\nb,y,2\nc,x,3\nd,y,4\n"
EDGES = b"source,target\na,b\nb,c\nc,d\n"
limited = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process are Linux's")


def tables(folder: Path, nodes: bytes = NODES) -> Path:
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "edges.csv").write_bytes(EDGES)
    return folder


def arrays(**changes: np.ndarray) -> Upload:
    stream = io.BytesIO()
    good = {"features": np.eye(4, dtype=np.float32), "edge_index": np.array([[0, 1], [1, 2]])}
    np.savez(stream, **{**good, **changes})  # type: ignore[arg-type]
    return Upload("graph.npz", stream.getvalue())


def test_a_graph_and_a_typed_error_with_all_it_says(tmp_path: Path) -> None:
    check_readable(tables(tmp_path))
    tables(tmp_path, NODES + b"a,x,5\n")
    with pytest.raises(BadInput) as caught:
        check_readable(tmp_path)
    error = caught.value
    assert error.code == "E-NODE-DUP" and error.place == "nodes.csv, line 6" and error.found == "a" and error.fix
    with pytest.raises(GraphsdeError) as missing:
        check_readable(tmp_path / "nowhere")
    assert missing.value.code == "E-NOT-A-FILE"


@limited
def test_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    path.write_bytes(arrays(features=np.zeros((20_000, 500), dtype=np.float32)).content)
    check_readable(path)
    with pytest.raises(GraphsdeError) as caught:
        check_readable(path, memory=20_000_000)
    assert caught.value.code in ("E-MEM", "E-UPLOAD")
    assert isinstance(caught.value, NotEnoughMemory | BadInput)


def ends(monkeypatch: pytest.MonkeyPatch, program: str) -> GraphsdeError:
    monkeypatch.setattr(confined, "_COMMAND", [sys.executable, "-c", program])
    with pytest.raises(BadInput) as caught:
        check_readable(Path("graph.npz"))
    return caught.value


@limited
def test_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "from graphsde.view.app.confined import confine; confine(0, 10**9)\nwhile True: pass"
    error = ends(monkeypatch, loop)
    assert error.code == "E-UPLOAD" and "seconds" in error.message
    monkeypatch.setattr(confined, "_STARTING", 1 - confined.MOST_SECONDS)
    error = ends(monkeypatch, "import time; time.sleep(60)")
    assert error.code == "E-UPLOAD" and "more than 1 seconds" in error.message


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), 9)", "signal 9"),
        ("import os; os.abort()", "signal 6"),
        ("raise SystemExit(3)", "code 3"),
        ("print('{\"kind\": ')", "code 0"),
        ("raise MemoryError", "code 1"),
    ],
)
def test_a_process_that_dies(monkeypatch: pytest.MonkeyPatch, program: str, words: str) -> None:
    error = ends(monkeypatch, program)
    assert error.code == "E-UPLOAD" and words in error.message and "graphsde fit" in str(error.fix)


def test_a_refused_upload_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "_COMMAND", [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    with pytest.raises(BadInput):
        keep_upload([arrays()], tmp_path)
    assert stored_bytes(tmp_path) == 0


def test_the_same_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = keep_upload([arrays()], tmp_path)
    monkeypatch.setattr(uploads, "check_readable", None)  # calling it would fail
    assert keep_upload([arrays()], tmp_path) == first


def test_all_uploads_together_have_a_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "check_readable", lambda path: None)
    size = len(arrays(labels=np.array([0, 1, 0, 1])).content)
    monkeypatch.setattr(uploads, "UPLOAD_QUOTA", 2 * size + 100)
    kept = [keep_upload([arrays(labels=np.array([0, 1, 0, 1]))], tmp_path), keep_upload([arrays()], tmp_path)]
    with pytest.raises(StorageError) as caught:
        keep_upload([arrays(labels=np.array([1, 0, 0, 1]))], tmp_path)
    assert caught.value.code == "E-UPLOAD-QUOTA" and "clear" in str(caught.value.fix)
    assert all(path.is_file() for path in kept), "what is there stays"
    assert keep_upload([arrays()], tmp_path) == kept[1], "files that are there already need no room"
    assert clear_uploads(tmp_path, [str(kept[0])]) > 0
    assert kept[0].is_file() and not kept[1].exists(), "a graph that a run goes back to is kept"
    keep_upload([arrays(labels=np.array([1, 0, 0, 1]))], tmp_path)


def test_an_archive_counts_as_what_it_unpacks_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_QUOTA", 100_000)
    nodes = b"id,x\n" + b"".join(b"%d,1\n" % row for row in range(20_000))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nodes.csv", nodes)
        archive.writestr("edges.csv", EDGES)
    assert len(stream.getvalue()) < 100_000 < len(nodes)
    with pytest.raises(StorageError) as caught:
        keep_upload([Upload("graph.zip", stream.getvalue())], tmp_path)
    assert caught.value.code == "E-UPLOAD-QUOTA"
    assert stored_bytes(tmp_path) == 0


def test_an_archive_with_a_crowd_of_members(tmp_path: Path) -> None:
    entry = b"PK\x01\x02" + bytes(24) + b"\x01\x00" + bytes(16) + b"a"
    end = b"PK\x05\x06" + bytes(4) + b"\x01\x00\x01\x00" + (47 * 100_000).to_bytes(4, "little") + bytes(6)
    with pytest.raises(BadInput) as caught:
        keep_upload([Upload("graph.zip", entry * 100_000 + end)], tmp_path)
    assert caught.value.code == "E-BOMB"


def test_graphs_of_runs_are_found(tmp_path: Path) -> None:
    import graphsde as gs
    from graphsde.datasets.source import GraphSource
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder

    graph = tmp_path / "graph"
    gs.write_tables(gs.synthetic(60, classes=2), graph)
    request = FitRequest(GraphSource.typed(str(graph)), "gcn", {"epochs": 2, "hidden": 4}, 0, 2)
    fit_run(request, RunFolder(tmp_path / "runs" / "one"))
    (tmp_path / "runs" / "broken").mkdir()
    assert graphs_of_runs(tmp_path / "runs") == {str(graph.resolve())}
