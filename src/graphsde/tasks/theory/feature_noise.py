"""Proposition 2 under the noise of the experiments: how far noisy features move the state, against the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphsde.data.graph import Graph
from graphsde.data.shifts import gaussian_noise
from graphsde.errors import BadUsage
from graphsde.models.base import Model
from graphsde.tasks.theory.bounds import Grid, distance_bounds
from graphsde.tasks.theory.contraction import contraction_of
from graphsde.tasks.theory.lipschitz import constants_of
from graphsde.tasks.theory.step_rules import step_rule
from graphsde.tasks.theory.subject import Subject


@dataclass(frozen=True, eq=False)
class NoiseDistances:
    """Distances at the start and at the horizon, and right sides by name; none for a drift without a constant.

    Args:
        start: ε, the norm over nodes and dimensions of what noise adds to H(0).  # [k]
        moved: the largest distance at the horizon over paths.  # [k]
        bounds: ε times the factor of each bound.  # [k] each
    """

    start: np.ndarray
    moved: np.ndarray
    bounds: dict[str, np.ndarray]


def noise_distances(
    model: Model, graph: Graph, severities: Sequence[float], *, paths: int = 4, seed: int = 0
) -> NoiseDistances:
    """Solve a fitted LGNSDE from clean and from noisy features along the same Brownian paths.

    Args:
        model: fitted.
        graph: its graph.
        severities: of Gaussian noise on the features, in their standard deviations.
        paths: how many.
        seed: of the noise.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.LGNSDE(epochs=2, hidden=8).fit(graph)
        >>> found = noise_distances(model, graph, [0.5], paths=2)
        >>> bool(found.moved[0] <= found.bounds["exponential"][0])
        True
    """
    subject = Subject.of_model(model, graph)
    start, moved = np.zeros(len(severities)), np.zeros(len(severities))
    for group in subject.groups(paths):
        clean = subject.states(group)[-1]
        for place, severity in enumerate(severities):
            other = Subject.of_model(model, gaussian_noise(graph, severity=severity, seed=seed)).initial
            start[place] = float((other - subject.initial).norm())
            apart = (subject.states(group, other)[-1] - clean).square().sum((0, 2)).sqrt()
            moved[place] = max(moved[place], float(apart.max()))
    return NoiseDistances(start, moved, {name: start * factor for name, factor in _factors(subject).items()})


def _factors(subject: Subject) -> dict[str, float]:
    """What a distance of 1 at the start may have become at the horizon, by name of the bound."""
    try:
        rule = step_rule(subject.module.settings.solver.name, state_dependent=subject.state_dependent)
        known = constants_of(subject)
    except BadUsage:
        return {}
    grid = Grid(subject.step_length, subject.saved_steps)
    contraction = contraction_of(subject.module.drift, subject.inputs.adjacency, rule, grid.dt)
    bounds = distance_bounds(known, rule, contraction, grid)
    return {name: float(right[-1]) for name, right in bounds.named().items()}
