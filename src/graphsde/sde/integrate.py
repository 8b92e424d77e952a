"""The one entry point: field, initial state, grid and solver in; a path out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.registry import unknown_name
from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.field import BoundDiffusion, BoundDrift, Noise
from graphsde.sde.gradients import GRADIENTS
from graphsde.sde.plan import Plan, require_horizon
from graphsde.sde.solvers import Dopri5, Euler, Solver, StepSolver, System, is_zero, make_solver
from graphsde.sde.solvers.base import all_finite, require_finite


@dataclass(frozen=True)
class Path:
    """States along a solve.

    Args:
        saved: the states at ``times``.  # M × [N, S, d]
        times: when they were saved; the last is the horizon.
        kl: path KL of each path against the prior, summed over nodes and dimensions; ``None`` without a prior or
            without noise.  # [S]
        evaluations: how often the drift was evaluated in the forward pass.
    """

    saved: tuple[Tensor, ...]
    times: tuple[float, ...]
    kl: Tensor | None
    evaluations: int

    @property
    def final(self) -> Tensor:
        """The state at the horizon.  # [N, S, d]"""
        return self.saved[-1]

    @property
    def states(self) -> Tensor:
        """All saved states in one tensor.  # [M, N, S, d]"""
        return torch.stack(self.saved)


@dataclass(frozen=True)
class AdaptivePath:
    """The result of an adaptive solve: final states and, path by path, their cost.

    Args:
        final: the states at the horizon.  # [N, S, d]
        kl: as in :class:`Path`.  # [S]
        accepted, rejected: steps.  # [S] int64
        evaluations: drift evaluations.  # [S] int64
    """

    final: Tensor
    kl: Tensor | None
    accepted: Tensor
    rejected: Tensor
    evaluations: Tensor


Gradients = Literal["store", "checkpoint", "reversible"]
Save = Literal["last", "all"] | int


def integrate(
    drift: BoundDrift,
    initial: Tensor,
    *,
    horizon: float,
    steps: int,
    solver: str | Solver = "sra1",
    diffusion: BoundDiffusion | None = None,
    noise_kind: Noise | None = None,
    brownian: BrownianMotion | None = None,
    prior: BoundDrift | None = None,
    save: Save = "last",
    gradients: Gradients = "store",
) -> Path:
    r"""Solve dH = f(t, H) dt + g(t, H) dW from 0 to T in equal steps, and the path KL with it.

    Args:
        drift: f, bound to a graph.
        initial: H(0).  # [N, S, d]
        horizon: T.
        steps: L, an integer; :func:`~graphsde.sde.plan.steps_for` makes it from a step length.
        solver: a name from ``SOLVERS`` or a solver.
        diffusion: g; ``None`` for an ordinary differential equation.
        noise_kind: what g depends on; ``"none"`` disables noise and KL whatever else is given, and so does a
            diffusion that is zero.
        brownian: the noise, with as many cells as steps or a multiple of that.
        prior: p; with one, the path KL against it is integrated.
        save: ``"last"`` state only, ``"all"`` from H(0) on, or a number of states evenly spread over the steps, the
            first and the last among them.
        gradients: how they are computed: ``"store"`` (fastest), ``"checkpoint"`` (memory of √L states) or
            ``"reversible"`` (constant memory; needs solver ``"reversible-heun"``).

    Raises:
        SolverDiverged: a state or the KL is not finite.
        BadUsage: the parts don't match.

    Example:
        >>> import torch
        >>> class Decay:
        ...     tensors = ()
        ...     def __call__(self, t, h):
        ...         return -h
        >>> path = integrate(Decay(), torch.ones(3, 1, 2), horizon=1.0, steps=100, solver="rk4")
        >>> round(path.final[0, 0, 0].item(), 5), path.evaluations
        (0.36788, 400)
    """
    _check_grid(initial, horizon, steps)
    if diffusion is not None and noise_kind is None:
        raise BadUsage("the noise_kind of the diffusion is not given", code="E-SOLVER", fix="pass diffusion.noise")
    noisy = diffusion is not None and noise_kind != "none" and not is_zero(diffusion)
    system = System(drift, diffusion, prior, noise_kind or "none") if noisy else System(drift)
    method = make_solver(solver)
    method.require(system)
    if gradients not in GRADIENTS:
        raise unknown_name("way of gradients", gradients, list(GRADIENTS))
    saved = saved_steps(save, steps)
    times = tuple(horizon * step / steps for step in saved)
    require_finite(initial, method=method.name, step=0, time=0.0, dt=horizon / steps)
    if isinstance(method, Dopri5):
        return _adaptive_ode(method, system, initial, horizon, saved, times, gradients)
    if not isinstance(method, StepSolver):
        raise BadUsage(f"solver '{method.name}' can't be stepped", code="E-SOLVER", expected="a StepSolver")
    if not noisy and (walked := _unit_walk(method, drift, initial, horizon, steps, saved)) is not None:
        return Path((walked,), times, None, steps)
    motion = _check_noise(brownian, initial, horizon, steps) if noisy else None
    plan = Plan(system, method, float(horizon), steps, motion, saved)
    states, kl = GRADIENTS[gradients](plan, initial)
    return Path(tuple(states), times, kl, plan.evaluations)


def _unit_walk(
    method: Solver, drift: BoundDrift, initial: Tensor, horizon: float, steps: int, saved: tuple[int, ...]
) -> Tensor | None:
    """The last state by the drift's own walk in Euler steps of length one, if it has one and all is finite."""
    walk = getattr(drift, "unit_walk", None)
    if walk is None or type(method) is not Euler or horizon != steps or saved != (steps,):
        return None
    found: Tensor | None = walk(initial, steps)
    # otherwise step by step, which says where it went wrong
    return found if found is not None and all_finite(found) else None


def saved_steps(save: Save, steps: int) -> tuple[int, ...]:
    """After how many steps states are kept, increasing; the last is always among them."""
    if save == "last":
        return (steps,)
    if save == "all":
        return tuple(range(steps + 1))
    if isinstance(save, bool) or not isinstance(save, int) or not 2 <= save <= steps + 1:
        raise BadUsage(
            f"{save!r} states can't be saved",
            code="E-SAVE",
            found=save,
            expected=f"'last', 'all' or a number from 2 to {steps + 1} (steps + 1)",
        )
    return tuple(round(k * steps / (save - 1)) for k in range(save))


def _adaptive_ode(
    method: Dopri5,
    system: System,
    initial: Tensor,
    horizon: float,
    saved: tuple[int, ...],
    times: tuple[float, ...],
    gradients: str,
) -> Path:
    if gradients != "store":
        raise BadUsage(
            f"solver '{method.name}' keeps its states",
            code="E-SOLVER",
            found=f"gradients='{gradients}' with solver '{method.name}'",
            fix="use gradients='store', or solver 'rk4'",
        )
    states, evaluations = method.solve(system, initial, times if saved[0] == 0 else (0.0, *times))
    kept = states if saved[0] == 0 else states[1:]
    for state, time in zip(kept, times, strict=True):
        require_finite(state, method=method.name, step=None, time=time, dt=None)
    return Path(tuple(kept), times, None, evaluations)


def _check_grid(initial: Tensor, horizon: float, steps: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise BadUsage(
            f"invalid number of steps: {steps!r}", code="E-STEP", found=steps, expected="an integer, at least 1"
        )
    require_horizon(horizon)
    if initial.dim() != 3 or not initial.is_floating_point():
        raise BadUsage(
            "the initial state has the wrong shape or type",
            code="E-STATE",
            found=f"{initial.dtype} of shape {tuple(initial.shape)}",
            expected="floating point of shape [nodes, paths, width]",
        )


def _check_noise(brownian: BrownianMotion | None, initial: Tensor, horizon: float, steps: int) -> BrownianMotion:
    if brownian is None:
        raise BadUsage(
            "there is a diffusion but no Brownian motion", code="E-NOISE", fix="pass brownian=BrownianMotion(…)"
        )
    if brownian.cells % steps or not math.isclose(brownian.horizon, horizon, rel_tol=1e-12):
        raise BadUsage(
            f"the Brownian motion does not match {steps} steps up to {horizon}",
            code="E-NOISE",
            found=f"{brownian.cells} cells up to {brownian.horizon}",
            expected="the same horizon, and cells a multiple of steps",
        )
    if brownian.shape[1:] != initial.shape[1:] or brownian.dtype != initial.dtype:
        raise BadUsage(
            "the Brownian motion does not match the state",
            code="E-NOISE",
            found=f"noise {brownian.shape} {brownian.dtype}, state {tuple(initial.shape)} {initial.dtype}",
            expected="the same paths, width and dtype",
        )
    return brownian
