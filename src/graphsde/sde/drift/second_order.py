"""Second-order dynamics as drift: positions, velocities and a force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphsde.base.arguments import number
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.field import DRIFTS, BoundDrift, Drift, check_state, even_width, register_drift


@register_drift
class SecondOrderDrift(Drift):
    r"""Coupled oscillators with friction. The state is (q, v), halves of the width:
    :math:`\dot q = v,\quad \dot v = F(q) - \kappa q - \gamma v`.

    Paper: Rusch et al., "Graph-coupled oscillator networks", ICML 2022.

    Noise acts on the velocity only (the diffusion ``velocity``), which makes q smooth in time. The path KL is then
    finite only if posterior and prior agree on q̇: use this drift with the prior ``underdamped``.

    Args:
        width: d = 2 × the width of q, even.
        force: the drift F by name, ``gcn`` by default.
        friction: γ ≥ 0.
        stiffness: κ; by default 0 if the force pulls back by itself (``graph-heat``, ``reaction``), otherwise 1.
        settings: of the force.
        generator: for the force's weights.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = SecondOrderDrift(8, force="graph-heat", generator=torch.Generator().manual_seed(0))
        >>> state = torch.ones(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.0, state)[0, 0, :4]
        tensor([1., 1., 1., 1.])
    """

    name = "second-order"
    summary = "positions and velocities with friction, driven by the force of another drift"
    paper, year = "Rusch et al., Graph-coupled oscillator networks", 2022

    def __init__(
        self,
        width: int,
        *,
        force: str = "gcn",
        friction: float = 1.0,
        stiffness: float | None = None,
        settings: Mapping[str, Any] | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = even_width(width)
        self.friction = number(friction, "friction", at_least=0.0)
        if force == self.name:
            raise BadUsage("the force of second-order dynamics can't be second-order", code="E-SETTING", found=force)
        pulls = DRIFTS.get(force)
        if stiffness is None:
            stiffness = 0.0 if pulls.pulls_back else 1.0
        self.stiffness = number(stiffness, "stiffness")
        self.force = pulls(width // 2, **(settings or {}), generator=generator)
        self.linear, self.learns_rate = self.force.linear, self.force.learns_rate

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        start = initial[..., : self.width // 2].contiguous()
        return _BoundSecondOrder(self, self.force.bind(adjacency, start, generator))

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """Norm of [[0, 1], [κ + L, γ]], L the force's own bound."""
        force = self.force.lipschitz(adjacency)
        if not np.isfinite(force):
            return float("inf")
        return float(np.linalg.norm([[0.0, 1.0], [abs(self.stiffness) + force, self.friction]], 2))

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        return self.force.source_lipschitz(adjacency)


class _BoundSecondOrder:
    def __init__(self, drift: SecondOrderDrift, force: BoundDrift) -> None:
        self.force, self.friction, self.stiffness = force, drift.friction, drift.stiffness
        self.tensors: tuple[Tensor, ...] = force.tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        position, velocity = h.chunk(2, dim=-1)
        position = position.contiguous()
        pull = self.force(t, position) - self.friction * velocity
        if self.stiffness:
            pull = pull - self.stiffness * position
        return torch.cat([velocity, pull], dim=-1)
