"""The run in one sentence, in plain words."""

from __future__ import annotations

import numpy as np

from graphsde.scores.metrics import risk_coverage
from graphsde.view.report.formatting import count, percent
from graphsde.view.report.judged_nodes import JudgedNodes

KEPT = 0.8
ENOUGH = 10  # below this, the surest 80 % are too few to say anything


def verdict(judged: JudgedNodes, confidence: np.ndarray) -> str:
    """How often the model is right, and what its confidence is worth.

    Args:
        judged: the nodes that count.
        confidence: probability of the predicted class, of all nodes.  # [N]
    """
    if not len(judged):
        reason = "no test node has a known label" if judged.has_test else "the graph has no test nodes"
        nodes = count(len(confidence), "node")
        return f"The model labelled {nodes}; {reason}, so this page can't say how often it is right."
    accuracy = float(judged.right.mean())
    opening = f"On {count(len(judged), 'test node')} the model is right {percent(accuracy)} of the time"
    if accuracy in (0.0, 1.0) or len(judged) < ENOUGH:
        return opening + "."
    kept = accuracy_when_keeping(KEPT, confidence[judged.rows], judged.right)
    share = "keeping the 80 % it is surest of"
    if percent(kept) == percent(accuracy):
        return f"{opening}; {share} leaves that unchanged."
    if kept < accuracy:
        return f"{opening}; {share} lowers that to {percent(kept)}: its confidence does not point at its mistakes."
    return f"{opening}; {share} raises that to {percent(kept)}."


def accuracy_when_keeping(share: float, confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected accuracy over the ``share`` of nodes with the highest confidence."""
    curve = risk_coverage(1.0 - confidence, ~right)
    return 1.0 - float(curve.risk[max(1, round(share * len(right))) - 1])
