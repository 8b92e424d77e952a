"""Bags of words: lists of words per node, as a sparse matrix with one named column per word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.graph.features import MAX_COLUMNS
from graphsde.graph.ids import locate
from graphsde.graph.raw import Finding
from graphsde.io.opening import no_utf8, opened, refuse_cost

# measured peak cost of an entry and of a list; a microsecond counts as a hundred bytes
_PER_WORD, _PER_LIST = 75, 400
LARGEST_JSON = 500_000_000
LARGEST_VOCABULARY = 20_000_000


@dataclass(frozen=True)
class Bag:
    """How often each word occurs at each node.

    Args:
        counts: one row per node, one column per word.  # [N, d] CSR
        names: of the columns: words in alphabetical order, or numbers from 0 to the largest.
        numbered: whether words are positions in a vocabulary.
    """

    counts: sp.csr_array
    names: list[str]
    numbered: bool = False

    def named(self, column: str) -> Bag:
        """The names, prefixed with the name of the table's column so that they can't collide with other columns."""
        return Bag(self.counts, [f"{column}:{name}" for name in self.names], self.numbered)

    def spelt(self, vocabulary: Sequence[str], file: str) -> Bag:
        """Words instead of their positions; the vocabulary may be longer than needed."""
        if len(vocabulary) < len(self.names):
            raise BadInput(
                f"{file} has {len(vocabulary):,} words, but the features go up to word {len(self.names) - 1:,}",
                code="E-WORDS",
                place=file,
                expected=f"at least {len(self.names):,} words, counted from 0",
                fix="use the vocabulary that the features were made with, or remove the file",
            )
        return Bag(self.counts, list(vocabulary[: len(self.names)]), self.numbered)


def bag_of_words(lists: Sequence[Sequence[Any] | None], place: Callable[[int], str]) -> Bag:
    """Count words. A word is a text, or its position in an unknown vocabulary.

    Args:
        lists: the words of each node; ``None`` is the empty list.
        place: describes where row ``i`` is.

    Example:
        >>> bag = bag_of_words([["b", "a", "b"], None], str)
        >>> bag.names, bag.counts.toarray().tolist()
        (['a', 'b'], [[1.0, 2.0], [0.0, 0.0]])
        >>> bag_of_words([[2], [0]], str).counts.shape
        (2, 3)
    """
    lengths = np.fromiter((0 if one is None else len(one) for one in lists), np.int64, len(lists))
    words = [word for one in lists if one is not None for word in one]
    indptr = np.concatenate([[0], np.cumsum(lengths)])

    def refuse(entry: int, what: str, expected: str) -> BadInput:
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        return BadInput(what, code="E-WORDS", place=place(row), found=words[entry], expected=expected)

    numbered = bool(words) and isinstance(words[0], (int, np.integer)) and not isinstance(words[0], bool)
    kinds: tuple[type, ...] = (int, np.integer) if numbered else (str,)
    for entry, word in enumerate(words):
        if not isinstance(word, kinds) or isinstance(word, bool):
            raise refuse(entry, "a word is neither text nor a position", "only text, or only integers from 0")
    if numbered:
        columns = _positions(words, refuse)
        names = [str(column) for column in range(int(columns.max()) + 1)]
    else:
        for entry, word in enumerate(words):
            if not word.strip():
                raise refuse(entry, "a word is empty", "words of at least one letter")
        names = sorted(set(words))
        if len(names) > MAX_COLUMNS:
            raise BadInput(
                f"there are {len(names):,} different words",
                code="E-WORDS",
                expected=f"at most {MAX_COLUMNS:,}",
                fix="leave out words that occur once",
            )
        position = {name: column for column, name in enumerate(names)}
        columns = np.fromiter((position[word] for word in words), np.int64, len(words))
    counts = sp.csr_array((np.ones(len(words), np.float32), columns, indptr), shape=(len(lists), len(names)))
    counts.sum_duplicates()
    return Bag(counts, names, numbered)


VOCABULARY_STEMS = ("vocabulary", "vocab", "feature_names")


def vocabulary_file(files: Iterable[str]) -> str | None:
    """The file that maps positions to words, if there is exactly one such as ``vocabulary.json``."""
    found = [
        one
        for one in files
        if one.lower().endswith((".json", ".txt")) and Path(one).stem.lower().endswith(VOCABULARY_STEMS)
    ]
    return found[0] if len(found) == 1 else None


def read_vocabulary(path: Path) -> list[str]:
    """Words in the order of their positions: one per line, a JSON list, or a JSON object from words to positions.

    An object from positions to words works too.
    """
    with opened(path) as stream:
        data = stream.read(LARGEST_VOCABULARY + 1)
    if len(data) > LARGEST_VOCABULARY:
        raise _no_vocabulary(path, f"it is larger than {LARGEST_VOCABULARY:,} bytes")
    try:
        text = data.decode("utf-8-sig")
        content = json.loads(text) if path.suffix.lower() == ".json" else text.splitlines()
    except (ValueError, RecursionError) as error:
        raise _no_vocabulary(path, shorten(str(error), 120)) from None
    if isinstance(content, dict):
        try:
            ordered = sorted((at, key) if isinstance(at, int) else (int(key), at) for key, at in content.items())
        except (TypeError, ValueError):
            raise _no_vocabulary(path, "its entries are not pairs of a word and a position") from None
        if [at for at, _ in ordered] != list(range(len(ordered))):
            raise _no_vocabulary(path, "its positions are not consecutive from 0")
        content = [word for _, word in ordered]
    words = [one.strip() if isinstance(one, str) else None for one in content] if isinstance(content, list) else []
    if not words or not all(words) or len(set(words)) < len(words):
        raise _no_vocabulary(path, "a word is empty, not text, or occurs twice")
    return [str(one) for one in words]


def _no_vocabulary(path: Path, what: str) -> BadInput:
    return BadInput(
        f"{path.name} can't be read as a vocabulary: {what}",
        code="E-WORDS",
        place=path.name,
        expected="a word per line, a JSON list of words, or a JSON object from words to positions",
        fix="correct the file, or rename it: words are then named by their numbers",
    )


def _positions(words: Sequence[int], refuse: Callable[[int, str, str], BadInput]) -> np.ndarray:
    odd = next((entry for entry, word in enumerate(words) if not 0 <= word < MAX_COLUMNS), None)
    if odd is not None:
        raise refuse(odd, "the position of a word is out of range", f"0 to {MAX_COLUMNS - 1:,}")
    return np.array(words, dtype=np.int64)


def split_texts(texts: Iterable[Any]) -> list[list[str] | None]:
    """Text split at blanks; characters are kept."""
    return [None if text is None else str(text).split() for text in texts]


def read_json_words(path: Path, node_ids: np.ndarray) -> tuple[Bag, list[Finding]]:
    """The words of every node from a JSON object such as ``{"7": [3, 14], "9": []}`` or ``{"ann": ["red", "tall"]}``.

    Args:
        path: the file.
        node_ids: of the graph; the keys are these ids, as text.

    Returns:
        the bag, in the order of ``node_ids``, and findings.
    """
    found = _load(path)
    rows = locate(list(found), node_ids)
    if (unknown := np.flatnonzero(rows < 0)).size:
        keys = list(found)
        raise BadInput(
            f"{len(unknown):,} keys of {path.name} are not among the nodes",
            code="E-NODE-UNKNOWN",
            place=path.name,
            found=keys[int(unknown[0])],
            expected=f"ids such as {shorten(str(node_ids[0]), 60)}",
            fix="correct the ids, or remove these keys",
        )
    lists: list[list[Any] | None] = [None] * len(node_ids)
    for row, words in zip(rows.tolist(), found.values(), strict=True):
        lists[row] = words
    bag = bag_of_words(lists, lambda row: f"{path.name}, key {shorten(str(node_ids[row]), 60)}")
    absent = [row for row, words in enumerate(lists) if words is None]
    if not absent:
        return bag, []
    where = tuple(shorten(str(node_ids[row]), 60) for row in absent[:5])
    message = f"{len(absent):,} nodes are not in {path.name} and have no words"
    return bag, [Finding("W-NO-WORDS", "warning", message, len(absent), where, "their features are all zero")]


def _load(path: Path) -> dict[str, list[Any]]:
    with opened(path) as stream:
        data = stream.read(LARGEST_JSON + 1)
    if len(data) > LARGEST_JSON:
        raise _json_error(path, f"it is larger than {LARGEST_JSON:,} bytes", "store the features in an .npz file")
    entries = data.count(b",") + 1
    lists = data.count(b"[") + data.count(b"{") + data.count(b":")
    fix = "store the features in an .npz file with CSR parts"
    refuse_cost(path, cost=entries * _PER_WORD + lists * _PER_LIST, size=len(data), fix=fix)
    try:
        content = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=lambda pairs: _once(pairs, path), parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise no_utf8(path, error) from None
    except RecursionError:
        raise _json_error(path, "it is nested too deeply", 'write {"id": [words]}') from None
    except json.JSONDecodeError as error:
        place = f"{path.name}, line {error.lineno}, column {error.colno}"
        raise _json_error(path, error.msg, "write or copy the file again", place) from None
    except ValueError as error:  # NaN, or a number with too many digits
        raise _json_error(path, shorten(str(error), 120), "write words as text or as integers") from None
    if not isinstance(content, Mapping):
        raise _json_error(path, f"it holds a {type(content).__name__}, not an object", 'write {"id": [words]}')
    for key, words in content.items():
        if not isinstance(words, list):
            what = f"the entry of '{shorten(key, 60)}' is not a list"
            raise _json_error(path, what, 'write {"id": [words]}', f"{path.name}, key {shorten(key, 60)}")
    return dict(content)


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _json_error(path, f"the key '{shorten(twice, 60)}' occurs twice", "keep one of the two")
    return result


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a word")


def _json_error(path: Path, what: str, fix: str, place: str | None = None) -> BadInput:
    return BadInput(
        f"{path.name} can't be read as words: {what}",
        code="E-JSON",
        place=place or path.name,
        expected='an object from node ids to lists of words, as in {"7": [3, 14]} or {"ann": ["red", "tall"]}',
        fix=fix,
    )
