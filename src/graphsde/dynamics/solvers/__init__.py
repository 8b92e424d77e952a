"""Solvers, one file each: ``SOLVERS`` knows them by name."""

from graphsde.dynamics.solvers.base import (
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
from graphsde.dynamics.solvers.dopri5 import Dopri5
from graphsde.dynamics.solvers.euler import Euler
from graphsde.dynamics.solvers.heun import Heun
from graphsde.dynamics.solvers.milstein import Milstein
from graphsde.dynamics.solvers.reversible_heun import ReversibleHeun
from graphsde.dynamics.solvers.rk4 import RK4
from graphsde.dynamics.solvers.sra1 import SRA1
from graphsde.dynamics.solvers.srk import SRK

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
