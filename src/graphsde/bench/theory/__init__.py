"""The paper's two propositions, measured on a fitted model: certified right sides, simulated left sides."""

from graphsde.bench.theory.measure import TheoryOptions, measure_subject, measure_theory
from graphsde.bench.theory.results import Proposition1, Proposition2, TheoryReport
from graphsde.bench.theory.subject import Subject

__all__ = [
    "Proposition1",
    "Proposition2",
    "Subject",
    "TheoryOptions",
    "TheoryReport",
    "measure_subject",
    "measure_theory",
]
