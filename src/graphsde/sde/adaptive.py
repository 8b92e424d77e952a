"""Adaptive step sizes: step doubling on a Brownian tree, each path on its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.keyed_normals import standard_normals, stream_of
from graphsde.sde.brownian import BrownianMotion, Increment
from graphsde.sde.field import BoundDiffusion, BoundDrift, Noise
from graphsde.sde.integrate import AdaptivePath
from graphsde.sde.solvers import Solver, StepSolver, System, is_zero, make_solver
from graphsde.sde.solvers.base import EvaluationsExhausted, all_finite, require_finite, require_finite_kl

DEEPEST = 50


class BrownianBridge:
    """One path of K × d Brownian motions on [0, T], as a tree: interval ``index`` of level l has length T / 2^l.

    The draws of an interval are keyed by its level and index, so the path does not depend on the order of queries.
    The ancestors of the last query are kept, which makes a walk from left to right cheap.

    Args:
        seed, keys, path, width, horizon, dtype: as in :class:`~graphsde.sde.brownian.BrownianMotion`; one path.

    Example:
        >>> import numpy as np
        >>> from graphsde.sde.brownian import node_keys
        >>> bridge = BrownianBridge(0, node_keys(np.arange(3)), path=0, width=2, horizon=1.0)
        >>> left, right = bridge.increment(1, 0), bridge.increment(1, 1)
        >>> torch.allclose(left.dw + right.dw, bridge.increment(0, 0).dw)
        True
    """

    def __init__(
        self, seed: int, keys: Tensor, path: int, width: int, horizon: float, dtype: torch.dtype = torch.float32
    ) -> None:
        self.keys, self.path, self.width, self.horizon, self.dtype = keys, path, width, float(horizon), dtype
        self._middle_stream = stream_of(seed, "bridge middle")
        self._tilt_stream = stream_of(seed, "bridge tilt")
        root = BrownianMotion(seed, keys, [path], width, horizon, 1, dtype).increment(0, 1, area=True)
        self._kept: dict[tuple[int, int], Increment] = {(0, 0): root}

    def increment(self, level: int, index: int) -> Increment:
        """The interval ``[index, index + 1] · T / 2^level``, with its area."""
        if not (0 <= level <= DEEPEST and 0 <= index < 2**level):
            raise BadUsage(f"no interval {index} on level {level}", expected=f"level 0 to {DEEPEST}")
        known = level
        while (known, index >> (level - known)) not in self._kept:
            known -= 1
        for parent_level in range(known, level):
            parent = index >> (level - parent_level)
            left, right = self._halve(parent_level, parent)
            self._kept[parent_level + 1, 2 * parent] = left
            self._kept[parent_level + 1, 2 * parent + 1] = right
        self._forget(level, index)
        return self._kept[level, index]

    def _halve(self, level: int, index: int) -> tuple[Increment, Increment]:
        whole = self._kept[level, index]
        w, h = whole.dw, whole.levy()
        middle = self._draw(self._middle_stream, level, index).mul_(math.sqrt(whole.dt / 16))
        tilt = self._draw(self._tilt_stream, level, index).mul_(math.sqrt(whole.dt / 12) / 2)
        left = (w * 0.5).add_(h, alpha=1.5).add_(middle)
        right = w - left  # so that the halves add up to the whole
        shared = (h * 0.25).sub_(middle, alpha=0.5)
        half = whole.dt / 2
        return Increment(half, left, shared + tilt), Increment(half, right, shared - tilt)

    def _draw(self, stream: int, level: int, index: int) -> Tensor:
        # 2^level + index numbers the nodes of a binary tree without repetition
        return standard_normals(stream, self.keys, [self.path], (1 << level) + index, self.width, self.dtype)

    def _forget(self, level: int, index: int) -> None:
        """Keep the ancestors and their siblings: a forward walk needs nothing else."""
        line = {(up, index >> (level - up)) for up in range(level + 1)}
        line |= {(up, position ^ 1) for up, position in line if up > 0}
        self._kept = {place: kept for place, kept in self._kept.items() if place in line}


SAFETY = 0.5
Bind = Callable[[Tensor], BoundDrift]


def integrate_adaptive(
    bind_drift: Bind,
    initial: Tensor,
    *,
    horizon: float,
    seed: int,
    keys: Tensor,
    paths: Sequence[int],
    solver: str | Solver = "sra1",
    diffusion: BoundDiffusion | None = None,
    noise_kind: Noise | None = None,
    bind_prior: Bind | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    shallowest: int = 2,
    deepest: int = 16,
) -> AdaptivePath:
    """Solve an SDE with steps chosen path by path; a path does not depend on which others are solved with it.

    Args:
        bind_drift: makes the drift for one path from that path's initial state  # [N, 1, d]
        initial: H(0) of all paths.  # [N, S, d]
        horizon: T.
        seed, keys: name the Brownian motions.  # keys [K]
        paths: index of each path.  # S of them
        solver: a step solver that carries only the state.
        diffusion, noise_kind: g, and what it depends on.
        bind_prior: as ``bind_drift``, for the path KL.
        rtol, atol: tolerances; the error of a step is the root mean square over nodes and dimensions of the difference
            between one step and two, divided by ``atol + rtol · |H|``.
        shallowest: no step is longer than T / 2^shallowest, so that nothing short is missed.
        deepest: no step is shorter than T / 2^deepest.

    Raises:
        EvaluationsExhausted: a step would have to be shorter than that.
        SolverDiverged: a state stays infinite or NaN at the shortest step.

    Example:
        >>> import numpy as np
        >>> from graphsde.sde.brownian import node_keys
        >>> class Decay:
        ...     tensors = ()
        ...     def __call__(self, t, h):
        ...         return -h
        >>> path = integrate_adaptive(lambda h: Decay(), torch.ones(3, 2, 1), horizon=1.0, seed=0,
        ...                           keys=node_keys(np.arange(3)), paths=[0, 1])
        >>> path.accepted.shape
        torch.Size([2])
    """
    method = make_solver(solver)
    noisy = diffusion is not None and noise_kind != "none" and not is_zero(diffusion)
    _check(method, initial, paths, rtol, atol, (shallowest, deepest), noise_kind if diffusion is not None else "none")
    outcomes: list[_Outcome] = []
    for column, path in enumerate(paths):
        state = initial[:, column : column + 1]
        prior = bind_prior(state) if bind_prior is not None and noisy else None
        drift = bind_drift(state)
        system = System(drift, diffusion, prior, noise_kind or "none") if noisy else System(drift)
        method.require(system)
        require_finite(state, method=method.name, step=0, time=0.0, dt=horizon)
        bridge = BrownianBridge(seed, keys, path, initial.shape[2], horizon, initial.dtype) if noisy else None
        walk = _Walk(system, method, float(horizon), bridge, rtol, atol, shallowest, deepest)  # type: ignore[arg-type]
        outcomes.append(walk.run(state))
    kls = [outcome.kl for outcome in outcomes if outcome.kl is not None]
    counts = torch.tensor([(o.accepted, o.rejected, o.evaluations) for o in outcomes])
    return AdaptivePath(
        torch.cat([outcome.state for outcome in outcomes], 1), torch.cat(kls) if kls else None, *counts.unbind(1)
    )


@dataclass
class _Outcome:
    state: Tensor
    kl: Tensor | None = None
    accepted: int = 0
    rejected: int = 0
    evaluations: int = 0


@dataclass(frozen=True)
class _Walk:
    """One path from 0 to the horizon, interval by interval of the tree."""

    system: System
    solver: StepSolver
    horizon: float
    bridge: BrownianBridge | None
    rtol: float
    atol: float
    shallowest: int
    deepest: int

    def run(self, initial: Tensor) -> _Outcome:
        out = _Outcome(initial)
        level, index = self.shallowest, 0
        whole: tuple[Tensor, Tensor | None] | None = None
        while index < 2**level:
            start = out.state
            if whole is None:
                whole = self._step(out, level, index, start)
            middle, kl_left = left = self._step(out, level + 1, 2 * index, start)
            after, kl_right = self._step(out, level + 1, 2 * index + 1, middle)
            error = step_error(start, whole[0], after, self.rtol, self.atol)
            if not error <= 1.0:
                out.rejected += 1
                level, index = level + 1, 2 * index
                self._refuse_too_deep(level, index, after)
                whole = left  # the first half is the next attempt's whole step
                continue
            out.accepted += 1
            out.state = after
            if kl_left is not None and kl_right is not None:
                out.kl = kl_left + kl_right if out.kl is None else out.kl + kl_left + kl_right
            index, whole = index + 1, None
            if level > self.shallowest and index % 2 == 0 and error <= self._comfort():
                level, index = level - 1, index // 2
        require_finite_kl(out.kl, method=self.solver.name, step=None, time=self.horizon, dt=self.horizon / 2**level)
        return out

    def _step(self, out: _Outcome, level: int, index: int, state: Tensor) -> tuple[Tensor, Tensor | None]:
        dt = self.horizon / 2**level
        noise: Increment | None = None if self.bridge is None else self.bridge.increment(level, index)
        out.evaluations += self.solver.evaluations
        carry, kl = self.solver.step(self.system, dt * index, dt, (state,), noise)
        return carry[0], kl

    def _comfort(self) -> float:
        """An error at which a step of twice the length is expected to pass."""
        return SAFETY * 2.0 ** -(self.solver.strong_order[self.system.noise] + 0.5)

    def _refuse_too_deep(self, level: int, index: int, state: Tensor) -> None:
        # an accepted step of level l is made of two of level l + 1
        if level + 1 <= self.deepest:
            return
        time, dt = self.horizon * index / 2**level, self.horizon / 2**level
        require_finite(state, method=self.solver.name, step=None, time=time, dt=dt)
        raise EvaluationsExhausted(
            f"at t = {time:.6g} a step of {dt:.3g} is still not accurate enough (solver '{self.solver.name}')",
            expected=f"an error within rtol = {self.rtol:.3g}, atol = {self.atol:.3g}",
            fix="loosen rtol and atol, or raise 'deepest'",
        )


def step_error(before: Tensor, one: Tensor, two: Tensor, rtol: float, atol: float) -> float:
    """Root mean square of (one − two) / (atol + rtol · |H|); infinite if a state is not finite."""
    with torch.no_grad():
        if not (all_finite(one) and all_finite(two)):
            return math.inf
        scale = torch.maximum(before.abs(), two.abs()).mul_(rtol).add_(atol)
        return float(((one - two) / scale).square_().mean().sqrt())


def _check(
    method: Solver,
    initial: Tensor,
    paths: Sequence[int],
    rtol: float,
    atol: float,
    levels: tuple[int, int],
    kind: Noise | None,
) -> None:
    if not isinstance(method, StepSolver) or method.start_evaluations:
        raise BadUsage(
            f"solver '{method.name}' can't change its step",
            code="E-SOLVER",
            fix="use sra1 for additive noise, srk or milstein for diagonal noise",
        )
    if kind is None:
        raise BadUsage("the noise_kind of the diffusion is not given", code="E-SOLVER", fix="pass diffusion.noise")
    if initial.dim() != 3 or initial.shape[1] != len(paths) or not paths:
        raise BadUsage(
            f"{len(paths)} path indices for a state of shape {tuple(initial.shape)}",
            code="E-STATE",
            expected="a state of shape [nodes, paths, width], and one index per path",
        )
    if not (rtol >= 0 and atol > 0):
        raise BadUsage(f"invalid tolerances: rtol {rtol}, atol {atol}", expected="rtol at least 0 and atol above 0")
    if not 0 <= levels[0] < levels[1] <= DEEPEST:
        raise BadUsage(
            f"shallowest is {levels[0]}, deepest is {levels[1]}", expected=f"0 <= shallowest < deepest <= {DEEPEST}"
        )
