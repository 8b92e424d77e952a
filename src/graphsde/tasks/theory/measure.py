"""Both propositions on one fitted model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphsde.data.graph import Graph
from graphsde.errors import BadUsage
from graphsde.models.base import Model
from graphsde.tasks.theory.bounds import Grid, distance_bounds, variance_bounds
from graphsde.tasks.theory.contraction import contraction_of
from graphsde.tasks.theory.lipschitz import Constants, constants_of
from graphsde.tasks.theory.proposition_1 import measure_proposition_1
from graphsde.tasks.theory.proposition_2 import measure_proposition_2
from graphsde.tasks.theory.results import TheoryReport
from graphsde.tasks.theory.step_rules import step_rule
from graphsde.tasks.theory.subject import Subject


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
            raise BadUsage(
                f"{self.samples} samples can't be taken in pairs",
                found=self.samples,
                expected="an even number, at least 4",
            )
        if self.paths < 2 or self.directions < 0 or not self.epsilons or min(self.epsilons) <= 0:
            raise BadUsage("perturbations need two paths and positive sizes", found=self)


def measure_theory(model: Model, graph: Graph, options: TheoryOptions | None = None) -> TheoryReport:
    """The paper's two propositions, in the form in which they are true, measured on a fitted LGNSDE.

    Paper: Bergna et al., "Uncertainty modeling in graph neural networks via stochastic differential equations", ICLR
    2025, propositions 1 and 2. ``docs/theory.md`` has the statements and short proofs.

    Args:
        model: a fitted :class:`~graphsde.models.lgnsde.LGNSDE`.
        graph: its graph.
        options: how much to measure.

    Raises:
        BadUsage: another model, or one whose constants can't be certified.

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
    """As :func:`measure_theory`, for a network with its inputs; ``constants`` replace the certified ones."""
    options = options or TheoryOptions()
    options.check()
    if not subject.noisy:  # all paths are one
        options = replace(options, samples=4, paths=2)
    settings = subject.module.settings
    rule = step_rule(settings.solver.name, state_dependent=subject.state_dependent)
    known = constants or constants_of(subject)
    grid = Grid(subject.step_length, subject.saved_steps)
    contraction = contraction_of(subject.module.drift, subject.inputs.adjacency, rule, grid.dt)
    return TheoryReport(
        constants=known,
        one_sided=None if contraction is None else contraction.one_sided,
        temperature=subject.temperature,
        horizon=settings.horizon,
        steps=settings.steps,
        solver=settings.solver.name,
        proposition_1=measure_proposition_1(
            subject, known, variance_bounds(known, rule, contraction, grid), options.samples
        ),
        proposition_2=measure_proposition_2(
            subject,
            distance_bounds(known, rule, contraction, grid),
            paths=options.paths,
            relative=options.epsilons,
            directions=options.directions,
            power_steps=options.power_steps,
        ),
    )
