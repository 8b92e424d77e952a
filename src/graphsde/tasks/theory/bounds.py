r"""Right sides, as functions of time.

``exponential`` is the proposition in its corrected form, for continuous time; ``chain`` holds for the steps that are
actually simulated and is smaller; ``contractive`` is there for graph diffusion and need not grow at all. All three are
right sides for the simulated chain. The reversible Heun method can grow faster than the equation it solves: its
exponents have 2 L_f instead of L_f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphsde.tasks.theory.contraction import Contraction
from graphsde.tasks.theory.lipschitz import Constants
from graphsde.tasks.theory.step_rules import StepRule


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
        grown = (squared * variance if variance else 0.0) + u  # an infinite square of nothing is nothing
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
        with np.errstate(over="ignore"):  # an infinite bound is a true one, and says so
            exponential = exponential + constants.source * _integrated_exponential(rate, grid.times)
    return Bounds(
        exponential,
        chain(rule.growth(x), rule.push(x)),
        contractive,
    )


def _square(value: float) -> float:
    return value * value  # ** would raise where this becomes infinite


def _iterate(step: Callable[[float], float], start: float, wanted: tuple[int, ...]) -> np.ndarray:
    values, value = [], start
    reached = 0
    for count in wanted:
        for _ in range(count - reached):
            value = step(value) if math.isfinite(value) else math.inf
        reached = count
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
