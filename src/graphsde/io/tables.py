"""A folder with a table of nodes, a table of edges, and optionally a file of words."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.memory import give_back_free_memory
from graphsde.base.storage import io_error
from graphsde.graph.ids import NUMBER, locate, parse_ids
from graphsde.graph.masks import masks_from_words
from graphsde.graph.raw import Finding, RawGraph, ReadOptions
from graphsde.io.columns import Features, Table, unused_columns
from graphsde.io.csv_table import read_csv
from graphsde.io.graph_yaml import TABLE_KEYS, Settings, did_you_mean, read_options, read_settings, with_given
from graphsde.io.header_errors import named_column_missing, role_missing
from graphsde.io.opening import require_inside
from graphsde.io.parquet import read_parquet
from graphsde.io.suspects import misspelt_roles, suspicious_features
from graphsde.io.words import bag_of_words, read_json_words, read_vocabulary, vocabulary_file

SUFFIXES = (".csv", ".parquet")
# names of the table of nodes in public collections, usually after the name of the graph
NODE_STEMS = ("nodes", "target", "targets")


def read_tables(folder: Path, given: Mapping[str, Any], name: str | None = None) -> tuple[RawGraph, ReadOptions]:
    """Read ``nodes`` and ``edges`` (``.csv`` or ``.parquet``), ``features.json`` and ``graph.yaml``, if there are any.

    Args:
        folder: where they are.
        given: options and settings that take precedence over ``graph.yaml``.
        name: of the graph, for messages.
    """
    files = _files(folder)
    settings = Settings()
    if "graph.yaml" in files:
        require_inside(folder / "graph.yaml", folder)
        settings = read_settings(folder / "graph.yaml")
    settings, remaining = with_given(settings, given)
    _refuse_shared_columns(settings)
    options = read_options(remaining, settings.options, TABLE_KEYS)
    chosen = _Files(folder, files, settings)
    nodes = _open(chosen.table("nodes", (settings.id,)), folder, (settings.id,), options)
    ends = (settings.source, settings.target)
    edges = _open(chosen.table("edges", ends), folder, ends, options)
    word_file = None if options.features == "degree" else chosen.words()
    if not nodes.num_rows:
        raise BadInput(f"{nodes.path.name} has no rows", code="E-EMPTY", place=nodes.path.name, expected="one per node")
    _check_columns(nodes, settings, required=("id",), optional=("label", "split", "node_name"))
    node_ids = nodes.ids(settings.id)
    settings, noticed = _two_columns(edges, settings, node_ids)
    _check_columns(edges, settings, required=("source", "target"), optional=("weight",), node_ids=node_ids)
    _give_back_cells()
    features = _features(nodes, settings, word_file, node_ids)
    suspects = suspicious_features(nodes, features, settings.categorical) + _misspelt_roles(nodes, edges, settings)
    _give_back_cells()
    labels = nodes.values(settings.label) if settings.label in nodes.names else None
    if labels is not None and settings.classes is not None and options.target == "classification":
        labels = _positions(labels, settings.classes)
    with_split = settings.split in nodes.names and settings.split not in settings.drop
    split = nodes.values(settings.split) if with_split else None
    masks = _joint_roles(split, nodes) if split is not None else {}
    sources = edges.ends(settings.source)
    _give_back_cells()
    unused = [name for name in edges.names if name not in (settings.source, settings.target, settings.weight)]
    raw = RawGraph(
        num_nodes=nodes.num_rows,
        node_ids=node_ids,
        numeric=_matrix(features, settings),
        owned=True,
        dense=not (settings.sparse or features.sparse),
        feature_names=features.numeric_names or None,
        node_names=None if settings.node_name is None else nodes.values(settings.node_name),
        categorical=features.categorical,
        other_columns={} if labels is not None else _unused_texts(nodes, settings, features),
        labels=labels,
        split=None if masks else split,
        masks=masks,
        sources=sources,
        targets=edges.ends(settings.target),
        weights=edges.weights(settings.weight) if settings.weight in edges.names else None,
        class_names=settings.classes,
        image_shape=settings.image_shape,
        name=name or settings.name or folder.resolve().name or "graph",
        node_place=nodes.place,
        edge_place=edges.place,
        findings=chosen.findings
        + noticed
        + features.findings
        + unused_columns(unused, "column", f" of {edges.path.name}")
        + suspects,
    )
    del nodes, edges, sources
    _give_back_cells()
    return raw, options


def _give_back_cells() -> None:
    """Arrow keeps freed memory for later, several times the size of the file; the graph needs it now."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    give_back_free_memory()


def _files(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise io_error("read", folder, error) from error


class _Files:
    """Which files of the folder to use: those named in settings, those with the default names, or the only ones that
    qualify, which is noted."""

    def __init__(self, folder: Path, files: Sequence[str], settings: Settings) -> None:
        self.folder, self.files, self.settings = folder, files, settings
        self.findings: list[Finding] = []

    def table(self, stem: str, wanted: tuple[str, ...]) -> str:
        if (named := getattr(self.settings, stem)) is not None:
            return self._named(stem, named, SUFFIXES)
        found = [stem + suffix for suffix in SUFFIXES if stem + suffix in self.files]
        if len(found) > 1:
            raise BadInput(
                f"the folder has both {found[0]} and {found[1]}",
                code="E-FORMAT",
                place=str(self.folder),
                expected="one of them",
                fix="remove the outdated one",
            )
        if found:
            return found[0]
        stems = NODE_STEMS if stem == "nodes" else (stem,)
        return self._only(stem, stems, SUFFIXES) or self._missing(stem, wanted)

    def words(self) -> str | None:
        """The file of words, if there is one."""
        if (named := self.settings.features_file) is not None:
            return self._named("features", named, (".json",))
        return "features.json" if "features.json" in self.files else self._only("features", ("features",), (".json",))

    def _named(self, key: str, file: str, suffixes: Sequence[str]) -> str:
        if file in self.files and file.lower().endswith(tuple(suffixes)):
            return file
        raise BadInput(
            f"'{shorten(file, 60)}' can't be used as the file of {key}",
            code="E-NOT-A-FILE",
            place=self.settings.places.get(key, str(self.folder)),
            found=", ".join(shorten(one, 60) for one in self.files[:10]) or "nothing",
            expected=f"a file of this folder that ends in {' or '.join(suffixes)}",
            fix=did_you_mean(file, self.files, "give a file name without a folder"),
        )

    def _only(self, what: str, stems: tuple[str, ...], suffixes: tuple[str, ...]) -> str | None:
        """The only file with a matching name, such as ``musae_facebook_edges.csv``."""
        found = [one for one in self.files if Path(one).stem.lower().endswith(stems) and one.endswith(suffixes)]
        if len(found) != 1:
            return None
        message = f"{shorten(found[0], 60)} is used as the file of {what}"
        hint = f"to use another one: '{what}: FILE' in graph.yaml, or --read {what}=FILE"
        self.findings.append(Finding("W-FILE-CHOSEN", "note", message, 1, (shorten(found[0], 60),), hint))
        return found[0]

    def _missing(self, stem: str, wanted: tuple[str, ...]) -> str:
        files, folder = self.files, self.folder
        if {"model.json", "config.yaml"} <= set(files):
            raise BadInput(
                f"{folder} is a run, not a graph",
                code="E-NOT-A-FILE",
                place=str(folder),
                expected="the folder of the graph that the run was fitted on",
                fix=f"graphsde doctor {folder} checks a run; its config.yaml names its graph",
            )
        packed = next((file for file in files if file.startswith((f"{stem}.csv.", f"{stem}.parquet."))), None)
        empty = " (for a graph without edges: a file with the one line source,target)" if stem == "edges" else ""
        raise BadInput(
            f"the folder has no {stem}.csv and no {stem}.parquet",
            code="E-NOT-A-FILE",
            place=str(folder),
            found=", ".join(shorten(file, 60) for file in files[:10]) or "nothing",
            expected=f"{stem}.csv with the {'column' if len(wanted) == 1 else 'columns'} {', '.join(wanted)}{empty}",
            fix=f"unpack {packed}" if packed else _similar(stem, files) or _other_tables(stem, files),
        )


def _open(file: str, folder: Path, wanted: tuple[str, ...], options: ReadOptions) -> Table:
    path = folder / file
    require_inside(path, folder)
    if path.suffix == ".csv":
        return read_csv(path, wanted=wanted, encoding=options.encoding)
    return read_parquet(path)


def _check_columns(
    table: Table,
    settings: Settings,
    *,
    required: Sequence[str],
    optional: Sequence[str],
    node_ids: np.ndarray | None = None,
) -> None:
    """Required columns, and those that graph.yaml names, must exist."""
    names = set(table.names)
    for role in (*required, *optional):
        column = getattr(settings, role)
        if column in names:
            continue
        if role in settings.places:
            raise named_column_missing(table, role, column, settings.places[role])
        if role in required:
            raise role_missing(table, role, node_ids)


def _two_columns(edges: Table, settings: Settings, node_ids: np.ndarray) -> tuple[Settings, list[Finding]]:
    """Two columns with other names are source and target, unless the first line looks like an edge itself."""
    ends = [name for name in edges.names if name != settings.weight]
    named = {"source", "target"} & set(settings.places) or {settings.source, settings.target} & set(edges.names)
    if named or len(ends) != 2 or (locate(ends, node_ids) >= 0).any() or any(NUMBER.fullmatch(end) for end in ends):
        return settings, []
    shown = tuple(shorten(end, 60) for end in ends)
    message = f"the columns {shown[0]} and {shown[1]} of {edges.path.name} are used as source and target"
    found = [Finding("W-COLUMNS-CHOSEN", "note", message, 2, shown)]
    return settings.model_copy(update={"source": ends[0], "target": ends[1]}), found


def _misspelt_roles(nodes: Table, edges: Table, settings: Settings) -> list[Finding]:
    """Features and edge columns such as ``Split`` and ``Weight``, unless another column has been named for the role."""
    findings = []
    for table, roles in ((nodes, ("split",)), (edges, ("weight",))):
        free = [role for role in roles if role not in settings.places]
        used = (settings.id, settings.label, settings.node_name, settings.source, settings.target, *settings.drop)
        findings += misspelt_roles(table, free, {name for name in used if name is not None})
    return findings


def _refuse_shared_columns(settings: Settings) -> None:
    """A column with two roles: every edge would be a self loop, or the id would be the label."""
    for roles in (("id", "label", "split", "node_name"), ("source", "target", "weight")):
        seen: dict[str, str] = {}
        for role in roles:
            column = getattr(settings, role)
            if column is None:
                continue
            other = seen.setdefault(column, role)
            if other != role:
                raise BadInput(
                    f"'{other}' and '{role}' name the same column, '{shorten(column, 60)}'",
                    code="E-YAML",
                    place=settings.places.get(role) or settings.places.get(other),
                    found=column,
                    expected="different columns",
                    fix=f"correct '{other}' or '{role}' in graph.yaml",
                )


def _features(nodes: Table, settings: Settings, word_file: str | None, node_ids: np.ndarray) -> Features:
    names = set(nodes.names)
    for key in ("categorical", "drop", "words"):
        for column in getattr(settings, key):
            if column not in names:
                raise named_column_missing(nodes, key, column, settings.places[key])
    left_out = {settings.id, settings.label, settings.split, settings.node_name, *settings.drop}
    columns = [name for name in nodes.names if name not in left_out]
    bags = []
    findings: list[Finding] = []
    if word_file is not None:
        path = nodes.path.parent / word_file
        require_inside(path, nodes.path.parent)
        bag, findings = read_json_words(path, parse_ids(node_ids, nodes.place))
        if bag.numbered and (vocabulary := vocabulary_file(_files(path.parent))) is not None:
            require_inside(path.parent / vocabulary, path.parent)
            bag = bag.spelt(read_vocabulary(path.parent / vocabulary), vocabulary)
            message = f"the words of {shorten(word_file, 60)} are named by {shorten(vocabulary, 60)}"
            findings.append(Finding("W-FILE-CHOSEN", "note", message, len(bag.names), (shorten(vocabulary, 60),)))
        bags.append(bag)
        # with a separate file of features, columns are mostly other ids and names
        named = {*settings.categorical, *settings.words}
        findings += unused_columns(
            [name for name in columns if name not in named], "column", f" of {nodes.path.name}", "W-NODE-COLUMNS"
        )
        columns = [name for name in columns if name in named]
    in_words = [name for name in columns if name in settings.words or nodes.holds_lists(name)]
    bags += [bag_of_words(nodes.words(name), nodes.place).named(name) for name in in_words]
    plain = [name for name in columns if name not in set(in_words)]
    features = nodes.features(plain, set(settings.categorical))
    features.findings = findings + features.findings
    for bag in bags:
        blocks = [bag.counts] if features.numeric is None else [sp.csr_array(features.numeric), bag.counts]
        features.numeric = sp.csr_array(sp.hstack(blocks))
        features.numeric_names = [*features.numeric_names, *bag.names]
        features.sparse = True
    return features


def _unused_texts(nodes: Table, settings: Settings, features: Features) -> dict[str, np.ndarray]:
    """Unused text columns; the labels may be among them."""
    unused = next((one.where for one in features.findings if one.code == "W-NODE-COLUMNS"), ())
    columns = {name: nodes.values(name) for name in unused if name in nodes.names and name not in settings.drop}
    return {name: values for name, values in columns.items() if values.dtype == object}


def _matrix(features: Features, settings: Settings) -> np.ndarray | sp.csr_array | None:
    height, width = settings.image_shape or (1, len(features.numeric_names))
    if height * width != len(features.numeric_names):
        raise BadInput(
            f"image_shape is {height}×{width}, but there are {len(features.numeric_names)} numeric columns",
            code="E-LEN",
            place=settings.places["image_shape"],
            expected="height times width numeric columns",
            fix="correct or remove image_shape",
        )
    return sp.csr_array(features.numeric) if settings.sparse and features.numeric is not None else features.numeric


def _positions(labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Class names as positions in the given order; a class may be named ``NA`` or ``3`` if it is listed."""
    position = {name: index for index, name in enumerate(classes)}
    found = [position.get(label) if isinstance(label, str) else None for label in labels.tolist()]
    if any(row is None and label not in (None, "") for row, label in zip(found, labels.tolist(), strict=True)):
        return labels
    return np.array([-1 if row is None else row for row in found], dtype=np.int64)


def _joint_roles(split: np.ndarray, nodes: Table) -> dict[str, np.ndarray]:
    """Cells such as ``test+ood``: an OOD node may have a second role."""
    if not any(isinstance(word, str) and "+" in word for word in set(split.tolist())):
        return {}
    parts = [word.partition("+") if isinstance(word, str) else (None, "", None) for word in split.tolist()]
    first = masks_from_words([part[0] for part in parts], nodes.place)
    second = masks_from_words([part[2] for part in parts], nodes.place)
    empty = np.zeros(nodes.num_rows, dtype=bool)
    return {role: first.get(role, empty) | second.get(role, empty) for role in {**first, **second}}


def _similar(stem: str, files: Sequence[str]) -> str:
    """A typo in a file name; the other table is not a candidate."""
    names = [f"{stem}.csv", f"{stem}.parquet"]
    close = [file for file in files if difflib.get_close_matches(file.lower()[:100], names, n=1, cutoff=0.8)]
    others = [file for file in close if not file.startswith(("nodes.", "edges."))]
    return f"did you mean '{shorten(others[0], 60)}'?" if others else ""


EDGE_WORDS = re.compile(r"edge|link|relation|network|pair|connection|adjacen|follow|cite", re.IGNORECASE)


def _other_tables(stem: str, files: Sequence[str]) -> str:
    """Tables under other names that could be the missing one."""
    tables = [file for file in files if file.endswith(SUFFIXES)]
    alike = [file for file in tables if bool(EDGE_WORDS.search(file)) == (stem == "edges")]
    if not alike:
        return "add the file"
    names = [shorten(file, 60) for file in alike[:3]]
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    return f"name the table, for example --read {stem}={names[0]}{others}; in Python {stem}='{names[0]}'"
