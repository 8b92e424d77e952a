"""Every registered solver keeps every guarantee; a solver that breaks one is found out."""

from __future__ import annotations

import pytest
import torch

from graphsde.sde.solvers import SOLVERS, Euler, ReversibleHeun
from graphsde.testing.contract import Broken
from graphsde.testing.solvers import SOLVER_CHECKS, SolverCase, SolverCheck


@pytest.mark.parametrize("check", SOLVER_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", list(SOLVERS))
def test_contract(name: str, check: SolverCheck) -> None:
    check(SolverCase(SOLVERS.get(name)))


class Overclaiming(Euler):
    strong_order = {"none": 2.0, "additive": 1.5, "diagonal": 1.0}  # noqa: RUF012


class Overwriting(Euler):
    def step(self, system, t, dt, carry, noise):
        after, kl = super().step(system, t, dt, carry, noise)
        return (carry[0].copy_(after[0]),), kl


class Silent(Euler):
    def step(self, system, t, dt, carry, noise):
        after, kl = super().step(system, t, dt, carry, noise)
        return (torch.nan_to_num(after[0], 0.0, 0.0, 0.0),), kl


class Miscounting(Euler):
    evaluations = 2


class Irreversible(ReversibleHeun):
    def undo(self, system, t, dt, carry, noise):
        return super().undo(system, t + dt, 0.9 * dt, carry, noise)


class Deaf(Euler):
    """Does not look at its noise."""

    def step(self, system, t, dt, carry, noise):
        return super().step(system, t, dt, carry, None)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Overclaiming, "keeps_its_order_without_noise"),
        (Overclaiming, "keeps_its_strong_order_on_ornstein_uhlenbeck"),
        (Overclaiming, "keeps_its_strong_order_on_geometric_brownian_motion"),
        (Overclaiming, "is_registered_under_its_name"),
        (Overwriting, "leaves_its_inputs_alone"),
        (Silent, "raises_on_a_single_nan"),
        (Silent, "raises_when_the_state_explodes"),
        (Irreversible, "steps_can_be_undone_if_claimed"),
        (Irreversible, "gradient_modes_agree"),
        (Deaf, "reproduces_brownian_motion_exactly"),
        (Deaf, "paths_and_nodes_keep_to_themselves"),
        (Miscounting, "counts_its_evaluations"),
    ],
)
def test_broken_solvers_are_found_out(broken: type[Euler], check: str) -> None:
    (found,) = [c for c in SOLVER_CHECKS if c.__name__ == check]
    with pytest.raises(Broken):
        found(SolverCase(broken))
