"""Solvers, by name in ``SOLVERS``."""

from graphsde.sde.solvers.base import SOLVERS as SOLVERS
from graphsde.sde.solvers.base import ReversibleSolver as ReversibleSolver
from graphsde.sde.solvers.base import Solver as Solver
from graphsde.sde.solvers.base import StepSolver as StepSolver
from graphsde.sde.solvers.base import System as System
from graphsde.sde.solvers.base import is_zero as is_zero
from graphsde.sde.solvers.base import make_solver as make_solver
from graphsde.sde.solvers.one_step import Dopri5 as Dopri5
from graphsde.sde.solvers.one_step import Euler as Euler
from graphsde.sde.solvers.one_step import ReversibleHeun as ReversibleHeun
from graphsde.sde.solvers.roessler import SRA1 as SRA1
