"""Scores spread over the edges: a node among uncertain nodes is less certain than it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


def propagate(
    values: np.ndarray,
    graph: Graph,
    *,
    alpha: float = 0.5,
    steps: int = 2,
    isolated: Literal["keep", "published"] = "keep",
    self_loops: bool = False,
) -> np.ndarray:
    """A score averaged with the scores of the neighbours, a few times over (GNNSafe; Wu et al., 2023).

    ``e ← α e + (1 − α) D⁻¹ A e``. It helps if OOD nodes are clustered and hurts if
    neighbours differ. Propagate over the whole graph, then pick the nodes of interest.

    Args:
        values: any score.  # [N]
        graph: whose edges to use; of a directed graph the incoming ones, of a weighted graph with their weights.
        alpha: share of its own value that a node keeps in a step, in [0, 1].
        steps: number of rounds; 0 returns the values unchanged.
        isolated: what to do with a node without neighbours. ``keep`` leaves its value; ``published`` scales it by
            ``alpha`` in every step like the reference implementation, which makes an isolated node look more certain.
        self_loops: whether a node is a neighbour of itself, with weight one (GNSD; Lin et al., 2024).

    Returns:
        float64.  # [N]

    Example:
        >>> from types import SimpleNamespace
        >>> import scipy.sparse as sp
        >>> from graphsde.graph.adjacency import Adjacency
        >>> pair = SimpleNamespace(num_nodes=2, adjacency=Adjacency(sp.csr_array(np.array([[0, 1], [1, 0]]))))
        >>> propagate(np.array([0.0, 1.0]), pair, alpha=0.75, steps=1).tolist()
        [0.25, 0.75]
    """
    current = np.array(values, dtype=np.float64)
    if current.shape != (graph.num_nodes,):
        raise BadInput(
            f"a score of shape {current.shape} does not match a graph of {graph.num_nodes} nodes",
            code="E-LEN",
            expected=f"{graph.num_nodes} values, one per node",
            fix="score the prediction of the whole graph and select nodes afterwards",
        )
    require_smoothing("propagate", alpha, steps)
    if isolated not in ("keep", "published"):
        raise BadUsage("unknown rule for isolated nodes", found=isolated, expected="'keep' or 'published'")

    # float64 throughout: with the float32 operator of the models a constant score would drift
    incoming = graph.adjacency.incoming.astype(np.float64)
    if self_loops:
        incoming = incoming + sp.eye_array(graph.num_nodes, format="csr")
    weight = incoming.sum(axis=1)
    lonely = weight == 0
    per_weight = np.divide(1.0, weight, out=np.zeros_like(weight), where=~lonely)
    for _ in range(steps):
        heard = (incoming @ current) * per_weight
        if isolated == "keep":
            heard[lonely] = current[lonely]
        current = alpha * current + (1.0 - alpha) * heard
    return current


def require_smoothing(place: str, alpha: float, steps: int) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise BadUsage("alpha must be a share", place=place, found=alpha, expected="a number from 0 to 1")
    if steps < 0:
        raise BadUsage("invalid number of steps", place=place, found=steps, expected="an integer, 0 or more")


def require_temperature(place: str, temperature: float) -> None:
    if not temperature > 0:
        raise BadUsage("a temperature must be positive", place=place, found=temperature, expected="a number above 0")
