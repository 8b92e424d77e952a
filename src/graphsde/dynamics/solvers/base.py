"""What a solver is: a rule for one step of dH = f dt + g dW, and what it claims about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import BoundDiffusion, BoundDrift, Noise
from graphsde.errors import BadUsage
from graphsde.registry import Registry

Carry = tuple[Tensor, ...]
"""What goes from one step to the next: the state [N, S, d] first, then whatever else the method keeps."""


@runtime_checkable
class BoundElementwise(Protocol):
    """A bound diffusion g(t, h) whose entry (i, k) depends on the state's entry (i, k) alone."""

    def scale(self, t: float, h: Tensor) -> Tensor: ...

    def scale_slope(self, t: float, h: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class System:
    """The equation of one solve.

    Args:
        drift: f.
        diffusion: g, ``None`` for an ordinary differential equation.
        prior: p; ``None`` where no path KL is wanted.
        noise: what g depends on.
    """

    drift: BoundDrift
    diffusion: BoundDiffusion | None = None
    prior: BoundDrift | None = None
    noise: Noise = "none"

    def tensors(self) -> tuple[Tensor, ...]:
        """Everything besides the state that gradients must reach, each once."""
        parts = (self.drift, self.diffusion, self.prior)
        return tuple({id(x): x for part in parts if part is not None for x in part.tensors if x.requires_grad}.values())


class Solver(ABC):
    """Base of all solvers: facts only. See :class:`StepSolver` for the ones that walk on a grid.

    ``strong_order`` maps each kind of noise that the solver accepts to the order it claims (for ``"none"``: the order
    of the deterministic method).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    strong_order: ClassVar[Mapping[Noise, float]]
    evaluations: ClassVar[int]
    """Drift evaluations per step; 0 where that depends on the equation."""
    stratonovich: ClassVar[bool] = False
    """With diagonal noise it converges to the Stratonovich solution, not to Itô's."""

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
                fix="choose another solver, one of " + ", ".join(fit),
            )


class StepSolver(Solver):
    """A one-step method on a grid of equal steps."""

    needs_area: ClassVar[bool] = False
    """Steps use the space-time Lévy area."""
    start_evaluations: ClassVar[int] = 0

    @abstractmethod
    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        """From ``t`` to ``t + dt``: the new carry and, where there is a prior, the KL of the step.  # [S]"""

    def start(self, system: System, t: float, state: Tensor) -> Carry:
        return (state,)


class ReversibleSolver(StepSolver):
    """A method whose steps can be undone algebraically, so that gradients need no stored states."""

    @abstractmethod
    def undo(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Carry:
        """The carry at ``t`` from the carry at ``t + dt``."""


SOLVERS: Registry[type[Solver]] = Registry("solver")


def register_solver(cls: type[Solver]) -> type[Solver]:
    """Class decorator: makes a solver known by its name."""
    SOLVERS.add(
        cls.name,
        cls,
        summary=cls.summary,
        paper=cls.paper,
        year=cls.year,
        noise=tuple(cls.strong_order),
        strong_order=dict(cls.strong_order),
        evaluations=cls.evaluations,
    )
    return cls


def is_zero(diffusion: BoundDiffusion) -> bool:
    """Whether a bound diffusion says of itself that it is zero: then no noise is drawn and no KL is defined."""
    return bool(getattr(diffusion, "is_zero", False))


def elementwise(system: System, solver: Solver) -> BoundElementwise:
    """The diffusion's entries and slopes, or a refusal where it has none."""
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
