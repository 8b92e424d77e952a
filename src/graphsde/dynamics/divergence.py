"""A state that is not finite never leaves a solver silently."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphsde.errors import Diverged

SHOWN = 5


class SolverDiverged(Diverged):
    """A state or a path KL became infinite or NaN during a solve.

    Args:
        quantity: what is not finite.
        method: the solver's name.
        step: the number of the step after which it was seen, from 1; ``None`` for adaptive solvers.
        time: the end of that step.
        dt: its length, where it is known.
        nodes: how many nodes are affected, ``None`` where that is unknown.
        positions: the first few of them.
        hint: what to try.
    """

    default_code = "E-DIVERGED"

    def __init__(
        self,
        quantity: str,
        *,
        method: str,
        step: int | None,
        time: float,
        dt: float | None,
        nodes: int | None = None,
        positions: tuple[int, ...] = (),
        hint: str = "take more steps, or make the drift smaller: fewer or normalised features, a smaller learning rate",
    ) -> None:
        self.method, self.step, self.time, self.dt = method, step, time, dt
        self.nodes, self.positions, self.hint = nodes, positions, hint
        when = f"at t = {time:.6g}" if step is None else f"in step {step}, at t = {time:.6g}"
        length = "" if dt is None else f", dt = {dt:.6g}"
        where = None
        if nodes is not None:
            shown = ", ".join(map(str, positions)) + (", …" if nodes > len(positions) else "")
            where = f"{nodes} node{'s' if nodes != 1 else ''}, at position {shown}"
        super().__init__(f"{quantity} became infinite or NaN {when} (solver '{method}'{length})", place=where, fix=hint)


class EvaluationsExhausted(Diverged):
    """An adaptive solver needs more, or shorter, steps than it may take."""


def all_finite(x: Tensor) -> bool:
    """Whether every entry is finite, mostly at the price of one sum."""
    with torch.no_grad():
        # a sum of finite numbers may overflow, so that only a finite sum is an answer
        return math.isfinite(float(x.detach().sum())) or bool(torch.isfinite(x).all())


def require_finite(state: Tensor, *, method: str, step: int | None, time: float, dt: float | None) -> None:
    """Raise :class:`SolverDiverged` unless every entry of ``state`` is finite.  # [N, S, d]"""
    if all_finite(state):
        return
    broken = (~torch.isfinite(state.detach())).flatten(1).any(1).nonzero().flatten()
    raise SolverDiverged(
        "the state",
        method=method,
        step=step,
        time=time,
        dt=dt,
        nodes=broken.numel(),
        positions=tuple(broken[:SHOWN].tolist()),
    )


def require_finite_kl(kl: Tensor | None, *, method: str, step: int | None, time: float, dt: float) -> None:
    if kl is not None and not all_finite(kl):
        raise SolverDiverged(
            "the path KL",
            method=method,
            step=step,
            time=time,
            dt=dt,
            hint="keep the diffusion away from zero, or hold prior and posterior closer together",
        )
