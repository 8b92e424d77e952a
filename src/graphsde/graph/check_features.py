"""Problems with the features of a graph; nodes that a model can't distinguish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import shorten
from graphsde.base.html import counted, listed
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.masks import name_nodes
from graphsde.graph.raw import Finding
from graphsde.graph.read_option import LONGEST, read_option

TWIN_BLOCK = 1 << 22  # entries hashed at a time, so that a wide matrix needs no copy of itself
MOSTLY_ZERO = 0.05  # up to this share of nonzeros, checks are faster on a sparse matrix


def feature_groups(graph: Graph) -> np.ndarray:
    """A number per node, equal exactly if all feature columns are equal.  # [N]

    Rows are compared by a 64-bit sum over their nonzero entries, so that sparse features stay sparse; two different
    rows collide with a probability of about one in 10^19.
    """
    hashes = _row_hashes(graph.features)
    for position, column in enumerate(graph.categorical.values()):
        hashes += _scramble(_codes(column) + np.uint64(1)) * _keys(len(graph.categorical), seed=1)[position]
    return np.unique(hashes, return_inverse=True)[1]


def twin_of_training_node(graph: Graph, groups: np.ndarray) -> np.ndarray:
    """For every node outside the train split, a training node with equal features and neighbours; -1 if none.  # [N]

    Two nodes that are neighbours of each other count as having the same neighbours when all others are shared: a
    propagation with self loops makes them equal.
    """
    twin = np.full(graph.num_nodes, -1, dtype=np.int64)
    train = graph.train_mask
    if train is None or not train.any():
        return twin
    keys = _keys(graph.num_nodes, seed=2)
    around = _neighbour_hashes(graph.adjacency, keys)
    own = keys * _weight_keys(np.ones(1)) if graph.adjacency.is_weighted else keys  # the unit self loop
    for neighbours in (around, around + own):
        both = _scramble(groups.astype(np.uint64) + np.uint64(1)) + neighbours
        trained = np.flatnonzero(train)
        ranked = trained[np.argsort(both[trained], kind="stable")]
        slot = np.minimum(np.searchsorted(both[ranked], both), len(ranked) - 1)
        found = (both[ranked][slot] == both) & ~train & (twin < 0)
        twin[found] = ranked[slot][found]
    return twin


def _row_hashes(features: Any) -> np.ndarray:
    keys = _keys(features.shape[1], seed=0)
    if sp.issparse(features):
        return _row_sums(_scramble(_bits(features.data)) * keys[features.indices], features.indptr)
    hashes = np.zeros(len(features), dtype=np.uint64)
    step = max(1, TWIN_BLOCK // max(1, features.shape[1]))
    for start in range(0, len(features), step):
        block = features[start : start + step]
        hashes[start : start + step] = (_scramble(_bits(block)) * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def _neighbour_hashes(adjacency: Adjacency, keys: np.ndarray) -> np.ndarray:
    incoming = adjacency.incoming
    terms = keys[incoming.indices]
    if adjacency.is_weighted:
        terms = terms * _weight_keys(incoming.data)
    return _row_sums(terms, incoming.indptr)


def _weight_keys(weights: np.ndarray) -> np.ndarray:
    return _scramble(_bits(weights)) | np.uint64(1)


def _row_sums(terms: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return running[indptr[1:]] - running[indptr[:-1]]  # differences are right even if the sum wrapped around


def _bits(values: np.ndarray) -> np.ndarray:
    plain = np.ascontiguousarray(values, dtype=np.float32) + np.float32(0)  # -0 becomes 0
    return plain.view(np.uint32).astype(np.uint64)


def _codes(column: np.ndarray) -> np.ndarray:
    seen: dict[object, int] = {}
    return np.fromiter((seen.setdefault(value, len(seen)) for value in column), dtype=np.uint64, count=len(column))


def _keys(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64) | np.uint64(1)


def _scramble(bits: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words that leaves 0 at 0 and spreads every other input over all bits."""
    bits = bits * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(32)
    return bits


SCALE_SPREAD = 1000  # the small column then changes a layer's output less than the noise of its initial weights
NOT_CATEGORIES = ("W-DATE-TEXT", "W-PERCENT-TEXT")  # the reader has already told what these columns are
ID_LIKE = 0.5  # a category for every second node can't be learned from: it is an identifier
SHOWN = 5
BLOCK = 256  # columns at a time, so that a wide matrix needs no float64 copy of itself
NUMBERS_AT_ONCE, FEWEST_AT_ONCE = 1 << 23, 4  # fewer columns at a time if the matrix is long
MOST_NAMED = 12  # columns of each kind
A_BAG = 4  # columns that begin alike
MANY_CLASSES = 100  # above it, a numeric column that matches the class would be a coincidence


def feature_facts(graph: Graph) -> dict[str, Any]:
    features: Any = graph.features
    rows, width = features.shape
    stored = features.nnz if graph.is_sparse else np.count_nonzero(features)
    return {
        "numeric": int(width),
        "categorical": len(graph.categorical),
        "columns": {"numeric": list(graph.feature_names or ()), "categorical": list(graph.categorical)},
        "sparse": graph.is_sparse,
        "filled": float(stored / (rows * width)) if width else 0.0,
    }


def describe_features(facts: dict[str, Any]) -> list[str]:
    """How many columns of each kind, and their names; those of a bag of words count as one name."""
    told = f"{counted(facts['numeric'], 'numeric column')} ({facts['filled']:.1%} not zero)"
    if facts["categorical"]:
        told += f", {counted(facts['categorical'], 'categorical column')}"
    lines = [f"Features: {told}"]
    for kind, names in facts["columns"].items():
        if names:
            lines.append(f"  {kind}: {listed(_bags_as_one(names), MOST_NAMED)}")
    return lines


def _bags_as_one(names: Sequence[str]) -> list[str]:
    """``note:red``, ``note:tall`` … as one name, if a column has many words."""
    sizes = Counter(name.partition(":")[0] for name in names if ":" in name)
    shown = dict.fromkeys(
        f"{start}:… ({counted(sizes[start], 'word')})" if sizes[start] >= A_BAG else name
        for name, start in ((name, name.partition(":")[0]) for name in names)
    )
    return list(shown)


def feature_findings(graph: Graph) -> list[Finding]:
    original, graph = graph, _without_zeros(graph)
    low, high = _extremes(graph.features)
    findings = _constant(graph, low, high) + _scales(graph, high > low) + _categories(graph)
    findings += _label_columns(original, _may_name_classes(graph, high > low))
    empty = _zero_rows(graph.features) if graph.features.shape[1] else np.zeros(graph.num_nodes, dtype=bool)
    if empty.any():
        rows = np.flatnonzero(empty)
        message = f"{len(rows):,} {'nodes have' if len(rows) > 1 else 'node has'} only zeros as numeric features"
        where = name_nodes(graph.node_ids, rows)
        findings.append(
            Finding("W-ZERO-ROWS", "warning", message, len(rows), where, "check that the file was read completely")
        )
    return findings + _twins(graph, empty & (len(graph.categorical) == 0))


def _without_zeros(graph: Graph) -> Graph:
    """The graph, with mostly-zero features as a sparse matrix, which is faster to check."""
    features: Any = graph.features
    rows, width = features.shape
    if graph.is_sparse or rows * width < TWIN_BLOCK:
        return graph
    indices, values, counts = [], [], []
    filled = 0
    step = max(1, TWIN_BLOCK // width)
    for start in range(0, rows, step):
        block = features[start : start + step]
        flags = block != 0
        counts.append(np.count_nonzero(flags, axis=1))
        filled += int(counts[-1].sum())
        if filled > MOSTLY_ZERO * (start + len(block)) * width + TWIN_BLOCK:
            return graph
        places = np.flatnonzero(flags)
        indices.append((places % width).astype(np.int32))
        values.append(block.ravel()[places])
    if filled > MOSTLY_ZERO * rows * width:
        return graph
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    parts = (np.concatenate(values), np.concatenate(indices), indptr)
    return graph.with_features(sp.csr_array(parts, shape=(rows, width)))


def _may_name_classes(graph: Graph, varies: np.ndarray) -> np.ndarray:
    """Columns that may have another number for every class: at most one class has the number zero.  # [d] bool"""
    features: Any = graph.features
    if not sp.issparse(features) or graph.labels is None or not graph.labelled.any():
        return varies
    sizes = np.bincount(graph.labels[graph.labelled])
    filled = np.bincount(features.indices, minlength=features.shape[1])
    return varies & (filled >= sizes.sum() - sizes.max())


def column_name(graph: Graph, column: int) -> str:
    return f"column {column + 1}" if graph.feature_names is None else shorten(graph.feature_names[column], 60)


def _columns(graph: Graph, columns: np.ndarray) -> tuple[str, ...]:
    return tuple(column_name(graph, int(column)) for column in columns[:SHOWN])


def _extremes(features: Any) -> tuple[np.ndarray, np.ndarray]:
    if features.shape[1] == 0:
        return np.zeros(0), np.zeros(0)
    low, high = features.min(axis=0), features.max(axis=0)
    if sp.issparse(features):
        return np.asarray(low.todense()).ravel(), np.asarray(high.todense()).ravel()
    return low, high


def _zero_rows(features: Any) -> np.ndarray:
    if sp.issparse(features):
        return np.diff(features.indptr) == 0
    return ~features.any(axis=1)


def _constant(graph: Graph, low: np.ndarray, high: np.ndarray) -> list[Finding]:
    constant = np.flatnonzero(low == high)
    if not len(constant):
        return []
    message = f"{len(constant):,} {'columns are' if len(constant) > 1 else 'column is'} constant"
    hint = "they carry no information; remove them"
    return [Finding("W-CONSTANT", "warning", message, len(constant), _columns(graph, constant), hint)]


def _scales(graph: Graph, varies: np.ndarray) -> list[Finding]:
    spread = _deviations(graph.features)
    chosen = np.flatnonzero(varies & (spread > 0))
    if len(chosen) < 2:
        return []
    smallest, largest = chosen[np.argmin(spread[chosen])], chosen[np.argmax(spread[chosen])]
    ratio = spread[largest] / spread[smallest]
    if ratio <= SCALE_SPREAD:
        return []
    message = (
        f"columns differ {ratio:,.0f}-fold in spread: {column_name(graph, int(largest))} has a standard deviation of "
        f"{spread[largest]:.3g}, {column_name(graph, int(smallest))} of {spread[smallest]:.3g}"
    )
    where = _columns(graph, np.array([largest, smallest]))
    return [Finding("W-SCALE", "warning", message, 2, where, "standardise the columns")]


def _deviations(features: Any) -> np.ndarray:
    rows, width = features.shape
    if sp.issparse(features):
        data, columns = features.data.astype(np.float64), features.indices
        means = np.bincount(columns, data, width) / rows
        around = np.bincount(columns, (data - means[columns]) ** 2, width)
        return np.sqrt((around + (rows - np.bincount(columns, minlength=width)) * means**2) / rows)
    block = min(BLOCK, max(FEWEST_AT_ONCE, NUMBERS_AT_ONCE // max(rows, 1)))
    parts = [features[:, start : start + block].std(axis=0, dtype=np.float64) for start in range(0, width, block)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _categories(graph: Graph) -> list[Finding]:
    findings = []
    explained = {name for note in graph.notes if note.code in NOT_CATEGORIES for name in note.where}
    for name, column in graph.categorical.items():
        title = shorten(name, 60)
        missing = np.flatnonzero([value is None for value in column])
        if len(missing):
            message = f"{len(missing):,} of {graph.num_nodes:,} values of the categorical column {title} are missing"
            where = name_nodes(graph.node_ids, missing)
            hint = "missing values are a separate category"
            findings.append(Finding("W-CATEGORY-MISSING", "warning", message, len(missing), where, hint))
        distinct = len(set(column.tolist()) - {None})
        if distinct == 1 and not len(missing):
            findings.append(
                Finding("W-CONSTANT", "warning", f"the categorical column {title} is constant", 1, (title,))
            )
        elif distinct > ID_LIKE * graph.num_nodes and title not in explained:
            message = f"the categorical column {title} has {distinct:,} values for {graph.num_nodes:,} nodes"
            quoted = repr(title if len(name) > LONGEST else name)
            # data frames take neither option
            drop = f"if it is a name or an id, leave it out: {read_option('drop', [name])}, in Python "
            drop += f"gs.read(…, drop=[{quoted}]), or leave it out of the data frame"
            words = f"if it is text, make every word a feature: {read_option('words', [name])}, in Python "
            words += f"gs.read(…, words=[{quoted}]), or split it into lists in the data frame; "
            hint = words + drop if _several_words(column) else drop
            findings.append(Finding("W-CATEGORY-MANY", "warning", message, distinct, (title,), hint))
    return findings


def _several_words(column: np.ndarray) -> bool:
    """Whether most cells have more than one word."""
    present = [value for value in column.tolist() if value is not None]
    return 2 * sum(len(value.split(maxsplit=1)) > 1 for value in present) > len(present)


_FIRST_ROWS = 100


def _label_columns(graph: Graph, varies: np.ndarray) -> list[Finding]:
    """Columns that determine the class of every labelled node: usually the label under another name."""
    if graph.labels is None or graph.num_classes < 2:
        return []
    known = np.flatnonzero(graph.labelled)
    labels = graph.labels[known]
    classes = np.unique(labels)
    if len(classes) < 2 or len(known) < 3 * len(classes):
        return []
    suspects = []
    for name, column in graph.categorical.items():
        pairs = set(zip(column[known].tolist(), labels.tolist(), strict=True))
        if len(pairs) == len({value for value, _ in pairs}) == len(classes):
            suspects.append(shorten(name, 60))
    if not graph.is_sparse and len(classes) <= MANY_CLASSES:
        columns = np.flatnonzero(varies)
        levels = []
        for one in classes:
            rows = known[labels == one]
            level = graph.features[rows[0]]
            few = rows[:_FIRST_ROWS]  # most columns differ within these; the other rows need no check
            columns = columns[(graph.features[few][:, columns] == level[columns]).all(axis=0)]
            columns = columns[(graph.features[np.ix_(rows, columns)] == level[columns]).all(axis=0)]
            levels.append(level)
        if len(columns):
            table = np.sort(np.stack(levels)[:, columns], axis=0)
            suspects += [column_name(graph, int(one)) for one in columns[(np.diff(table, axis=0) > 0).all(axis=0)]]
    if not suspects:
        return []
    message = (
        f"{len(suspects):,} {'columns give' if len(suspects) > 1 else 'column gives'} the class of every labelled node"
    )
    hint = "if it is the label under another name, a model learns only this column; remove it"
    return [Finding("W-LABEL-COLUMN", "warning", message, len(suspects), tuple(suspects[:SHOWN]), hint)]


def _twins(graph: Graph, empty: np.ndarray) -> list[Finding]:
    groups = feature_groups(graph)
    alike = np.flatnonzero((np.bincount(groups)[groups] > 1) & ~empty)
    findings = []
    if len(alike):
        kinds = len(np.unique(groups[alike]))
        message = f"{len(alike):,} nodes share all their features with another node ({kinds:,} different rows)"
        findings.append(Finding("W-DUP-ROWS", "note", message, len(alike), name_nodes(graph.node_ids, alike)))
    twin = twin_of_training_node(graph, groups)
    judged = graph.role("val") | graph.role("calibration") | graph.role("test")
    leaks = np.flatnonzero((twin >= 0) & judged & ~empty)
    if len(leaks):
        same = 0 if graph.labels is None else int((graph.labels[leaks] == graph.labels[twin[leaks]]).sum())
        plural = "nodes" if len(leaks) > 1 else "node"
        message = (
            f"{len(leaks):,} validation, calibration or test {plural} can't be distinguished from a training node "
            f"(same features, same neighbours); {same:,} of them have its label"
        )
        pairs = tuple(
            f"{one} = {other}"
            for one, other in zip(
                name_nodes(graph.node_ids, leaks), name_nodes(graph.node_ids, twin[leaks[:SHOWN]]), strict=True
            )
        )
        hint = "metrics on them measure memorisation; keep such twins in one split"
        findings.append(Finding("W-TWIN-LEAK", "warning", message, len(leaks), pairs, hint))
    return findings
