"""Checks for your own model, drift, prior, diffusion, solver or score.

One call each; the lists of checks, for parametrised tests, are in the modules.
"""

from graphsde.testing.models import check_model
from graphsde.testing.parts import check_diffusion, check_drift, check_prior
from graphsde.testing.scores import check_score
from graphsde.testing.solvers import check_solver

__all__ = ["check_diffusion", "check_drift", "check_model", "check_prior", "check_score", "check_solver"]
