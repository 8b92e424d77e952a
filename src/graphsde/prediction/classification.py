"""Class predictions: probabilities, and how they evolve along paths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphsde.base.errors import BadInput, Diverged
from graphsde.base.html import listed
from graphsde.prediction.base import Kind, Prediction


def entropy(probs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shannon entropy in nats, with 0 ln 0 = 0."""
    p = np.asarray(probs, dtype=np.float64)
    return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=axis)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits, over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


SMALLEST_PROBABILITY = 1e-12
"""That a logarithm is taken of where samples are compared."""


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """``ln Σ_c exp(z_c)`` without overflow.  # [N, C] -> [N]"""
    highest = logits.max(axis=-1, keepdims=True)
    return highest[:, 0] + np.log(np.exp(logits - highest).sum(axis=-1))


@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(Prediction):
    """Class probabilities of every item, with the model's uncertainty about them.

    Args:
        probs: probabilities per sample; one sample for a deterministic or an evidential model.  # [S, N, C]
        ids: of the items predicted.  # [N]
        class_names: one per column.
        kind: ``samples`` (draws from a posterior), ``deterministic``, ``dirichlet``, or ``gaussian`` (one sample whose
            state is Gaussian, in closed form).
        logits: unnormalised scores if the model has them, before any temperature.  # [S, N, C]
        embedding: the last hidden state, if the model has one.  # [N, h]
        alpha: Dirichlet concentrations of an evidential model.  # [N, C]
        temperature: what the logits were divided by to calibrate ``probs``; 1 if nothing was.
        uncalibrated: the prediction before a calibrator was applied, if one was.
        distance_aware: whether that calibrator makes nodes unlike the training nodes less certain.
        known_state: probabilities with the entropy that would be left if the hidden state were known, where what is
            unknown of it is part of ``probs`` in closed form: for every sample, or once for all.  # [S or 1, N, C]

    Example:
        >>> import numpy as np
        >>> p = ClassPrediction(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), np.array([7]), ("cat", "dog"), "samples")
        >>> p.label[0], round(float(p.confidence[0]), 2)
        ('cat', 0.7)
        >>> bool(np.isclose(p.total, p.aleatoric + p.epistemic)[0])
        True
    """

    probs: np.ndarray
    ids: np.ndarray
    class_names: tuple[str, ...]
    kind: Kind
    logits: np.ndarray | None = None
    embedding: np.ndarray | None = None
    alpha: np.ndarray | None = None
    temperature: float = 1.0
    uncalibrated: ClassPrediction | None = None
    distance_aware: bool = False
    known_state: np.ndarray | None = None
    target_kind = "classification"
    speaks_of = "classes"

    def __post_init__(self) -> None:
        shape = self.probs.shape
        if len(shape) != 3 or shape[1:] != (len(self.ids), len(self.class_names)):
            raise BadInput(
                f"probabilities of shape {shape} don't match {len(self.ids)} nodes and {len(self.class_names)} classes",
                code="E-LEN",
                expected="[samples, nodes, classes]",
            )
        if not np.all(np.isfinite(self.probs)):
            bad = int(np.count_nonzero(~np.isfinite(self.probs).all(axis=(0, 2))))
            raise Diverged(f"{bad} nodes have probabilities that are not finite", fix="lower the learning rate")
        if self.kind == "dirichlet" and self.alpha is None:
            raise BadInput(
                "a Dirichlet prediction needs its concentrations", expected="alpha of shape [nodes, classes]"
            )
        if self.kind == "gaussian" and self.known_state is None:
            raise BadInput(
                "a Gaussian prediction needs the probabilities of a known state", expected="known_state as probs"
            )
        if self.known_state is not None and (
            self.known_state.ndim != 3 or not len(self.known_state) or self.known_state.shape[1:] != shape[1:]
        ):
            raise BadInput(
                f"known_state has the shape {self.known_state.shape}", code="E-LEN", expected=f"{shape}, as probs"
            )

    @property
    def num_samples(self) -> int:
        return int(self.probs.shape[0])

    @property
    def num_classes(self) -> int:
        return int(self.probs.shape[2])

    @cached_property
    def mean(self) -> np.ndarray:
        """Predictive probabilities: the mean over samples, in float64.  # [N, C]"""
        mean = self.probs.mean(axis=0, dtype=np.float64)
        return mean / mean.sum(axis=-1, keepdims=True)

    @cached_property
    def index(self) -> np.ndarray:
        """Position of the most probable class.  # [N]"""
        return self.mean.argmax(axis=-1)

    @cached_property
    def label(self) -> np.ndarray:
        """Name of the most probable class.  # [N] object"""
        return np.array(self.class_names, dtype=object)[self.index]

    @cached_property
    def confidence(self) -> np.ndarray:
        """Probability of the most probable class.  # [N]"""
        return self.mean.max(axis=-1)

    @cached_property
    def total(self) -> np.ndarray:
        """Entropy of the predictive probabilities, in nats.  # [N]"""
        return entropy(self.mean)

    @cached_property
    def aleatoric(self) -> np.ndarray:
        """Entropy that remains once the sample, or the state, is known: ambiguity of the node itself.  # [N]

        For a deterministic model this is the whole of :attr:`total`.
        """
        if self.kind == "dirichlet" and self.alpha is not None:
            from scipy.special import digamma

            alpha = self.alpha.astype(np.float64)
            strength = alpha.sum(axis=-1, keepdims=True)
            return -np.sum(alpha / strength * (digamma(alpha + 1) - digamma(strength + 1)), axis=-1)
        mean = np.zeros(self.num_items)
        samples = self.probs if self.known_state is None else self.known_state
        for sample in samples:  # one sample at a time: a float64 copy of all of them could be large
            mean += entropy(sample)
        mean /= len(samples)
        # H(softmax(z/T)) grows with T, as dH/dT = Var(z)/T³ ≥ 0 under that softmax: not knowing the state, which
        # raises T, never lowers the entropy. What is above the total is rounding, or a calibrator applied on top.
        return mean if self.known_state is None else np.minimum(mean, self.total)

    @cached_property
    def epistemic(self) -> np.ndarray:
        """Mutual information between class and sample: disagreement among the samples.  # [N]

        With :attr:`known_state`, also the entropy that is due to not knowing the state.

        NaN for a deterministic model: undefined, which is not the same as zero.
        """
        if self.kind == "deterministic":
            return np.full(self.num_items, np.nan)
        return np.maximum(self.total - self.aleatoric, 0.0)

    def _facts(self) -> dict[str, object]:
        known = {} if self.num_items == 0 else {"mean confidence": float(self.confidence.mean())}
        return {"classes": self.num_classes, "named": listed(self.class_names), **known}

    def _rows(self, items: np.ndarray) -> list[dict[str, object]]:
        return [
            {
                "label": self.label[row],
                "confidence": float(self.confidence[row]),
                "entropy": float(self.total[row]),
                "aleatoric": float(self.aleatoric[row]),
                "epistemic": float(self.epistemic[row]),
            }
            for row in items.tolist()
        ]

    @property
    def has_logits(self) -> bool:
        return self.logits is not None

    @property
    def mean_logits(self) -> np.ndarray | None:
        """Mean of the logits over samples, in float64; ``None`` where there are none.  # [N, C]"""
        return None if self.logits is None else self.logits.mean(axis=0, dtype=np.float64)

    @property
    def votes(self) -> np.ndarray:
        """How many samples have each class as their most probable one.  # [N, C]"""
        votes = np.zeros((self.num_items, self.num_classes), dtype=np.int64)
        nodes = np.arange(self.num_items)
        for sample in self.probs:
            votes[nodes, sample.argmax(axis=-1)] += 1
        return votes

    @property
    def sample_variance(self) -> np.ndarray:
        """``Σ_c Var_s(p_sc)`` with denominator S − 1.  # [N]"""
        mean = self.probs.mean(axis=0, dtype=np.float64)
        squares = np.zeros(self.num_items)
        for sample in self.probs:
            squares += np.sum(np.square(sample - mean), axis=-1)
        return squares / (self.num_samples - 1)

    @property
    def pairwise_kl(self) -> np.ndarray:
        """Mean of ``KL(p_s ‖ p_t)`` over different samples, in nats; logarithms of at least 1e-12.  # [N]"""
        count = self.num_samples
        mean = np.zeros((self.num_items, self.num_classes))
        mean_log = np.zeros_like(mean)
        negentropy = np.zeros(self.num_items)
        for sample in self.probs:
            probs = sample.astype(np.float64)
            log = np.log(np.maximum(probs, SMALLEST_PROBABILITY))
            mean += probs / count
            mean_log += log / count
            negentropy += np.sum(probs * log, axis=-1) / count
        # the sum over all pairs factors into means; the S pairs s = t add nothing to it, hence S / (S − 1)
        over_all_pairs = negentropy - np.sum(mean * mean_log, axis=-1)
        return np.maximum(over_all_pairs, 0.0) * count / (count - 1)

    def free_energy(self, temperature: float = 1.0) -> np.ndarray:
        """``−T ln Σ_c exp(z_c / T)``, mean over samples.  # [N]"""
        assert self.logits is not None
        total = np.zeros(self.num_items)
        for logits in self.logits:  # one sample at a time: a float64 copy of all of them could be large
            total += log_sum_exp(logits.astype(np.float64) / temperature)
        return -temperature * total / len(self.logits)

    def with_samples(self, items: np.ndarray) -> ClassPrediction:
        """The prediction of some items (positions) with its samples."""
        return self.subset(items)

    def for_detection(self) -> ClassPrediction:
        """The prediction that detects OOD nodes best: before calibration, unless that is distance-aware.

        A temperature is fitted on nodes of known classes. One below 1 sharpens OOD nodes along with them, which
        hurts detection; the ranking by uncertainty among in-distribution nodes hardly changes.
        """
        return self if self.distance_aware else self.untempered()

    def untempered(self) -> ClassPrediction:
        """The prediction before calibration."""
        if self.uncalibrated is not None:
            return self.uncalibrated.untempered()
        if self.temperature == 1.0 or self.logits is None:
            return self
        known = self.known_state
        if known is not None:
            logs = np.log(np.maximum(np.asarray(known, dtype=np.float64), np.finfo(np.float64).tiny))
            known = softmax(self.temperature * logs).astype(known.dtype)
        found = replace(self, probs=softmax(self.logits), temperature=1.0, known_state=known)
        return found.of_the_graph_of(self)

    def subset(self, items: np.ndarray) -> ClassPrediction:
        """The prediction of some items (positions or a boolean mask)."""
        return replace(
            self,
            probs=self.probs[:, items],
            ids=self.ids[items],
            logits=None if self.logits is None else self.logits[:, items],
            embedding=None if self.embedding is None else self.embedding[items],
            alpha=None if self.alpha is None else self.alpha[items],
            uncalibrated=None if self.uncalibrated is None else self.uncalibrated.subset(items),
            known_state=None if self.known_state is None else self.known_state[:, items],
        )


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """How the probabilities of some nodes evolve along the paths of a stochastic model.

    Args:
        times: from 0 to the horizon.  # [M]
        probs: the decoder's output at each time.  # [M, S, n, C]
        ids: of the n nodes.
        class_names: one per class.
    """

    times: np.ndarray
    probs: np.ndarray
    ids: np.ndarray
    class_names: tuple[str, ...]

    def __repr__(self) -> str:
        moments, paths, nodes, _ = self.probs.shape
        return f"Trajectories({nodes:,} nodes, {paths:,} paths, {moments:,} times)"

    def band(self, node: int, position: int, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Pointwise central interval over paths of one class's probability.  # [M], [M]"""
        tail = (1.0 - coverage) / 2
        values = self.probs[:, :, node, position]
        return np.quantile(values, tail, axis=1), np.quantile(values, 1 - tail, axis=1)
