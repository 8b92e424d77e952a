"""Both propositions on one fitted model, and the second under the noise of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive, torch_stream
from graphsde.bench.theory.bounds import Bounds, Constants, right_sides
from graphsde.bench.theory.results import (
    ROUNDING,
    ROUNDING_OF_STATE,
    STANDARD_ERRORS,
    Proposition1,
    Proposition2,
    TheoryReport,
)
from graphsde.bench.theory.subject import Subject
from graphsde.datasets.shifts import gaussian_noise
from graphsde.graph.graph import Graph
from graphsde.models.base import Model
from graphsde.prediction import require_room_for_samples


def measure_proposition_1(subject: Subject, constants: Constants, bounds: Bounds, samples: int) -> Proposition1:
    """Both sides of proposition 1 at all saved times.

    Args:
        subject: the network on its graph.
        constants: its certified constants.
        bounds: of Var(H(t)).
        samples: paths, an even number: they are taken in pairs.
    """
    # four distances per pair and saved time
    require_room_for_samples(samples, len(subject.times), 1)
    distances = [_pair_distances(subject, group) for group in subject.groups(samples)]
    state, logits, probabilities, size = (np.concatenate(part, axis=1) for part in zip(*distances, strict=True))
    outputs = {"logits": (logits, constants.l_h_logits)}
    if subject.of_classes:
        outputs["probabilities"] = probabilities, constants.l_h_probabilities
    failed = {
        name: int((output > factor * state * (1.0 + ROUNDING) + ROUNDING_OF_STATE * size).sum())
        for name, (output, factor) in outputs.items()
    }
    halves = 0.5 * state**2
    latent, error = halves.mean(1), halves.std(1, ddof=1) / np.sqrt(halves.shape[1])
    surely = latent - STANDARD_ERRORS * error
    latent_failed = {name: int((surely > right * (1.0 + ROUNDING)).sum()) for name, right in bounds.named().items()}
    return Proposition1(
        times=np.array(subject.times),
        logits=0.5 * (logits**2).mean(1),
        logits_right=constants.l_h_logits**2 * latent,
        probabilities=0.5 * (probabilities**2).mean(1) if subject.of_classes else None,
        probabilities_right=constants.l_h_probabilities**2 * latent if subject.of_classes else None,
        latent=latent,
        latent_error=error,
        bounds=bounds,
        violations=sum(failed.values()) + sum(latent_failed.values()),
        n=len(outputs) * state.size + len(latent_failed) * len(latent),
        output_violations=failed,
        latent_violations=latent_failed,
        pairs=state.shape[1],
    )


def _pair_distances(subject: Subject, paths: range) -> tuple[np.ndarray, ...]:
    """Distances of neighbouring paths in state, logits and probabilities, and the size of logits.  # [M, P] each"""
    rows: list[tuple[Tensor, ...]] = []
    for state in subject.states(paths):
        logits = subject.logits(state)
        size = _norms(logits)[::2] + 1.0
        rows.append((_apart(state), _apart(logits), _apart(subject.probabilities(logits)), size))
    return tuple(torch.stack(column).numpy() for column in zip(*rows, strict=True))


def _apart(values: Tensor) -> Tensor:
    """‖x_{2p} − x_{2p+1}‖ over nodes and columns.  # [N, S, c] -> [S/2]"""
    return _norms(values[:, 0::2] - values[:, 1::2])


# the relative step of a finite difference along the flow, in double precision
_NUDGE = 1e-6


def measure_proposition_2(subject: Subject, bounds: Bounds, options: TheoryOptions) -> Proposition2:
    """The largest distances that perturbations of H(0) grow to, against their bounds, which are for ε = 1."""
    paths, scale = options.paths, float(subject.initial.norm()) or 1.0
    epsilons = np.array(options.epsilons) * scale
    ways = _directions(subject, options.directions, options.power_steps, scale)
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
            break  # the flow forgets its start completely
        direction = _unit(back)
    return [*drawn, direction]


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


def _norms(states: Tensor) -> Tensor:
    """Over nodes and dimensions, path by path.  # [N, S, d] -> [S]"""
    return states.square().sum((0, 2)).sqrt()


@dataclass(frozen=True)
class TheoryOptions:
    """How much is measured.

    Args:
        samples: paths of proposition 1, taken in pairs: an even number.
        paths: of proposition 2, for each perturbation.
        epsilons: sizes of the perturbations, in units of ‖H(0)‖.
        directions: random directions of perturbation; power iteration adds one.
        power_steps: of that iteration.
    """

    samples: int = 64
    paths: int = 8
    epsilons: tuple[float, ...] = (1e-2, 1e-1, 1.0)
    directions: int = 2
    power_steps: int = 10

    def check(self) -> None:
        if self.samples < 4 or self.samples % 2:
            problem, expected = f"{self.samples} samples can't be paired", "an even number, at least 4"
            raise BadUsage(problem, found=self.samples, expected=expected)
        if self.paths < 2 or self.directions < 0 or not self.epsilons or min(self.epsilons) <= 0:
            raise BadUsage("perturbations need two paths and positive sizes", found=self)


def measure_theory(model: Model, graph: Graph, options: TheoryOptions | None = None) -> TheoryReport:
    """The paper's two propositions, in their correct form, measured on a fitted LGNSDE.

    Paper: Bergna et al., "Uncertainty modeling in graph neural networks via stochastic differential equations", ICLR
    2025, propositions 1 and 2. ``docs/theory.md`` has the statements and short proofs.

    Args:
        model: a fitted :class:`~graphsde.models.lgnsde.LGNSDE`.
        graph: its graph.
        options: how much to measure.

    Raises:
        BadUsage: it is another model, or its constants can't be certified.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.LGNSDE(epochs=2, hidden=8).fit(graph)
        >>> measure_theory(model, graph, TheoryOptions(samples=4, paths=2, power_steps=1)).violations
        0
    """
    return measure_subject(Subject.of_model(model, graph), options)


def measure_subject(
    subject: Subject, options: TheoryOptions | None = None, constants: Constants | None = None
) -> TheoryReport:
    """Like :func:`measure_theory`, for a network with its inputs; ``constants`` replace the certified ones."""
    options = options or TheoryOptions()
    options.check()
    if not subject.noisy:  # all paths are one
        options = replace(options, samples=4, paths=2)
    settings, right = subject.module.settings, right_sides(subject, constants)
    return TheoryReport(
        constants=right.constants,
        one_sided=right.one_sided,
        temperature=subject.temperature,
        horizon=settings.horizon,
        steps=settings.steps,
        solver=settings.solver.name,
        proposition_1=measure_proposition_1(subject, right.constants, right.variance, options.samples),
        proposition_2=measure_proposition_2(subject, right.distance, options),
    )


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
            moved[place] = max(moved[place], float(_norms(subject.states(group, other)[-1] - clean).max()))
    return NoiseDistances(start, moved, {name: start * factor for name, factor in _factors(subject).items()})


def _factors(subject: Subject) -> dict[str, float]:
    """What a distance of 1 at the start may become at the horizon, by name of the bound."""
    try:
        bounds = right_sides(subject).distance
    except BadUsage:
        return {}
    return {name: float(right[-1]) for name, right in bounds.named().items()}
