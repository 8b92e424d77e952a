"""A graph filter as drift: each channel has its own coefficient for the neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphsde.base.arguments import choice, number, whole
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import glorot
from graphsde.sde.drift.graph_heat import Flow, FlowAt
from graphsde.sde.field import BoundDrift, Diffusion, Drift, Prior, check_state, register_drift
from graphsde.sde.lipschitz import operator_norm_bound
from graphsde.sde.prior import GraphOUPrior
from graphsde.sde.unit_walk import walk_unit_steps

RESIDUALS = ("none", "gcn", "gat")
# a coefficient of ±1 would never decay, and has no finite preimage under tanh
LARGEST = 0.99


@register_drift
class GraphFilterDrift(Drift):
    r"""A filter per channel, with the initial state as source, and optionally a learned rest:
    :math:`f(H)_c = \kappa_c \hat A H_c - H_c + (1 - |\kappa_c|) H_c(0) + \tfrac1T\,\mathrm{relu}(A H U)V`.

    Paper: Gasteiger, Bojchevski and Günnemann, "Predict then propagate: graph neural networks meet personalized
    PageRank", ICLR 2019. With Euler steps of length one the mean path is
    :math:`H \leftarrow \kappa \hat A H + (1 - |\kappa|) H(0)`: theirs with teleport 1 − κ if κ > 0, the initial
    state alone if κ = 0, a high-pass filter if κ < 0.

    Args:
        width: d of the state.
        kappas: coefficients in (−1, 1), each for an equal share of the channels.
        learn: each channel learns its own, as the tanh of a number that starts there.
        residual: ``none``; ``gcn``, with A = Â; ``gat``, with attention between neighbours at every state. V starts at
            zero, so that training starts with the filter alone.
        residual_width: columns of U.
        heads: of the attention.
        horizon: T, which the rest is divided by.
        generator: for the weights.

    ``linear`` is true without a rest; then the marginals are exact.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = GraphFilterDrift(4, kappas=(0.9, 0.0), generator=torch.Generator().manual_seed(0))
        >>> drift.kappa().tolist()
        [0.9, 0.9, 0.0, 0.0]
    """

    name = "graph-filter"
    summary = "a filter per channel, low-pass to high-pass, fixed or learned; optional learned rest"
    paper, year = "Gasteiger et al., Predict then propagate: graph neural networks meet personalized PageRank", 2019
    relative = pulls_back = True
    fixed: Tensor

    def __init__(
        self,
        width: int,
        *,
        kappas: Sequence[float] | float = (0.9,),
        learn: bool = False,
        residual: str = "none",
        residual_width: int = 32,
        heads: int = 4,
        horizon: float = 1.0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        given = [kappas] if isinstance(kappas, int | float) else list(kappas)
        checked = [number(one, "kappas", above=-1.0, below=1.0) for one in given]
        if not checked or len(checked) > width:
            raise BadUsage(
                f"{len(checked)} coefficients for a state of {width} channels",
                code="E-SETTING",
                expected=f"from 1 to {width}",
            )
        spread = torch.tensor(
            [checked[channel * len(checked) // width] for channel in range(width)], dtype=torch.float64
        )
        self.register_buffer("fixed", spread)
        self.raw = nn.Parameter(torch.atanh(spread.clamp(-LARGEST, LARGEST)).float()) if learn else None
        self.residual = choice(residual, "residual", RESIDUALS)
        self.horizon = number(horizon, "horizon", above=0.0)
        self.flow: Flow | None = None
        if residual != "none":
            columns = whole(residual_width, "residual_width", at_least=1)
            if residual == "gat":
                self.flow = Flow(width, attention="nonlinear", heads=heads, generator=generator)
            self.inner = nn.Parameter(glorot(width, columns, generator))
            self.outer = nn.Parameter(torch.zeros(columns, width))
        self.linear, self.learns_rate = residual == "none", learn

    def kappa(self) -> Tensor:
        """The current κ, with a rest or without.  # [d]"""
        return self.fixed if self.raw is None else torch.tanh(self.raw)

    def coefficients(self) -> Tensor | None:
        return self.kappa() if self.linear else None

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundFilter(self, adjacency.to(initial.dtype), initial)

    def closed_kl(self, prior: Prior, diffusion: Diffusion) -> bool:
        """Whether all channels are the prior's own flow, so that the source is the only difference."""
        if not self.linear or self.learns_rate or not isinstance(prior, GraphOUPrior):
            return False
        same = bool(torch.allclose(self.fixed, torch.full_like(self.fixed, 1.0 - prior.teleport)))
        return same and diffusion.channel == "identity"

    def control(self, initial: Tensor) -> Tensor:
        return initial * (1.0 - self.kappa().to(initial.dtype).abs())

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """1 + max|κ|·‖Â‖; unknown with a rest."""
        if not self.linear:
            return float("inf")
        return 1.0 + float(self.kappa().detach().abs().max()) * operator_norm_bound(adjacency)

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        return 1.0 - float(self.kappa().detach().abs().min())

    def relaxation(self, adjacency: SparseMatrix) -> tuple[float, float, bool] | None:
        if not self.linear:
            return None
        reach = float(self.kappa().detach().abs().max()) * operator_norm_bound(adjacency)
        return 1.0, reach, adjacency.symmetric


class _BoundFilter:
    def __init__(self, drift: GraphFilterDrift, adjacency: SparseMatrix, initial: Tensor) -> None:
        self.adjacency = adjacency
        self.kappa = drift.kappa().to(initial.dtype)
        # with a separate κ: gradients are gathered at both tensors, and must not reach one through the other
        self.source = initial * (1.0 - drift.kappa().to(initial.dtype).abs())
        self.rest: tuple[Tensor, Tensor] | None = None
        tensors: tuple[Tensor, ...] = (self.kappa, self.source)
        if not drift.linear:
            self.rest = (drift.inner, drift.outer / drift.horizon)
            tensors += self.rest
        self.attention_at: FlowAt | None = None
        if drift.flow is not None:
            self.attention_at, more = drift.flow.bind(adjacency, initial)
            tensors += more
        self.tensors = tensors

    def unit_walk(self, initial: Tensor, steps: int) -> Tensor | None:
        """H after ``steps`` Euler steps of length one, under the filter alone.  # [N, S, d]"""
        if self.rest is not None:
            return None
        return walk_unit_steps(self.adjacency, initial, self.source, self.kappa, steps)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        heard = (self.adjacency @ h.reshape(h.shape[0], -1)).view(h.shape)
        field = torch.addcmul(self.source, heard, self.kappa) - h
        if self.rest is None:
            return field
        inner, outer = self.rest
        around = heard if self.attention_at is None else self.attention_at(h)(h)
        return field + torch.relu(around @ inner) @ outer
