"""Logistic regression on a node's features, or on features averaged over neighbours: strong baselines."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from scipy.special import log_softmax
from torch import Tensor

from graphsde.base.errors import Diverged
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.memory import memory_limit, require_memory
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.models.base import Estimate, Model, ModelSettings, register_model
from graphsde.models.options import LogisticHopsOptions, LogisticOptions
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.encoding import FeatureEncoder, Scaling
from graphsde.prediction import ClassPrediction, Perturb, Prediction
from graphsde.uncertainty.calibration.calibrators import best_temperature

C_GRID = tuple(10.0**power for power in range(-3, 4))
HOPS_GRID = (0, 1, 2, 3)
# L-BFGS: how many pairs it remembers, when it stops
PAIRS, MOST_STEPS, GRADIENT_TOLERANCE = 10, 300, 1e-5
# pairs of nodes within some hops of each other: how many to form at most, and how many at once (12 bytes each)
MOST_REACHED, REACHED_AT_ONCE = 10**8, 10**7
# numbers of dense features multiplied at once in float64
NUMBERS_AT_ONCE = 1 << 25
# below all others by more than any temperature can compensate
LOGIT_OF_UNSEEN_CLASS = -1000.0


class LogisticSettings(ModelSettings):
    """Settings of :class:`Logistic`.

    Args:
        scaling: how numeric features are scaled: ``row``, ``l2``, ``standard``, ``none``, or ``auto``, which uses
            ``row`` for bag-of-words and ``standard`` otherwise. A bag of words gets ``l2`` when fitting.
        c: inverse strength of the ridge, like scikit-learn's ``C``; by default chosen from 10⁻³, 10⁻², …, 10³ by
            validation NLL.
        temperature: fit one temperature on the validation nodes, and choose by the NLL with it.
    """

    scaling: Scaling = "auto"
    c: float | None = Field(None, gt=0, le=1e9)
    temperature: bool = True


class LogisticHopsSettings(LogisticSettings):
    """Settings of :class:`LogisticHops`.

    Args:
        hops: how often features are averaged; by default chosen from 0 to 3 by validation NLL.
    """

    hops: int | None = Field(None, ge=0, le=100)


def _reached(features: Any, operator: sp.csr_array, hops: int, rows: np.ndarray) -> Any:
    """Some rows of Â^k X from those of Â^k, in blocks: rows are independent.  # [n, d]"""
    parts = []
    size = max(1, REACHED_AT_ONCE // operator.shape[0])
    for start in range(0, max(1, len(rows)), size):
        reach = operator[rows[start : start + size]]
        for _ in range(hops - 1):
            reach = reach @ operator
        parts.append(reach @ features)
    return parts[0] if len(parts) == 1 else sp.vstack(parts, "csr") if sp.issparse(features) else np.concatenate(parts)


class AveragedRows:
    r"""Some rows of :math:`\hat A^k X` as a linear map.

    The product is formed if it has fewer entries than its factors, as with few training nodes; otherwise each
    application multiplies by the factors one after another. Averaged words are nearly dense: three hops over Coauthor
    Physics have 103 million entries, their factors 3 million.

    Args:
        features: X, dense or sparse; float64, unless there are no hops.  # [N, d]
        operator: Â, likewise.  # [N, N]
        hops: k.
        rows: positions.  # [n]
    """

    def __init__(
        self, features: np.ndarray | sp.csr_array, operator: sp.csr_array, hops: int, rows: np.ndarray
    ) -> None:
        entries = features.nnz if sp.issparse(features) else features.size  # type: ignore[union-attr]
        self.factors: list[Any]
        if hops == 0:
            self.factors = [_float64(features[rows])]
        elif rows.size * features.shape[1] <= entries + hops * operator.nnz:
            if sp.issparse(features) or rows.size * features.shape[0] <= MOST_REACHED:
                self.factors = [_reached(features, operator, hops, rows)]
            else:  # a few hops from many nodes reach nearly all, through hubs: columns are fewer
                for _ in range(hops - 1):
                    features = operator @ features
                self.factors = [operator[rows] @ features]
        else:
            self.factors = [features, *[operator] * (hops - 1), operator[rows]]
        self.transposed = [factor.T for factor in reversed(self.factors)]

    def times(self, weights: np.ndarray) -> np.ndarray:
        """# [d, C] -> [n, C]"""
        for factor in self.factors:
            weights = factor @ weights
        return weights

    def transposed_times(self, values: np.ndarray) -> np.ndarray:
        """# [n, C] -> [d, C]"""
        for factor in self.transposed:
            values = factor @ values
        return values


def regularised_loss(
    weights: np.ndarray, bias: np.ndarray, inputs: AveragedRows, labels: np.ndarray, c: float
) -> tuple[float, np.ndarray, np.ndarray]:
    r""":math:`\frac1n \sum_i -\log p_{i y_i} + \frac{1}{2Cn} \|W\|^2` and its gradient by W and b.

    Scikit-learn's objective divided by Cn. Shapes: ``weights`` [d, C], ``bias`` [C], ``labels`` [n].
    """
    logs = log_softmax(inputs.times(weights) + bias, axis=1)
    count, rows = len(labels), np.arange(len(labels))
    value = -logs[rows, labels].mean() + 0.5 * (weights * weights).sum() / (c * count)
    residual = np.exp(logs)
    residual[rows, labels] -= 1.0
    residual /= count
    return float(value), inputs.transposed_times(residual) + weights / (c * count), residual.sum(axis=0)


def solve(
    inputs: AveragedRows, labels: np.ndarray, c: float, weights: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of :func:`regularised_loss`, from a start.  # [d, C], [C]"""
    from scipy.optimize import minimize  # takes a third of a second to import

    shape = weights.shape

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_weights, by_bias = regularised_loss(
            point[: weights.size].reshape(shape), point[weights.size :], inputs, labels, c
        )
        return value, np.concatenate([by_weights.ravel(), by_bias])

    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "maxcor": PAIRS, "gtol": GRADIENT_TOLERANCE, "ftol": 0}
    start = np.concatenate([weights.ravel(), bias])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return found[: weights.size].reshape(shape), found[weights.size :]


@dataclass(frozen=True)
class _Candidate:
    """A fitted model and how well it does on the validation nodes."""

    c: float
    hops: int
    weights: np.ndarray
    bias: np.ndarray
    temperature: float
    nll: float


@register_model
class Logistic(Model):
    r"""Multinomial logistic regression on a node's own features: :math:`z = x W + b`, with a ridge on W.

    Paper: Cox, "The regression analysis of binary sequences", Journal of the Royal Statistical Society B, 1958.
    Minimises :math:`C \sum_i -\log p_{i y_i} + \frac12 \|W\|^2`, scikit-learn's objective, by L-BFGS in float64. Each
    C gets a temperature on the validation nodes, and the one with the lowest NLL there is kept. Deterministic, and
    without random draws: the seed has no effect. Two classes have two logits; a class without training nodes gets a
    probability of 0.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.Logistic(c=1.0).fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "logistic"
    summary = "logistic regression on the features, no edges; deterministic"
    paper, year = "Cox, The regression analysis of binary sequences", 1958
    Settings = LogisticSettings
    settings: LogisticSettings

    def __init__(self, **settings: Unpack[LogisticOptions]) -> None:
        super().__init__(**settings)
        self.encoder: FeatureEncoder | None = None
        self.weights = np.zeros((0, 0))
        self.bias = np.zeros(0)
        self.temperature = 1.0
        self.c: float | None = None
        """The inverse strength of the ridge that was chosen."""
        self.hops = 0
        """How often features are averaged."""

    def _hops_grid(self) -> tuple[int, ...]:
        return (0,)

    def _c_grid(self) -> tuple[float, ...]:
        return C_GRID if self.settings.c is None else (self.settings.c,)

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        """It has no epochs: callbacks and checkpoints are unused."""
        self.resolve(graph)
        choices = len(self._hops_grid()) * len(self._c_grid())
        require_trainable(graph, early_stop=choices > 1)
        assert graph.labels is not None and graph.train_mask is not None
        require_memory(self._bytes(graph), f"fitting {self.name} on {graph.name}", "use fewer features")
        encoder = FeatureEncoder.fit(graph, self.settings.scaling)
        train = np.flatnonzero(graph.train_mask)
        val = np.flatnonzero(graph.role("val") & graph.familiar)
        best: _Candidate | None = None
        for candidate in self._candidates(graph, encoder, train, val, interrupt):
            # ties: fewer hops and a stronger ridge come first
            if best is None or candidate.nll < best.nll:
                best = candidate
        assert best is not None
        self.encoder, self.weights, self.bias = encoder, best.weights, best.bias
        self.c, self.hops, self.temperature = best.c, best.hops, best.temperature
        self.class_names, self.calibrator = graph.class_names, None
        return self

    def _candidates(
        self,
        graph: Graph,
        encoder: FeatureEncoder,
        train: np.ndarray,
        val: np.ndarray,
        interrupt: InterruptGuard | None,
    ) -> Iterator[_Candidate]:
        """Every choice of hops and C, fitted."""
        assert graph.labels is not None
        features: Any = encoder.transform(graph)
        operator = graph.adjacency.normalized
        if max(self._hops_grid()):  # otherwise only some rows are ever used
            features, operator = _float64(features), _float64(operator)
        seen, labels = np.unique(graph.labels[train], return_inverse=True)
        for hops in self._hops_grid():
            inputs = AveragedRows(features, operator, hops, train)
            held_out = AveragedRows(features, operator, hops, val)
            weights, bias = np.zeros((encoder.width, len(seen))), np.zeros(len(seen))
            for c in self._c_grid():
                # from the stronger ridge's solution: the same minimum in fewer steps
                weights, bias = solve(inputs, labels, c, weights, bias)
                every_weight = np.zeros((encoder.width, graph.num_classes))
                every_bias = np.full(graph.num_classes, LOGIT_OF_UNSEEN_CLASS)
                every_weight[:, seen], every_bias[seen] = weights, bias
                logits = held_out.times(every_weight) + every_bias
                if not (np.isfinite(logits).all() and np.isfinite(every_weight).all()):
                    raise Diverged(f"{self.name} has no finite solution", fix="scale the features")
                yield _Candidate(c, hops, every_weight, every_bias, *self._judge(logits, graph.labels[val]))
                if interrupt is not None and interrupt.received is not None:
                    raise Interrupted(interrupt.received)

    def _judge(self, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """The best temperature for the validation nodes, and the NLL with it; 1 and 0 if there are none."""
        if not len(labels):
            return 1.0, 0.0
        temperature = 1.0
        if self.settings.temperature:
            temperature = best_temperature(torch.from_numpy(logits)[:, None], torch.from_numpy(labels.copy()))
        logs = log_softmax(logits / temperature, axis=1)
        return temperature, -float(logs[np.arange(len(labels)), labels].mean())

    @property
    def has_feature_gradient(self) -> bool:
        return False

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        names = self._require_fitted(samples)
        assert self.encoder is not None
        self._refuse_perturbation(perturb)
        self._check_classes(graph)
        logits = _times(self.encoder.transform(graph), self.weights)
        for _ in range(self.hops):
            logits = graph.adjacency.normalized.astype(np.float64) @ logits
        logits = logits + self.bias
        probs = np.exp(log_softmax(logits / self.temperature, axis=1))
        answer = ClassPrediction(
            probs[None], graph.node_ids, names, "deterministic", logits=logits[None], temperature=self.temperature
        )
        return self._calibrated(answer, graph)

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Time by trying one step at the largest number of hops."""
        self.resolve(graph)
        require_trainable(graph, early_stop=False)
        assert graph.train_mask is not None and graph.labels is not None
        needed = self._bytes(graph)
        require_memory(needed, f"fitting {self.name} on {graph.name}", "use fewer features")
        encoder = FeatureEncoder.fit(graph, self.settings.scaling)
        train = np.flatnonzero(graph.train_mask)
        seen, labels = np.unique(graph.labels[train], return_inverse=True)
        operator = graph.adjacency.normalized.astype(np.float64)
        inputs = AveragedRows(_float64(encoder.transform(graph)), operator, max(self._hops_grid()), train)
        begun = time.perf_counter()
        regularised_loss(np.zeros((encoder.width, len(seen))), np.zeros(len(seen)), inputs, labels, 1.0)
        step = time.perf_counter() - begun
        return Estimate(needed, step * MOST_STEPS * len(self._hops_grid()) * len(self._c_grid()), 0)

    def _bytes(self, graph: Graph) -> int:
        """Features in both precisions, the operator, and what L-BFGS remembers."""
        width = FeatureEncoder.fit(graph, self.settings.scaling).width
        entries = graph.features.nnz if sp.issparse(graph.features) else graph.num_nodes * width  # type: ignore[union-attr]
        if not max(self._hops_grid()) and memory_limit() is not None:  # the encoded features are in a file
            share = float((graph.role("train") | graph.role("val")).mean())
            return int(8 * share * entries) + 8 * graph.num_nodes * graph.num_classes * 6 + 2**26
        operator = 12 * (graph.num_edges + graph.num_nodes) * (1 + max(self._hops_grid()))
        return 28 * int(entries) + operator + 8 * (width + 1) * graph.num_classes * (2 * PAIRS + 8)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        assert self.encoder is not None
        tensors = {"weights": torch.from_numpy(self.weights), "bias": torch.from_numpy(self.bias)}
        values = {"encoder": self.encoder.as_dict(), "c": self.c, "hops": self.hops, "temperature": self.temperature}
        return tensors, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.encoder = FeatureEncoder.from_dict(values["encoder"])
        self.weights, self.bias = tensors["weights"].numpy(), tensors["bias"].numpy()
        self.c, self.hops, self.temperature = float(values["c"]), int(values["hops"]), float(values["temperature"])
        classes = len(self._require_fitted())
        if self.weights.shape != (self.encoder.width, classes) or self.bias.shape != (classes,):
            raise ValueError("the coefficients do not match the columns and classes")
        if not 0 < self.temperature < math.inf or self.hops < 0:
            raise ValueError("the temperature or the number of hops is out of range")


@register_model
class LogisticHops(Logistic):
    r"""Multinomial logistic regression on features averaged k times: :math:`Z = \hat A^k X W + b`.

    Paper: Wu et al., "Simplifying graph convolutional networks", ICML 2019, whose SGC it is with a ridge instead of
    early stopping, and with k from 0 to 3 chosen by validation NLL along with C. :math:`\hat A` is the symmetrically
    normalised adjacency with self loops, as for the other convolutions. If neighbours mislead, it uses k = 0 and is
    :class:`Logistic`.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.LogisticHops(c=1.0, hops=2).fit(graph).hops
        2
    """

    name = "logistic-hops"
    summary = "logistic regression on features averaged over a chosen number of hops; deterministic"
    paper, year = "Wu et al., Simplifying graph convolutional networks", 2019
    Settings = LogisticHopsSettings
    settings: LogisticHopsSettings

    def __init__(self, **settings: Unpack[LogisticHopsOptions]) -> None:
        given: dict[str, Any] = {**settings}  # more than its parent has
        super().__init__(**given)

    def _hops_grid(self) -> tuple[int, ...]:
        return HOPS_GRID if self.settings.hops is None else (self.settings.hops,)


def _float64(matrix: Any) -> Any:
    return matrix.astype(np.float64, copy=False)


def _times(features: Any, weights: np.ndarray) -> np.ndarray:
    """The product in float64; of a large matrix some rows at a time.  # [N, d], [d, C] -> [N, C]"""
    if sp.issparse(features) or features.size <= NUMBERS_AT_ONCE:
        return np.asarray(_float64(features) @ weights)
    rows = max(1, NUMBERS_AT_ONCE // features.shape[1])
    return np.concatenate(
        [_float64(features[start : start + rows]) @ weights for start in range(0, len(features), rows)]
    )
