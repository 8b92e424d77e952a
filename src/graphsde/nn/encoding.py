"""From the user's columns to the numbers a model sees, learned once and stored with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.scratch import scratch_array
from graphsde.graph.graph import Graph

Scaling = Literal["auto", "row", "l2", "standard", "none"]

# above this many, the rare values of a text column share the all-zero code: a column of free text would otherwise
# make one input per node and teach the model nothing
MOST_CATEGORIES = 200
# one-hot blocks wider than this are kept sparse
WIDEST_DENSE_ONE_HOT = 64
# non-negative and at least this share of zeros: counts or indicators of words
BAG_OF_WORDS_ZEROS = 0.8
# which share of the rows of counts has a sum, or norm, below the least that a noisy row is divided by
LOW_SUM = 0.05
# fewer columns than this are properties of a node, not its words
FEWEST_WORDS = 20
# numbers of a dense matrix processed at once in float64
NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class FeatureEncoder:
    """Scaling of numeric columns and one-hot codes of text columns.

    Args:
        scaling: ``row`` (each row divided by its sum of absolute values; bag-of-words), ``l2`` (each row divided by its
            Euclidean norm), ``standard`` (zero mean and unit variance per column; sparse columns are scaled but not
            centred, so that they stay sparse) or ``none``.
        least_sum: for ``row`` and ``l2`` where they were fitted on counts: what a row with negative entries is divided
            by at least. Such a row is words with noise on them: its plain sum is still about that of the words, where
            the absolute values of noise on all columns would add up to several times as much and shrink the words. In
            the same way the sum of x |x| is about the squared norm of the words: most columns hold no word, and
            there the negative half of the noise cancels what the positive half adds.
        num_numeric: how many numeric columns it was fitted on.
        feature_names: their names, if they had any.
        mean, std: per numeric column, for ``standard``.
        vocabulary: the known values of each text column, in code order.

    The statistics are those of all nodes of the graph fitted on, labelled or not: features of every node are known in
    the transductive setting. Unknown or missing categories get the all-zero code.
    """

    scaling: Literal["row", "l2", "standard", "none"]
    num_numeric: int
    feature_names: tuple[str, ...] | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    vocabulary: dict[str, tuple[str, ...]] = field(default_factory=dict)
    least_sum: float | None = None

    @classmethod
    def fit(cls, graph: Graph, scaling: Scaling = "auto") -> FeatureEncoder:
        """The encoder of a graph's columns, cached per graph: estimates, models and scores all need it."""
        known = _FITTED.setdefault(graph, {})
        if scaling not in known:
            known[scaling] = cls._fit(graph, scaling)
        return known[scaling]

    @classmethod
    def _fit(cls, graph: Graph, scaling: Scaling) -> FeatureEncoder:
        chosen = _choose(graph) if scaling == "auto" else scaling
        if chosen not in ("row", "l2", "standard", "none"):
            raise BadUsage(f"unknown feature scaling '{scaling}'", expected="auto, row, l2, standard or none")
        mean = std = None
        if chosen == "standard":
            mean, std = _moments(graph.features)
        return cls(
            scaling=chosen,
            num_numeric=int(graph.features.shape[1]),
            feature_names=graph.feature_names,
            mean=mean,
            std=std,
            vocabulary={name: _frequent_values(column) for name, column in graph.categorical.items()},
            least_sum=_low_size(graph.features, chosen) if chosen in ("row", "l2") else None,
        )

    @property
    def width(self) -> int:
        """Columns of the encoded matrix."""
        return self.num_numeric + sum(len(values) for values in self.vocabulary.values())

    def transform(self, graph: Graph) -> np.ndarray | sp.csr_array:
        """The encoded features, float32, sparse if the input is sparse.  # [N, width]"""
        self._check_schema(graph)
        numeric = self._scale(graph.features)
        if not self.vocabulary:
            return numeric
        blocks = [_one_hot(graph.categorical[name], values) for name, values in self.vocabulary.items()]
        if sp.issparse(numeric) or sum(block.shape[1] for block in blocks) > WIDEST_DENSE_ONE_HOT:
            return sp.csr_array(sp.hstack([sp.csr_array(numeric), *blocks], format="csr", dtype=np.float32))
        return np.hstack([numeric, *[block.toarray() for block in blocks]]).astype(np.float32)

    def _scale(self, features: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
        if self.scaling == "l2" and not sp.issparse(features) and _mostly_zero(features):
            features = sp.csr_array(features)  # words in a dense table: sparse products and dropout cost a fraction
        if self.scaling in ("row", "l2"):
            return _row_normalize(features, self.scaling, self.least_sum)
        if self.scaling == "standard" and self.mean is not None and self.std is not None:
            if sp.issparse(features):
                scaled = sp.csr_array(features, copy=True, dtype=np.float32)
                scaled.data /= self.std[scaled.indices].astype(np.float32)
                return scaled
            mean, std = self.mean, self.std
            return _by_rows(features, lambda rows: (features[rows] - mean) / std)
        return features

    def _check_schema(self, graph: Graph) -> None:
        found = int(graph.features.shape[1])
        if self.feature_names is not None and graph.feature_names is not None:
            if self.feature_names != graph.feature_names:
                raise _schema_error("numeric columns", self.feature_names, graph.feature_names)
        elif found != self.num_numeric:
            raise BadInput(
                f"the model was fitted on {self.num_numeric} numeric features, this graph has {found}",
                code="E-SCHEMA",
                fix="use the same columns in the same order",
            )
        if tuple(self.vocabulary) != tuple(graph.categorical):
            raise _schema_error("text columns", tuple(self.vocabulary), tuple(graph.categorical))

    def as_dict(self) -> dict[str, Any]:
        return {
            "scaling": self.scaling,
            "num_numeric": self.num_numeric,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "mean": None if self.mean is None else self.mean.tolist(),
            "std": None if self.std is None else self.std.tolist(),
            "vocabulary": {name: list(values) for name, values in self.vocabulary.items()},
            "least_sum": self.least_sum,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> FeatureEncoder:
        names, mean, std = state["feature_names"], state["mean"], state["std"]
        return cls(
            scaling=state["scaling"],
            num_numeric=state["num_numeric"],
            feature_names=None if names is None else tuple(names),
            mean=None if mean is None else np.array(mean, dtype=np.float64),
            std=None if std is None else np.array(std, dtype=np.float64),
            vocabulary={name: tuple(values) for name, values in state["vocabulary"].items()},
            least_sum=state.get("least_sum"),  # models of earlier versions have none
        )


_FITTED: WeakKeyDictionary[Graph, dict[str, FeatureEncoder]] = WeakKeyDictionary()


def looks_like_bag_of_words(features: np.ndarray | sp.csr_array) -> bool:
    """Many non-negative columns that are mostly zero, or all zeros and ones: words, tags, indicators."""
    rows, columns = int(features.shape[0]), int(features.shape[1])
    if rows == 0 or columns < FEWEST_WORDS:
        return False
    values: np.ndarray = features.data if sp.issparse(features) else features  # type: ignore[assignment]
    if values.size and values.min() < 0:
        return False
    return bool(_mostly_zero(features) or np.isin(values, (0.0, 1.0)).all())


def _mostly_zero(features: np.ndarray | sp.csr_array) -> bool:
    values: np.ndarray = features.data if sp.issparse(features) else features  # type: ignore[assignment]
    return bool(np.count_nonzero(values) <= (1 - BAG_OF_WORDS_ZEROS) * features.shape[0] * features.shape[1])


def _choose(graph: Graph) -> Literal["row", "standard"]:
    if graph.categorical:
        return "standard"
    return "row" if looks_like_bag_of_words(graph.features) else "standard"


def _moments(features: Any) -> tuple[np.ndarray, np.ndarray]:
    if sp.issparse(features):
        rows = features.shape[0]
        mean = np.asarray(features.sum(axis=0, dtype=np.float64)).ravel() / rows
        square = np.asarray(features.power(2).sum(axis=0, dtype=np.float64)).ravel() / rows
        variance = np.maximum(square - mean**2, 0.0)
    else:
        mean = features.mean(axis=0, dtype=np.float64)
        variance = _variance(features, mean)
    # a constant column carries no information: leave it at zero instead of dividing by rounding noise
    std = np.sqrt(variance)
    std[std <= 1e-7 * np.maximum(1.0, np.abs(mean))] = 1.0
    return mean, std


def _variance(features: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Like ``features.var(axis=0, dtype=np.float64)``, bit by bit, without a second matrix of twice the size.  # [d]"""
    rows, columns = features.shape
    if columns < 2 or features.size <= NUMBERS_AT_ONCE or not features.flags.c_contiguous:  # summed in another order
        return np.asarray(features.var(axis=0, dtype=np.float64))
    total = np.zeros((1, columns))
    for block in _row_blocks(features):
        offset = features[block] - mean
        total = np.concatenate([total, np.square(offset, out=offset)]).sum(axis=0, keepdims=True)
    return total[0] / rows


def _by_rows(features: np.ndarray, scaled: Callable[[slice], np.ndarray]) -> np.ndarray:
    """The rows after ``scaled``, in float32; in blocks, since intermediate results are wider."""
    if features.size <= NUMBERS_AT_ONCE or not features.flags.c_contiguous:
        return scaled(slice(None)).astype(np.float32)  # in the layout that the features have
    result = scratch_array(features.shape, np.float32)
    for block in _row_blocks(features):
        result[block] = scaled(block)
    return result


def _row_blocks(features: np.ndarray) -> Iterator[slice]:
    rows = max(1, NUMBERS_AT_ONCE // features.shape[1])
    return (slice(start, start + rows) for start in range(0, len(features), rows))


def _low_size(features: np.ndarray | sp.csr_array, scaling: str) -> float | None:
    """A size that few rows of counts are below; ``None`` if there are negative entries, or no entries."""
    values: np.ndarray = features.data if sp.issparse(features) else features  # type: ignore[assignment]
    if values.size and values.min() < 0:
        return None
    sizes = _signed_sizes(features, scaling)
    sizes = sizes[sizes > 0]
    return float(np.quantile(sizes, LOW_SUM)) if sizes.size else None


def _signed_sizes(features: np.ndarray | sp.csr_array, scaling: str) -> np.ndarray:
    """Sum of x, or the root of the sum of x |x|, of every row; 0 if that sum is negative.  # [N]"""
    if scaling == "row":
        return np.asarray(features.sum(axis=1, dtype=np.float64)).ravel()
    if sp.issparse(features):
        squares = _sums_of_products(features, abs(features))
    else:  # in blocks, since a second table of absolute values takes longer to allocate than to sum
        blocks = (features[rows] for rows in _row_blocks(features))
        squares = np.concatenate([_sums_of_products(block, np.abs(block)) for block in blocks])
    return np.sqrt(np.maximum(squares, 0.0))


def _sums_of_products(one: Any, other: Any) -> np.ndarray:
    """Of the entries of each row, in float64.  # [N, d], [N, d] -> [N]"""
    if sp.issparse(one):
        return np.asarray((one * other).sum(axis=1, dtype=np.float64)).ravel()
    return np.einsum("nd,nd->n", one, other, dtype=np.float64)


def _row_normalize(features: np.ndarray | sp.csr_array, scaling: str, least: float | None) -> np.ndarray | sp.csr_array:
    if scaling == "row":
        total = np.asarray(abs(features).sum(axis=1, dtype=np.float64)).ravel()
    else:
        total = np.sqrt(_sums_of_products(features, features))
    if least is not None:
        noisy = np.asarray((features < 0).sum(axis=1)).ravel() > 0
        total = np.where(noisy, np.maximum(_signed_sizes(features, scaling), least), total)
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    if sp.issparse(features):
        scaled = sp.csr_array(features, copy=True, dtype=np.float32)
        rows = np.repeat(np.arange(scaled.shape[0]), np.diff(scaled.indptr))
        scaled.data = (scaled.data * scale[rows]).astype(np.float32)
        return scaled
    return _by_rows(features, lambda rows: features[rows] * scale[rows, None])


def _frequent_values(column: np.ndarray) -> tuple[str, ...]:
    counts = Counter(value for value in column if value is not None)
    # by frequency, then by name: the same column always gives the same codes
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    return tuple(sorted(ranked[:MOST_CATEGORIES]))


def _one_hot(column: np.ndarray, values: tuple[str, ...]) -> sp.csr_array:
    code = {value: position for position, value in enumerate(values)}
    positions = np.array([code.get(value, -1) for value in column], dtype=np.int64)
    known = np.flatnonzero(positions >= 0)
    return sp.csr_array(
        (np.ones(known.size, dtype=np.float32), (known, positions[known])), shape=(len(column), len(values))
    )


def _schema_error(what: str, expected: tuple[str, ...], found: tuple[str, ...]) -> BadInput:
    missing = [name for name in expected if name not in set(found)]
    extra = [name for name in found if name not in set(expected)]
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"missing: {_listed(missing)}")
        if extra:
            parts.append(f"unknown to the model: {_listed(extra)}")
        difference = "; ".join(parts)
    else:
        first = next(i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
        difference = f"same names in another order, from column {first + 1}: '{found[first]}' for '{expected[first]}'"
    return BadInput(
        f"the {what} differ from those the model was fitted on ({difference})",
        code="E-SCHEMA",
        expected=f"{len(expected)} columns: {_listed(list(expected))}",
        fix="use the same columns in the same order",
    )


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(shorten(name, 40) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
