"""Distance of a node's embedding from where the training nodes of each class lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.errors import BadInput
from graphsde.prediction import Prediction
from graphsde.scores.registry import SCORES
from graphsde.scores.training_nodes import embedding_of, training_nodes

if TYPE_CHECKING:
    from graphsde.data.graph import Graph


@SCORES.register(
    "mahalanobis",
    summary="distance of the embedding to the nearest class, in units of the spread within classes",
    paper="Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
    year=2018,
    needs=("embedding", "graph", "train"),
)
def mahalanobis(
    prediction: Prediction,
    graph: Graph,
    *,
    relative: bool = False,
    reference: tuple[Prediction, Graph] | None = None,
) -> np.ndarray:
    """``min_c (h − μ_c)ᵀ Σ⁻¹ (h − μ_c)``, the squared distance to the nearest class.  # [N]

    ``μ_c`` are the means of the training nodes of class c, ``Σ`` is their pooled covariance with Ledoit and Wolf's
    shrinkage: with a few dozen training nodes the plain covariance is singular. Classes without training nodes are
    skipped. A public benchmark on graphs takes the distance itself as *confidence*, and its statistics from the first
    rows instead of the training nodes; figures made that way are no target.

    Args:
        prediction: with an embedding.
        graph: predicted on.
        relative: subtract the distance to one Gaussian of all training nodes (Ren et al., 2021), so that directions
            that say nothing about classes don't count; then the score can be negative.
        reference: prediction and graph that the statistics come from; ``prediction`` and ``graph`` if not given. For
            a shifted graph give the clean one.
    """
    known = training_nodes(*(reference or (prediction, graph)))
    embedding = embedding_of(prediction)
    spread = _precision(known.residuals)
    distance = np.min([_distance(embedding - mean, spread) for mean in known.means], axis=0)
    if relative:
        centre = known.embedding.mean(axis=0)
        distance -= _distance(embedding - centre, _precision(known.embedding - centre))
    return distance


def _precision(centred: np.ndarray) -> np.ndarray:
    """Inverse of the shrunk covariance.  # [h, h]"""
    from sklearn.covariance import LedoitWolf

    if not centred.any():
        raise BadInput(
            "the training nodes of a class all have the same embedding: there is no spread to measure distance by",
            code="E-CLASS-SMALL",
            found=f"{len(centred)} training nodes",
            expected="two or more per class, in a model that has learned",
        )
    return LedoitWolf(assume_centered=True).fit(centred).precision_


def _distance(offset: np.ndarray, precision: np.ndarray) -> np.ndarray:
    return np.einsum("nh,nh->n", offset @ precision, offset)
