"""What every solver guarantees, as checks for your own solver.

Example: ``gs.testing.check_solver(MySolver)``, or one by one in a test file of yours::

    import pytest
    from graphsde.testing.solvers import SOLVER_CHECKS, SolverCase

    @pytest.mark.parametrize("check", SOLVER_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(SolverCase(MySolver))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage, Diverged
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.field import BoundDiffusion, BoundDrift, NodeNoise, Noise
from graphsde.sde.integrate import Path, integrate
from graphsde.sde.solvers import SOLVERS, ReversibleSolver, Solver, StepSolver, System
from graphsde.testing.contract import contract as contract_of
from graphsde.testing.contract import expect, run_checks


class Field:
    """A drift from a plain function that counts its evaluations.

    Args:
        function: ``(t, h) -> [N, S, d]``.
        tensors: what gradients must reach besides the state.
    """

    def __init__(self, function: Callable[[float, Tensor], Tensor], tensors: tuple[Tensor, ...] = ()) -> None:
        self.function, self.tensors = function, tensors
        self.calls = 0

    def __call__(self, t: float, h: Tensor) -> Tensor:
        self.calls += 1
        return self.function(t, h)


def ornstein_uhlenbeck(rate: float | Tensor, level: float | Tensor) -> Field:
    """f = rate · (level − h)."""
    return Field(lambda t, h: (level - h) * rate, tuple(x for x in (rate, level) if isinstance(x, Tensor)))


class ConstantNoise(NodeNoise):
    """g = size, for every node and dimension."""

    autonomous = True

    def __init__(self, size: float | Tensor) -> None:
        self.size = size
        self.tensors: tuple[Tensor, ...] = (size,) if isinstance(size, Tensor) else ()

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return noise * self.size

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.size


class GrowingNoise(ConstantNoise):
    """g = size · (1 + t): additive, and changing in time."""

    autonomous = False

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return noise * self.size * (1.0 + t)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.size / (1.0 + t)


class ProportionalNoise(NodeNoise):
    """g = size · h, entry by entry: with drift a · h, geometric Brownian motion."""

    def __init__(self, size: float | Tensor) -> None:
        self.size = size
        self.tensors: tuple[Tensor, ...] = (size,) if isinstance(size, Tensor) else ()

    def scale(self, t: float, h: Tensor) -> Tensor:
        return h * self.size

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return torch.ones_like(h) * self.size

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.scale(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.scale(t, h)


SolverCheck = Callable[["SolverCase"], None]
SOLVER_CHECKS: list[SolverCheck] = []
contract = contract_of(SOLVER_CHECKS)
NODES, PATHS, WIDTH = 6, 50, 3


class SolverCase:
    """A way to make the solver, and small equations to try it on.

    Args:
        make: makes the solver, such as its class.
        horizon: T of the equations.
    """

    def __init__(self, make: Callable[[], Solver], *, horizon: float = 1.0) -> None:
        self.make, self.horizon = make, horizon
        self.keys = node_keys(np.arange(NODES))

    @property
    def solver(self) -> Solver:
        return self.make()

    @property
    def steps(self) -> bool:
        """It walks on a grid."""
        return isinstance(self.solver, StepSolver)

    def kinds(self) -> list[Noise]:
        return [kind for kind in self.solver.noise if kind != "none"]

    def motion(self, cells: int, seed: int = 0, paths: Sequence[int] = range(PATHS)) -> BrownianMotion:
        return BrownianMotion(seed, self.keys, paths, WIDTH, self.horizon, cells, torch.float64)

    def initial(self, value: float = 1.0, paths: int = PATHS) -> Tensor:
        return torch.full((NODES, paths, WIDTH), value, dtype=torch.float64)

    def diffusion(self, kind: Noise, size: float | Tensor = 0.5) -> BoundDiffusion:
        return ProportionalNoise(size) if kind == "diagonal" else ConstantNoise(size)

    def solve(
        self,
        drift: BoundDrift,
        steps: int,
        kind: Noise = "none",
        motion: BrownianMotion | None = None,
        initial: Tensor | None = None,
        **options: Any,
    ) -> Path:
        """The case's equation with its usual diffusion of ``kind``, unless ``options`` set another."""
        if kind != "none":
            options = {"diffusion": self.diffusion(kind), **options}
        return integrate(
            drift,
            self.initial() if initial is None else initial,
            horizon=self.horizon,
            steps=steps,
            solver=self.solver,
            noise_kind=kind,
            brownian=motion if motion is not None or kind == "none" else self.motion(steps),
            **options,
        )


def slope(steps: Sequence[int], errors: Sequence[float]) -> float:
    """The order of convergence: minus the slope of log error over log steps."""
    return float(-np.polyfit(np.log(np.asarray(steps, dtype=float)), np.log(np.asarray(errors)), 1)[0])


def root_mean_square(difference: Tensor) -> float:
    return float(difference.square().mean().sqrt())


GRIDS = (8, 16, 32, 64)
FINEST = 512
SLACK = 0.25


@contract
def keeps_its_order_without_noise(case: SolverCase) -> None:
    if not case.steps or "none" not in case.solver.noise:
        return
    # several starts: at a single one the leading error may vanish by accident
    start = case.initial(1.0, 1) * torch.linspace(-2.0, 2.0, NODES, dtype=torch.float64).view(-1, 1, 1)
    drift = Field(lambda t, h: math.cos(2 * t) + torch.sin(3 * h) - h)
    finest = case.solve(drift, 2048, initial=start).final
    errors = [root_mean_square(case.solve(drift, n, initial=start).final - finest) for n in GRIDS]
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["none"], "none")


@contract
def keeps_its_strong_order_on_ornstein_uhlenbeck(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    drift, motion = ornstein_uhlenbeck(1.0, 0.3), case.motion(FINEST)
    finest = case.solve(drift, FINEST, "additive", motion).final
    errors = [root_mean_square(case.solve(drift, n, "additive", motion).final - finest) for n in GRIDS]
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["additive"], "additive")


@contract
def keeps_its_strong_order_on_geometric_brownian_motion(case: SolverCase) -> None:
    if "diagonal" not in case.solver.noise:
        return
    growth, size, cells = 0.4, 0.5, 256
    motion = case.motion(cells)
    w = motion.increment(0, cells).dw
    correction = 0.0 if case.solver.stratonovich else 0.5 * size**2
    exact = torch.exp((growth - correction) * case.horizon + size * w)
    drift = Field(lambda t, h: growth * h)
    errors = [root_mean_square(case.solve(drift, n, "diagonal", motion).final - exact) for n in GRIDS]
    expect(errors[-1] < errors[0], "the error shrinks with the step")
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["diagonal"], "diagonal")


@contract
def reproduces_brownian_motion_exactly(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    motion = case.motion(24)
    still = Field(lambda t, h: torch.zeros_like(h))
    got = case.solve(still, 8, "additive", motion, case.initial(0.0), diffusion=ConstantNoise(1.0)).final
    gap = float((got - motion.increment(0, 24).dw).abs().max())
    expect(gap <= 1e-13, f"without drift and with g = 1 the state is W; it is {gap:.2g} away")


@contract
def path_kl_of_equal_drifts_is_zero(case: SolverCase) -> None:
    for kind in case.kinds():
        kl = case.solve(ornstein_uhlenbeck(1.0, 0.3), 8, kind, prior=ornstein_uhlenbeck(1.0, 0.3)).kl
        expect(kl is not None and not bool(kl.any()), "the KL of equal drifts is 0")


@contract
def path_kl_of_a_constant_difference_is_exact(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    initial = case.initial(0.0)
    prior = ornstein_uhlenbeck(1.0, 0.0)
    drift = Field(lambda t, h: 0.7 - h)
    kl = case.solve(drift, 8, "additive", initial=initial, prior=prior, diffusion=ConstantNoise(0.5)).kl
    truth = 0.5 * case.horizon * (0.7 / 0.5) ** 2 * initial.shape[0] * initial.shape[2]
    expect(kl is not None and torch.allclose(kl, torch.full_like(kl, truth), rtol=1e-12), f"KL is {truth}, not {kl}")


def _order_at_least(measured: float, claimed: float, kind: str) -> None:
    expect(measured >= claimed - SLACK, f"order {measured:.2f} with noise '{kind}', {claimed} is claimed")


ALL_KINDS: tuple[Noise, ...] = ("none", "additive", "diagonal")


@contract
def has_name_summary_paper_and_year(case: SolverCase) -> None:
    solver = case.solver
    expect(solver.name and solver.summary and solver.paper and 1700 < solver.year < 2100, "name, summary, paper, year")
    expect("Paper:" in (type(solver).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract
def is_registered_under_its_name(case: SolverCase) -> None:
    solver = case.solver
    expect(solver.name in SOLVERS and SOLVERS.get(solver.name) is type(solver), "register it with @gs.register")


@contract
def refuses_noise_that_it_does_not_claim(case: SolverCase) -> None:
    for kind in set(ALL_KINDS) - set(case.solver.noise):
        try:
            case.solve(ornstein_uhlenbeck(1.0, 0.0), 4, kind)
        except BadUsage as error:
            expect(error.code == "E-SOLVER" and error.fix, "the refusal has code E-SOLVER and a fix")
        else:
            expect(False, f"noise '{kind}' is not claimed and not refused")


@contract
def counts_its_evaluations(case: SolverCase) -> None:
    for kind in case.solver.noise:
        drift = ornstein_uhlenbeck(1.0, 0.3)
        path = case.solve(drift, 5, kind)
        expect(path.evaluations == drift.calls, f"{drift.calls} evaluations, {path.evaluations} reported")


@contract
def without_noise_it_is_deterministic_and_draws_nothing(case: SolverCase) -> None:
    if "none" not in case.solver.noise:
        return
    one = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, motion=case.motion(6, seed=1)).final
    two = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, motion=case.motion(6, seed=2)).final
    expect(torch.equal(one, two), "without noise the seed has no influence")
    expect(torch.equal(one, one[:1, :1].expand_as(one)), "equal starts end equal")


@contract
def same_noise_gives_the_same_bits(case: SolverCase) -> None:
    for kind in case.kinds():
        one, two = (case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind).final for _ in range(2))
        expect(torch.equal(one, two), "two solves with one seed differ")


@contract
def paths_and_nodes_keep_to_themselves(case: SolverCase) -> None:
    for kind in case.kinds():
        everything = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind).final
        few = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind, case.motion(6, paths=[7, 3]), case.initial(1.0, 2))
        expect(torch.equal(few.final, everything[:, [7, 3]]), "a path depends on which others are drawn")
        expect(everything[:, 0].sub(everything[:, 1]).abs().max() > 0, "two paths share their noise")
        expect(everything[0].sub(everything[1]).abs().max() > 0, "two nodes share their noise")


@contract
def evaluates_the_prior_only_for_the_kl(case: SolverCase) -> None:
    for kind in case.solver.noise:
        prior = ornstein_uhlenbeck(0.5, 0.0)
        path = case.solve(ornstein_uhlenbeck(1.0, 0.3), 4, kind, prior=prior)
        if kind == "none":
            expect(path.kl is None and prior.calls == 0, "without noise there is no KL")
        else:
            expect(path.kl is not None and path.kl.shape == (PATHS,) and prior.calls > 0, "one KL per path")


@contract
def leaves_its_inputs_alone(case: SolverCase) -> None:
    for kind in case.solver.noise:
        start = case.initial(0.8)
        # a drift that hands out a tensor of its own, and one that hands back the state
        source = torch.full_like(start, 0.1)
        for function in (lambda t, h, source=source: source, lambda t, h: h):
            case.solve(Field(function), 4, kind, initial=start, prior=ornstein_uhlenbeck(1.0, 0.0), save="all")
        expect(bool((start == 0.8).all()) and bool((source == 0.1).all()), "a tensor of the caller was overwritten")


@contract
def raises_when_the_state_explodes(case: SolverCase) -> None:
    for kind in case.solver.noise:
        try:
            case.solve(Field(lambda t, h: h.pow(3) * 1e6), 8, kind)
        except Diverged:
            continue
        expect(False, f"an infinite state came out with noise '{kind}'")


@contract
def raises_on_a_single_nan(case: SolverCase) -> None:
    def broken(t: float, h: Tensor) -> Tensor:
        if t < 0.5:
            return -h
        return torch.where(torch.arange(NODES).view(-1, 1, 1) == 2, float("nan"), -h)

    for kind in case.solver.noise:
        try:
            case.solve(Field(broken), 8, kind)
        except Diverged as error:
            expect(getattr(error, "positions", (2,)) == (2,), "the error names the node")
        else:
            expect(False, f"a NaN came out with noise '{kind}'")


@contract
def gradient_modes_agree(case: SolverCase) -> None:
    if not case.steps:
        return
    modes = ["store", "checkpoint", *(["reversible"] if isinstance(case.solver, ReversibleSolver) else [])]
    for kind in case.solver.noise:
        stored, *others = (_gradients(case, kind, mode) for mode in modes)
        for mode, found in zip(modes[1:], others, strict=True):
            for want, got in zip(stored, found, strict=True):
                expect(torch.allclose(want, got, rtol=1e-8, atol=1e-10), f"gradients of '{mode}' differ from stored")


@contract
def steps_can_be_undone_if_claimed(case: SolverCase) -> None:
    solver = case.solver
    if not isinstance(solver, ReversibleSolver):
        return
    for kind in case.kinds():
        system = System(ornstein_uhlenbeck(1.0, 0.3), case.diffusion(kind), ornstein_uhlenbeck(0.5, 0.0), kind)
        noise, carry = case.motion(4).increment(1, 2), solver.start(system, 0.0, case.initial(0.8))
        carry = solver.step(system, 0.0, 0.25, carry, noise)[0]  # so that the parts of the carry are not all alike
        after = solver.step(system, 0.25, 0.25, carry, noise)[0]
        for want, got in zip(carry, solver.undo(system, 0.25, 0.25, after, noise), strict=True):
            expect(torch.allclose(want, got, rtol=1e-12, atol=1e-12), f"a step with noise '{kind}' is not undone")


def _gradients(case: SolverCase, kind: Noise, mode: str) -> list[Tensor]:
    """Of a loss on the final state, an intermediate state and the KL: by rate, level, size and initial state."""
    rate, level, size = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.2, 0.4, 0.5))
    start = case.initial(0.8).requires_grad_()
    path = case.solve(
        ornstein_uhlenbeck(rate, level),
        9,
        kind,
        initial=start,
        diffusion=None if kind == "none" else case.diffusion(kind, size),
        prior=ornstein_uhlenbeck(0.7, 0.1),
        save=4,
        gradients=mode,
    )
    loss = path.final.square().sum() + path.saved[1].sum() + (0.0 if path.kl is None else path.kl.sum())
    return list(torch.autograd.grad(loss, [rate, level, start, *([] if kind == "none" else [size])]))


def check_solver(make: Callable[..., Solver], *, horizon: float = 1.0, **settings: Any) -> int:
    """Check a solver against everything that solvers guarantee: orders, KL, count of evaluations, gradients.

    Args:
        make: the solver's class, called as ``make(**settings)``.
        horizon: T of the equations that it is tried on.
        settings: its own.

    Returns and raises as :func:`~graphsde.testing.models.check_model`.
    """
    case = SolverCase(lambda: make(**settings), horizon=horizon)
    return run_checks(SOLVER_CHECKS, lambda: (case,))
