"""Free energy of the logits, alone and spread over the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from graphsde.errors import BadUsage
from graphsde.prediction import Prediction
from graphsde.scores.propagation import propagate
from graphsde.scores.registry import SCORES

if TYPE_CHECKING:
    from graphsde.data.graph import Graph


@SCORES.register(
    "energy",
    summary="negative log-sum-exp of the logits, mean over samples",
    paper="Liu et al., Energy-based Out-of-distribution Detection",
    year=2020,
    needs=("logits",),
)
def energy(prediction: Prediction, *, temperature: float = 1.0) -> np.ndarray:
    """``−T logsumexp(z / T)``, mean over samples.  # [N]

    Unlike probabilities it moves when the same number is added to all logits of a node.

    Args:
        prediction: with logits.
        temperature: ``T > 0``.
    """
    if not temperature > 0:
        raise BadUsage("a temperature is positive", place="energy", found=temperature, expected="a number above 0")
    if prediction.logits is None:
        raise BadUsage("energy reads logits, and this prediction has none", code="E-SCORE", fix="use entropy or msp")
    total = np.zeros(prediction.num_nodes)
    for logits in prediction.logits:  # one sample at a time: a float64 copy of all of them could be large
        total += log_sum_exp(logits.astype(np.float64) / temperature)
    return -temperature * total / len(prediction.logits)


@SCORES.register(
    "gnnsafe",
    summary="energy averaged with the energies of the neighbours",
    paper="Wu et al., Energy-based Out-of-Distribution Detection for Graph Neural Networks",
    year=2023,
    needs=("logits", "graph"),
    spreads=True,
)
def gnnsafe(
    prediction: Prediction,
    graph: Graph,
    *,
    temperature: float = 1.0,
    alpha: float = 0.5,
    steps: int = 2,
    isolated: Literal["keep", "published"] = "keep",
) -> np.ndarray:
    """:func:`energy`, then :func:`graphsde.scores.propagate`.  # [N]"""
    return propagate(energy(prediction, temperature=temperature), graph, alpha=alpha, steps=steps, isolated=isolated)


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """``ln Σ_c exp(z_c)`` without overflow.  # [N, C] -> [N]"""
    highest = logits.max(axis=-1, keepdims=True)
    return highest[:, 0] + np.log(np.exp(logits - highest).sum(axis=-1))
