"""Draws of nodes with replacement, as counts; and what ranks nodes, computed for many draws at once.

A draw of n nodes out of n is how often each of them is in it. Counts keep the order of the nodes, so that nodes are
sorted once for all draws; every function here gives exactly what the metric gives on the nodes that were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphsde.base.seeds import check_seed, numpy_stream

DRAWS = 1000
FEWEST_DRAWS = 100
MOST_COUNTS = 20_000_000
_AT_ONCE = 1_000_000


def number_of_draws(nodes: int, draws: int = DRAWS) -> int:
    """How many draws are made: fewer above 20,000 nodes, so that the work stays constant."""
    return min(draws, max(FEWEST_DRAWS, MOST_COUNTS // max(nodes, 1)))


def drawn_counts(*groups: int, draws: int = DRAWS, seed: int = 0) -> Iterator[np.ndarray]:
    """How often each node is drawn, some draws at a time.  # [b, n] float64 each

    Args:
        groups: sizes of groups of nodes that are drawn separately, concatenated in the counts.
        draws: how many in all.
        seed: of the draws. Groups of the same sizes get the same draws, so that two models can be compared on them.

    Example:
        >>> counts = np.concatenate(list(drawn_counts(3, 2, draws=5)))
        >>> counts.shape, counts[:, :3].sum(axis=1).tolist()
        ((5, 5), [3.0, 3.0, 3.0, 3.0, 3.0])
    """
    stream = numpy_stream(check_seed(seed), "metrics", "bootstrap", *groups)
    block = max(1, _AT_ONCE // max(1, sum(groups)))
    for first in range(0, draws, block):
        yield np.hstack([_counts(stream, min(block, draws - first), nodes) for nodes in groups])


def _counts(stream: np.random.Generator, draws: int, nodes: int) -> np.ndarray:
    if not nodes:
        return np.zeros((draws, 0))
    chosen = stream.integers(nodes, size=(draws, nodes)) + nodes * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * nodes).reshape(draws, nodes).astype(np.float64)


def binned_sums(counts: np.ndarray, bin_of: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums of ``values`` over the nodes drawn, by bin.  # [b, n], [n], [n] -> [b, B]"""
    table = np.zeros((len(values), int(bin_of.max()) + 1))
    table[np.arange(len(values)), bin_of] = values
    return counts @ table


class RankedNodes:
    """Nodes in ascending order of a value, equal ones together, some of them marked.

    Args:
        values: to rank by.  # [n]
        marked: errors, or OOD nodes.  # [n] bool
    """

    def __init__(self, values: np.ndarray, marked: np.ndarray) -> None:
        self.order = np.argsort(values, kind="stable")
        self.values = values[self.order]
        self.first = np.flatnonzero(np.append(True, self.values[1:] != self.values[:-1]))
        self.marked = marked[self.order].astype(np.float64)

    def blocks(self, counts: np.ndarray) -> Blocks:
        """# [b, n] -> of each block of equal values"""
        size = counts[:, self.order]
        hits = size * self.marked
        if len(self.first) < len(self.order):
            size, hits = np.add.reduceat(size, self.first, axis=1), np.add.reduceat(hits, self.first, axis=1)
        return Blocks(size, hits, self.values[self.first])


class Blocks:
    """How many nodes of each distinct value were drawn, in ascending order.

    Args:
        size: all of them.  # [b, B]
        hits: those that are marked.  # [b, B]
        values: the distinct values.  # [B]
    """

    def __init__(self, size: np.ndarray, hits: np.ndarray, values: np.ndarray) -> None:
        self.size, self.hits, self.values = size, hits, values
        self.kept, self.wrong = np.cumsum(size, axis=1), np.cumsum(hits, axis=1)

    @property
    def nodes(self) -> int:
        return round(float(self.kept[0, -1]))

    @property
    def marked(self) -> np.ndarray:
        """# [b]"""
        return self.wrong[:, -1]

    def auroc(self) -> np.ndarray:
        """Chance that a marked node has a higher value than another; NaN if a draw has only one kind.  # [b]"""
        misses = self.size - self.hits
        below = (self.kept - self.wrong) - 0.5 * misses
        return _divided((self.hits * below).sum(axis=1), self.marked * (self.nodes - self.marked))

    def precision_of_high(self) -> np.ndarray:
        """Average precision of finding marked nodes by high values.  # [b]"""
        size, hits = self.size[:, ::-1], self.hits[:, ::-1]
        return self._average_precision(np.cumsum(size, axis=1), np.cumsum(hits, axis=1), hits)

    def precision_of_low(self) -> np.ndarray:
        """Average precision of finding nodes that are not marked by low values.  # [b]"""
        return self._average_precision(self.kept, self.kept - self.wrong, self.size - self.hits)

    def _average_precision(self, kept: np.ndarray, found: np.ndarray, new: np.ndarray) -> np.ndarray:
        both = (self.marked > 0) & (self.marked < self.nodes)
        area = np.sum(found / np.maximum(kept, 1) * new, axis=1)
        return np.where(both, _divided(area, found[:, -1]), np.nan)

    def aurc(self) -> np.ndarray:
        """Mean share of marked nodes among the k lowest, k = 1 … n.  # [b]

        Among the first j of a block of s nodes with h marked ones, after K nodes with E marked ones, there are
        ``E + j h/s`` in ``K + j``; the sum over j is ``h + (E − K h/s) (H(K + s) − H(K))`` with harmonic numbers H.
        """
        before, wrong_before = self.kept - self.size, self.wrong - self.hits
        share = self.hits / np.maximum(self.size, 1)
        sums = harmonic(self.nodes)
        steps = sums[self.kept.astype(np.int64)] - sums[before.astype(np.int64)]
        return np.sum(self.hits + (wrong_before - share * before) * steps, axis=1) / self.nodes

    def excess_aurc(self) -> np.ndarray:
        """AURC less that of the best order.  # [b]"""
        right = (self.nodes - self.marked).astype(np.int64)
        sums = harmonic(self.nodes)
        best = (self.marked - right * (sums[-1] - sums[right])) / self.nodes
        return np.maximum(self.aurc() - best, 0.0)

    def _kept_errors(self) -> np.ndarray:
        """Sum over k of the expected marked nodes among the k lowest.  # [b]"""
        return np.sum(self.size * (self.wrong - self.hits) + self.hits * (self.size + 1) / 2, axis=1)

    def augrc(self) -> np.ndarray:
        """# [b]"""
        return self._kept_errors() / self.nodes**2

    def prr(self) -> np.ndarray:
        """# [b]"""
        n, m = self.nodes, self.marked
        return _divided(n * m / 2 - (self._kept_errors() - m / 2), n * m / 2 - m * m / 2)

    def fpr95(self) -> np.ndarray:
        """Share of marked nodes at or below the 95 % quantile of the others.  # [b]"""
        others = self.kept - self.wrong
        needed = -(-95 * round(float(others[0, -1])) // 100)
        at = np.argmax(others >= needed, axis=1)
        return _divided(self.wrong[np.arange(len(at)), at], self.marked)

    def detection_accuracy(self) -> np.ndarray:
        """The best balanced accuracy of detecting marked nodes over all thresholds.  # [b]"""
        return np.maximum(0.5, self._balanced().max(axis=1))

    def detection_accuracy_grid(self, points: int = 10) -> np.ndarray:
        """The same over equally spaced thresholds from the lowest to the highest value drawn.  # [b]"""
        balanced = np.hstack([np.full((len(self.size), 1), 0.5), self._balanced()])
        best = np.empty(len(self.size))
        for draw, size in enumerate(self.size):
            drawn = self.values[size > 0]
            at = np.searchsorted(self.values, np.linspace(drawn[0], drawn[-1], points), side="right")
            best[draw] = balanced[draw, at].max()
        return np.maximum(0.5, best)

    def _balanced(self) -> np.ndarray:
        accepted = self.kept - self.wrong
        return 0.5 * (accepted / accepted[:, -1:] + 1.0 - self.wrong / self.wrong[:, -1:])


class MassBins:
    """Bins that hold equally many of the nodes drawn, in ascending order of a value.

    Nodes of equal value on either side of a cut share what is summed, so that the sums are those between two points of
    a line through the cumulative sums.

    Args:
        values: to bin by.  # [n]
        bins: how many; with fewer nodes than bins, one bin per node.
    """

    def __init__(self, values: np.ndarray, bins: int) -> None:
        self.ranked = RankedNodes(values, np.zeros(len(values), dtype=bool))
        positions = np.arange(bins + 1) * len(values)
        self.cuts = np.unique(-(-positions // bins)).astype(np.float64)

    @property
    def sizes(self) -> np.ndarray:
        """Nodes per bin, the same in every draw.  # [B]"""
        return np.diff(self.cuts)

    def sums(self, counts: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
        """Sums of each column by bin.  # [b, n], [n] … -> [b, B] …"""
        ends = np.append(self.ranked.first[1:], len(self.ranked.order)) - 1
        counts = counts[:, self.ranked.order]
        reached = np.cumsum(counts, axis=1)[:, ends]
        found = []
        for column in columns:
            totals = np.cumsum(counts * column[self.ranked.order], axis=1)[:, ends]
            at = [
                np.interp(self.cuts, np.append(0.0, x), np.append(0.0, y)) for x, y in zip(reached, totals, strict=True)
            ]
            found.append(np.diff(np.array(at), axis=1))
        return found


def drawn_ranks(counts: np.ndarray, ranked: RankedNodes) -> np.ndarray:
    """Rank of every node among those drawn, from 1, equal ones at their mean; in the nodes' order.  # [b, n]"""
    blocks = ranked.blocks(counts)
    middle = blocks.kept - (blocks.size - 1) / 2
    repeats = np.diff(np.append(ranked.first, len(ranked.order)))
    ranks = np.empty_like(counts)
    ranks[:, ranked.order] = np.repeat(middle, repeats, axis=1)
    return ranks


def harmonic(nodes: int) -> np.ndarray:
    """0, 1, 1 + 1/2, …  # [n + 1]"""
    return np.append(0.0, np.cumsum(1.0 / np.arange(1, nodes + 1)))


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
