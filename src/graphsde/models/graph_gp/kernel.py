"""Covariances between nodes: Matérn on the graph's spectrum, and of features; what a fit stores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.memory import require_memory
from graphsde.graph.graph import Graph
from graphsde.graph.spectrum import Spectrum
from graphsde.nn.encoding import FeatureEncoder, Scaling


@dataclass(frozen=True)
class FeatureMap:
    """φ = (Â^hops X − m)/s, with the mean m over the nodes of the graph fitted on and s so that |φ|² is one on average.

    Args:
        encoder: makes X.
        hops: how often X is averaged.
        mean: m.  # [d]
        scale: s.
    """

    encoder: FeatureEncoder
    hops: int
    mean: np.ndarray
    scale: float

    @classmethod
    def fit(cls, graph: Graph, scaling: Scaling, hops: int) -> FeatureMap:
        encoder = FeatureEncoder.fit(graph, scaling)
        values = _averaged(encoder, graph, hops)
        mean = values.mean(axis=0, dtype=np.float64)
        scale = float(np.sqrt(np.square(values - mean).sum(axis=1).mean()))
        return cls(encoder, hops, mean, scale if scale > 0 else 1.0)

    def of(self, graph: Graph) -> Tensor:
        """φ of every node.  # [N, d] float32"""
        values = _averaged(self.encoder, graph, self.hops)
        return torch.from_numpy(((values - self.mean) / self.scale).astype(np.float32))

    def as_dict(self) -> dict[str, Any]:
        return {"encoder": self.encoder.as_dict(), "hops": self.hops, "mean": self.mean.tolist(), "scale": self.scale}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> FeatureMap:
        encoder = FeatureEncoder.from_dict(state["encoder"])
        return cls(encoder, state["hops"], np.array(state["mean"], dtype=np.float64), float(state["scale"]))


def _averaged(encoder: FeatureEncoder, graph: Graph, hops: int) -> np.ndarray:
    require_memory(24 * graph.num_nodes * encoder.width, "a kernel of features", "use features='none'")
    values: Any = encoder.transform(graph)
    for _ in range(hops):
        values = graph.adjacency.normalized @ values
    return values.toarray() if sp.issparse(values) else np.asarray(values)


FeatureKind = Literal["none", "linear", "rbf"]


@dataclass(frozen=True)
class Places:
    """The nodes of one graph as a kernel sees them; all float64 unless stated otherwise.

    Args:
        vectors, values: varying modes and their eigenvalues.  # [N, r], [r]
        flat, component: the modes of eigenvalue zero.  # [N], [N] int64
        num_components: how many of those there are.
        features: for a feature kernel.  # [N, d] float32
    """

    vectors: Tensor
    values: Tensor
    flat: Tensor
    component: Tensor
    num_components: int
    features: Tensor | None = None

    @classmethod
    def of(cls, spectrum: Spectrum, features: Tensor | None = None) -> Places:
        return cls(
            torch.from_numpy(spectrum.varying.vectors),
            torch.from_numpy(spectrum.varying.values),
            torch.from_numpy(spectrum.flat),
            torch.from_numpy(spectrum.component.astype("int64")),
            spectrum.num_components,
            features,
        )

    @property
    def num_nodes(self) -> int:
        return self.flat.numel()


class NodeKernel(nn.Module):
    r"""Covariance of a latent function at nodes.

    Paper: Borovitskiy et al., "Matérn Gaussian processes on graphs", AISTATS 2021.
    Formula: :math:`K = \sigma^2 c\, U \mathrm{diag}(s) U^\top` with
    :math:`s_k = (1 + \kappa^2 \lambda_k / 2\nu)^{-\nu} \propto (2\nu/\kappa^2 + \lambda_k)^{-\nu}` and
    :math:`c = N / \sum_k s_k`, so that the variance is σ² on average over nodes. As ν grows, s tends to the diffusion
    kernel's :math:`e^{-\kappa^2 \lambda / 2}`.

    A feature kernel is added to it: τ² φᵢ·φⱼ or τ² exp(−|φᵢ − φⱼ|²/2ℓ²).

    Args:
        nu, kappa, sigma: ν, κ, σ > 0; their logarithms are the parameters.
        features: ``none``, ``linear`` or ``rbf``.

    Example:
        >>> from graphsde.graph.spectrum import graph_spectrum
        >>> from graphsde.datasets.synthetic import synthetic
        >>> spectrum = graph_spectrum(synthetic(50, classes=2).adjacency, "normalised", 50)
        >>> kernel = NodeKernel(1.5, 5.0, sigma=2.0).on(Places.of(spectrum))
        >>> round(float(kernel.variance(torch.arange(50)).mean()), 6)
        4.0
    """

    def __init__(self, nu: float, kappa: float, sigma: float, features: FeatureKind = "none") -> None:
        super().__init__()
        self.kind = features
        self.log_nu, self.log_kappa, self.log_sigma = (_logarithm(value) for value in (nu, kappa, sigma))
        if features != "none":
            self.log_tau = _logarithm(sigma)
        if features == "rbf":
            self.log_length = _logarithm(1.0)
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        assert self._places is not None, "on(places) comes first"
        return self._places

    def on(self, places: Places) -> NodeKernel:
        """Bind to the nodes of a graph; parameters stay."""
        self._places = places
        return self

    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Weight of the flat modes and of each varying one.  # [], [r]"""
        nu, kappa, sigma = (log.exp() for log in (self.log_nu, self.log_kappa, self.log_sigma))
        weights = torch.exp(-nu * torch.log1p(kappa**2 * self.places.values / (2 * nu)))
        scale = sigma**2 * self.places.num_nodes / (self.places.num_components + weights.sum())
        return scale, scale * weights

    def between(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Covariances.  # [n], [m] int64 -> [n, m]"""
        at, (flat, weights) = self.places, self.spectrum()
        same = at.component[rows, None] == at.component[columns]
        graph = (at.vectors[rows] * weights) @ at.vectors[columns].T
        total = graph + flat * same * (at.flat[rows, None] * at.flat[columns])
        return total if self.kind == "none" else total + self._of_features(rows, columns)

    def variance(self, rows: Tensor) -> Tensor:
        """The diagonal of :meth:`between`.  # [n] int64 -> [n]"""
        at, (flat, weights) = self.places, self.spectrum()
        total = at.vectors[rows].square() @ weights + flat * at.flat[rows].square()
        if self.kind == "linear":
            return total + (2 * self.log_tau).exp() * self._features(rows).square().sum(1)
        return total if self.kind == "none" else total + (2 * self.log_tau).exp()

    def _features(self, rows: Tensor) -> Tensor:
        assert self.places.features is not None
        return self.places.features[rows].double()

    def _of_features(self, rows: Tensor, columns: Tensor) -> Tensor:
        one, two = self._features(rows), self._features(columns)
        products = one @ two.T
        if self.kind == "linear":
            return (2 * self.log_tau).exp() * products
        distances = one.square().sum(1)[:, None] + two.square().sum(1) - 2 * products
        return torch.exp(2 * self.log_tau - distances.clamp_min(0.0) / (2 * (2 * self.log_length).exp()))


def length_for(values: Tensor, classes: int, nu: float, weight: float = 0.125) -> float:
    """κ at which the (C − 1)-th of ascending eigenvalues has a given weight; 1 if nothing varies.  # [r]"""
    if not values.numel():
        return 1.0
    slow = float(values[min(max(classes, 2) - 2, values.numel() - 1)])
    return math.sqrt(2 * nu * math.expm1(-math.log(weight) / nu) / max(slow, 1e-9))


def _logarithm(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(math.log(value), dtype=torch.float64))


_SAME_PRIOR = 1e-6
_STEPS = 0.4 * 0.05 ** np.linspace(0.0, 1.0, 80)  # large at first, small to converge where the prior is wide


class Knowledge(nn.Module):
    """The kernel's parameters, the labels of M ``inducing`` nodes, and q of their latent values, whitened."""

    mean: Tensor
    root: Tensor
    prior: Tensor
    labels: Tensor

    def __init__(self, kernel: NodeKernel, classes: int, inducing: int) -> None:
        super().__init__()
        self.kernel = kernel
        zeros = torch.zeros(classes, inducing, dtype=torch.float64)
        self.register_buffer("mean", zeros)  # [C, M]
        self.register_buffer("root", zeros[..., None].repeat(1, 1, inducing))  # [C, M, M], lower triangular
        self.register_buffer("prior", zeros[0, :, None].repeat(1, inducing))  # [M, M], covariance without jitter
        self.register_buffer("labels", torch.zeros(inducing, dtype=torch.int64))  # [M]

    def check(self) -> None:
        """Refuse what can't have been fitted."""
        if not bool(((self.labels >= 0) & (self.labels < len(self.mean))).all()):
            raise ValueError("a label is not one of the classes")


def same_prior(prior: Tensor, known: Tensor) -> bool:
    """Whether two covariances are equal up to rounding: q is only valid under the same one."""
    size = float(known.diagonal().max())
    return prior.shape == known.shape and torch.allclose(prior, known, atol=_SAME_PRIOR * size, rtol=0.0)


def infer(prior: Tensor, labels: Tensor, noise: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    r"""The best q of latent values with given labels under a fixed prior, whitened, by a damped fixed point.

    Paper: Opper and Archambeau, "The variational Gaussian approximation revisited", Neural Computation 2009. At the
    optimum q is the prior times a Gaussian factor per node and class, of precision
    :math:`\lambda = E_q[p_c (1 - p_c)]` and natural mean :math:`\lambda m + E_q[1_{y=c} - p_c]`, p = softmax(f).

    Args:
        prior: covariance of the nodes.  # [n, n]
        labels: their classes.  # [n] int64
        noise: standard normals for the expectations.  # [S, n, C]
        jitter: added to the prior's diagonal.

    Returns:
        whitened mean ``[C, n]`` and lower triangular root ``[C, n, n]``

    Example:
        >>> mean, root = infer(torch.eye(2).double(), torch.tensor([0, 1]), torch.zeros(1, 2, 2).double(), 0.0)
        >>> bool(mean[0, 0] > 0 > mean[0, 1])
        True
    """
    identity = torch.eye(len(prior), dtype=prior.dtype)
    factor = torch.linalg.cholesky(prior + jitter * identity)
    truth = functional.one_hot(labels, noise.shape[-1]).T  # [C, n]
    precision, natural = torch.zeros(2, *truth.shape, dtype=prior.dtype)
    for step in _STEPS:
        inner = torch.linalg.cholesky(factor.T @ (precision[..., None] * factor) + identity)
        half = torch.linalg.solve_triangular(inner, factor.T.expand_as(inner), upper=False)  # var f = halfᵀ half
        mean = (half.mT @ (half @ natural[..., None]))[..., 0]
        variance = half.square().sum(-2)
        probs = torch.softmax(mean.T + variance.T.sqrt() * noise, -1)  # [S, n, C]
        now = (probs * (1 - probs)).mean(0).T
        natural = natural + step * (now * mean + truth - probs.mean(0).T - natural)
        precision = precision + step * (now - precision)
    inner = torch.linalg.cholesky(factor.T @ (precision[..., None] * factor) + identity)
    whitened = torch.cholesky_solve((natural @ factor)[..., None], inner)[..., 0]
    return whitened, torch.linalg.cholesky(torch.cholesky_inverse(inner))
