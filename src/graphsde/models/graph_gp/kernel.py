"""Covariances between nodes: Matérn on the graph's spectrum, and of features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from graphsde.data.spectrum import Spectrum

FeatureKind = Literal["none", "linear", "rbf"]


@dataclass(frozen=True)
class Places:
    """Where the nodes of one graph stand, as a kernel sees them; all float64 unless said otherwise.

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
        >>> from graphsde.data.spectrum import graph_spectrum
        >>> from graphsde.data.synthetic import synthetic
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
    """κ at which the (C − 1)-th of ascending eigenvalues has a given weight; 1 where nothing varies.  # [r]"""
    if not values.numel():
        return 1.0
    slow = float(values[min(max(classes, 2) - 2, values.numel() - 1)])
    return math.sqrt(2 * nu * math.expm1(-math.log(weight) / nu) / max(slow, 1e-9))


def _logarithm(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(math.log(value), dtype=torch.float64))
