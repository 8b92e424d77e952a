"""Results of the measurement, as plain arrays, with a summary sentence."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphsde.bench.theory.bounds import Bounds, Constants

ROUNDING = 1e-9
"""A left side may exceed its right side by this share, and by ``ROUNDING_OF_STATE`` of the state's own size."""
ROUNDING_OF_STATE = 1e-12
STANDARD_ERRORS = 4.0
"""An estimated expectation counts as too large if its estimate exceeds the bound by this many standard errors."""

INFORMATIVE, LOOSE = 10.0, 1000.0


@dataclass(frozen=True)
class Proposition1:
    """Var(ŷ) ≤ L_h² Var(H), and Var(H(t)) against its own bounds.

    Args:
        times: t.  # [M]
        logits, probabilities: total variance of the outputs over paths; numbers have no probabilities.  # [M] each
        logits_right, probabilities_right: L_h² times that of the state.  # [M] each
        latent, latent_error: total variance of the state, with its standard error.  # [M] each
        bounds: of ``latent``.
        violations, n: of how many comparisons.
        output_violations, latent_violations: which they were.
        pairs: of independent paths.
    """

    times: np.ndarray
    logits: np.ndarray
    logits_right: np.ndarray
    probabilities: np.ndarray | None
    probabilities_right: np.ndarray | None
    latent: np.ndarray
    latent_error: np.ndarray
    bounds: Bounds
    violations: int
    n: int
    output_violations: dict[str, int]
    latent_violations: dict[str, int]
    pairs: int

    @property
    def sentence(self) -> str:
        """How much the proposition says about this model."""
        if self.latent[-1] == 0.0:
            return "Proposition 1: the model has no noise; both sides are zero."
        logits = _times(self.logits[-1], self.logits_right[-1])
        words = (
            f"Proposition 1 {_held(self.violations, self.n)}. Given the variance of the state, the bound on that of "
        )
        words += f"the logits is {logits}"
        if self.probabilities is not None and self.probabilities_right is not None:
            words += f" and on that of the probabilities {_times(self.probabilities[-1], self.probabilities_right[-1])}"
        words += ". "
        return words + _about("variance of the state", self.latent[-1], self.bounds)

    def as_dict(self) -> dict[str, Any]:
        last = {name: right[-1] for name, right in self.bounds.named().items()}
        return {
            "left": self.logits[-1],
            "right": self.logits_right[-1],
            "left_probabilities": None if self.probabilities is None else self.probabilities[-1],
            "right_probabilities": None if self.probabilities_right is None else self.probabilities_right[-1],
            "latent_left": self.latent[-1],
            "latent_left_error": self.latent_error[-1],
            "latent_right": last["exponential"],
            "latent_right_chain": last["chain"],
            "latent_right_contractive": last.get("contractive"),
            "violations": self.violations,
            "n": self.n,
            "paths": 2 * self.pairs,
            "times": len(self.times),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Proposition2:
    """The distance of two solutions with the same noise, started ε apart.

    Args:
        times: t.  # [M]
        epsilons: ε.  # [E]
        distance: the largest over directions and paths; with ``mean_square``, the largest over directions of the root
            mean square over paths.  # [E, M]
        bounds: for ε = 1; right sides are proportional to ε.
        violations, n: of how many comparisons.
        violations_by_bound: of each of the bounds.
        directions, paths: how many; the last direction is the one that power iteration finds.
        mean_square: the noise depends on the state, so the bound holds in root mean square only.
    """

    times: np.ndarray
    epsilons: np.ndarray
    distance: np.ndarray
    bounds: Bounds
    violations: int
    n: int
    violations_by_bound: dict[str, int]
    directions: int
    paths: int
    mean_square: bool

    @property
    def closest(self) -> int:
        """The ε at which the distance came closest to its bound."""
        return int(np.argmax(self.distance[:, -1] / self.epsilons))

    @property
    def sentence(self) -> str:
        """How much the proposition says about this model."""
        place, epsilon = self.closest, float(self.epsilons[self.closest])
        bounds = self.bounds.scaled(epsilon)
        words = f"Proposition 2 {_held(self.violations, self.n)}. "
        return words + _about(
            f"distance at the horizon from a start {epsilon:.3g} apart", self.distance[place, -1], bounds
        )

    def as_dict(self) -> dict[str, Any]:
        rows = []
        for epsilon, distance in zip(self.epsilons, self.distance[:, -1], strict=True):
            last = {name: right[-1] * epsilon for name, right in self.bounds.named().items()}
            rows.append(
                {
                    "epsilon": epsilon,
                    "left": distance,
                    "right": last["exponential"],
                    "right_chain": last["chain"],
                    "right_contractive": last.get("contractive"),
                }
            )
        return {
            **rows[self.closest],
            "violations": self.violations,
            "n": self.n,
            "directions": self.directions,
            "paths": self.paths,
            "times": len(self.times),
            "root_mean_square": self.mean_square,
            "by_epsilon": rows,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class TheoryReport:
    """Both propositions on one model, and their constants; ``one_sided`` is set for graph diffusion."""

    constants: Constants
    one_sided: float | None
    temperature: float
    horizon: float
    steps: int
    solver: str
    proposition_1: Proposition1
    proposition_2: Proposition2

    @property
    def violations(self) -> int:
        return self.proposition_1.violations + self.proposition_2.violations

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON; a right side beyond the range of numbers becomes ``None``."""
        kept = {name: getattr(self, name) for name in ("one_sided", "temperature", "horizon", "steps", "solver")}
        propositions = {name: getattr(self, name).as_dict() for name in ("proposition_1", "proposition_2")}
        return plain({**asdict(self.constants), **kept, **propositions})

    def rows(self) -> list[dict[str, Any]]:
        """One row per inequality, at the horizon."""
        first, second = self.proposition_1, self.proposition_2
        pairs, times = first.pairs * len(first.times), len(first.times)
        rows = []
        for short, name in (("logits", "logits"), ("probs", "probabilities"))[: len(first.output_violations)]:
            left, right = getattr(first, name)[-1], getattr(first, f"{name}_right")[-1]
            rows.append(_row(f"1: Var({short})", "L_h² Var(H)", left, right, first.output_violations[name], pairs))
        for bound, right in first.bounds.named().items():
            rows.append(_row("1: Var(H)", bound, first.latent[-1], right[-1], first.latent_violations[bound], times))
        epsilon, left = second.epsilons[second.closest], second.distance[second.closest, -1]
        share = second.n // len(second.bounds.named())
        for bound, right in second.bounds.named().items():
            rows.append(_row("2: distance", bound, left, epsilon * right[-1], second.violations_by_bound[bound], share))
        return rows

    def columns(self) -> dict[str, Any]:
        """Both sides at all times, one line each, for a table."""
        first, second = self.proposition_1, self.proposition_2
        lines: list[tuple[Any, ...]] = []

        def add(number: int, what: str, bound: str, epsilon: float | None, left: np.ndarray, right: np.ndarray) -> None:
            for row in zip(first.times, left, right, strict=True):
                lines.append((number, what, bound, epsilon, *map(float, row)))

        add(1, "variance of the logits", "L_h^2 Var(H)", None, first.logits, first.logits_right)
        if first.probabilities is not None and first.probabilities_right is not None:
            lines_of = first.probabilities, first.probabilities_right
            add(1, "variance of the probabilities", "L_h^2 Var(H)", None, *lines_of)
        for bound, right in first.bounds.named().items():
            add(1, "variance of the state", bound, None, first.latent, right)
        for epsilon, distance in zip(second.epsilons, second.distance, strict=True):
            for bound, right in second.bounds.named().items():
                add(2, "distance", bound, float(epsilon), distance, right * epsilon)
        names = ("proposition", "quantity", "bound", "epsilon", "time", "left", "right")
        return {name: list(column) for name, column in zip(names, zip(*lines, strict=True), strict=True)}


def plain(value: Any) -> Any:
    """numpy's numbers as Python's; nonfinite ones as ``None``."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def _row(quantity: str, bound: str, left: float, right: float, violations: int, n: int) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "bound": bound,
        "left": f"{left:.3g}",
        "right": f"{right:.3g}",
        "ratio": f"{right / left:.3g}" if left > 0 else None,
        "violations": f"{violations:,} of {n:,}",
    }


def _held(violations: int, n: int) -> str:
    return f"held in all {n:,} comparisons" if not violations else f"FAILED in {violations:,} of {n:,} comparisons"


def _about(what: str, left: float, bounds: Bounds) -> str:
    right = float(bounds.exponential[-1])
    words = f"The exponential bound on the {what} is {_times(left, right)}"
    if left > 0 and bounds.contractive is not None:
        return words + f"; the contractive one is {_times(left, float(bounds.contractive[-1]))}."
    return words + "."


def _times(left: float, right: float) -> str:
    """``"2.1 times the measured value: informative"``."""
    if left == 0.0:
        return "met by a measured value of zero"
    ratio = right / left
    size = f"{ratio:.3g} times the measured value" if math.isfinite(ratio) else "beyond the range of numbers"
    verdict = "informative" if ratio <= INFORMATIVE else "loose" if ratio <= LOOSE else "not informative"
    return f"{size} ({verdict})"
