"""How a solver behaves, whatever its order."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.dynamics.contract.case import NODES, PATHS, SolverCase, contract, promise
from graphsde.dynamics.contract.equations import Field, ornstein_uhlenbeck
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers import SOLVERS, ReversibleSolver, System
from graphsde.errors import BadUsage, Diverged

ALL_KINDS: tuple[Noise, ...] = ("none", "additive", "diagonal")


@contract
def has_name_summary_paper_and_year(case: SolverCase) -> None:
    solver = case.solver
    promise(solver.name and solver.summary and solver.paper and 1700 < solver.year < 2100, "name, summary, paper, year")
    promise("Paper:" in (type(solver).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract
def is_registered_under_its_name(case: SolverCase) -> None:
    solver = case.solver
    promise(solver.name in SOLVERS and SOLVERS.get(solver.name) is type(solver), "register it with @register_solver")


@contract
def refuses_noise_that_it_does_not_claim(case: SolverCase) -> None:
    for kind in set(ALL_KINDS) - set(case.solver.noise):
        try:
            case.solve(ornstein_uhlenbeck(1.0, 0.0), 4, kind)
        except BadUsage as error:
            promise(error.code == "E-SOLVER" and error.fix, "the refusal has code E-SOLVER and a fix")
        else:
            promise(False, f"noise '{kind}' is not claimed and not refused")


@contract
def counts_its_evaluations(case: SolverCase) -> None:
    for kind in case.solver.noise:
        drift = ornstein_uhlenbeck(1.0, 0.3)
        path = case.solve(drift, 5, kind)
        promise(path.evaluations == drift.calls, f"{drift.calls} evaluations, {path.evaluations} reported")


@contract
def without_noise_it_is_deterministic_and_draws_nothing(case: SolverCase) -> None:
    if "none" not in case.solver.noise:
        return
    one = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, motion=case.motion(6, seed=1)).final
    two = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, motion=case.motion(6, seed=2)).final
    promise(torch.equal(one, two), "without noise the seed has no influence")
    promise(torch.equal(one, one[:1, :1].expand_as(one)), "equal starts end equal")


@contract
def same_noise_gives_the_same_bits(case: SolverCase) -> None:
    for kind in case.kinds():
        one, two = (case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind).final for _ in range(2))
        promise(torch.equal(one, two), "two solves with one seed differ")


@contract
def paths_and_nodes_keep_to_themselves(case: SolverCase) -> None:
    for kind in case.kinds():
        everything = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind).final
        few = case.solve(ornstein_uhlenbeck(1.0, 0.3), 6, kind, case.motion(6, paths=[7, 3]), case.initial(1.0, 2))
        promise(torch.equal(few.final, everything[:, [7, 3]]), "a path depends on which others are drawn")
        promise(everything[:, 0].sub(everything[:, 1]).abs().max() > 0, "two paths share their noise")
        promise(everything[0].sub(everything[1]).abs().max() > 0, "two nodes share their noise")


@contract
def evaluates_the_prior_only_for_the_kl(case: SolverCase) -> None:
    for kind in case.solver.noise:
        prior = ornstein_uhlenbeck(0.5, 0.0)
        path = case.solve(ornstein_uhlenbeck(1.0, 0.3), 4, kind, prior=prior)
        if kind == "none":
            promise(path.kl is None and prior.calls == 0, "without noise there is no KL")
        else:
            promise(path.kl is not None and path.kl.shape == (PATHS,) and prior.calls > 0, "one KL per path")


@contract
def leaves_its_inputs_alone(case: SolverCase) -> None:
    for kind in case.solver.noise:
        start = case.initial(0.8)
        # a drift that hands out a tensor of its own, and one that hands back the state
        source = torch.full_like(start, 0.1)
        for function in (lambda t, h, source=source: source, lambda t, h: h):
            case.solve(Field(function), 4, kind, initial=start, prior=ornstein_uhlenbeck(1.0, 0.0), save="all")
        promise(bool((start == 0.8).all()) and bool((source == 0.1).all()), "a tensor of the caller was overwritten")


@contract
def raises_when_the_state_explodes(case: SolverCase) -> None:
    for kind in case.solver.noise:
        try:
            case.solve(Field(lambda t, h: h.pow(3) * 1e6), 8, kind)
        except Diverged:
            continue
        promise(False, f"an infinite state came out with noise '{kind}'")


@contract
def raises_on_a_single_nan(case: SolverCase) -> None:
    def broken(t: float, h: Tensor) -> Tensor:
        if t < 0.5:
            return -h
        return torch.where(torch.arange(NODES).view(-1, 1, 1) == 2, float("nan"), -h)

    for kind in case.solver.noise:
        try:
            case.solve(Field(broken), 8, kind)
        except Diverged as error:
            promise(getattr(error, "positions", (2,)) == (2,), "the error names the node")
        else:
            promise(False, f"a NaN came out with noise '{kind}'")


@contract
def gradient_modes_agree(case: SolverCase) -> None:
    if not case.steps:
        return
    modes = ["store", "checkpoint", *(["reversible"] if isinstance(case.solver, ReversibleSolver) else [])]
    for kind in case.solver.noise:
        stored, *others = (_gradients(case, kind, mode) for mode in modes)
        for mode, found in zip(modes[1:], others, strict=True):
            for want, got in zip(stored, found, strict=True):
                promise(torch.allclose(want, got, rtol=1e-8, atol=1e-10), f"gradients of '{mode}' differ from stored")


@contract
def steps_can_be_undone_if_claimed(case: SolverCase) -> None:
    solver = case.solver
    if not isinstance(solver, ReversibleSolver):
        return
    for kind in case.kinds():
        system = System(ornstein_uhlenbeck(1.0, 0.3), case.diffusion(kind), ornstein_uhlenbeck(0.5, 0.0), kind)
        noise, carry = case.motion(4).increment(1, 2), solver.start(system, 0.0, case.initial(0.8))
        carry = solver.step(system, 0.0, 0.25, carry, noise)[0]  # so that the parts of the carry are not all alike
        after = solver.step(system, 0.25, 0.25, carry, noise)[0]
        undone = solver.undo(system, 0.25, 0.25, after, noise)
        for want, got in zip(carry, undone, strict=True):
            promise(torch.allclose(want, got, rtol=1e-12, atol=1e-12), f"a step with noise '{kind}' is not undone")


def _gradients(case: SolverCase, kind: Noise, mode: str) -> list[Tensor]:
    """Of a loss on the final state, a state on the way and the KL: by rate, level, size and initial state."""
    rate, level, size = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.2, 0.4, 0.5))
    start = case.initial(0.8).requires_grad_()
    path = case.solve(
        ornstein_uhlenbeck(rate, level),
        9,
        kind,
        initial=start,
        diffusion=None if kind == "none" else case.diffusion(kind, size),
        prior=ornstein_uhlenbeck(0.7, 0.1),
        save=4,
        gradients=mode,
    )
    loss = path.final.square().sum() + path.saved[1].sum() + (0.0 if path.kl is None else path.kl.sum())
    wanted = [rate, level, start, *([] if kind == "none" else [size])]
    return list(torch.autograd.grad(loss, wanted))
