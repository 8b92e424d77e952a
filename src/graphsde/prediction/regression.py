"""Regression predictions: mixtures of Gaussians, and the parts of their variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, Diverged
from graphsde.prediction.base import Kind, Prediction
from graphsde.prediction.classification import ClassPrediction


class OfAnotherKind(BadUsage, AttributeError):
    """A property was requested that only another kind of prediction has."""

    default_code = "E-TARGET"


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPrediction(Prediction):
    r"""A number for every item, with its uncertainty.

    The predictive distribution of a node is the equal mixture of the Gaussians of its samples. Its variance splits by
    the law of total variance: :math:`\sigma^2 = E_s[v_s] + (E_s[k_s] + \mathrm{Var}_s[m_s])`, aleatoric and epistemic,
    where k is variance of the mean that a model knows in closed form (a Gaussian process) and 0 elsewhere.

    Args:
        means: per sample, in the target's own unit.  # [S, N]
        variances: of the noise around each of them.  # [S, N]
        ids: of the items predicted.  # [N]
        kind: ``samples``, ``deterministic``, or ``gaussian`` (one Gaussian, both parts in closed form).
        known: variance of the mean within a sample; ``None`` is 0.  # [S, N]
        embedding: the last hidden state, if the model has one.  # [N, h]

    Example:
        >>> import numpy as np
        >>> p = RegressionPrediction(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]), np.array([7]), "samples")
        >>> p.mean.tolist(), p.aleatoric.tolist(), p.epistemic.tolist(), p.total.tolist()
        ([2.0], [1.0], [1.0], [2.0])
    """

    means: np.ndarray
    variances: np.ndarray
    ids: np.ndarray
    kind: Kind
    known: np.ndarray | None = None
    embedding: np.ndarray | None = None
    target_kind = "regression"
    speaks_of = "numbers"

    def __post_init__(self) -> None:
        for what, array in (("means", self.means), ("variances", self.variances), ("known", self.known)):
            if array is None:
                continue
            if array.ndim != 2 or array.shape != (len(self.means), len(self.ids)):
                raise BadInput(
                    f"{what} of shape {array.shape} don't match {len(self.ids)} nodes",
                    code="E-LEN",
                    expected="[samples, nodes]",
                )
            if not np.all(np.isfinite(array)):
                bad = int(np.count_nonzero(~np.isfinite(array).all(axis=0)))
                raise Diverged(f"{bad} nodes have {what} that are not finite", fix="lower the learning rate")
        if np.any(self.variances <= 0) or (self.known is not None and np.any(self.known < 0)):
            raise BadInput("a variance is not positive", expected="variances above 0")

    if not TYPE_CHECKING:  # type checkers should see the missing attribute, people should get a message

        def __getattr__(self, name: str) -> Any:
            if hasattr(ClassPrediction, name) or name in ClassPrediction.__dataclass_fields__:
                raise OfAnotherKind(
                    f"this needs class probabilities ('{name}'), but the model predicts numbers",
                    expected="mean, total, aleatoric, epistemic, interval, quantile",
                )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _facts(self) -> dict[str, object]:
        if not self.num_items:
            return {}
        lowest, highest = float(self.mean.min()), float(self.mean.max())
        return {"mean": float(self.mean.mean()), "from": lowest, "to": highest}

    def _rows(self, items: np.ndarray) -> list[dict[str, object]]:
        part = self.subset(items)
        low, high = part.interval(0.9)
        columns = {
            "mean": part.mean,
            "90 % from": low,
            "to": high,
            "deviation": np.sqrt(part.total),
            "aleatoric": np.sqrt(part.aleatoric),
            "epistemic": np.sqrt(part.epistemic),
        }
        return [{name: float(values[row]) for name, values in columns.items()} for row in range(len(items))]

    @property
    def num_samples(self) -> int:
        return int(self.means.shape[0])

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
        """Variance of the mean: the model's own uncertainty.  # [N]

        NaN for a deterministic model: undefined, which is not the same as zero.
        """
        if self.kind == "deterministic":
            return np.full(self.num_items, np.nan)
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
            raise BadUsage(f"invalid quantile level {level}", found=level, expected="a level between 0 and 1")
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
            raise BadUsage("a tolerance must be positive", found=tolerance, expected="a number above 0")
        return 1.0 - (self.cdf(self.mean + tolerance) - self.cdf(self.mean - tolerance))

    def widened(self, factor: float) -> RegressionPrediction:
        """The same distribution stretched by ``factor`` around its mean: every deviation is multiplied by it."""
        mean = self.means.mean(axis=0, dtype=np.float64)
        return replace(
            self,
            means=mean + factor * (self.means - mean),
            variances=factor**2 * self.variances,
            known=None if self.known is None else factor**2 * self.known,
        )

    def untempered(self) -> RegressionPrediction:
        return self

    def subset(self, items: np.ndarray) -> RegressionPrediction:
        """The prediction of some items (positions or a boolean mask)."""
        return replace(
            self,
            means=self.means[:, items],
            variances=self.variances[:, items],
            ids=self.ids[items],
            known=None if self.known is None else self.known[:, items],
            embedding=None if self.embedding is None else self.embedding[items],
        )
