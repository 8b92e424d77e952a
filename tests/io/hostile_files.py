"""Small files that would cost much, by name, with the code that each is refused with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from file_makers import GRAPHML, Build, declared_size, file, member, npy, tables

SIZE = 5_000_000
MILLION = 10**6
NO_EDGES = np.zeros((2, 0), dtype=np.int64)


def packed(**arrays: np.ndarray) -> Build:
    """A compressed ``.npz`` file."""

    def build(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / "graph.npz", **({"edge_index": NO_EDGES} | arrays))  # type: ignore[arg-type]
        return folder / "graph.npz"

    return build


def parquet(nodes: dict[str, object], edges: dict[str, object] | None = None, **options: object) -> Build:
    def build(folder: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(nodes), folder / "nodes.parquet", compression="zstd", **options)
        pq.write_table(pa.table(edges or {"source": [0], "target": [1]}), folder / "edges.parquet", compression="zstd")
        return folder

    return build


def with_words(text: str) -> Build:
    def build(folder: Path) -> Path:
        tables()(folder)
        (folder / "features.json").write_text(text)
        return folder

    return build


def decimals(count: int) -> object:
    import pyarrow as pa

    return pa.array(np.zeros(count)).cast(pa.decimal128(38, 0))


_few = {"id": [0, 1, 2], "x": [1.0, 2.0, 3.0]}
ONES = np.ones((MILLION, 1), dtype=np.uint8)
_words = np.full(2 * MILLION, "a")
_wide = ",".join(f"c{column}" for column in range(1000))
_keys = "".join(f'<key id="k{n}"><default>a</default></key>' for n in range(60_000))
_columns = ",".join(f"c{column}" for column in range(99_999))
_defaults = "".join(f'<key id="k{n}" for="node" attr.type="int"><default>1</default></key>' for n in range(20_000))
_many = "".join(f'<node id="{n}"/>' for n in range(100_000))
HOSTILE: dict[str, tuple[Build, str]] = {
    "line": (tables(nodes="id,x\n" + "a" * SIZE), "E-LINE-LEN"),
    "wide": (tables(nodes=f"id,{_columns}\n" + f"a{',1' * 99_999}\n" * 20), "E-NODE-DUP"),
    "wide text": (tables(nodes=f"id,{_columns}\n" + f"a{',b' * 99_999}\n" * 20), "E-FEAT-TYPE"),
    "blank": (tables(nodes="id,x\n" + "\n" * SIZE), "E-EMPTY"),
    "quotes": (tables(nodes="id,x\n" + '"\n' * (SIZE // 2)), "E-ROW-LEN"),
    "open quote": (tables(nodes='id,x\n"' + "a\n" * (SIZE // 2)), "E-QUOTE"),
    "ragged": (tables(nodes="id,x\n" + "1\n" * (SIZE // 2)), "E-ROW-LEN"),
    "settings": (tables(settings="classes:\n" + "- a\n" * 240_000), "E-YAML"),
    "zip directory": (declared_size(1_600_000_000), "E-BOMB"),
    "array header": (member("features.npy", npy((10**6, 10**6))), "E-HEADER-LIE"),
    "defaults": (file("g.graphml", f"{GRAPHML}{_defaults}<graph>{_many}</graph></graphml>".encode()), "E-BOMB"),
    "tag": (file("g.graphml", f"{GRAPHML}<graph><node id='{'a' * SIZE}'/></graph></graphml>".encode()), "E-LINE-LEN"),
    "rows of nothing": (packed(features=np.zeros((24 * MILLION, 1), dtype=np.uint8)), "E-BOMB"),
    "rows without a column": (packed(features=np.zeros((9 * MILLION, 0), dtype=np.uint8)), "E-BOMB"),
    "edges of nothing": (packed(features=np.eye(3), edge_index=np.zeros((2, 8 * MILLION), dtype=np.int8)), "E-BOMB"),
    "labels of text": (packed(features=ONES[:2], labels=_words), "E-BOMB"),
    "ids of text": (packed(features=ONES[:2], node_ids=_words.astype("S")), "E-BOMB"),
    "names of classes": (packed(features=ONES[:2], class_names=_words), "E-BOMB"),
    "long names": (packed(features=ONES[:2], class_names=np.full(3, "a" * 10 * MILLION)), "E-BOMB"),
    "many splits": (packed(features=ONES, train_masks=np.zeros((90, MILLION), dtype=bool)), "E-BOMB"),
    "split by text": (packed(features=ONES[:2], train_mask=_words), "E-BOMB"),
    "sparse rows": (
        packed(
            features_data=np.ones(0, dtype=np.int8),
            features_indices=np.ones(0, dtype=np.int8),
            features_indptr=np.zeros(20 * MILLION + 1, dtype=np.int8),
            features_shape=np.array([20 * MILLION, 2]),
        ),
        "E-BOMB",
    ),
    "sparse adjacency": (
        packed(
            features=np.eye(2),
            adj_data=np.ones(8 * MILLION, dtype=np.int8),
            adj_indices=np.zeros(8 * MILLION, dtype=np.int8),
            adj_indptr=np.array([0, 0, 8 * MILLION]),
            adj_shape=np.array([2, 2]),
        ),
        "E-BOMB",
    ),
    "missing everywhere": (lambda folder: packed(features=np.full((15_000, 1000), np.nan))(folder), "E-FEAT-NAN"),
    "short rows": (tables(edges="source,target\n" + "a,b\n" * 2_400_000), "E-BOMB"),
    "empty cells": (tables(nodes=f"id,{_wide}\n" + "".join(f"{n}{',' * 1000}\n" for n in range(9900))), "E-BOMB"),
    "missing cells": (
        tables(nodes=f"id,{_wide}\n" + "".join(f"{n}{',' * 1000}\n" for n in range(8000)), edges="source,target\n"),
        "E-FEAT-NAN",
    ),
    "parquet rows": (parquet({"id": np.zeros(12 * MILLION, dtype=np.int64)}), "E-BOMB"),
    "parquet decimals": (parquet(_few, {"source": decimals(MILLION), "target": decimals(MILLION)}), "E-BOMB"),
    "parquet truth": (
        parquet(_few, {"source": np.zeros(9 * MILLION, dtype=bool), "target": np.zeros(9 * MILLION, dtype=bool)}),
        "E-BOMB",
    ),
    "parquet lists": (parquet({**_few, "y": [[0] * 8 * MILLION, [], []]}), "E-BOMB"),
    "parquet lists of fractions": (parquet({**_few, "y": [[0.5] * 8 * MILLION, [], []]}), "E-DTYPE"),
    "json entries": (with_words('{"a": [' + "1," * (SIZE - 10) + "1]}"), "E-BOMB"),
    "fewer json entries": (with_words('{"a": [' + "1," * (SIZE // 2 - 10) + "1]}"), "ok"),
    "json keys": (with_words("{" + ",".join(f'"{n}":[]' for n in range(700_000)) + "}"), "E-BOMB"),
    "json nesting": (with_words('{"a": ' + "[" * 400_000), "E-JSON"),
    "json text": (with_words('{"a": ["' + "b" * (SIZE - 20) + '"]}'), "ok"),
    "json almost": (with_words('{"a": [' + ",".join(map(str, range(300_000, 300_000 + 1_350_000))) + "]}"), "E-WORDS"),
    "parquet columns": (parquet({"id": np.arange(900)} | {f"c{n}": np.zeros(900) for n in range(8000)}), "E-BOMB"),
    "parquet groups": (parquet({"id": np.arange(8000), "x": np.zeros(8000)}, row_group_size=1), "E-BOMB"),
    "keys": (file("g.graphml", f"{GRAPHML}{_keys}<graph/></graphml>".encode()), "E-LINE-LEN"),
    "drawings": (file("g.graphml", f"{GRAPHML}{'<a/>' * (SIZE // 4)}</graphml>".encode()), "E-BOMB"),
}
