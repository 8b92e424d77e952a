r"""A temperature per node from the propagated variance of a linear graph SDE, and alternatives for comparison.

With μ_i the mean logits, φ_i the covariates of a node and M_ij the weights by which noise at node j reaches node i
(:mod:`graphsde.sde.marginals`):

- ``temperature``: :math:`p_i = \mathrm{softmax}(\mu_i / \tau)`;
- ``covariates``: :math:`\log T_i = \log \tau + \tfrac12 \varphi_i \cdot \theta`, no SDE;
- ``closed``: :math:`T_i^2 = \tau^2 + v_i`, :math:`v_i = c \sum_j M_{ij} s_j^2`, :math:`\log s_j^2 = a + \varphi_j \cdot
  \theta`: MacKay's approximation of the mean softmax of a Gaussian state;
- ``sampled``: the mean softmax itself, over 64 fixed quasi-random draws of that state;
- ``constant``: ``closed`` with θ = 0;
- ``distance-aware``: ``closed`` with s_j² in proportion to one over the tail share of the evidence: θ = (1, 0, 0).

All are fitted by the NLL of validation nodes, with :math:`\tfrac{\lambda}{2n} \|\theta\|^2` added: θ ~ N(0, 1/λ) as
seen by n nodes, so that the same λ shrinks θ more with fewer nodes. λ is chosen by empirical Bayes
(Laplace's approximation of the marginal likelihood; MacKay, 1992) from a fixed grid with infinity, which is the
constant and is given up only for a clearly higher likelihood. Cross-validation would need folds, some with few
nodes of a class, and a fit for each of them; here all nodes are used, once per λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphsde.base.arguments import choice
from graphsde.base.errors import Diverged
from graphsde.base.seeds import derive, numpy_stream
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.marginals import exact_rows, propagated_variance, propagation_weights, unit_variance
from graphsde.uncertainty.calibration.calibrators import best_temperature

FORMS = ("temperature", "covariates", "closed", "sampled", "constant", "distance-aware")
RIDGES = (256.0, 64.0, 16.0, 4.0)
"""λ, besides infinity: standard deviations of θ from 1/16 to 1/2."""
PERSUASION = math.log(3.0)
"""By how much the marginal likelihood must favour a finite λ: a factor of 3, below which evidence is "not worth more
than a bare mention" (Kass and Raftery, 1995). On 40 simulated nodes
with θ = 0, two fits in three had another θ without this rule, and one in twenty with it."""
DRAWS = 64
FIRST_VARIANCE = 2.0 * math.log(0.25)
"""Initial value and prior mean of a: noise of a quarter of the signal."""
VARIANCE_SPREAD = 3.0
PREDICTION_ERROR = 0.05
"""Relative standard error of v on graphs too large for exact sums: half of it in the temperature at most."""

LOWEST_SHARE = 0.1
"""Share of the common temperature that τ stays above; otherwise draws would act as votes."""
_BOUNDS = [(math.log(LOWEST_SHARE), -math.log(LOWEST_SHARE)), (-12.0, 8.0), (-6.0, 6.0), (-6.0, 6.0), (-6.0, 6.0)]
_FREE = {
    "temperature": (0,),
    "covariates": (0, 2, 3, 4),
    "closed": (0, 1, 2, 3, 4),
    "sampled": (0, 1, 2, 3, 4),
    "constant": (0, 1),
    "distance-aware": (0, 1),
}
_GIVEN = {"distance-aware": (1.0, 0.0, 0.0)}
"""Slopes that are not fitted; 0 for all other forms."""
_NODES_AT_ONCE = 4_000_000  # numbers of a block of draws


@dataclass(frozen=True, eq=False)
class DiffusionData:
    """What the forms are fitted to.

    Args:
        logits: of the nodes to fit to.  # [S, n, C] float64
        truth: their classes.  # [n]
        weights: M, by which noise at any node reaches them; ``None`` if the slopes are fixed.  # [n, N]
        covariates: φ of all nodes.  # [N, 3] float64
        rows: positions of the nodes to fit to.  # [n]
        scale: c = variance of the logits over nodes / mean of M's row sums: with a = 0 the noise is as large as the
            signal.
        filter: κ and K.
        unit: v / c of the nodes to fit to with a = 0, if the slopes are fixed.  # [n] float64
    """

    logits: Tensor
    truth: Tensor
    weights: Tensor | None
    covariates: Tensor
    rows: Tensor
    scale: float
    filter: tuple[float, int]
    unit: Tensor | None = None

    def mean_variance(self, parameters: Tensor) -> float:
        """The mean of v over the nodes to fit to.  # [5]"""
        return max(float(self.variance(parameters).mean()), 1e-12)

    def variance(self, parameters: Tensor) -> Tensor:
        """v of the nodes to fit to.  # [5] -> [n]"""
        if self.unit is not None:
            return self.scale * parameters[1].exp() * self.unit
        assert self.weights is not None
        noise = noise_of(parameters, self.covariates)
        return self.scale * (self.weights @ noise.to(self.weights.dtype)).to(noise.dtype)

    @classmethod
    def of(
        cls,
        logits: Tensor,
        rows: Tensor,
        truth: Tensor,
        covariates: Tensor,
        adjacency: SparseMatrix,
        linear_filter: tuple[float, int],
        unit: Tensor | None = None,
    ) -> DiffusionData:
        """From the logits of all nodes. If exact weights of all ``rows`` would take too long, as many of them as
        don't are drawn at random: five numbers are found from a few hundred nodes. With fixed slopes no weights are
        needed, only ``unit``, v / c of all nodes with a = 0 (:func:`unit_noise`).
        # [S, N, C], [n], [n], [N, 3], [N]"""
        kappa, steps = linear_filter
        if unit is not None:
            scale = _signal(logits) / float(unit_variance(adjacency, kappa, steps)[rows].double().mean())
            return cls(logits[:, rows], truth, None, covariates, rows, scale, linear_filter, unit[rows])
        most = exact_rows(adjacency, steps)
        if len(rows) > most:
            some = numpy_stream(0, "diffusion", "rows").choice(len(rows), max(most, 1), replace=False)
            drawn = torch.from_numpy(np.sort(some))
            rows, truth = rows[drawn], truth[drawn]
        weights = propagation_weights(adjacency, kappa, steps, rows)
        scale = _signal(logits) / float(weights.sum(1, dtype=torch.float64).mean())
        return cls(logits[:, rows], truth, weights, covariates, rows, scale, linear_filter)


@dataclass(frozen=True, eq=False)
class FittedForm:
    """A form with its parameters.

    Args:
        form: one of ``FORMS``.
        parameters: log τ, a and θ; unused ones are 0.  # [5] float64
        ridge: λ that was chosen.
        nll: of the nodes it was fitted to.
        scale, filter: as in :class:`DiffusionData`.
    """

    form: str
    parameters: Tensor
    ridge: float
    nll: float
    scale: float
    filter: tuple[float, int]

    def variance(self, covariates: Tensor, adjacency: SparseMatrix) -> Tensor:
        """v of all nodes, 0 for a form without an SDE.  # [N, 3] -> [N]"""
        if not has_state(self.form):
            return covariates.new_zeros(len(covariates))
        kappa, steps = self.filter
        noise = self.scale * noise_of(self.parameters, covariates)
        return propagated_variance(adjacency, kappa, steps, noise, relative_error=PREDICTION_ERROR)

    def probabilities(self, logits: Tensor, covariates: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Predictive probabilities of all nodes, the mean over samples.  # [S, N, C] -> [N, C]"""
        variance = self.variance(covariates, adjacency)
        block = max(1, _NODES_AT_ONCE // (DRAWS * logits.shape[0] * logits.shape[2]))
        parts = [
            log_probabilities(self.form, self.parameters, logits[:, part], variance[part], covariates[part])
            for part in torch.arange(logits.shape[1]).split(block)
        ]
        return torch.cat(parts).exp()


def _signal(logits: Tensor) -> float:
    """Variance over nodes of the mean logits.  # [S, N, C]"""
    mean = logits.mean(0)
    return float((mean - mean.mean(0)).square().mean())


def unit_noise(form: str, covariates: Tensor, adjacency: SparseMatrix, linear_filter: tuple[float, int]) -> Tensor:
    """v / c of all nodes with a = 0, for a form whose slopes are fixed.  # [N, 3] -> [N]"""
    parameters = torch.tensor([0.0, 0.0, *_GIVEN[form]], dtype=torch.float64)
    return propagated_variance(
        adjacency, *linear_filter, noise_of(parameters, covariates), relative_error=PREDICTION_ERROR
    )


def has_state(form: str) -> bool:
    """Whether the form has a Gaussian state."""
    return 1 in _FREE[form]


def noise_of(parameters: Tensor, covariates: Tensor) -> Tensor:
    """s_j² = exp(a + φ_j·θ).  # [5], [N, 3] -> [N]"""
    return torch.exp((parameters[1] + covariates @ parameters[2:]).clamp(-30.0, 30.0))


def log_probabilities(form: str, parameters: Tensor, logits: Tensor, variance: Tensor, covariates: Tensor) -> Tensor:
    """Logarithms of predictive probabilities.  # [5], [S, n, C], [n], [n, 3] -> [n, C]"""
    temperature = parameters[0].exp()
    if form == "sampled":
        draws = quasi_normal_draws(logits.shape[-1])  # [D, C]
        states = logits[:, None] + variance.sqrt()[None, None, :, None] * draws[None, :, None, :]  # [S, D, n, C]
        scaled = (states / temperature).flatten(0, 1)
    elif form == "covariates":
        scaled = logits / torch.exp(parameters[0] + 0.5 * covariates @ parameters[2:])[None, :, None]
    else:
        scaled = logits / torch.sqrt(temperature.square() + variance)[None, :, None]
    return torch.logsumexp(torch.log_softmax(scaled, -1), 0) - math.log(len(scaled))


def quasi_normal_draws(width: int, count: int = DRAWS) -> Tensor:
    """Antithetic quasi-random normal numbers, always the same: the first half, and its negative.  # [count, width]"""
    from scipy.stats import norm, qmc

    half = qmc.Sobol(width, scramble=True, seed=np.random.default_rng(derive(0, "diffusion", "draws")))
    points = norm.ppf(np.clip(half.random(count // 2), 1e-6, 1.0 - 1e-6))
    return torch.from_numpy(np.concatenate([points, -points]))


def fit_form(form: str, data: DiffusionData) -> FittedForm:
    """Parameters of the lowest regularised NLL, with the ridge of the highest marginal likelihood."""
    choice(form, "form", FORMS)
    free = _FREE[form]
    plain = tuple(index for index in free if index < 2)
    common = math.log(best_temperature(data.logits.transpose(0, 1), data.truth))
    given = _GIVEN.get(form, (0.0, 0.0, 0.0))
    starts = [np.array([common, FIRST_VARIANCE, *given])]
    if has_state(form):
        # two optima: little noise, or noise that makes up most of the temperature; θ has no effect in the first
        unit = torch.tensor([0.0, 0.0, *given], dtype=torch.float64)
        noisy = math.log(0.75) + 2.0 * common - math.log(data.mean_variance(unit))
        starts.append(np.array([common - math.log(2.0), noisy, *given]))

    def best(ridge: float, index: tuple[int, ...]) -> tuple[float, np.ndarray, float]:
        """The evidence for a ridge and the lowest point, from where the last ridge ended in each valley."""
        objective = _objective(form, data, ridge)
        found = [_minimise(objective, start, index, common) for start in starts]
        starts[:] = [at for at, _ in found]
        lowest = min(found, key=lambda one: one[1])[0]
        return _evidence(objective, lowest, index, len(data.truth)), lowest, ridge

    chosen = best(math.inf, plain)
    for ridge in RIDGES if len(free) > len(plain) else ():
        evidence, at, _ = best(ridge, free)
        gain = 1.5 * math.log(ridge) - PERSUASION  # of the prior's own density, ½ log λ per slope
        chosen = max(chosen, (evidence + gain, at, ridge), key=lambda found: found[0])
    _, at, ridge = chosen
    parameters = torch.tensor([0.0, 0.0, *given], dtype=torch.float64)
    parameters[list(free)] = torch.from_numpy(at)[list(free)]
    if not bool(torch.isfinite(parameters).all()):
        raise Diverged("fitting the calibrator 'diffusion' did not converge", fix="use temperature")
    with torch.no_grad():
        nll = float(_nll(form, parameters, data)[0])
    return FittedForm(form, parameters, ridge, nll, data.scale, data.filter)


def _nll(form: str, parameters: Tensor, data: DiffusionData) -> tuple[Tensor, Tensor]:
    """NLL of the nodes to fit to, and the probabilities of their classes.  # [], [n]"""
    variance = data.variance(parameters) if has_state(form) else data.logits.new_zeros(len(data.rows))
    logs = log_probabilities(form, parameters, data.logits, variance, data.covariates[data.rows])
    right = logs[torch.arange(len(data.truth)), data.truth]
    return -right.mean(), right


def _objective(form: str, data: DiffusionData, ridge: float) -> Callable[[Tensor], Tensor]:
    count = len(data.truth)
    # if every node is right, the NLL keeps falling with τ: one wrong answer is added, as for a temperature
    flawless = bool((torch.softmax(data.logits, -1).mean(0).argmax(-1) == data.truth).all())

    def value(parameters: Tensor) -> Tensor:
        total, right = _nll(form, parameters, data)
        if flawless:
            total = total - torch.log((-torch.expm1(right)).clamp_min(1e-12)).mean() / count
        if has_state(form):
            total = total + 0.5 * ((parameters[1] - FIRST_VARIANCE) / VARIANCE_SPREAD).square() / count
        if math.isfinite(ridge):
            total = total + 0.5 * ridge * parameters[2:].square().sum() / count
        return total

    return value


def _minimise(
    objective: Callable[[Tensor], Tensor], start: np.ndarray, free: tuple[int, ...], common: float
) -> tuple[np.ndarray, float]:
    from scipy.optimize import minimize

    index = list(free)

    def value_and_gradient(some: np.ndarray) -> tuple[float, np.ndarray]:
        whole = start.copy()
        whole[index] = some
        parameters = torch.from_numpy(whole).requires_grad_()
        value = objective(parameters)
        (gradient,) = torch.autograd.grad(value, parameters)
        return float(value.detach()), gradient.numpy()[index]

    (low, high), *others = _BOUNDS
    bounds = [[(common + low, common + high), *others][one] for one in index]
    lowest, highest = np.array(bounds).T
    found = minimize(
        value_and_gradient, np.clip(start[index], lowest, highest), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 100, "ftol": 1e-9, "gtol": 1e-6},
    )  # fmt: skip
    whole = start.copy()
    whole[index] = found.x
    return whole, float(found.fun)


def _evidence(objective: Callable[[Tensor], Tensor], at: np.ndarray, free: tuple[int, ...], count: int) -> float:
    """Laplace's log marginal likelihood, but for constants and the prior's own ½ log λ per slope."""
    point = torch.from_numpy(at)
    index = torch.tensor(free)

    def of_free(some: Tensor) -> Tensor:
        return count * objective(point.index_put((index,), some))

    curvature = torch.autograd.functional.hessian(of_free, point[index])
    # at a bound the curvature may be zero or negative; elsewhere the prior on a bounds it from below
    eigenvalues = torch.linalg.eigvalsh(curvature).clamp_min(1.0 / VARIANCE_SPREAD**2)
    with torch.no_grad():
        return -float(of_free(point[index])) - 0.5 * float(eigenvalues.log().sum())
