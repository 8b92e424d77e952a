"""Good files of every kind, small, for a fuzzer to begin with."""

from __future__ import annotations

import shutil
from pathlib import Path

from reliability.arena import Arena
from reliability.disk import Disturbance
from reliability.scenarios import BENCH, SEARCH, fit_words

SMALL = fit_words("gcn", "--set", "epochs=4", "--set", "hidden=2")


def make_bases(arena: Arena) -> Path:
    """Folders ``tables``, ``files``, ``parquet``, ``run``, ``cut`` (an interrupted fit), ``bench``, ``search``."""
    bases = arena.folder / "bases"
    if bases.exists():
        return bases
    part = arena.folder / "bases.part"
    part.mkdir()
    warm, ground = arena.warm, arena.ground
    shutil.copytree(ground.graph, part / "graph")
    ended = warm.call(lambda: _write_files(part))
    assert ended.code == 0, ended.errors
    warm.learn_imports(ended)
    part.rename(bases)  # a run remembers where its graph is

    def words(command: tuple[str, ...], out: Path) -> list[str]:
        places = {"out": str(out), "graph": str(bases / "graph"), "labels": str(ground.labels)}
        return [word.format(**places) for word in command]

    for command, name in (
        (SMALL, "run"), (("calibrate", "{out}"), "run"), (("learn", "{out}", "{labels}", "--test-labels"), "run"),
        (BENCH, "bench"), (SEARCH, "search"),
    ):  # fmt: skip
        ended = warm.graphsde(words(command, bases / name))
        assert ended.code == 0, ended.errors
        warm.learn_imports(ended)
    shutil.rmtree(bases / "run" / "history", ignore_errors=True)
    _cut(arena, words(SMALL, bases / "cut"), bases / "cut")
    return bases


def _cut(arena: Arena, words: list[str], place: Path) -> None:
    """A fit that was killed when its last checkpoint was in place."""
    ended = arena.warm.graphsde(words, watched=place)
    saved = [
        number
        for number, call in enumerate(ended.calls)
        if call.operation == "rename" and "checkpoint" in Path(call.path).name
    ]
    shutil.rmtree(place)
    ended = arena.warm.graphsde(words, watched=place, disturbance=Disturbance(saved[-1], "after"))
    assert ended.killed, ended.errors


def _write_files(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = folder / "tables"
    tables.mkdir()
    nodes = "id,x,colour,label,split\na,1,r,red,train\nb,2.5,g,blue,val\nc,3e0,r,red,test\nd,-4,,blue,\n"
    edges = "source,target,weight\na,b,1\nb,c,0.5\nc,d,2\n"
    (tables / "nodes.csv").write_text(nodes)
    (tables / "edges.csv").write_text(edges)
    (tables / "graph.yaml").write_text("name: tiny\ndirected: false\nclasses: [red, blue]\n")
    (folder / "parquet").mkdir()
    table = pa.table({"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "label": ["red", "blue", None]})
    pq.write_table(table, folder / "parquet" / "nodes.parquet", compression="none")
    (folder / "parquet" / "edges.csv").write_text("source,target\na,b\nb,c\n")
    files = folder / "files"
    files.mkdir()
    (files / "labels.csv").write_text("id,label\n8,red\n16,green\n")
    (files / "graph.graphml").write_text(
        '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="x" for="node" attr.name="x" attr.type="double"><default>0</default></key>'
        '<key id="l" for="node" attr.name="label" attr.type="string"/><graph edgedefault="undirected">'
        '<node id="a"><data key="x">1</data><data key="l">red</data></node><node id="b"/>'
        '<edge source="a" target="b"/></graph></graphml>'
    )
    np.savez(
        files / "graph.npz",
        features=np.arange(6, dtype=np.float32).reshape(3, 2),
        edge_index=np.array([[0, 1], [1, 2]]),
        labels=np.array([0, 1, 0]),
    )
