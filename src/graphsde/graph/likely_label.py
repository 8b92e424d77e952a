"""Guess which column of a table holds the labels, if the user did not say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphsde.base.errors import shorten
from graphsde.graph.raw import Finding, RawGraph

LIKELY_LABEL = "W-LABEL-LIKELY"
LABEL_WORDS = frozenset(("label", "labels", "class", "classes", "target", "category", "type", "kind", "topic", "y"))
LABEL_WORDS |= {"subject", "group", "outcome", "community", "genre", "field", "department", "club"}
NAME_WORDS = frozenset(("name", "names", "title", "titles"))
MOST_CLASSES = 100
NODES_PER_CLASS = 2
"""A column with a value for nearly every node is a name or an id."""


def likely_label(raw: RawGraph) -> list[Finding]:
    """A note about the column that looks most like the labels, for a graph that has none.

    A column with a matching name comes first, then the text column with the fewest values.
    """
    if raw.labels is not None:
        return []
    texts = {**raw.categorical, **raw.other_columns}
    candidates = []
    for column, values in texts.items():
        count = len({one for one in values if isinstance(one, str) and one})
        if 2 <= count <= min(MOST_CLASSES, raw.num_nodes / NODES_PER_CLASS):
            candidates.append((column.lower() != "label", not _says(column, LABEL_WORDS), count, column))
    for column in raw.feature_names or ():
        if column not in texts and _says(column, LABEL_WORDS):
            candidates.append(
                (column.lower() != "label", False, MOST_CLASSES, column)
            )  # only the names of numeric columns are known here
    if not candidates:
        return []
    from graphsde.graph.read_option import read_option

    *_, count, chosen = min(candidates)
    shown = shorten(chosen, 60)
    values = f" ({count} different values)" if chosen in texts else ""
    message = f"no column is named 'label', but '{shown}'{values} looks like the label"
    hint = f"if '{shown}' is the label: {read_option('label', shown)}, in Python label='{shown}'"
    if (named := _name_column(raw.other_columns, raw.num_nodes)) is not None:
        hint += f"; for display names: {read_option('node_name', named)}, in Python node_name='{named}'"
    return [Finding(LIKELY_LABEL, "warning", message, 1, (shown,), hint)]


def _name_column(columns: Mapping[str, Sequence[Any] | np.ndarray], nodes: int) -> str | None:
    for column, values in columns.items():
        if _says(column, NAME_WORDS) and len(set(values)) > nodes / NODES_PER_CLASS:
            return shorten(column, 60)
    return None


def _says(column: str, words: frozenset[str]) -> bool:
    """Whether one of the words is in the name: ``page_type``, ``pageType``, ``Type``."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", column)
    return bool(words & set(re.split(r"[^a-z0-9]+", apart.lower())))
