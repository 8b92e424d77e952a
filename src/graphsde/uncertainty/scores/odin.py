"""Confidence after a small step of the features towards the model's own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.prediction import ClassPrediction, Perturb, Predictor, require
from graphsde.uncertainty.held_out import require_same_nodes
from graphsde.uncertainty.scores.propagation import require_temperature
from graphsde.uncertainty.scores.registry import SCORES

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

_SMALLEST = 1e-30


@SCORES.register(
    "odin",
    summary="one minus the largest tempered probability after a step of the features towards the model's answer",
    paper="Liang et al., Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks",
    year=2018,
    needs=("probs", "graph", "model", "gradient"),
)
def odin(
    prediction: ClassPrediction,
    graph: Graph,
    model: Predictor,
    *,
    size: float = 0.01,
    temperature: float = 1.0,
    seed: int | None = None,
) -> np.ndarray:
    """``1 − max_c softmax(z(x′) / T)_c``, mean over samples before the maximum.  # [N]

    ``x′ = x − ε sign(∇_x Σ_i CE(z_i(x)/T, argmax z_i))``: a familiar node gains more confidence from the step than a
    OOD one. On a graph a node's features act on its neighbours' loss too; all nodes are moved at once.

    Two traps. *Orientation*: the maximum of the softmax is confidence, so its complement is returned here; a public
    benchmark on graphs negates the maximum and then takes high values for familiar, and the AUROC near 50 and FPR95 of
    100 printed for ODIN come from there. *Scale*: a step in absolute units can be larger than the features (row-
    normalised bag-of-words have a mean near 1e-3), so ``size`` is in standard deviations.

    With ``size=0`` and ``temperature=1`` this is ``msp`` exactly. The temperature multiplies the one that calibrated
    ``prediction``, if any.

    Args:
        prediction: of ``model`` on ``graph``; tells the number of samples.
        graph: predicted on.
        model: who predicted; must have a gradient with respect to the features.
        size: ε, in standard deviations of the features as the model sees them.
        temperature: ``T > 0``. Its paper takes 1000; on Cora 1 ranks the errors among validation nodes best, and a high
            one lets outputs that no training node has (label leave-out keeps them) weigh as much as the others.
        seed: of the samples, where ``prediction`` was drawn with another than the model's own.
    """
    from scipy.special import softmax

    require_temperature("odin", temperature)
    if not 0 <= size < np.inf:
        raise BadUsage("the step has no direction of its own", place="odin", found=size, expected="0 or more")
    require_same_nodes(prediction, graph)
    total = temperature * prediction.temperature
    answer = model.predict(graph, samples=prediction.num_samples, seed=seed, perturb=Perturb(size, total))
    moved = require(answer, ClassPrediction, "odin")
    if total == moved.temperature:
        return 1.0 - moved.confidence
    mean = np.zeros((moved.num_items, moved.num_classes))
    for scores in _log_scale(moved):  # one sample at a time: a float64 copy of all of them could be large
        mean += softmax(scores.astype(np.float64) / total, axis=-1)
    return 1.0 - mean.max(axis=-1) / moved.num_samples


def _log_scale(prediction: ClassPrediction) -> np.ndarray:
    """Logits; of a Dirichlet, whose probabilities are no softmax of logits, the logarithm of the mean.  # [S, N, C]"""
    if prediction.logits is None or prediction.kind == "dirichlet":
        return np.log(np.maximum(prediction.probs, _SMALLEST))
    return prediction.logits
