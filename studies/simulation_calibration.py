r"""Simulation-based calibration: are draws of a latent SDE's posterior draws of the posterior?

    python studies/simulation_calibration.py [--simulations 1000]

**Idea** (Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration", 2018). Draw a
latent path from the prior, data from the path, draws from the posterior of the data. The rank of the true value among
the draws is then uniform, for every quantity, if prior, likelihood and posterior belong together. It is not if the
noise is too large, a drift has the wrong sign, or two draws share what they must not share.

**Model.** A graph of 6 nodes, H(0) known, :math:`dH = MH\,dt + g\,dW` with :math:`M = (1-a)\hat A - I`, the prior
``graph-ou`` under the diffusion ``constant``. At T the states of three nodes are observed with Gaussian noise of
standard deviation τ. Given y, the path is again an SDE with the same g and the drift

.. math:: MH + g^2 \Phi^\top O^\top S^{-1} (y - O \Phi H), \quad \Phi = e^{M(T-t)},
          \quad S = g^2\, O \int_0^{T-t} e^{2Mr} dr\, O^\top + \tau^2 I

(Doob's transform; O picks the observed nodes). It has a closed form, so a deviation is one of the solver, the noise or
the prior's drift, all of which are the package's own: paths of prior and posterior come from ``integrate``.

**Quantities.** The state at T/2 and at T, along the eigenvectors of the posterior covariance: along them posterior
coordinates are independent, and so are the ranks. **Tests.** χ² of the ranks in 16 bins, and the largest distance of
their empirical distribution from the uniform one (Kolmogorov), with the simultaneous 99 % band of Dvoretzky, Kiefer,
Wolfowitz and Massart.

**What is not calibrated by this:** a posterior that was learned (its family or its optimisation may fall short), drifts
that are not linear, noise that depends on the state, the decoder, and whether data come from the model at all.

Every call is appended to results/simulation-calibration/runs.jsonl, once with the variance as it should be and once 1.2
times too large, which must be noticed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path as FilePath

import numpy as np
import scipy.sparse as sp
import torch
from scipy import stats
from torch import Tensor

from graphsde.base.seeds import numpy_stream
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.field import BoundDrift
from graphsde.sde.integrate import Path, integrate
from graphsde.sde.prior import GraphOUPrior

JOURNAL = FilePath(__file__).resolve().parents[1] / "results" / "simulation-calibration" / "runs.jsonl"
EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3))
START = (1.0, -0.5, 0.3, 2.0, 0.0, -1.2)
OBSERVED = (0, 2, 3)
BINS = 16
PLANTED = 1.2
BAND_LEVEL = 0.01


@dataclass(frozen=True)
class LinearModel:
    """The model and its closed forms, in float64.

    Args:
        teleport, horizon, g, tau: a, T, g and τ.
        steps: of the solver.
        solver: its name.
        variance_factor: what the posterior's variance is multiplied with; 1 is right.
    """

    teleport: float = 0.3
    horizon: float = 1.5
    g: float = 0.8
    tau: float = 0.5
    steps: int = 48
    solver: str = "sra1"
    variance_factor: float = 1.0

    @property
    def operator(self) -> SparseMatrix:
        dense = np.eye(len(START))
        for i, j in EDGES:
            dense[i, j] = dense[j, i] = 1.0
        root = dense.sum(1) ** -0.5
        return SparseMatrix.from_scipy(sp.csr_array(dense * root[:, None] * root), symmetric=True, dtype=torch.float64)

    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors of M.  # [N], [N, N]"""
        nodes = len(START)
        dense = self.operator @ torch.eye(nodes, dtype=torch.float64)
        values, vectors = torch.linalg.eigh((1 - self.teleport) * dense - torch.eye(nodes, dtype=torch.float64))
        return values, vectors

    def flow(self, time: float) -> Tensor:
        """Φ over so much time.  # [N, N]"""
        values, vectors = self.spectrum()
        return (vectors * torch.exp(values * time)) @ vectors.T

    def spread(self, time: float) -> Tensor:
        """Covariance of the state so long after a known one.  # [N, N]"""
        values, vectors = self.spectrum()
        return (vectors * (self.g**2 * torch.expm1(2 * values * time) / (2 * values))) @ vectors.T

    def evidence(self) -> tuple[Tensor, Tensor]:
        """Mean and covariance of y.  # [n], [n, n]"""
        seen = list(OBSERVED)
        mean = self.flow(self.horizon) @ torch.tensor(START, dtype=torch.float64)
        noise = self.tau**2 * torch.eye(len(seen), dtype=torch.float64)
        return mean[seen], self.spread(self.horizon)[seen][:, seen] + noise

    def posterior(self, time: float, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the state at a time, given data.  # y [n, R] -> [N, R], [N, N]"""
        before = self.spread(time)
        cross = before @ self.flow(self.horizon - time).T[:, list(OBSERVED)]
        mean, covariance = self.evidence()
        gain = torch.linalg.solve(covariance, cross.T).T
        start = self.flow(time) @ torch.tensor(START, dtype=torch.float64)
        return start[:, None] + gain @ (y - mean[:, None]), before - gain @ cross.T

    def log_evidence(self, y: Tensor) -> Tensor:
        """ln p(y).  # [n, R] -> [R]"""
        mean, covariance = self.evidence()
        law = torch.distributions.MultivariateNormal(mean, covariance)
        return law.log_prob(y.T)

    def control(self, time: float) -> tuple[Tensor, Tensor]:
        """G and R of the posterior's drift MH + G(y − RH).  # [N, n], [n, N]"""
        left = self.horizon - time
        reach = self.flow(left)[list(OBSERVED)]
        noise = self.tau**2 * torch.eye(len(OBSERVED), dtype=torch.float64)
        covariance = self.spread(left)[list(OBSERVED)][:, list(OBSERVED)] + noise
        return self.g**2 * torch.linalg.solve(covariance, reach).T, reach


class PosteriorDrift:
    """The prior's drift and the pull of the data, for paths with data of their own."""

    tensors: tuple[Tensor, ...] = ()

    def __init__(self, model: LinearModel, prior: BoundDrift, y: Tensor) -> None:
        self.model, self.prior, self.y = model, prior, y  # [n, S]

    def __call__(self, t: float, h: Tensor) -> Tensor:
        gain, reach = self.model.control(t)
        return self.prior(t, h) + (gain @ (self.y - reach @ h[:, :, 0])).unsqueeze(-1)


def solve(model: LinearModel, paths: int, seed: int, y: Tensor | None = None) -> Path:
    """Paths of the prior, or of the posterior of the data of each, with the path KL; states at 0, T/2 and T.

    # y [n, S]
    """
    operator = model.operator
    initial = torch.tensor(START, dtype=torch.float64)[:, None, None].repeat(1, paths, 1)
    prior = GraphOUPrior(1, teleport=model.teleport).bind(operator, initial)
    factor = 1.0 if y is None else model.variance_factor**0.5
    diffusion = ConstantDiffusion(1, sigma=model.g * factor)
    keys = node_keys(np.arange(len(START)))
    return integrate(
        prior if y is None else PosteriorDrift(model, prior, y),
        initial,
        horizon=model.horizon,
        steps=model.steps,
        solver=model.solver,
        diffusion=diffusion.bind(operator),
        noise_kind=diffusion.noise,
        brownian=BrownianMotion(seed, keys, range(paths), 1, model.horizon, model.steps, torch.float64),
        prior=prior,
        save=3,
    )


@dataclass(frozen=True)
class Calibration:
    """What the ranks of one quantity say.

    Args:
        time: of the state.
        ranks: how many, of all simulations and coordinates.
        p_chi_square, p_ecdf: of uniform ranks.
        distance, band: largest distance of the empirical distribution, and what 99 % of uniform samples stay within.
        spread: mean square of the truth around the posterior mean in posterior variances as drawn; 1 is right.
    """

    time: float
    ranks: int
    p_chi_square: float
    p_ecdf: float
    distance: float
    band: float
    spread: float


def observe(model: LinearModel, simulations: int, seed: int) -> tuple[Path, Tensor]:
    """Paths of the prior and what is seen of each.  # [n, R]"""
    truth = solve(model, simulations, 2 * seed)
    errors = numpy_stream(seed, "observation errors").normal(size=(len(OBSERVED), simulations))
    return truth, truth.final[list(OBSERVED), :, 0] + model.tau * torch.from_numpy(errors)


def calibrate(model: LinearModel, simulations: int, draws: int = 63, seed: int = 0) -> list[Calibration]:
    """Ranks of the truth among posterior draws, at T/2 and at T."""
    truth, y = observe(model, simulations, seed)
    posterior = solve(model, simulations * draws, 2 * seed + 1, y.repeat_interleave(draws, dim=1))
    jitter = numpy_stream(seed, "ties of ranks")
    found = []
    for time, true, drawn in zip(truth.times[1:], truth.saved[1:], posterior.saved[1:], strict=True):
        axes = torch.linalg.eigh(model.posterior(time, y)[1])[1].T
        own = axes @ true[:, :, 0]  # [N, R]
        others = (axes @ drawn[:, :, 0]).view(len(START), simulations, draws)
        rank = (others < own[:, :, None]).sum(-1).flatten().numpy()
        around = (own - others.mean(-1)).square() / others.var(-1)
        # of a normal sample: the mean is uncertain by 1/L, and one over its variance is too large by (L − 1)/(L − 3)
        scale = (1 + 1 / draws) * (draws - 1) / (draws - 3)
        found.append(_judged(time, rank, draws + 1, jitter, float(around.mean()) / scale))
    return found


def _judged(time: float, rank: np.ndarray, places: int, jitter: np.random.Generator, spread: float) -> Calibration:
    counts = np.bincount(rank * BINS // places, minlength=BINS)
    # ranks are whole numbers; spread evenly over their place they are uniform on [0, 1]
    ecdf = stats.kstest((rank + jitter.random(rank.size)) / places, "uniform")
    return Calibration(
        time=time,
        ranks=int(rank.size),
        p_chi_square=float(stats.chisquare(counts).pvalue),
        p_ecdf=float(ecdf.pvalue),
        distance=float(ecdf.statistic),
        band=float(np.sqrt(np.log(2 / BAND_LEVEL) / (2 * rank.size))),
        spread=spread,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    with JOURNAL.open("a", encoding="utf-8") as file:
        for factor in (1.0, PLANTED):
            model = replace(LinearModel(), variance_factor=factor)
            for one in calibrate(model, given.simulations, seed=given.seed):
                line = {"simulations": given.simulations, "seed": given.seed, **asdict(model), **asdict(one)}
                file.write(json.dumps(line) + "\n")
                print(f"variance × {factor}: {one}")


if __name__ == "__main__":
    main()
