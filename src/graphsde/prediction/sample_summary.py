"""Sums over samples, node by node, when there are too many samples to keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.prediction.classification import SMALLEST_PROBABILITY, entropy, log_sum_exp

# of one sample at a time: intermediate arrays stay small compared with the sums
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class SampleSummary:
    """Means over the samples of class probabilities, and what scores read of their spread.

    Args:
        count: how many samples there were.
        mean: of the probabilities.  # [N, C] float64
        entropy: mean of H(p_s).  # [N]
        gini: mean of Σ_c p_sc (1 − p_sc).  # [N]
        variance: Σ_c Var_s(p_sc), with denominator S − 1; NaN for one sample.  # [N]
        pairwise_kl: mean of KL(p_s ‖ p_t) over different s and t; NaN for one sample.  # [N]
        votes: samples whose most probable class is c.  # [N, C]
        logits: mean of the logits; ``None`` where there are none.  # [N, C] float64
        log_sum_exp: mean of ln Σ_c exp(z_sc), as above.  # [N]
    """

    count: int
    mean: np.ndarray
    entropy: np.ndarray
    gini: np.ndarray
    variance: np.ndarray
    pairwise_kl: np.ndarray
    votes: np.ndarray
    logits: np.ndarray | None = None
    log_sum_exp: np.ndarray | None = None

    def take(self, items: np.ndarray) -> SampleSummary:
        """Of some nodes (positions or a boolean mask)."""
        arrays = {name: array[items] for name, array in self.arrays().items()}
        return SampleSummary(self.count, **arrays)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but the count, by name."""
        found = {name: value for name, value in vars(self).items() if name != "count"}
        return {name: array for name, array in found.items() if array is not None}


class SampleSums:
    """Running sums over samples, for all nodes.

    Samples are added in order, so that a mean has the same bits as over all of them at once.

    Args:
        nodes, classes: how many.
        logits: whether they come with logits.
    """

    def __init__(self, nodes: int, classes: int, *, logits: bool) -> None:
        self.count = 0
        self.probs, self.logs = np.zeros((nodes, classes)), np.zeros((nodes, classes))
        self.entropy, self.gini, self.squares, self.negentropy = (np.zeros(nodes) for _ in range(4))
        self.votes = np.zeros((nodes, classes), dtype=np.uint32)
        self.logits = np.zeros((nodes, classes)) if logits else None
        self.log_sum_exp = np.zeros(nodes) if logits else None

    def add(self, probs: np.ndarray, logits: np.ndarray | None = None) -> None:
        """The next sample, of all nodes.  # [N, C], [N, C]"""
        for start in range(0, len(probs), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            self.add_rows(rows, probs[rows], None if logits is None else logits[rows])
        self.next()

    def add_rows(self, rows: slice, probs: np.ndarray, logits: np.ndarray | None = None) -> None:
        """Add the next sample of some nodes; call :meth:`next` once all nodes are added."""
        p = probs.astype(np.float64)
        # Welford's method: sums of squares would cancel if samples hardly differ
        before = p - self.probs[rows] / max(self.count, 1)
        self.probs[rows] += p
        self.squares[rows] += np.sum(before * (p - self.probs[rows] / (self.count + 1)), axis=-1) if self.count else 0.0
        self.entropy[rows] += entropy(p)
        self.gini[rows] += np.sum(p * (1.0 - p), axis=-1)
        logs = np.log(np.maximum(p, SMALLEST_PROBABILITY))
        self.logs[rows] += logs
        self.negentropy[rows] += np.sum(p * logs, axis=-1)
        nodes = np.arange(len(p))
        self.votes[rows][nodes, probs.argmax(axis=-1)] += 1
        if logits is not None and self.logits is not None and self.log_sum_exp is not None:
            z = logits.astype(np.float64)
            self.logits[rows] += z
            self.log_sum_exp[rows] += log_sum_exp(z)

    def next(self) -> None:
        """All nodes of a sample have been added."""
        self.count += 1

    def finished(self) -> SampleSummary:
        """Means of what was added; the sums themselves are used up."""
        count = self.count
        mean = self.probs
        mean /= count
        self.logs /= count
        # the sum over all pairs factors into means; the S pairs s = t add nothing to it, hence S / (S − 1)
        apart = self.negentropy / count - np.sum(mean * self.logs, axis=-1)
        del self.logs
        pairs = count - 1 if count > 1 else np.nan
        if self.logits is not None and self.log_sum_exp is not None:
            self.logits /= count
            self.log_sum_exp /= count
        return SampleSummary(
            count=count,
            mean=mean,
            entropy=self.entropy / count,
            gini=self.gini / count,
            variance=self.squares / pairs,
            pairwise_kl=np.maximum(apart, 0.0) * count / pairs,
            votes=self.votes.astype(np.min_scalar_type(count)),
            logits=self.logits,
            log_sum_exp=self.log_sum_exp,
        )
