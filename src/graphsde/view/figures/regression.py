"""Regression figures: predicted against true values, calibration of quantiles, error over the nodes kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.metrics.regression import LEVELS, observed_shares
from graphsde.prediction import RegressionPrediction
from graphsde.view.figures.chart import Axis, Chart, Line, Panel, Symbol
from graphsde.view.figures.evaluation import KEPT, chosen_dots, node_dots, thin_kept
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, GREY, ORANGE, VERMILLION
from graphsde.view.figures.training_curve import TrainingCurve

MAX_WHISKERS = 400


@dataclass(frozen=True, eq=False)
class PredictedAndTrue(Picture):
    """Predicted mean with its 90 % interval against the true value, one dot per node, at most 400 of them.

    Args:
        truth, mean, low, high: in the target's unit.  # [n]
        node_ids: of the nodes.  # [n]
    """

    truth: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    node_ids: np.ndarray

    @classmethod
    def of(cls, prediction: RegressionPrediction, truth: np.ndarray) -> PredictedAndTrue:
        return cls(truth, prediction.mean, *prediction.interval(0.9), prediction.ids)

    def chart(self) -> Chart:
        rows = chosen_dots(len(self.truth), MAX_WHISKERS)
        inside = (self.low <= self.truth) & (self.truth <= self.high)
        ends = [float(min(self.truth.min(), self.mean.min())), float(max(self.truth.max(), self.mean.max()))]
        groups: tuple[tuple[str, str, Symbol, np.ndarray], ...] = (
            ("true value inside", BLUE, "circle", rows[inside[rows]]),
            ("outside", VERMILLION, "x", rows[~inside[rows]]),
        )
        dots = tuple(
            node_dots(
                f"{name} (n = {len(chosen):,})", self.truth, self.mean, self.node_ids, chosen, colour, symbol,
                y_low=self.low[chosen], y_high=self.high[chosen],
                hover="node %{text}<br>true %{x:.4g}, predicted %{y:.4g}",
            )
            for name, colour, symbol, chosen in groups
        )  # fmt: skip
        diagonal = Line("equal", ends, ends, GREY, "dash", 1.5, hover=None)
        panel = Panel(Axis("true value"), Axis("predicted"), (*dots, diagonal))
        return Chart((panel,), page_height=440, size=(4.6, 4.0))


@dataclass(frozen=True, eq=False)
class QuantileReliability(Picture):
    """Share of true values below each predicted quantile against the quantile's level.

    Args:
        levels, shares: from 0 to 1.  # [L]
    """

    levels: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, prediction: RegressionPrediction, truth: np.ndarray) -> QuantileReliability:
        return cls(LEVELS, observed_shares(prediction, truth))

    def chart(self) -> Chart:
        hover = "%{x:.0f} % should lie below, %{y:.1f} % do"
        marks = (
            Line("this model", 100 * self.levels, 100 * self.shares, BLUE, width=2.5, dots=True, hover=hover),
            Line("calibrated", [0.0, 100.0], [0.0, 100.0], ORANGE, "dash", hover=None),
        )
        x = Axis("level of the quantile", " %", limits=(0.0, 100.0), grid=False)
        return Chart((Panel(x, Axis("true values below it", " %", limits=(0.0, 100.0)), marks),), size=(4.2, 4.0))


@dataclass(frozen=True, eq=False)
class ErrorWhenKeeping(Picture):
    """Root mean squared error over the nodes kept, most certain first, between an oracle and a random order.

    Args:
        kept: 1/n, 2/n, …, 1.  # [n]
        error, oracle: over the nodes kept.  # [n]
        all_error: over all of them.
    """

    kept: np.ndarray
    error: np.ndarray
    oracle: np.ndarray
    all_error: float

    @classmethod
    def of(cls, prediction: RegressionPrediction, truth: np.ndarray) -> ErrorWhenKeeping:
        squares = np.square(prediction.mean - truth)
        counts = np.arange(1, len(truth) + 1)

        def among(order: np.ndarray) -> np.ndarray:
            return np.sqrt(np.cumsum(squares[order]) / counts)

        by_variance, by_error = np.argsort(prediction.total, kind="stable"), np.argsort(squares, kind="stable")
        return cls(counts / len(truth), among(by_variance), among(by_error), float(np.sqrt(squares.mean())))

    def chart(self) -> Chart:
        rows = thin_kept(len(self.kept), 20)
        x, hover = 100 * self.kept[rows], "keeping %{x:.1f} %: RMSE %{y:.4g}"
        marks = (
            Line("this model", x, self.error[rows], BLUE, width=2.5, hover=hover),
            Line("oracle", x, self.oracle[rows], GREEN, "dash", hover=hover),
            Line("random order", x, np.full(len(rows), self.all_error), GREY, "dot", hover=hover),
        )
        return Chart((Panel(KEPT, Axis("RMSE among them", zero=True), marks),))


@dataclass(frozen=True, eq=False)
class DeviationScatter(Picture):
    """Aleatoric against epistemic standard deviation, one dot per node.

    Args:
        aleatoric, epistemic: standard deviations in the target's unit.  # [n]
        node_ids: of the nodes.  # [n]
    """

    aleatoric: np.ndarray
    epistemic: np.ndarray
    node_ids: np.ndarray

    def chart(self) -> Chart:
        rows = chosen_dots(len(self.aleatoric))
        dots = node_dots(
            "nodes", self.aleatoric, self.epistemic, self.node_ids, rows, BLUE, "circle",
            legend=False, hover="node %{text}<br>aleatoric %{x:.4g}, epistemic %{y:.4g}",
        )  # fmt: skip
        x = Axis("aleatoric standard deviation: noise of the node itself", zero=True)
        y = Axis("epistemic standard deviation: the samples disagree", zero=True)
        return Chart((Panel(x, y, (dots,)),), page_height=420, size=(4.6, 3.6))


class LossCurve(TrainingCurve):
    """A :class:`TrainingCurve` without the panel for accuracy, which regression does not have."""

    def chart(self) -> Chart:
        both = super().chart()
        return Chart(both.panels[:1], size=(4.8, 3.0), page_height=360)
