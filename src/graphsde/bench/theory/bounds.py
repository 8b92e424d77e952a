"""Right sides of the propositions, as functions of time, from certified constants of a fitted network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from graphsde.base.errors import BadUsage
from graphsde.bench.theory.subject import Subject
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.field import Diffusion, Drift
from graphsde.sde.lipschitz import operator_norm_bound, spectral_norm_bound


@dataclass(frozen=True)
class Noise:
    """``power``: q ≥ tr g gᵀ over all nodes and dimensions; ``l_g``: Lipschitz constant of g in H."""

    power: float
    l_g: float


def noise_of(diffusion: Diffusion, nodes: int, width: int) -> Noise:
    """The size of a diffusion on a graph with ``nodes`` nodes and a state ``width`` wide.

    Graph-correlated noise (``smoothed``, ``q-wiener``) is scaled to unit variance on average over nodes, so its trace
    is that of independent noise of the same g. For noise that depends on the state q is the largest it can be.

    Example:
        >>> from graphsde.sde.diffusion import ConstantDiffusion
        >>> noise_of(ConstantDiffusion(4, sigma=0.5), nodes=10, width=4)
        Noise(power=10.0, l_g=0.0)
    """
    noise = Noise(diffusion.power(nodes, width), diffusion.lipschitz())
    if math.isfinite(noise.power) and math.isfinite(noise.l_g):
        return noise
    raise BadUsage(
        f"the size of the diffusion '{diffusion.name}' is unknown",
        code="E-SETTING",
        found=diffusion.name,
        expected="a diffusion with the methods power and lipschitz, such as those of: graphsde list diffusions",
    )


SOFTMAX = 0.5
"""Lipschitz constant of softmax: its Jacobian J = diag(p) − ppᵀ has vᵀJv = Var_p(v) ≤ (max v − min v)²/4 ≤ ‖v‖²/2."""


@dataclass(frozen=True)
class Constants:
    """The constants of the right sides.

    Args:
        l_f: of the drift in H.
        l_h_logits, l_h_probabilities: of the readout, from the state to the logits (before the temperature) and to the
            class probabilities (after it).
        source: κ, of the drift in H(0) if H(0) is also a source; otherwise 0.
        l_g: of the diffusion in H; 0 for additive noise.
        power: q ≥ tr g gᵀ: what the noise adds to the total variance in a unit of time.
    """

    l_f: float
    l_h_logits: float
    l_h_probabilities: float
    source: float
    l_g: float
    power: float


def constants_of(subject: Subject) -> Constants:
    """The constants of a network on its graph, or an error if one of them is unknown.

    Raises:
        BadUsage: the drift has no certified Lipschitz constant.
    """
    drift, adjacency = subject.module.drift, subject.inputs.adjacency
    l_f, source = drift.lipschitz(adjacency), drift.source_lipschitz(adjacency)
    if not (math.isfinite(l_f) and math.isfinite(source)):
        raise BadUsage(
            f"no Lipschitz constant is known for the drift '{drift.name}' with these settings",
            code="E-SETTING",
            found=f"L_f = {l_f:g} in the state, {source:g} in the initial state",
            expected="a drift whose constant can be certified",
            fix="fit with --set drift.name=gcn (option spectral_bound limits its constant), or with "
            "drift.name=graph-heat and attention=none",
        )
    logits = readout_lipschitz(subject)
    noise = noise_of(subject.module.diffusion, *subject.initial.shape[::2]) if subject.noisy else Noise(0.0, 0.0)
    return Constants(l_f, logits, logits * SOFTMAX / subject.temperature, source, noise.l_g, noise.power)


def readout_lipschitz(subject: Subject) -> float:
    """‖W‖ of the decoder, times ‖Â‖ for a graph convolution, or √B for the sum of B blocks; relu never stretches."""
    module = subject.module
    if module.decoder is None:
        return math.sqrt(module.settings.hidden)
    bound = spectral_norm_bound(module.decoder.weight)
    if module.settings.decoder == "gcn":
        bound *= operator_norm_bound(subject.inputs.adjacency)
    return bound


@dataclass(frozen=True)
class StepRule:
    """Args:
    coefficients: of R, from the constant on.
    stage_noise: c.
    exponent: R(x) is at most e to the power of this times x.
    linear: whether the step is the matrix R(Z) on a linear drift f(H) = (Z/Δt) H.
    """

    coefficients: tuple[float, ...]
    stage_noise: float = 0.0
    exponent: float = 1.0
    linear: bool = True

    def growth(self, x: float) -> float:
        """R(x) for x ≥ 0: bound of the step's stretch."""
        return _value(self.coefficients, x)

    def push(self, x: float) -> float:
        """(R(x) − 1)/x: how much of Δt times a constant shift of the drift reaches the state in one step."""
        return _value(self.coefficients[1:], x)


class ReversibleHeunRule(StepRule):
    """It carries a companion ẑ; the norm of (z, ẑ − z) together grows by at most 1 + x √(1 + (1 + x)²) a step."""

    def growth(self, x: float) -> float:
        return 1.0 + x * math.hypot(1.0, 1.0 + x)

    def push(self, x: float) -> float:
        return math.hypot(1.0, 1.0 + x) / math.sqrt(2)


def _value(coefficients: tuple[float, ...], x: float) -> float:
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


_RALSTON = (1.0, 1.0, 1 / 2)
STEP_RULES: dict[str, StepRule] = {
    "euler": StepRule((1.0, 1.0)),
    "milstein": StepRule((1.0, 1.0)),
    "heun": StepRule(_RALSTON, 1 / 2),
    "sra1": StepRule(_RALSTON, 1 / math.sqrt(3)),
    "srk": StepRule((*_RALSTON, 1 / 6), 1 / math.sqrt(3)),
    "rk4": StepRule((*_RALSTON, 1 / 6, 1 / 24)),
    "reversible-heun": ReversibleHeunRule((1.0,), 1 / math.sqrt(2), exponent=2.0, linear=False),
}


def step_rule(solver: str, *, state_dependent: bool) -> StepRule:
    """The rule of a solver, or an error if there is none."""
    if solver not in STEP_RULES or (state_dependent and solver != "euler"):
        kind = "noise that depends on the state" if state_dependent else "this equation"
        raise BadUsage(
            f"no bound is known for the solver '{solver}' with {kind}",
            code="E-SOLVER",
            found=solver,
            expected="euler" if state_dependent else ", ".join(STEP_RULES),
            fix="fit with --set solver.name=euler",
        )
    return STEP_RULES[solver]


@dataclass(frozen=True)
class Contraction:
    """Args:
    one_sided: μ.
    stretch: r ≥ ‖R(Z)‖, the matrix of one step.
    push: ≥ ‖(R(Z) − I) Z⁻¹‖: how much of Δt times a constant shift reaches the state in one step.
    """

    one_sided: float
    stretch: float
    push: float


def contraction_of(drift: Drift, adjacency: SparseMatrix, rule: StepRule, dt: float) -> Contraction | None:
    """For drifts with a :meth:`~graphsde.sde.field.Drift.relaxation`, such as graph-heat without attention."""
    relaxation = drift.relaxation(adjacency)
    if relaxation is None or not rule.linear:
        return None
    rate, reach, symmetric = relaxation
    # Z = −Δt α I + Δt α N: a disc around the first, an interval where N is symmetric
    centre, radius = -dt * rate, dt * rate * reach

    def size(coefficients: tuple[float, ...]) -> float:
        polynomial = Polynomial(coefficients)
        if symmetric:
            # R and (R − 1)/z are, for these methods, monotone or convex and positive: largest at an end
            return max(abs(float(polynomial(centre - radius))), abs(float(polynomial(centre + radius))))
        around = [
            polynomial.deriv(k)(centre) / math.factorial(k) if k else polynomial(centre)
            for k in range(len(coefficients))
        ]
        return float(sum(abs(value) * radius**k for k, value in enumerate(around)))

    return Contraction(rate * (reach - 1.0), size(rule.coefficients), size(rule.coefficients[1:]))


@dataclass(frozen=True)
class Bounds:
    """Right sides at the saved times.  # [M] each"""

    exponential: np.ndarray
    chain: np.ndarray
    contractive: np.ndarray | None

    def named(self) -> dict[str, np.ndarray]:
        both = {"exponential": self.exponential, "chain": self.chain}
        return both if self.contractive is None else {**both, "contractive": self.contractive}

    def scaled(self, factor: float) -> Bounds:
        less = None if self.contractive is None else self.contractive * factor
        return Bounds(self.exponential * factor, self.chain * factor, less)


@dataclass(frozen=True)
class Grid:
    """Δt, and after how many steps one looks."""

    dt: float
    steps: tuple[int, ...]

    @property
    def times(self) -> np.ndarray:
        return np.array(self.steps, dtype=np.float64) * self.dt


def variance_bounds(constants: Constants, rule: StepRule, contraction: Contraction | None, grid: Grid) -> Bounds:
    r"""Of the total variance of H(t), which is zero at the start:

    .. math::
        q t\, e^{2 L_f t}; \qquad
        V_{k+1} = (\sqrt{R^2 V_k + u} + c x \sqrt u)^2; \qquad
        V_{k+1} = r^2 V_k + (1 + c x)^2 u, \qquad u = q \Delta t,\; x = L_f \Delta t.
    """
    x, u = constants.l_f * grid.dt, constants.power * grid.dt
    squared, shift = _square(rule.growth(x)), rule.stage_noise * x * math.sqrt(u)

    def general(variance: float) -> float:
        grown = (squared * variance if variance else 0.0) + u  # an infinite factor times zero is zero
        return _square(math.sqrt(grown) + shift) if shift else grown

    contractive = None
    if contraction is not None:
        kept, added = _square(contraction.stretch), u * _square(1.0 + rule.stage_noise * x)
        contractive = _iterate(lambda variance: kept * variance + added, 0.0, grid.steps)
    return Bounds(
        _times_exponential(constants.power * grid.times, 2.0 * rule.exponent * constants.l_f, grid.times),
        _iterate(general, 0.0, grid.steps),
        contractive,
    )


def distance_bounds(constants: Constants, rule: StepRule, contraction: Contraction | None, grid: Grid) -> Bounds:
    r"""Of the distance of two solutions with the same noise, in units of their distance ε at the start:

    .. math::
        e^{\lambda t} + \kappa (e^{\lambda t} - 1)/\lambda, \quad \lambda = L_f + \tfrac12 L_g^2; \qquad
        D_{k+1} = \rho D_k + p \kappa, \quad \rho = (R^2 + L_g^2 \Delta t)^{1/2},\; p = \Delta t (R - 1)/x.
    """
    x, extra = constants.l_f * grid.dt, constants.l_g**2 * grid.dt

    def chain(stretch: float, push: float) -> np.ndarray:
        grown = math.sqrt(_square(stretch) + extra)
        pushed = push * grid.dt * constants.source if constants.source else 0.0
        return _iterate(lambda distance: grown * distance + pushed, 1.0, grid.steps)

    rate = rule.exponent * constants.l_f + 0.5 * constants.l_g**2
    contractive = None if contraction is None else chain(contraction.stretch, contraction.push)
    exponential = _times_exponential(np.ones(len(grid.steps)), rate, grid.times)
    if constants.source:
        with np.errstate(over="ignore"):  # an infinite bound is still true
            exponential = exponential + constants.source * _integrated_exponential(rate, grid.times)
    return Bounds(exponential, chain(rule.growth(x), rule.push(x)), contractive)


@dataclass(frozen=True)
class RightSides:
    """Of both propositions on one network; ``one_sided`` is μ where the drift contracts."""

    constants: Constants
    one_sided: float | None
    variance: Bounds
    distance: Bounds


def right_sides(subject: Subject, constants: Constants | None = None) -> RightSides:
    """At the times that are saved; ``constants`` replace the certified ones.

    Raises:
        BadUsage: no bound is known for the solver, or a constant is unknown.
    """
    rule = step_rule(subject.module.settings.solver.name, state_dependent=subject.state_dependent)
    known = constants or constants_of(subject)
    grid = Grid(subject.step_length, subject.saved_steps)
    contraction = contraction_of(subject.module.drift, subject.inputs.adjacency, rule, grid.dt)
    both = [of(known, rule, contraction, grid) for of in (variance_bounds, distance_bounds)]
    return RightSides(known, None if contraction is None else contraction.one_sided, *both)


def _square(value: float) -> float:
    return value * value  # ** would raise if this becomes infinite


def _iterate(step: Callable[[float], float], start: float, wanted: tuple[int, ...]) -> np.ndarray:
    values, value = [], start
    for before, count in itertools.pairwise((0, *wanted)):
        for _ in range(count - before):
            value = step(value) if math.isfinite(value) else math.inf
        values.append(value)
    return np.array(values)


def _times_exponential(factor: np.ndarray, rate: float, times: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.where(factor == 0, 0.0, factor * np.exp(np.where(factor == 0, 0.0, rate * times)))


def _integrated_exponential(rate: float, times: np.ndarray) -> np.ndarray:
    if rate * times[-1] < 1e-12:
        return times
    with np.errstate(over="ignore"):
        return np.expm1(rate * times) / rate
