"""What every solver promises, as checks that anybody can run on a solver of their own.

Example, in a test file of yours::

    import pytest
    from graphsde.dynamics.contract import SOLVER_CHECKS, SolverCase

    @pytest.mark.parametrize("check", SOLVER_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(SolverCase(MySolver))
"""

from graphsde.dynamics.contract import accuracy, conduct  # noqa: F401  (each adds its checks)
from graphsde.dynamics.contract.case import SOLVER_CHECKS, Broken, SolverCase, SolverCheck

__all__ = ["SOLVER_CHECKS", "Broken", "SolverCase", "SolverCheck"]
