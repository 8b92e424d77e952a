"""Proposition 2: two solutions that are driven by the same Brownian motion stay close if they start close."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphsde.seeds import derive, torch_stream
from graphsde.tasks.theory.bounds import Bounds
from graphsde.tasks.theory.results import ROUNDING, ROUNDING_OF_STATE, STANDARD_ERRORS, Proposition2
from graphsde.tasks.theory.subject import Subject

# the relative step of a finite difference along the flow, in double precision
_NUDGE = 1e-6


def measure_proposition_2(
    subject: Subject,
    bounds: Bounds,
    *,
    paths: int,
    relative: tuple[float, ...],
    directions: int,
    power_steps: int,
) -> Proposition2:
    """The largest distances that perturbations of H(0) grow to, against their bounds.

    Args:
        subject: the network on its graph.
        bounds: for ε = 1.
        paths: how many Brownian paths each perturbation is tried on.
        relative: ε in units of ‖H(0)‖.
        directions: random ones; one more is found by power iteration.
        power_steps: of that iteration.
    """
    scale = float(subject.initial.norm()) or 1.0
    epsilons = np.array(relative) * scale
    ways = _directions(subject, directions, power_steps, scale)
    measured = np.empty((len(epsilons), len(ways), len(subject.saved_steps), paths))
    floor = np.zeros((len(subject.saved_steps), paths))
    for group in subject.groups(paths):
        base = subject.states(group)
        here = slice(group.start, group.stop)
        floor[:, here] = ROUNDING_OF_STATE * torch.stack([_norms(state) for state in base]).numpy()
        for place, epsilon in enumerate(epsilons):
            for way, direction in enumerate(ways):
                moved = subject.states(group, subject.initial + float(epsilon) * direction)
                apart = torch.stack([_norms(other - state) for other, state in zip(moved, base, strict=True)])
                measured[place, way, :, here] = apart.numpy()
    mean_square = subject.state_dependent
    failed = {}
    for name, right in bounds.named().items():
        allowed = epsilons[:, None, None, None] * right[None, None, :, None] * (1.0 + ROUNDING) + floor
        if mean_square:
            squares = measured**2
            error = squares.std(-1, ddof=1) / np.sqrt(paths)
            failed[name] = int((squares.mean(-1) - STANDARD_ERRORS * error > (allowed**2).mean(-1)).sum())
        else:
            failed[name] = int((measured > allowed).sum())
    distance = np.sqrt((measured**2).mean(-1)).max(1) if mean_square else measured.max((1, 3))
    comparisons = measured[..., 0].size if mean_square else measured.size
    return Proposition2(
        times=np.array(subject.times),
        epsilons=epsilons,
        distance=distance,
        bounds=bounds,
        violations=sum(failed.values()),
        n=comparisons * len(failed),
        violations_by_bound=failed,
        directions=len(ways),
        paths=paths,
        mean_square=mean_square,
    )


def _directions(subject: Subject, count: int, power_steps: int, scale: float) -> list[Tensor]:
    """Random unit directions and the one that the flow of the first path stretches most.  # [N, 1, d] each"""
    generator = torch_stream(derive(subject.stream, "directions"))
    shape = subject.initial.shape
    drawn = [_unit(torch.randn(shape, generator=generator, dtype=torch.float64)) for _ in range(count + 1)]
    direction, nudge = drawn.pop(), _NUDGE * scale
    start = subject.initial.clone().requires_grad_(True)
    end = subject.final(0, start)
    for _ in range(power_steps):
        with torch.no_grad():
            image = (subject.final(0, subject.initial + nudge * direction) - end) / nudge
        (back,) = torch.autograd.grad(end, start, image, retain_graph=True)
        if not float(back.norm()) > 0.0:
            break  # the flow forgets its start altogether
        direction = _unit(back)
    return [*drawn, direction]


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


def _norms(states: Tensor) -> Tensor:
    """Over nodes and dimensions, path by path.  # [N, S, d] -> [S]"""
    return states.square().sum((0, 2)).sqrt()
