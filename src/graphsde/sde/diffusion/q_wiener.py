"""Graph-correlated noise made of the graph's slow modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from graphsde.base.arguments import choice, number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.graph.spectrum import laplacian_modes
from graphsde.sde.diffusion.independent import FixedDiffusion
from graphsde.sde.field import BoundDiffusion, refuse_infinite_kl, register_diffusion

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
    refuses: use it without a path KL. Nodes of components too small for a mode of their own get no noise. Renumbering
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
        if self.is_zero:  # the modes, which can be dear, are not needed
            silence = torch.zeros(adjacency.shape[0], min(self.modes, adjacency.shape[0]))
            return _BoundModes(silence.to(adjacency.values.dtype), True)
        modes = laplacian_modes(adjacency, self.modes)
        power = SPECTRA[self.spectrum](modes.values, self.nu, self.kappa)
        power = power * (adjacency.shape[0] / power.sum())
        basis = torch.from_numpy(modes.vectors * (np.sqrt(power) * self.sigma * float(self.gain)))
        return _BoundModes(basis.to(adjacency.values.dtype), False)


class _BoundModes:
    tensors: tuple[Tensor, ...] = ()
    autonomous = True

    def __init__(self, basis: Tensor, is_zero: bool) -> None:
        self.basis, self.is_zero = basis, is_zero  # [N, r]

    def keys(self, node_keys: Tensor) -> Tensor:
        return torch.arange(self.basis.shape[1])

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        modes, paths, width = noise.shape
        return (self.basis.to(noise.dtype) @ noise.reshape(modes, -1)).view(-1, paths, width)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl(QWienerDiffusion.name)
