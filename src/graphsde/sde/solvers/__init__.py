"""Solvers, one file each: ``SOLVERS`` knows them by name."""

from graphsde.sde.solvers.base import (
    SOLVERS,
    BoundElementwise,
    Carry,
    ReversibleSolver,
    Solver,
    StepSolver,
    System,
    is_zero,
    register_solver,
)
from graphsde.sde.solvers.one_step import RK4, Dopri5, Euler, Heun, Milstein, ReversibleHeun
from graphsde.sde.solvers.roessler import SRA1, SRK

__all__ = [
    "RK4",
    "SOLVERS",
    "SRA1",
    "SRK",
    "BoundElementwise",
    "Carry",
    "Dopri5",
    "Euler",
    "Heun",
    "Milstein",
    "ReversibleHeun",
    "ReversibleSolver",
    "Solver",
    "StepSolver",
    "System",
    "is_zero",
    "make_solver",
    "register_solver",
]


def make_solver(solver: str | Solver) -> Solver:
    """A solver from its name; one that exists already is passed through.

    Example:
        >>> make_solver("sra1").strong_order["additive"]
        1.5
    """
    return SOLVERS.get(solver)() if isinstance(solver, str) else solver
