"""Users' files: folders of tables, ``.npz``, GraphML, MATLAB files, folders of the Open Graph Benchmark."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.build import assemble
from graphsde.graph.graph import Graph
from graphsde.graph.raw import RawGraph, ReadOptions
from graphsde.io.graph_yaml import Settings, read_options, with_given
from graphsde.io.opening import require_path, require_regular, status_of

PICKLED = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".bin")
FORMATS = "a folder with nodes.csv and edges.csv (or .parquet), an .npz, .mat or .graphml file"


def read(path: str | os.PathLike[str], *, name: str | None = None, **options: Any) -> Graph:
    """Read a graph from a user's files, check it and clean it.

    Args:
        path: a folder with ``nodes`` and ``edges`` (``.csv`` or ``.parquet``, and ``graph.yaml`` if there is one), an
            ``.npz``, GraphML or MATLAB file, or a folder of the Open Graph Benchmark (``raw/edge.csv.gz`` …).
        name: of the graph, for messages; default: the name of the file or folder.
        **options: fields of :class:`~graphsde.graph.raw.ReadOptions`, such as ``directed=True`` or ``impute="mean"``;
            they take precedence over ``graph.yaml``. For a folder also its settings of columns and files, such as
            ``label="topic"`` or ``nodes="pages.csv"``. ``mask=3`` (or ``split=3``) uses the fourth split of an
            ``.npz`` file that has several.

    Raises:
        BadInput: the content can't be used; the message names the file and the line.
        StorageError: the file can't be read.
        BadUsage: an option is unknown.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "nodes.csv").write_text("id,age,label\\nann,31,yes\\nbob,25,no\\n")
        >>> _ = (folder / "edges.csv").write_text("source,target\\nann,bob\\n")
        >>> read(folder, name="friends")
        Graph('friends', nodes=2, edges=2, features=1, classes=2)
    """
    require_path(path)
    path = Path(path)
    for_tables = [key for key in with_given(Settings(), options)[0].places]
    status = status_of(path)
    if stat.S_ISDIR(status.st_mode):
        from graphsde.io.ogb import is_ogb_folder, read_ogb
        from graphsde.io.tables import read_tables

        if is_ogb_folder(path):
            chosen = options.pop("split", None)
            options = _without_columns(path, options, [key for key in for_tables if key != "split"])
            checked = read_options(options)
            _refuse_mask(path, checked)
            return _graph(read_ogb(path, name, None if chosen is None else str(chosen)), checked)
        raw, checked = read_tables(path, options, name)
        _refuse_mask(path, checked)
        return _graph(raw, checked)
    suffix = path.suffix.lower()
    if suffix in PICKLED:
        raise _pickled(path, suffix)
    require_regular(path, status)
    options = _without_columns(path, options, for_tables)
    checked = read_options(options)
    if suffix == ".npz":
        from graphsde.io.npz import read_npz

        return _graph(read_npz(path, name, checked.mask), checked)
    if suffix == ".mat":
        from graphsde.io.mat import read_mat

        _refuse_mask(path, checked)
        return _graph(read_mat(path, name), checked)
    if suffix in (".graphml", ".xml"):
        from graphsde.io.graphml import read_graphml

        _refuse_mask(path, checked)
        return _graph(read_graphml(path, checked, name), checked)
    raise _unknown_format(path, suffix)


def _without_columns(path: Path, options: dict[str, Any], for_tables: list[str]) -> dict[str, Any]:
    """Only tables have columns and files by name; ``split=3`` of a file with several splits is its ``mask``."""
    number = options.get("split")
    if path.suffix.lower() == ".npz" and for_tables == ["split"] and type(number) is int and "mask" not in options:
        return {("mask" if key == "split" else key): value for key, value in options.items()}
    if for_tables:
        raise BadUsage(
            f"'{for_tables[0]}' only applies to folders of tables, and {path.name} is not one",
            found=options.get(for_tables[0]),
            fix=f"leave out '{for_tables[0]}'",
        )
    return options


def _refuse_mask(path: Path, options: ReadOptions) -> None:
    if options.mask:
        raise BadUsage(
            f"{path.name} has at most one split, not number {options.mask}",
            code="E-MASK-NUMBER",
            found=options.mask,
            expected="0; only .npz files may hold several splits",
            fix="leave out mask",
        )


def _graph(raw: RawGraph, options: ReadOptions) -> Graph:
    raw.name = shorten(raw.name)  # it may come from a file, and messages show it
    return assemble(raw, options)


def _pickled(path: Path, suffix: str) -> BadInput:
    return BadInput(
        f"{path.name} is a pickle, which could run arbitrary code when opened; it was not opened",
        code="E-PICKLE",
        place=str(path),
        found=suffix,
        expected=FORMATS,
        fix="if you trust the file, load it with the program that wrote it and save its arrays: "
        "numpy.savez('graph.npz', features=x, edge_index=edge_index, labels=y)",
    )


def _unknown_format(path: Path, suffix: str) -> BadInput:
    if suffix in (".csv", ".parquet"):
        return BadInput(
            f"{path.name} alone is not a graph",
            code="E-FORMAT",
            place=str(path),
            expected="a folder with nodes.csv and edges.csv (or .parquet)",
            fix=f"put both tables into one folder and name the folder: {path.parent}",
        )
    return BadInput(
        f"unknown file format: {path.name}",
        code="E-FORMAT",
        place=str(path),
        found=suffix or "no suffix",
        expected=FORMATS,
        fix="convert the file, or correct its suffix",
    )
