"""What every drift, prior and diffusion promises, as checks that anybody can run on one of their own.

Example, in a test file of yours::

    import pytest
    from graphsde.dynamics.component_contract import DRIFT_CHECKS, ComponentCase

    CASE = ComponentCase(lambda width, generator: MyDrift(width, generator=generator))

    @pytest.mark.parametrize("check", DRIFT_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(CASE)

A prior is made from ``lambda width, generator: MyPrior(width)``, and so is a diffusion.
"""

from graphsde.dynamics.component_contract import diffusions, drifts, fields, identity  # noqa: F401  (each adds checks)
from graphsde.dynamics.component_contract.case import (
    DIFFUSION_CHECKS,
    DRIFT_CHECKS,
    PRIOR_CHECKS,
    Broken,
    Check,
    ComponentCase,
)

__all__ = ["DIFFUSION_CHECKS", "DRIFT_CHECKS", "PRIOR_CHECKS", "Broken", "Check", "ComponentCase"]
