"""Unpacked folders of the Open Graph Benchmark: ``raw/*.csv.gz`` and ``split/NAME/*.csv.gz``."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.raw import RawGraph
from graphsde.io.opening import LARGEST_CONTENT, LARGEST_RATIO, MODERATE_CONTENT, opened, refuse_bomb, refuse_cost
from graphsde.io.opening import require_inside as inside

_PER_CELL = 30
MOST_COLUMNS = 20_000  # each costs the reader a kilobyte
_ROLES = {"train": "train", "valid": "val", "test": "test"}


def is_ogb_folder(folder: Path) -> bool:
    return (folder / "raw" / "edge.csv.gz").is_file()


def read_ogb(folder: Path, name: str | None = None, split: str | None = None) -> RawGraph:
    """Read a node property prediction graph without OGB's own library.

    ``raw`` has ``edge.csv.gz`` (a source and a target per line), ``node-feat.csv.gz``, ``node-label.csv.gz``, maybe
    ``edge-weight.csv.gz``; ``split/NAME`` has ``train.csv.gz``, ``valid.csv.gz`` and ``test.csv.gz`` with positions of
    nodes.

    Args:
        folder: the one with ``raw`` in it.
        name: of the graph, for messages.
        split: which folder of ``split`` to use; optional if there is only one.
    """
    raw = folder / "raw"
    edges = _numbers(raw / "edge.csv.gz", folder)
    features = _numbers(raw / "node-feat.csv.gz", folder) if (raw / "node-feat.csv.gz").exists() else None
    labels = _numbers(raw / "node-label.csv.gz", folder) if (raw / "node-label.csv.gz").exists() else None
    weights = _numbers(raw / "edge-weight.csv.gz", folder) if (raw / "edge-weight.csv.gz").exists() else None
    if edges.shape[1] != 2 or (labels is not None and labels.shape[1] != 1):
        odd = "edge.csv.gz" if edges.shape[1] != 2 else "node-label.csv.gz"
        raise BadInput(
            f"{odd} has the wrong number of columns",
            code="E-ROW-LEN",
            place=f"raw/{odd}",
            expected="two columns of edges, one of labels",
            fix="graphs with several labels per node can't be read; choose one column",
        )
    count = raw / "num-node-list.csv.gz"
    sizes = [len(one) for one in (features, labels) if one is not None]
    if not sizes and not count.exists():
        raise BadInput("the number of nodes is unknown", code="E-HEADER", place=str(raw), expected="node-feat.csv.gz")
    ends = _whole(edges, "raw/edge.csv.gz")
    return RawGraph(
        num_nodes=sizes[0] if sizes else int(_whole(_numbers(count, folder), "raw/num-node-list.csv.gz").sum()),
        numeric=features,
        labels=None if labels is None else labels[:, 0],
        masks=_masks(folder, split),
        sources=ends[:, 0],
        targets=ends[:, 1],
        weights=None if weights is None else weights[:, 0],
        edges_by_id=False,
        name=name or folder.resolve().name,
        node_place=lambda row: f"raw/node-feat.csv.gz, line {row + 1}",
        edge_place=lambda row: f"raw/edge.csv.gz, line {row + 1}",
    )


def _masks(folder: Path, split: str | None) -> dict[str, np.ndarray]:
    there = sorted(os.listdir(folder / "split")) if (folder / "split").is_dir() else []
    if split is None and len(there) == 1:
        split = there[0]
    if split not in there:
        if split is None and not there:
            return {}
        raise BadUsage(
            f"the folder has {len(there)} splits" if split is None else f"unknown split '{shorten(split, 60)}'",
            found=split,
            expected="one of " + ", ".join(there) if there else "none",
            fix="name one: read(…, split=…) or --read split=…",
        )
    chosen = folder / "split" / split
    masks = {}
    for file, role in _ROLES.items():
        path = chosen / f"{file}.csv.gz"
        if path.exists():
            masks[role] = _whole(_numbers(path, folder), f"split/{split}/{path.name}")[:, 0]
    return masks


def _whole(values: np.ndarray, place: str) -> np.ndarray:
    if not np.array_equal(values, np.floor(values)):
        raise BadInput("positions of nodes are not all integers", code="E-DTYPE", place=place, expected="integers")
    return values.astype(np.int64)


def _numbers(path: Path, folder: Path) -> np.ndarray:
    """A numeric table without a header, NaN for empty cells.  # [rows, columns] float64"""
    import pyarrow as pa
    import pyarrow.csv as pc

    inside(path, folder)
    text, size = _unpacked(path)
    columns = text[: max(text.find(b"\n"), 0) or len(text)].count(b",") + 1
    if columns > MOST_COLUMNS:
        raise BadInput(
            f"{path.name} has {columns:,} columns",
            code="E-LINE-LEN",
            place=str(path.relative_to(folder)),
            expected=f"at most {MOST_COLUMNS:,}",
            fix="store features as wide as this in an .npz file",
        )
    cells = text.count(b",") + text.count(b"\n") + 1
    refuse_cost(path, cost=len(text) + _PER_CELL * cells, size=size, fix="leave out columns, or use an .npz file")
    try:
        table = pc.read_csv(
            io.BytesIO(text),
            read_options=pc.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=1 << 24),
        )
        arrays = [column.cast(pa.float64()).to_numpy() for column in table.columns]
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(
            f"{path.name} is not a numeric table: {shorten(str(error), 120)}",
            code="E-CORRUPT",
            place=str(path.relative_to(folder)),
            expected="comma-separated numbers, without a header",
            fix="write or copy the file again",
        ) from None
    return np.column_stack(arrays)


def _unpacked(path: Path) -> tuple[bytes, int]:
    """The content, unpacked only up to a limit that depends on the file's size."""
    with opened(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        limit = min(LARGEST_CONTENT, max(MODERATE_CONTENT, LARGEST_RATIO * size))
        try:
            with gzip.GzipFile(fileobj=stream) as packed:
                text = packed.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise BadInput(
                f"{path.name} is not a complete gzip file", code="E-CORRUPT", place=path.name, fix="copy the file again"
            ) from None
    if len(text) > limit:
        refuse_bomb(path, declared=LARGEST_CONTENT + 1, compressed=size)
    return text, size
