"""The seam: what a model hands to everything after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, Diverged

Kind = Literal["deterministic", "samples", "dirichlet"]
NumericKind = Literal["deterministic", "samples", "gaussian"]


@dataclass(frozen=True)
class Perturb:
    """Ask a model for the prediction at features moved a small step towards its own answer (ODIN's question).

    ``x' = x − size · scale · sign(∇_x Σ_i CE(z_i(x)/T, argmax z_i))``, all nodes at once, where ``scale`` is the
    standard deviation of the features as the model sees them.

    Args:
        size: of the step, in standard deviations.
        temperature: T.
    """

    size: float
    temperature: float = 1.0


class Predictor(Protocol):
    """What a score may ask of a model: further predictions on a :class:`~graphsde.graph.graph.Graph`, nothing else."""

    def predict(
        self, graph: Any, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction: ...


def entropy(probs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shannon entropy in nats, with 0 ln 0 = 0."""
    p = np.asarray(probs, dtype=np.float64)
    return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=axis)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities of every node, with the spread that the model has over them.

    Scores, conformal sets, decisions and figures are pure functions of this and of the graph; none looks into a model.

    Args:
        probs: probabilities per sample; one sample for a deterministic or an evidential model.  # [S, N, C]
        node_ids: the ids of the graph predicted on.  # [N]
        class_names: one per column.
        kind: ``samples`` (draws from a posterior), ``deterministic`` or ``dirichlet``.
        logits: unnormalised scores where the model has them, before any temperature.  # [S, N, C]
        embedding: the last hidden state where the model has one.  # [N, h]
        alpha: Dirichlet concentrations of an evidential model.  # [N, C]
        temperature: what the logits were divided by to calibrate ``probs``; 1 where nothing was.
        uncalibrated: the prediction before a calibrator was applied, where one was.

    Example:
        >>> import numpy as np
        >>> p = Prediction(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), np.array([7]), ("cat", "dog"), "samples")
        >>> p.label[0], round(float(p.confidence[0]), 2)
        ('cat', 0.7)
        >>> bool(np.isclose(p.total, p.aleatoric + p.epistemic)[0])
        True
    """

    probs: np.ndarray
    node_ids: np.ndarray
    class_names: tuple[str, ...]
    kind: Kind
    logits: np.ndarray | None = None
    embedding: np.ndarray | None = None
    alpha: np.ndarray | None = None
    temperature: float = 1.0
    uncalibrated: Prediction | None = None

    def __post_init__(self) -> None:
        shape = self.probs.shape
        if len(shape) != 3 or shape[1:] != (len(self.node_ids), len(self.class_names)):
            raise BadInput(
                f"probabilities of shape {shape} don't fit {len(self.node_ids)} nodes and "
                f"{len(self.class_names)} classes",
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

    @property
    def num_samples(self) -> int:
        return int(self.probs.shape[0])

    @property
    def num_nodes(self) -> int:
        return int(self.probs.shape[1])

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
        """Entropy that remains once the sample is known: ambiguity of the node itself.  # [N]

        For a deterministic model this is the whole of :attr:`total`.
        """
        if self.kind == "dirichlet" and self.alpha is not None:
            from scipy.special import digamma

            alpha = self.alpha.astype(np.float64)
            strength = alpha.sum(axis=-1, keepdims=True)
            return -np.sum(alpha / strength * (digamma(alpha + 1) - digamma(strength + 1)), axis=-1)
        mean = np.zeros(self.num_nodes)
        for sample in self.probs:  # one sample at a time: a float64 copy of all of them could be large
            mean += entropy(sample)
        return mean / self.num_samples

    @cached_property
    def epistemic(self) -> np.ndarray:
        """Mutual information between class and sample: disagreement among the samples.  # [N]

        NaN for a deterministic model: it has no notion of it, which is not the same as having none.
        """
        if self.kind == "deterministic":
            return np.full(self.num_nodes, np.nan)
        return np.maximum(self.total - self.aleatoric, 0.0)

    def untempered(self) -> Prediction:
        """The prediction before calibration, for telling foreign nodes.

        A temperature is fitted on nodes of known classes. One below 1 sharpens foreign nodes along with them, which
        costs detection; the ranking by uncertainty among familiar nodes hardly changes.
        """
        if self.uncalibrated is not None:
            return self.uncalibrated.untempered()
        if self.temperature == 1.0 or self.logits is None:
            return self
        shifted = np.exp(self.logits - self.logits.max(axis=-1, keepdims=True))
        return replace(self, probs=shifted / shifted.sum(axis=-1, keepdims=True), temperature=1.0)

    def subset(self, nodes: np.ndarray) -> Prediction:
        """The prediction of some nodes (positions or a boolean mask)."""
        return replace(
            self,
            probs=self.probs[:, nodes],
            node_ids=self.node_ids[nodes],
            logits=None if self.logits is None else self.logits[:, nodes],
            embedding=None if self.embedding is None else self.embedding[nodes],
            alpha=None if self.alpha is None else self.alpha[nodes],
            uncalibrated=None if self.uncalibrated is None else self.uncalibrated.subset(nodes),
        )


class NotForNumbers(BadUsage, AttributeError):
    """Something that only a prediction of classes has was asked of a prediction of numbers."""

    default_code = "E-TARGET"


@dataclass(frozen=True, eq=False)
class NumericPrediction:
    r"""A number for every node, with its uncertainty: the sibling of :class:`Prediction` for numeric targets.

    The predictive distribution of a node is the equal mixture of the Gaussians of its samples. Its variance splits by
    the law of total variance: :math:`\sigma^2 = E_s[v_s] + (E_s[k_s] + \mathrm{Var}_s[m_s])`, aleatoric and epistemic,
    where k is variance of the mean that a model knows in closed form (a Gaussian process) and 0 elsewhere.

    Args:
        means: per sample, in the target's own unit.  # [S, N]
        variances: of the noise around each of them.  # [S, N]
        node_ids: the ids of the graph predicted on.  # [N]
        kind: ``samples``, ``deterministic``, or ``gaussian`` (one Gaussian, both parts in closed form).
        known: variance of the mean within a sample; ``None`` is 0.  # [S, N]
        embedding: the last hidden state where the model has one.  # [N, h]

    Example:
        >>> import numpy as np
        >>> p = NumericPrediction(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]), np.array([7]), "samples")
        >>> p.mean.tolist(), p.aleatoric.tolist(), p.epistemic.tolist(), p.total.tolist()
        ([2.0], [1.0], [1.0], [2.0])
    """

    means: np.ndarray
    variances: np.ndarray
    node_ids: np.ndarray
    kind: NumericKind
    known: np.ndarray | None = None
    embedding: np.ndarray | None = None

    def __post_init__(self) -> None:
        for what, array in (("means", self.means), ("variances", self.variances), ("known", self.known)):
            if array is None:
                continue
            if array.ndim != 2 or array.shape != (len(self.means), len(self.node_ids)):
                raise BadInput(
                    f"{what} of shape {array.shape} don't fit {len(self.node_ids)} nodes",
                    code="E-LEN",
                    expected="[samples, nodes]",
                )
            if not np.all(np.isfinite(array)):
                bad = int(np.count_nonzero(~np.isfinite(array).all(axis=0)))
                raise Diverged(f"{bad} nodes have {what} that are not finite", fix="lower the learning rate")
        if np.any(self.variances <= 0) or (self.known is not None and np.any(self.known < 0)):
            raise BadInput("a variance is not positive", expected="variances above 0")

    def __getattr__(self, name: str) -> Any:
        if name in Prediction.__dataclass_fields__ or (hasattr(Prediction, name) and not name.startswith("_")):
            raise NotForNumbers(
                f"this needs class probabilities ('{name}'), and the model predicts numbers",
                expected="mean, total, aleatoric, epistemic, interval, quantile",
                fix="use check, fit, predict, evaluate, calibrate, decide, report, ask or learn, which know numbers",
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def num_samples(self) -> int:
        return int(self.means.shape[0])

    @property
    def num_nodes(self) -> int:
        return int(self.means.shape[1])

    @cached_property
    def mean(self) -> np.ndarray:
        """Predictive mean.  # [N]"""
        return self.means.mean(axis=0, dtype=np.float64)

    @cached_property
    def total(self) -> np.ndarray:
        """Variance of the predictive distribution, in the square of the target's unit.  # [N]"""
        return self.aleatoric + (0.0 if self.kind == "deterministic" else self.epistemic)

    @cached_property
    def aleatoric(self) -> np.ndarray:
        """Variance that remains once the sample is known: noise of the node itself.  # [N]"""
        return self.variances.mean(axis=0, dtype=np.float64)

    @cached_property
    def epistemic(self) -> np.ndarray:
        """Variance of the mean: what the model has not settled.  # [N]

        NaN for a deterministic model: it has no notion of it, which is not the same as having none.
        """
        if self.kind == "deterministic":
            return np.full(self.num_nodes, np.nan)
        spread = self.means.var(axis=0, dtype=np.float64)
        return spread if self.known is None else spread + self.known.mean(axis=0, dtype=np.float64)

    @cached_property
    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the Gaussians that are mixed.  # [S, N], [S, N]"""
        variances = self.variances.astype(np.float64)
        return self.means.astype(np.float64), np.sqrt(variances if self.known is None else variances + self.known)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        """Probability that a node's value is at most ``values``.  # [N] -> [N]"""
        from scipy.special import ndtr

        means, deviations = self.components
        return ndtr((values - means) / deviations).mean(axis=0)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """``ln (1/S) Σ_s N(y_i; m_si, σ²_si)``, in the target's unit.  # [N] -> [N]"""
        from scipy.special import logsumexp

        means, deviations = self.components
        logs = -0.5 * np.square((values - means) / deviations) - np.log(deviations) - 0.5 * np.log(2 * np.pi)
        return logsumexp(logs, axis=0) - np.log(len(means))

    def quantile(self, level: float) -> np.ndarray:
        """Value below which a node lies with probability ``level``, by bisection.  # [N]"""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise BadUsage(f"there is no quantile {level}", found=level, expected="a level between 0 and 1")
        means, deviations = self.components
        each = means + deviations * ndtri(level)
        low, high = each.min(axis=0), each.max(axis=0)  # the mixture's quantile lies between those of its parts
        for _ in range(60 if self.num_samples > 1 else 0):
            middle = (low + high) / 2
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def interval(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Central interval that should hold the value with probability ``coverage``.  # [N], [N]"""
        tail = (1.0 - coverage) / 2
        return self.quantile(tail), self.quantile(1.0 - tail)

    def beyond(self, tolerance: float) -> np.ndarray:
        """Probability that a node's value lies farther than ``tolerance`` from its predicted mean.  # [N]"""
        if not 0 < tolerance < np.inf:
            raise BadUsage("a tolerance is a distance", found=tolerance, expected="a number above 0")
        return 1.0 - (self.cdf(self.mean + tolerance) - self.cdf(self.mean - tolerance))

    def widened(self, factor: float) -> NumericPrediction:
        """The same distribution stretched by ``factor`` around its mean: every deviation is multiplied with it."""
        mean = self.means.mean(axis=0, dtype=np.float64)
        return replace(
            self,
            means=mean + factor * (self.means - mean),
            variances=factor**2 * self.variances,
            known=None if self.known is None else factor**2 * self.known,
        )

    def subset(self, nodes: np.ndarray) -> NumericPrediction:
        """The prediction of some nodes (positions or a boolean mask)."""
        return replace(
            self,
            means=self.means[:, nodes],
            variances=self.variances[:, nodes],
            node_ids=self.node_ids[nodes],
            known=None if self.known is None else self.known[:, nodes],
            embedding=None if self.embedding is None else self.embedding[nodes],
        )


@dataclass(frozen=True, eq=False)
class Trajectories:
    """How the probabilities of some nodes arise along the paths of a stochastic model.

    Args:
        times: from 0 to the horizon.  # [M]
        probs: what the decoder would say at each time.  # [M, S, n, C]
        node_ids: of the n nodes.
        class_names: one per class.
    """

    times: np.ndarray
    probs: np.ndarray
    node_ids: np.ndarray
    class_names: tuple[str, ...]

    def band(self, node: int, position: int, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Pointwise central interval over paths of one class's probability.  # [M], [M]"""
        tail = (1.0 - coverage) / 2
        values = self.probs[:, :, node, position]
        return np.quantile(values, tail, axis=1), np.quantile(values, 1 - tail, axis=1)
