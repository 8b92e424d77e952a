"""Structured noise: along the graph's slow modes, smoothed over edges, state-dependent, on velocities only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from graphsde.base.arguments import choice, number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.graph.spectrum import laplacian_modes
from graphsde.nn.operators import smoothing_scale
from graphsde.sde.diffusion.independent import FixedDiffusion, PerDimensionDiffusion
from graphsde.sde.field import (
    BoundDiffusion,
    ElementwiseDiffusion,
    NodeNoise,
    even_width,
    refuse_infinite_kl,
    register_diffusion,
)

SPECTRA: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "matern": lambda values, nu, kappa: (2.0 * nu / kappa**2 + values) ** -nu,
    "heat": lambda values, nu, kappa: np.exp(-0.5 * kappa**2 * values),
}


@register_diffusion
class QWienerDiffusion(FixedDiffusion):
    r"""A Q-Wiener process on the graph: :math:`g\, U \mathrm{diag}(\sqrt{q})\, dW`, U the r slowest eigenvectors of the
    normalised Laplacian, one Brownian motion per mode and dimension.

    Paper: Lin et al., "Graph neural stochastic diffusion for estimating uncertainty in node classification", ICML 2024.
    The spectra are those of Borovitskiy et al., "Matérn Gaussian processes on graphs", AISTATS 2021.

    The spectrum is scaled so that the variance is one on average over nodes. The noise has rank r < N, so ``whiten``
    refuses: use it without a path KL. Nodes of components too small for their own mode get no noise. Renumbering
    the nodes changes a path, but not its law.

    Args:
        width: d of the state.
        sigma: σ ≥ 0; g = σ · gain.
        modes: r, at most as many as nodes.
        spectrum: ``matern``: q ∝ (2ν/κ² + λ)^{−ν}; ``heat``: q ∝ exp(−κ²λ/2).
        nu, kappa: ν > 0 (smoothness), κ > 0 (length).

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> bound = QWienerDiffusion(2, modes=8).bind(load("digits").adjacency.operator)
        >>> bound.keys(torch.arange(1797)).shape
        torch.Size([8])
    """

    name = "q-wiener"
    summary = "noise made of the graph's slow modes"
    paper = "Lin et al., Graph neural stochastic diffusion for estimating uncertainty in node classification"
    year = 2024
    full_rank = False

    def __init__(
        self,
        width: int,
        *,
        sigma: float = 1.0,
        modes: int = 64,
        spectrum: str = "matern",
        nu: float = 1.5,
        kappa: float = 4.0,
    ) -> None:
        super().__init__(width, sigma=sigma)
        self.modes = whole(modes, "modes", at_least=1)
        self.spectrum = choice(spectrum, "spectrum", list(SPECTRA))
        self.nu, self.kappa = number(nu, "nu", above=0.0), number(kappa, "kappa", above=0.0)

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        if self.is_zero:  # the modes, which can be expensive, are not needed
            silence = adjacency.values.new_zeros(adjacency.shape[0], min(self.modes, adjacency.shape[0]))
            return _BoundModes(silence, True)
        modes = laplacian_modes(adjacency, self.modes)
        power = SPECTRA[self.spectrum](modes.values, self.nu, self.kappa)
        power = power * (adjacency.shape[0] / power.sum())
        basis = torch.from_numpy(modes.vectors * (np.sqrt(power) * self.sigma * float(self.gain)))
        return _BoundModes(basis.to(adjacency.values.dtype).to(adjacency.device), False)


class _BoundModes:
    tensors: tuple[Tensor, ...] = ()
    autonomous = True

    def __init__(self, basis: Tensor, is_zero: bool) -> None:
        self.basis, self.is_zero = basis, is_zero  # [N, r]

    def keys(self, node_keys: Tensor) -> Tensor:
        return torch.arange(self.basis.shape[1], device=self.basis.device)

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        modes, paths, width = noise.shape
        return (self.basis.to(noise.dtype) @ noise.reshape(modes, -1)).view(-1, paths, width)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl(QWienerDiffusion.name)


@register_diffusion
class SmoothedDiffusion(FixedDiffusion):
    r"""Neighbours share noise: :math:`g B\,dW`, B = Â/ρ, so that B dW has variance one on average over nodes
    (ρ² = mean over rows of the sum of squares of Â's row).

    Paper: Lin et al., "Graph neural stochastic diffusion for estimating uncertainty in node classification", ICML 2024
    (a Q-Wiener process; here with Q = BBᵀ).

    Â may be singular, so a difference of drifts has no unique u with g B u = difference, and ``whiten`` refuses. A
    drift that acts through the noise's own channel needs none: the bound diffusion's ``apply_control(u)`` = g B u has
    the path KL ½∫‖u‖². The ``graph-heat`` drift with ``source_operator="smoothing"`` is such a one, with u = a H(0)/g,
    against the prior ``graph-ou``: KL = ½ T a² ‖H(0)‖²/g².

    Args:
        width: d of the state.
        sigma: σ ≥ 0; g = σ · gain.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = SmoothedDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise).shape
        torch.Size([1797, 1, 2])
    """

    name = "smoothed"
    summary = "noise that neighbours share: white noise after one step of averaging"
    paper = "Lin et al., Graph neural stochastic diffusion for estimating uncertainty in node classification"
    year = 2024
    channel = "smoothing"
    full_rank = False

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundSmoothedNoise(adjacency, self.amount)


class BoundSmoothedNoise(NodeNoise):
    """g B on one graph."""

    tensors: tuple[Tensor, ...] = ()
    autonomous = True

    def __init__(self, adjacency: SparseMatrix, g: float) -> None:
        self.adjacency, self.g, self.is_zero = adjacency, g, g == 0.0
        self._amount = g * smoothing_scale(adjacency)

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.apply_control(noise)

    def apply_control(self, u: Tensor) -> Tensor:
        """g B u: the drift that a control u causes through the channel of the noise.  # [N, S, d] -> [N, S, d]"""
        if self.is_zero:
            return torch.zeros_like(u)
        smooth = self.adjacency.to(u.dtype) @ u.reshape(u.shape[0], -1)
        return smooth.mul_(self._amount).view(u.shape)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl(SmoothedDiffusion.name)


@register_diffusion
class StateDependentDiffusion(FixedDiffusion, ElementwiseDiffusion):
    r"""Noise between two bounds, learned from the state: :math:`g_k(h) = \sigma\,(1 + s \tanh(a_k h + b_k))` · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020 (diagonal noise).

    g stays within σ(1 ± s), which keeps it positive and the path KL finite; its slope in h is at most σ s |a_k|.

    Args:
        width: d of the state.
        sigma: σ ≥ 0.
        swing: s in (0, 1).
        steepness: a at the start; b starts at 0.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> state, noise = torch.zeros(1797, 1, 2), torch.ones(1797, 1, 2)
        >>> bound = StateDependentDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, state, noise)[0, 0].tolist()
        [0.5, 0.5]
    """

    name = "state-dependent"
    summary = "independent noise whose size is learned from the state"
    paper, year = "Li et al., Scalable gradients for stochastic differential equations", 2020

    def __init__(self, width: int, *, sigma: float = 1.0, swing: float = 0.5, steepness: float = 1.0) -> None:
        super().__init__(width, sigma=sigma)
        self.swing = number(swing, "swing", above=0.0, below=1.0)
        self.steepness = nn.Parameter(torch.full((width,), number(steepness, "steepness")))
        self.shift = nn.Parameter(torch.zeros(width))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return _BoundStateDependent(self)

    def power(self, nodes: int, width: int) -> float:
        return nodes * width * (self.amount * (1.0 + self.swing)) ** 2

    def lipschitz(self) -> float:
        return self.amount * self.swing * float(self.steepness.detach().abs().max())

    def scale(self, t: float, h: Tensor) -> Tensor:
        return _BoundStateDependent(self).scale(t, h)

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return _BoundStateDependent(self).scale_slope(t, h)


class _BoundStateDependent(NodeNoise):
    def __init__(self, diffusion: StateDependentDiffusion) -> None:
        self.middle = diffusion.amount
        self.swing, self.is_zero = diffusion.swing, self.middle == 0.0
        self.steepness, self.shift = diffusion.steepness, diffusion.shift
        self.tensors: tuple[Tensor, ...] = (self.steepness, self.shift)

    def _bend(self, h: Tensor) -> Tensor:
        return torch.tanh(h * self.steepness + self.shift)

    def scale(self, t: float, h: Tensor) -> Tensor:
        return self._bend(h) * (self.middle * self.swing) + self.middle

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return (1.0 - self._bend(h).square()) * (self.steepness * (self.middle * self.swing))

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.scale(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        if self.is_zero:
            raise refuse_infinite_kl(StateDependentDiffusion.name)
        return difference / self.scale(t, h)


@register_diffusion
class VelocityDiffusion(PerDimensionDiffusion):
    """State (q, v), halves of the width: no noise on q, σ · gain on v.

    Paper: Kramers, "Brownian motion in a field of force and the diffusion model of chemical reactions", 1940.

    The companion of the ``second-order`` drift. The path KL counts the velocities' drifts only, and is refused unless
    the positions' drifts agree to the bit, as those of ``second-order`` and the prior ``underdamped`` do.

    Args:
        width: d = 2 × the width of q, even.
        sigma: σ ≥ 0 of the velocities.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = VelocityDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise)[0, 0]
        tensor([0.0000, 0.5000])
    """

    name = "velocity"
    summary = "noise on the velocities of second-order dynamics"
    paper, year = "Kramers, Brownian motion in a field of force and the diffusion model of chemical reactions", 1940

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        half = even_width(width) // 2
        size = number(sigma, "sigma", at_least=0.0)
        super().__init__(width, sigma=[0.0] * half + [size] * half)
