"""Each test figure with the one line that says what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphsde.scores.metrics import METRICS
from graphsde.view.report.formatting import NOTHING, is_number, name, number, percent

HIGHER, LOWER = "higher is better", "lower is better"


@dataclass(frozen=True)
class Meaning:
    title: str
    explanation: str
    direction: str
    form: Callable[[Any], str] = number


@dataclass(frozen=True)
class MetricCard:
    """A figure as the page shows it; ``exact`` is the value given, unrounded."""

    key: str
    title: str
    value: str
    exact: str | None
    explanation: str
    direction: str
    basis: str


MEANINGS: dict[str, Meaning] = {
    "accuracy": Meaning("Accuracy", "Share of nodes whose most probable class is the true one.", HIGHER, percent),
    "misclassification_auroc": Meaning(
        "Misclassification AUROC",
        "Chance that a wrong prediction is more uncertain than a right one; 0.5 is a coin toss.",
        HIGHER,
    ),
    "aurc": Meaning(
        "AURC",
        "Error rate among the nodes kept, averaged over keeping from the surest few to all.",
        LOWER,
    ),
    "nll": Meaning("NLL", "Mean surprise at the true class, in nats; confident mistakes cost most.", LOWER),
    "ece": Meaning(
        "Calibration error (ECE)", "Mean gap between stated confidence and how often it comes true.", LOWER, percent
    ),
    "adaptive_ece": Meaning("Adaptive ECE", "The same gap, with bins that hold equally many nodes.", LOWER, percent),
    "brier": Meaning(
        "Brier score", "Squared distance from the probabilities to the truth, summed over classes.", LOWER
    ),
    "micro_auroc": Meaning(
        "Micro-AUROC", "How well probabilities rank true classes above others; ranks classes, not mistakes.", HIGHER
    ),
    "macro_f1": Meaning(
        "Macro-F1", "F1 averaged over classes, so that rare classes count as much as common ones.", HIGHER
    ),
    "balanced_accuracy": Meaning("Balanced accuracy", "Accuracy averaged over classes.", HIGHER, percent),
    "ood_auroc": Meaning("OOD AUROC", "Chance that a foreign node is more uncertain than a familiar one.", HIGHER),
    "ood_auroc_propagated": Meaning(
        "OOD AUROC, propagated", "The same, with uncertainty smoothed over neighbours first.", HIGHER
    ),
    "ood_fpr95": Meaning(
        "OOD FPR95", "Share of foreign nodes accepted when 95 % of the familiar ones are.", LOWER, percent
    ),
}


def metric_cards(metrics: Mapping[str, float | None], meanings: Mapping[str, Meaning] = MEANINGS) -> list[MetricCard]:
    """Cards for the figures given whose meaning is known, in the order of ``meanings``."""
    return [_card(key, meaning, metrics) for key, meaning in meanings.items() if key in metrics]


def other_metrics(metrics: Mapping[str, float | None]) -> list[tuple[str, str, str]]:
    """Figures given that have no card: name, value, and what the registry of metrics says of it."""
    return [
        (name(key), number(value, 4), METRICS.entry(key).summary if key in METRICS else "")
        for key, value in metrics.items()
        if key not in MEANINGS
    ]


def _card(key: str, meaning: Meaning, metrics: Mapping[str, float | None]) -> MetricCard:
    value = metrics[key]
    known = is_number(value)
    return MetricCard(
        key=key,
        title=meaning.title,
        value=meaning.form(value) if known else NOTHING,
        exact=repr(float(value)) if known and value is not None else None,
        explanation=meaning.explanation,
        direction=meaning.direction if known else "not defined for this run",
        basis=_basis(key, metrics),
    )


def _basis(key: str, metrics: Mapping[str, float | None]) -> str:
    familiar, foreign = metrics.get("n_id"), metrics.get("n_ood")
    tested, wrong = metrics.get("n_test"), metrics.get("n_errors")
    if key.startswith("ood_"):
        if is_number(familiar) and is_number(foreign):
            return f"n = {familiar:,.0f} familiar + {foreign:,.0f} foreign"
        return ""
    if key == "misclassification_auroc" and is_number(tested) and is_number(wrong):
        return f"n = {wrong:,.0f} wrong of {tested:,.0f}"
    return f"n = {tested:,.0f}" if is_number(tested) else ""
