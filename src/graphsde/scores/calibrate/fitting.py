"""Fitting a calibrator: the NLL of validation nodes, to its minimum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphsde.errors import BadInput, BadUsage, Diverged
from graphsde.prediction import NumericPrediction, Prediction
from graphsde.scores.calibrate.base import CALIBRATORS, Calibrator, centred_logits
from graphsde.scores.calibrate.deviation import fit_deviation
from graphsde.scores.calibrate.temperature import Temperature, best_temperature
from graphsde.scores.training_nodes import UNKNOWN, align_labels, require_same_nodes

if TYPE_CHECKING:
    from graphsde.data.graph import Graph

MOST_STEPS = 200


def require_calibrator(by: str, target: str) -> None:
    """Refuse a calibrator that is for classes where numbers are predicted, and the other way round."""
    kind = CALIBRATORS.get(by)
    if kind.target != target:
        able = [name for name in CALIBRATORS if CALIBRATORS.get(name).target == target]
        what = "numbers" if target == "numeric" else "classes"
        raise BadUsage(
            f"the calibrator '{by}' is not for {what}, which this model predicts",
            code="E-TARGET",
            found=by,
            expected="one of " + ", ".join(able),
        )


def fit_calibrator(
    prediction: Prediction | NumericPrediction,
    graph: Graph,
    *,
    by: str = "temperature",
    nodes: np.ndarray | None = None,
) -> Calibrator:
    """Fit a calibrator on some nodes, by their negative log-likelihood under the mean over samples.

    Args:
        prediction: of all nodes of ``graph``, not calibrated.
        graph: with the masks that the model was fitted with.
        by: one of ``CALIBRATORS``.
        nodes: mask; the validation nodes if not given. Keep calibration nodes out of it: they are for conformal sets
            and for abstaining, which promise something only on nodes that nothing was fitted to.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.LabelPropagation().fit(graph).predict(graph)
        >>> fit_calibrator(prediction, graph, by="temperature").common_temperature > 0
        True
    """
    require_calibrator(by, "numeric" if isinstance(prediction, NumericPrediction) else "class")
    if isinstance(prediction, NumericPrediction):
        return fit_deviation(prediction, graph, nodes)
    kind = CALIBRATORS.get(by)
    require_same_nodes(prediction, graph)
    labels = align_labels(graph, prediction.class_names)
    mask = graph.val_mask if nodes is None else np.asarray(nodes, dtype=bool)
    rows = np.array([], dtype=np.int64) if mask is None else np.flatnonzero(mask & graph.familiar & (labels != UNKNOWN))
    if not len(rows):
        raise BadInput(
            f"'{graph.name}' has no labelled validation nodes to fit a calibrator on",
            code="E-SPLIT-EMPTY",
            fix="use a split with validation nodes, or in Python name others (nodes=…)",
        )
    train = np.zeros(graph.num_nodes, dtype=bool) if graph.train_mask is None else graph.train_mask
    calibrator = kind(prediction.num_classes, graph.node_ids[train].tolist())
    logits, truth = centred_logits(prediction), torch.from_numpy(labels[rows].copy())
    if isinstance(calibrator, Temperature):
        # one parameter: a search in an interval, which no start can mislead
        chosen = logits[:, torch.from_numpy(rows)].transpose(0, 1)
        with torch.no_grad():
            calibrator.log_temperature.fill_(math.log(best_temperature(chosen, truth)))
    else:
        _minimise(calibrator, logits, graph, torch.from_numpy(rows), truth)
    return calibrator.eval()


def _minimise(calibrator: Calibrator, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor) -> None:
    parameters = list(calibrator.parameters())
    starts = calibrator.resting_place()
    surroundings = calibrator.surroundings(graph)
    if not calibrator.listens:
        logits, rows = logits[:, rows], torch.arange(len(rows))
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=MOST_STEPS, tolerance_grad=1e-8, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        probs = torch.softmax(calibrator(logits, surroundings)[:, rows], -1).mean(0)
        value = -probs[torch.arange(len(rows)), truth].clamp_min(1e-12).log().mean()
        for parameter, start in zip(parameters, starts, strict=True):
            value = value + 0.5 * calibrator.decay * (parameter - start).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
        raise Diverged(f"fitting the calibrator '{calibrator.name}' did not converge", fix="use temperature")
