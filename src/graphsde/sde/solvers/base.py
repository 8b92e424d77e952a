"""Base of solvers: a rule for one step of dH = f dt + g dW and its path KL; nonfinite states raise an error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage, Diverged
from graphsde.base.registry import Registry
from graphsde.sde.brownian import Increment
from graphsde.sde.field import BoundDiffusion, BoundDrift, Noise

SHOWN = 5


class SolverDiverged(Diverged):
    """A state or a path KL became infinite or NaN during a solve.

    Args:
        quantity: what is not finite.
        method: the solver's name.
        step: the number of the step after which it was seen, from 1; ``None`` for adaptive solvers.
        time: the end of that step.
        dt: its length, if known.
        nodes: how many nodes are affected, ``None`` if unknown.
        positions: the first few of them.
        hint: what to try.
    """

    default_code = "E-DIVERGED"

    def __init__(
        self,
        quantity: str,
        *,
        method: str,
        step: int | None,
        time: float,
        dt: float | None,
        nodes: int | None = None,
        positions: tuple[int, ...] = (),
        hint: str = "use more steps, or make the drift smaller: fewer or normalised features, a smaller learning rate",
    ) -> None:
        self.method, self.step, self.time, self.dt = method, step, time, dt
        self.nodes, self.positions, self.hint = nodes, positions, hint
        when = f"at t = {time:.6g}" if step is None else f"in step {step}, at t = {time:.6g}"
        length = "" if dt is None else f", dt = {dt:.6g}"
        where = None
        if nodes is not None:
            shown = ", ".join(map(str, positions)) + (", …" if nodes > len(positions) else "")
            where = f"{nodes} node{'s' if nodes != 1 else ''}, at position {shown}"
        super().__init__(f"{quantity} became infinite or NaN {when} (solver '{method}'{length})", place=where, fix=hint)


class EvaluationsExhausted(Diverged):
    """An adaptive solver needs more, or shorter, steps than allowed."""


def all_finite(x: Tensor) -> bool:
    """Whether every entry is finite, usually at the cost of one sum."""
    with torch.no_grad():
        # a sum of finite numbers may overflow, so that only a finite sum is an answer
        return math.isfinite(float(x.detach().sum())) or bool(torch.isfinite(x).all())


def require_finite(state: Tensor, *, method: str, step: int | None, time: float, dt: float | None) -> None:
    """Raise :class:`SolverDiverged` unless every entry of ``state`` is finite.  # [N, S, d]"""
    if all_finite(state):
        return
    broken = (~torch.isfinite(state.detach())).flatten(1).any(1).nonzero().flatten()
    shown = tuple(broken[:SHOWN].tolist())
    raise SolverDiverged("the state", method=method, step=step, time=time, dt=dt, nodes=broken.numel(), positions=shown)


def require_finite_kl(kl: Tensor | None, *, method: str, step: int | None, time: float, dt: float) -> None:
    if kl is not None and not all_finite(kl):
        hint = "keep the diffusion away from zero, or make prior and posterior more similar"
        raise SolverDiverged("the path KL", method=method, step=step, time=time, dt=dt, hint=hint)


_NODES_AT_ONCE = 4096


def kl_rate(system: System, t: float, h: Tensor, f: Tensor) -> Tensor | None:
    """½ ‖g⁻¹(f − p)‖² at (t, h), over nodes and dimensions, with ``f`` the drift there.  # [S]"""
    if system.prior is None or system.diffusion is None:
        return None
    # two shortcuts save most passes over the state: a prior that subtracts itself, a diffusion that is one number
    gap = getattr(system.prior, "gap", None)
    difference = f - system.prior(t, h) if gap is None else gap(t, h, f)
    uniform: float | None = getattr(system.diffusion, "uniform", None)
    if uniform is None:
        return half_square_sum(system.diffusion.whiten(t, h, difference))
    return half_square_sum(difference) * uniform**-2


def half_square_sum(u: Tensor) -> Tensor:
    """½ Σ u² over nodes and dimensions, with the same bits for any number of threads.  # [N, S, d] -> [S]"""
    return _HalfSquareSum.apply(u) if u.requires_grad else _half_square_sum(u)


def weighted(dt: float, *parts: tuple[float, Tensor | None]) -> Tensor | None:
    """``dt · Σ weight · rate``, or ``None`` if there are no rates.  # [S]"""
    total: Tensor | None = None
    for weight, rate in parts:
        if rate is None:
            return None
        total = rate * (weight * dt) if total is None else total.add(rate, alpha=weight * dt)
    return total


def _half_square_sum(u: Tensor) -> Tensor:
    squares = torch.mul(u, u).flatten(1)  # [N, S·d]
    # torch splits a reduction to a single number among its threads; blocks keep every reduction inside one
    while squares.shape[1] == 1 and squares.shape[0] > _NODES_AT_ONCE:
        missing = -squares.shape[0] % _NODES_AT_ONCE
        padded = torch.nn.functional.pad(squares, (0, 0, 0, missing))
        squares = padded.view(-1, _NODES_AT_ONCE, 1).sum(1)
    return squares.sum(0).view(u.shape[1:]).sum(1).mul_(0.5)


class _HalfSquareSum(torch.autograd.Function):
    """Explicit, since its derivative is u itself: a third of the work of differentiating u · u."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u)
        return _half_square_sum(u)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        return u * grads[0].view(1, -1, 1)


Carry = tuple[Tensor, ...]
"""What is passed from one step to the next: the state [N, S, d] first, then whatever else the method keeps."""
Stepped = tuple[Carry, Tensor | None]
"""The result of a step: the new carry and, if there is a prior, the KL of the step.  # [S]"""


@runtime_checkable
class BoundElementwise(Protocol):
    """A bound diffusion g(t, h) whose entry (i, k) depends on the state's entry (i, k) alone."""

    def scale(self, t: float, h: Tensor) -> Tensor: ...

    def scale_slope(self, t: float, h: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class System:
    """The equation of one solve: f, g (``None`` for an ordinary differential equation), the prior's drift (``None``
    if no path KL is wanted), and what g depends on."""

    drift: BoundDrift
    diffusion: BoundDiffusion | None = None
    prior: BoundDrift | None = None
    noise: Noise = "none"

    def tensors(self) -> tuple[Tensor, ...]:
        """Everything besides the state that gradients must reach, each once."""
        parts = (self.drift, self.diffusion, self.prior)
        return tuple({id(x): x for part in parts if part is not None for x in part.tensors if x.requires_grad}.values())


class Solver(ABC):
    """Base of all solvers: facts only. See :class:`StepSolver` for those on a grid.

    ``strong_order`` maps each kind of noise that the solver accepts to the order it claims (for ``"none"``: the order
    of the deterministic method).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    strong_order: ClassVar[Mapping[Noise, float]]
    evaluations: ClassVar[int]
    """Drift evaluations per step; 0 if that depends on the equation."""
    entrywise: ClassVar[bool] = False
    """Whether it needs a diffusion that acts entry by entry if noise depends on the state."""
    stratonovich: ClassVar[bool] = False
    """Whether it converges to the Stratonovich solution, not to Itô's, with diagonal noise."""

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The kinds of noise that it accepts."""
        return tuple(self.strong_order)

    def require(self, system: System) -> None:
        """Refuse an equation that this method does not solve."""
        if system.noise not in self.strong_order:
            fit = [name for name in SOLVERS if system.noise in SOLVERS.get(name).strong_order]
            raise BadUsage(
                f"solver '{self.name}' can't integrate {_KINDS[system.noise]}",
                code="E-SOLVER",
                found=f"solver '{self.name}' with noise '{system.noise}'",
                expected=f"noise among {', '.join(self.noise)}",
                fix="use another solver, one of " + ", ".join(fit),
            )
        if self.entrywise and system.noise == "diagonal":
            elementwise(system, self)


class StepSolver(Solver):
    """A one-step method on a grid of equal steps."""

    needs_area: ClassVar[bool] = False
    """Steps use the space-time Lévy area."""
    start_evaluations: ClassVar[int] = 0

    @abstractmethod
    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        """From ``t`` to ``t + dt``."""

    def start(self, system: System, t: float, state: Tensor) -> Carry:
        return (state,)


class ReversibleSolver(StepSolver):
    """A method whose steps can be undone algebraically, so that gradients need no stored states."""

    @abstractmethod
    def undo(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Carry:
        """The carry at ``t`` from the carry at ``t + dt``."""


SOLVERS: Registry[type[Solver]] = Registry(
    "solver",
    base=Solver,
    facts=lambda cls: {
        "paper": cls.paper,
        "year": cls.year,
        "noise": tuple(cls.strong_order),
        "strong_order": dict(cls.strong_order),
        "evaluations": cls.evaluations,
    },
)
register_solver = SOLVERS.add_class


def make_solver(solver: str | Solver) -> Solver:
    """A solver from its name; an existing solver is returned unchanged.

    Example:
        >>> make_solver("sra1").strong_order["additive"]
        1.5
    """
    return SOLVERS.get(solver)() if isinstance(solver, str) else solver


def is_zero(diffusion: BoundDiffusion) -> bool:
    """Whether a bound diffusion is zero: then no noise is drawn and no KL is defined."""
    return bool(getattr(diffusion, "is_zero", False))


def elementwise(system: System, solver: Solver) -> BoundElementwise:
    """The diffusion's entries and slopes, or an error if it has none."""
    if isinstance(system.diffusion, BoundElementwise):
        return system.diffusion
    raise BadUsage(
        f"solver '{solver.name}' needs a diffusion that acts entry by entry",
        code="E-SOLVER",
        found=f"solver '{solver.name}' with the diffusion {type(system.diffusion).__name__}",
        expected="an ElementwiseDiffusion: one with scale and scale_slope",
        fix="use solver 'euler', or a diffusion whose entries depend on their own state alone",
    )


_KINDS: dict[Noise, str] = {
    "none": "an equation without noise",
    "additive": "additive noise",
    "diagonal": "noise that depends on the state (diagonal noise)",
}
