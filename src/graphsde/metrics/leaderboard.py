"""Comparison of models on the same nodes: ordered by validation NLL, compared in pairs on test nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.metrics.calibration import nll
from graphsde.metrics.evaluation import judged_nodes
from graphsde.metrics.intervals import CLOSED_FORMS, CONFIDENCE
from graphsde.metrics.regression import density_nll
from graphsde.metrics.resampled import figures_of, resample
from graphsde.metrics.resampling import number_of_draws
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.uncertainty.held_out import align_labels, known_items

HOW_TO_CHOOSE = (
    "Choose a model by validation NLL: choosing by test metrics voids the guarantees of decisions, sets and flags, "
    "which need unused test nodes."
)
Verdict = Literal["worth it", "statistically tied", "worse"]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figure(_Kept):
    """A value with the ends of its interval over draws of test nodes."""

    value: float
    low: float
    high: float


class BoardRow(_Kept):
    """One row.

    Args:
        name: of the model.
        control: whether it is there to compare with.
        edges: whether it uses edges.
        val_nll: mean NLL of validation nodes; ``None`` without any.
        figures: on test nodes, by name; empty without any.
        seconds: of CPU time for fitting and predicting a control.
    """

    name: str
    control: bool
    edges: bool
    val_nll: float | None
    figures: dict[str, Figure]
    seconds: float | None = None


class Comparison(_Kept):
    """Two models on the same test nodes.

    Args:
        first, second: names.
        differences: metrics of the first minus those of the second.
        verdict: by NLL, of the first: better, statistically tied, or worse.
    """

    first: str
    second: str
    differences: dict[str, Figure]
    verdict: Verdict


class Leaderboard(_Kept):
    """Models ordered by validation NLL; made by :func:`leaderboard`.

    Args:
        rows: the best first.
        test_nodes: how many the metrics are over.
        model: the model against the best control by validation NLL.
        graph: the best that uses edges against the best that does not, both by validation NLL.
        left_out: controls that are missing, with the reason.
        made_for: sha256 of the model's file, where the board is part of a run.
    """

    rows: tuple[BoardRow, ...]
    test_nodes: int
    model: Comparison | None = None
    graph: Comparison | None = None
    left_out: dict[str, str] = {}
    made_for: str | None = None

    def table(self) -> list[dict[str, Any]]:
        """A row per model with formatted texts, for the terminal, the report and the page."""
        forms = {name: form for one in self.rows for name, form in ((n, _FORMS.get(n, _plain)) for n in one.figures)}
        return [
            {
                "model": one.name if one.control else f"{one.name} (this model)",
                "validation NLL": "—" if one.val_nll is None else f"{one.val_nll:.3f}",
                **{f"test {_TITLES.get(n, n)}": _with_ends(one.figures.get(n), form) for n, form in forms.items()},
                "CPU s": "" if one.seconds is None else f"{one.seconds:.1f}",
            }
            for one in self.rows
        ]

    @property
    def sentence(self) -> str:
        """Whether edges and the model are worth it, in one line."""
        if not self.test_nodes:
            return "No test node has a label, so the models can't be compared."
        said = []
        if self.graph is not None:
            one = self.graph
            how = {"worth it": "are worth it", "worse": "do harm"}.get(one.verdict, "make no significant difference")
            said.append(f"Edges {how} here: {one.first}, the best with edges, against {one.second}: {_told(one)}.")
        if self.model is not None:
            one = self.model
            how = {
                "worth it": f"is worth it: better than {one.second}",
                "statistically tied": f"is statistically tied with {one.second}",
                "worse": f"is worse than {one.second}",
            }[one.verdict]
            said.append(f"{one.first} {how}, the best control by validation NLL: {_told(one)}.")
        return " ".join(said) or "Nothing to compare with."

    def notes(self) -> list[str]:
        """What else a reader should know."""
        said = [f"{name} was left out: {reason}." for name, reason in self.left_out.items()]
        return [*said, HOW_TO_CHOOSE] if self.rows else said


_TITLES = {"accuracy": "accuracy", "nll": "NLL", "aurc": "AURC", "rmse": "RMSE", "crps": "CRPS"}


def _plain(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


_FORMS: Mapping[str, Callable[[float], str]] = {"accuracy": _percent}


def _with_ends(figure: Figure | None, form: Callable[[float], str]) -> str:
    return (
        "—" if figure is None else f"{form(figure.value)} [{form(figure.low)}, {form(figure.high)}]".replace(" %,", ",")
    )


def _told(comparison: Comparison) -> str:
    """ "test NLL −0.052 [−0.083, −0.021], accuracy +1.2 [+0.3, +2.1] points"."""
    other = next(name for name in comparison.differences if name != "nll")
    return f"test NLL {_difference(comparison, 'nll')}, {_TITLES.get(other, other)} {_difference(comparison, other)}"


def _difference(comparison: Comparison, name: str) -> str:
    one, unit = comparison.differences[name], ""
    factor, digits = 1.0, 3
    if name in _FORMS:
        factor, digits, unit = 100.0, 1, " points"

    def signed(value: float) -> str:
        value = factor * value
        text = f"{value:+.{digits}f}" if unit or abs(value) < 10 else f"{value:+.4g}"
        return text.replace("-", "−")

    return f"{signed(one.value)} [{signed(one.low)}, {signed(one.high)}]{unit}"


@dataclass(frozen=True, eq=False)
class Contender:
    """A prediction of all nodes for the board; the rest as in :class:`BoardRow`."""

    name: str
    prediction: Prediction
    control: bool
    edges: bool
    seconds: float | None = None


@dataclass(frozen=True)
class _Board:
    """What a board shows for a kind of target: metrics, the first for the verdict, and the NLL of some nodes."""

    figures: tuple[str, ...]
    nll: Callable[[Any, Graph, np.ndarray], float]


BOARDS: Rules[_Board] = Rules("a leaderboard")


def _class_nll(prediction: ClassPrediction, graph: Graph, nodes: np.ndarray) -> float:
    return nll(prediction.mean[nodes], align_labels(graph, prediction.class_names)[nodes])


def _number_nll(prediction: RegressionPrediction, graph: Graph, nodes: np.ndarray) -> float:
    assert graph.values is not None
    return density_nll(prediction.subset(nodes), graph.values[nodes])


BOARDS.register("classification")(_Board(("accuracy", "nll", "aurc"), _class_nll))
BOARDS.register("regression")(_Board(("rmse", "nll", "crps"), _number_nll))


def leaderboard(
    contenders: Sequence[Contender],
    graph: Graph,
    *,
    left_out: Mapping[str, str] | None = None,
    confidence_level: float = CONFIDENCE,
    seed: int = 0,
) -> Leaderboard:
    """Order predictions by validation NLL and compare them in pairs on the test nodes.

    All of them are evaluated on the same draws of test nodes, so that the interval of a difference is paired
    and narrower than two separate intervals suggest.

    Args:
        contenders: predictions of all nodes of ``graph``.
        graph: with the masks that they were fitted with.
        left_out: names that are missing, with the reason.
        confidence_level, seed: as of :func:`graphsde.intervals`.
    """
    delta = 1.0 - confidence_level
    rows: list[BoardRow] = []
    drawn: dict[str, dict[str, np.ndarray]] = {}
    test_nodes = 0
    for one in contenders:
        board = BOARDS.of(one.prediction)
        test = judged_nodes(one.prediction, graph)
        held = graph.role("val") & graph.familiar & known_items(one.prediction, graph) & ~graph.role("ood")
        val_nll = board.nll(one.prediction, graph, np.flatnonzero(held)) if held.any() else None
        figures: dict[str, Figure] = {}
        test_nodes = int(test.sum())
        if test_nodes:
            draws = number_of_draws(test_nodes)
            judged = figures_of(one.prediction, graph, test)
            drawn[one.name] = resample(judged, board.figures, draws=draws, seed=seed)
            closed = CLOSED_FORMS.of(one.prediction)(one.prediction, graph, test, delta)
            exact = judged.table(np.ones((1, test_nodes)))
            for name in board.figures:
                low, high = closed.get(name, np.quantile(drawn[one.name][name], [delta / 2, 1 - delta / 2]))
                figures[name] = Figure(value=float(exact[name]()[0]), low=float(low), high=float(high))
        rows.append(BoardRow(name=one.name, control=one.control, edges=one.edges, val_nll=val_nll, figures=figures,
                             seconds=one.seconds))  # fmt: skip
    rows.sort(key=lambda row: float("inf") if row.val_nll is None else row.val_nll)  # stable: ties keep their order

    def against(first: BoardRow | None, second: BoardRow | None) -> Comparison | None:
        if first is None or second is None or first is second or not first.figures or second.val_nll is None:
            return None
        return _compared(first, second, drawn[first.name], drawn[second.name], delta)

    return Leaderboard(
        rows=tuple(rows),
        test_nodes=test_nodes,
        model=against(_first(rows, lambda one: not one.control), _first(rows, lambda one: one.control)),
        graph=against(_first(rows, lambda one: one.edges), _first(rows, lambda one: not one.edges)),
        left_out=dict(left_out or {}),
    )


def _first(rows: Sequence[BoardRow], which: Callable[[BoardRow], bool]) -> BoardRow | None:
    return next((one for one in rows if which(one)), None)


def _compared(
    first: BoardRow, second: BoardRow, drawn: dict[str, np.ndarray], other: dict[str, np.ndarray], delta: float
) -> Comparison:
    differences = {}
    for name, value in first.figures.items():
        low, high = np.quantile(drawn[name] - other[name], [delta / 2, 1 - delta / 2])
        differences[name] = Figure(value=value.value - second.figures[name].value, low=float(low), high=float(high))
    by = differences["nll"]
    verdict: Verdict = "worth it" if by.high < 0 else "worse" if by.low > 0 else "statistically tied"
    return Comparison(first=first.name, second=second.name, differences=differences, verdict=verdict)
