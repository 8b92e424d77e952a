"""What only drifts promise."""

from __future__ import annotations

import math

import torch

from graphsde.dynamics.component_contract.case import (
    DRIFT_CHECKS,
    TIME,
    ComponentCase,
    close,
    contract,
    promise,
    small_graph,
)
from graphsde.dynamics.field import Drift


@contract(DRIFT_CHECKS)
def the_lipschitz_bound_holds(case: ComponentCase[Drift]) -> None:
    drift, adjacency, start = case.shaken(), small_graph(), case.state(2)
    bound = drift.lipschitz(adjacency)
    promise(bound >= 0, f"a bound, not {bound}")
    if math.isinf(bound):
        return
    field = drift.bind(adjacency, start)
    with torch.no_grad():
        for seed in range(20):
            one, two = case.state(seed, scale=3.0), case.state(seed + 100, scale=3.0 * 0.3**seed)
            moved = float((field(TIME, one + two) - field(TIME, one)).norm())
            limit = bound * float(two.norm()) * (1 + 1e-9) + 1e-12 * float(one.norm())
            promise(moved <= limit, f"two states {float(two.norm()):.3g} apart move apart by {moved:.3g} > {limit:.3g}")


@contract(DRIFT_CHECKS)
def the_lipschitz_bound_is_above_the_local_one(case: ComponentCase[Drift]) -> None:
    drift, adjacency, start = case.shaken(), small_graph(), case.state(2, 1)
    bound = drift.lipschitz(adjacency)
    if math.isinf(bound):
        return
    field = drift.bind(adjacency, start)
    for seed in range(2):
        h = case.state(seed, 1)
        jacobian = torch.autograd.functional.jacobian(lambda x: field(TIME, x), h).reshape(h.numel(), h.numel())
        local = float(torch.linalg.matrix_norm(jacobian, ord=2))
        promise(local <= bound * (1 + 1e-9), f"norm of the derivative {local:.6g}, bound {bound:.6g}")


@contract(DRIFT_CHECKS)
def a_linear_drift_is_linear(case: ComponentCase[Drift]) -> None:
    drift, one, two = case.shaken(), case.state(3), case.state(4)
    field = drift.bind(small_graph(), case.state(2))
    if not drift.linear:
        return
    zero = field(TIME, torch.zeros_like(one))
    close(field(TIME, one + two) - zero, field(TIME, one) + field(TIME, two) - 2 * zero, "f(a + b) and f(a) + f(b)")


@contract(DRIFT_CHECKS)
def masks_are_drawn_once_per_solve(case: ComponentCase[Drift]) -> None:
    drift, adjacency, h = case.shaken(), small_graph(), case.state()
    before = torch.get_rng_state()
    fields = [drift.bind(adjacency, h, torch.Generator().manual_seed(5)) for _ in range(2)]
    values = [field(TIME, h) for field in (*fields, fields[0])]
    promise(all(torch.equal(values[0], value) for value in values[1:]), "one seed, one field, at every call")
    promise(torch.equal(before, torch.get_rng_state()), "the shared random generator is untouched")
