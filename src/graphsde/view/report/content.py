"""What one report is about, before any of it is drawn: nodes, numbers and names as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphsde.acting.decisions import Decisions
from graphsde.base.errors import BadInput, shorten
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.graph.raw import Finding
from graphsde.metrics.evaluation import align_labels, judged_nodes
from graphsde.metrics.leaderboard import Leaderboard
from graphsde.prediction import ClassPrediction, Prediction, Trajectories, require

NOTHING = "—"
HOW_MANY = 20
"""Rows of the table of the most uncertain nodes."""
SHORT = 40
"""Characters of a name in that table."""


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite number, and not a truth value."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return False
    return math.isfinite(float(value))


def number(value: Any, digits: int = 3) -> str:
    if not is_number(value):
        return NOTHING
    if float(value).is_integer() and abs(value) >= 10:
        return f"{int(value):,}"
    if value != 0 and (abs(value) < 0.5 * 10**-digits or abs(value) >= 1e6):
        return f"{value:.2e}"
    return f"{value:,.{digits}f}"


def percent(value: Any) -> str:
    """A share as a percentage; more digits where rounding would claim all or nothing."""
    if not is_number(value):
        return NOTHING
    for digits in (1, 2, 3, 4):
        text = f"{100 * value:.{digits}f}"
        if value in (0, 1) or float(text) not in (0.0, 100.0):
            break
    return f"{text} %"


def count(value: Any, singular: str) -> str:
    """ "1 node", "1,297 nodes"."""
    plural = singular + ("es" if singular.endswith("s") else "s")
    return f"{int(value):,} {singular if value == 1 else plural}"


def name(value: object, limit: int = 200) -> str:
    """A value of unknown origin as one short, printable line (the template escapes it for HTML)."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None:
        return NOTHING
    return shorten(plain if isinstance(plain, str) else str(plain), limit)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted lines."""
    lines: list[tuple[str, str]] = []
    for key, value in settings.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            lines += flatten(value, f"{dotted}.")
        else:
            lines.append((name(dotted), name(value)))
    return lines


def nodes_title(rows: int, *, has_test: bool) -> str:
    """Above the table of the most uncertain nodes."""
    many = f"{rows} most uncertain" if rows == HOW_MANY else "most uncertain"
    return f"The {many} {'test nodes' if has_test else 'nodes'}"


def uncertainty_note(prediction: Prediction, parts: str) -> str:
    """What the columns of uncertainty mean; ``parts`` says how those of a model that has both add up."""
    if prediction.kind == "deterministic":
        return (
            "This model is deterministic: it has no notion of epistemic uncertainty, which is not the same as having "
            "none, so that column shows “—” and aleatoric equals total."
        )
    if isinstance(prediction, ClassPrediction) and prediction.kind == "samples" and prediction.num_samples == 1:
        return "There is one sample only, so nothing can disagree with it: epistemic uncertainty is 0 by construction."
    return parts


@dataclass(frozen=True, eq=False)
class JudgedNodes:
    """Nodes that are shown and nodes that count.

    Args:
        shown: test nodes, or all nodes where there is no test mask.  # [m] positions
        rows: those test nodes whose class is known to graph and model.  # [n] positions
        truth: their true class, as a column of the prediction.  # [n]
        right: whether the most probable class is the true one.  # [n] bool
        has_test: whether ``shown`` are test nodes.
    """

    shown: np.ndarray
    rows: np.ndarray
    truth: np.ndarray
    right: np.ndarray
    has_test: bool

    def __len__(self) -> int:
        return len(self.rows)


def judge(graph: Graph, prediction: ClassPrediction) -> JudgedNodes:
    """Compare the prediction with the labels of test nodes.

    Without a test mask nothing is judged: labels that a model may have learned from prove nothing about it. OOD
    nodes and classes that the model has no column for can't be right or wrong and are left out.
    """
    mask = graph.test_mask
    if mask is None or not mask.any():
        nobody = np.zeros(0, dtype=np.int64)
        return JudgedNodes(np.arange(graph.num_nodes), nobody, nobody, np.zeros(0, dtype=bool), has_test=False)
    column = align_labels(graph, prediction.class_names)
    rows = np.flatnonzero(judged_nodes(prediction, graph))
    right = prediction.index[rows] == column[rows]
    return JudgedNodes(np.flatnonzero(mask), rows, column[rows], right, has_test=True)


@dataclass(frozen=True)
class Sections:
    """What a report shows of one kind of prediction.

    Args:
        template: of the page.
        parts: what fills it, by the names in the template.
        asked: the line about features and what is predicted.
    """

    template: str
    parts: Callable[[ReportContent], dict[str, Any]]
    asked: Callable[[Graph], tuple[str, str]]


SECTIONS: Rules[Sections] = Rules("a report")
PICTURES: Rules[Callable[[Any, Any], dict[str, Any]]] = Rules("the figures of a run")
"""Every figure of a run by name, from its content and its model."""


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that the report of one run shows.

    Args:
        title: the headline, such as the name of the run.
        graph: the graph predicted on, with its masks.
        prediction: of all nodes of ``graph``, in the same order.
        metrics: figures over test nodes by name; a value that is ``None`` or not finite is shown as "—".
        findings: what the data check noticed.
        history: one row per epoch with ``epoch``, ``train_loss``, ``val_nll``, ``val_accuracy`` where known.
        model_name: as the command line spells it.
        model_settings: every setting of the model, nested or flat.
        split: name of the split that made the masks.
        seed: of the run.
        trajectories: paths of a few nodes, the first of which is drawn; only stochastic models have them.
        facts: further lines for the reader: versions, seconds, the command.
        intervals: ends of the metrics, by name, over draws of test nodes.
        controls: how the model compares with controls.
        decisions: what becomes of all nodes.
        undecided: why there are no decisions.
        other_tests: what other tests on the same calibration labels mean for the guarantee, in a sentence.
    """

    title: str
    graph: Graph
    prediction: Prediction
    metrics: Mapping[str, float | None]
    findings: Sequence[Finding] = ()
    history: Sequence[Mapping[str, Any]] = ()
    model_name: str = "model"
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    split: str = "—"
    seed: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    trajectories: Trajectories | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    controls: Leaderboard | None = None
    decisions: Decisions | None = None
    undecided: str = "Nothing is decided here."
    other_tests: str = ""

    @property
    def classes(self) -> ClassPrediction:
        """The prediction, for class targets."""
        return require(self.prediction, ClassPrediction, "this part of a report")

    def __post_init__(self) -> None:
        if self.prediction.num_items != self.graph.num_nodes:
            raise BadInput(
                f"the prediction has {self.prediction.num_items} nodes, the graph has {self.graph.num_nodes}",
                code="E-LEN",
                fix="predict on the graph that the report shows",
            )
        if not np.array_equal(self.prediction.ids, self.graph.node_ids):
            raise BadInput(
                "the prediction's node ids are not those of the graph, or are in another order",
                code="E-ID-ORDER",
                fix="predict on the graph that the report shows",
            )
