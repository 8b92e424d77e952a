"""Graph heat equation with a source as drift, and its matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphsde.base.arguments import choice, number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.attention import KERNELS, SHARING, EdgeSpace, ScaledDotAttention
from graphsde.nn.operators import random_walk, scaled_plus_identity, smoothing_scale
from graphsde.sde.field import BoundDrift, Diffusion, Drift, Prior, check_state, register_drift
from graphsde.sde.lipschitz import operator_norm_bound, stochastic_norm_bound
from graphsde.sde.prior import GraphOUPrior

LinearMap = Callable[[Tensor], Tensor]
"""X ↦ A X.  # [N, S, d] -> [N, S, d]"""
FlowAt = Callable[[Tensor], LinearMap]
"""The linear map that A is at a state."""

ATTENTION = ("none", "linear", "nonlinear")
OPERATORS = ("symmetric", "random-walk")


class Flow(nn.Module):
    """A in (A − I)H.

    Args:
        width: of the state.
        attention: ``none``: the operator itself; ``linear``: attention, evaluated once from the initial state;
            ``nonlinear``: evaluated at every call.
        operator: without attention, ``symmetric`` uses the operator unchanged and ``random-walk`` its row-stochastic
            twin.
        kernel: of the attention: ``scaled-dot``, ``cosine`` or ``exp-kernel``.
        conserving: normalise attention over receivers, so that its columns sum to one instead of its rows.
        sharing: how attention is normalised: ``softmax`` or ``squareplus``.
        heads, attention_width: of the attention; the width defaults to that of the state.
        generator: for the attention's weights.
    """

    def __init__(
        self,
        width: int,
        *,
        attention: str = "none",
        operator: str = "symmetric",
        kernel: str = "scaled-dot",
        conserving: bool = False,
        sharing: str = "softmax",
        heads: int = 1,
        attention_width: int | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.kind = choice(attention, "attention", ATTENTION)
        self.operator = choice(operator, "operator", OPERATORS)
        make = KERNELS[choice(kernel, "kernel", list(KERNELS))]
        self.attention: ScaledDotAttention | None = None
        if attention != "none":
            self.attention = make(width, attention_width or width, heads, generator)
            self.attention.conserving = conserving
            self.attention.sharing = choice(sharing, "sharing", SHARING)

    def matrix(self, adjacency: SparseMatrix) -> SparseMatrix:
        """A, if it does not depend on the state."""
        return random_walk(adjacency) if self.operator == "random-walk" else adjacency

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> tuple[FlowAt, tuple[Tensor, ...]]:
        """The flow at a state, and the tensors it uses besides the state."""
        attention = self.attention
        if attention is None:
            matrix = self.matrix(adjacency)

            def constant(x: Tensor) -> Tensor:
                return (matrix @ x.reshape(x.shape[0], -1)).view(x.shape)

            return (lambda h: constant), ()

        per_head, per_path = attention.spaces(adjacency, initial.shape[1])

        def average(weights: Tensor, x: Tensor) -> Tensor:
            return per_path.product(weights, x.reshape(per_path.size, x.shape[2])).view(x.shape)

        if self.kind == "nonlinear":
            return (lambda h: partial(average, attention(per_head, h))), tuple(attention.parameters())
        weights, _ = self.weights(adjacency, initial)
        return (lambda h: partial(average, weights)), (weights,)

    def weights(self, adjacency: SparseMatrix, h: Tensor) -> tuple[Tensor, EdgeSpace]:
        """The attention at a state, and the edges it belongs to.  # [N, S, d] -> [E·S]"""
        assert self.attention is not None
        per_head, per_path = self.attention.spaces(adjacency, h.shape[1])
        return self.attention(per_head, h), per_path

    def norm_bound(self, adjacency: SparseMatrix) -> float:
        if self.kind == "none":
            return operator_norm_bound(self.matrix(adjacency))
        if self.kind == "nonlinear" or self.attention is None:
            return math.inf
        return stochastic_norm_bound(adjacency.transposed() if self.attention.conserving else adjacency)


class Rate(nn.Module):
    """α: a fixed number, or the sigmoid of a learned one."""

    def __init__(self, value: float, learned: bool) -> None:
        super().__init__()
        self.fixed = number(value, "rate", above=0.0, **({"below": 1.0} if learned else {}))
        self.raw: nn.Parameter | None = None
        if learned:
            self.raw = nn.Parameter(torch.tensor(math.log(value / (1.0 - value))))

    def value(self) -> Tensor | float:
        return self.fixed if self.raw is None else torch.sigmoid(self.raw)

    def number(self) -> float:
        return self.fixed if self.raw is None else float(torch.sigmoid(self.raw.detach()))


SOURCES = ("identity", "smoothing")


@register_drift
class GraphHeatDrift(Drift):
    r"""The heat equation on the graph, with a source that pulls towards the initial state:
    :math:`f(H) = \alpha\,((1 - a) A - I) H + b\, S H(0)`.

    Paper: Chamberlain et al., "GRAND: graph neural diffusion", ICML 2021. Its form α(A − I)H + βH(0) is
    ``teleport=0, rate=α, source=β``; the default (α = 1, b = a) is the continuous form of personalised PageRank, whose
    eigenvalues lie in [−2 + a, −a] for the symmetric operator.

    Args:
        width: d of the state.
        teleport: a in [0, 1].
        rate: α > 0; with ``learn_rate`` the sigmoid of a learned scalar that starts there (then below 1).
        source: b; by default a. With ``learn_source`` a learned number that starts there.
        source_operator: S. ``identity``, or ``smoothing``: B = Â/ρ, the channel of the ``smoothed`` diffusion, with
            ρ² the mean over rows of the sum of squares.
        attention, operator, kernel, conserving, sharing, heads, attention_width: what A is, see :class:`Flow`.
        generator: for the attention's weights.

    ``linear`` is true without attention: then nothing that multiplies H depends on parameters other than ``rate``.
    With rate 1 and the symmetric operator, against ``graph-ou`` of the same teleport, it has a closed path KL.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = GraphHeatDrift(8, teleport=0.1, generator=torch.Generator().manual_seed(0))
        >>> state = torch.ones(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.0, state).shape
        torch.Size([1797, 2, 8])
        >>> drift.linear
        True
    """

    name = "graph-heat"
    summary = "graph diffusion with the initial state as source, optional attention"
    paper, year = "Chamberlain et al., GRAND: graph neural diffusion", 2021
    relative = pulls_back = True

    def __init__(
        self,
        width: int,
        *,
        teleport: float = 0.1,
        rate: float = 1.0,
        learn_rate: bool = False,
        source: float | None = None,
        learn_source: bool = False,
        source_operator: str = "identity",
        attention: str = "none",
        operator: str = "symmetric",
        kernel: str = "scaled-dot",
        conserving: bool = False,
        sharing: str = "softmax",
        heads: int = 1,
        attention_width: int | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.teleport = number(teleport, "teleport", at_least=0.0, at_most=1.0)
        self._fixed_source = self.teleport if source is None else number(source, "source")
        self.learned_source = nn.Parameter(torch.tensor(self._fixed_source)) if learn_source else None
        self.source_operator = choice(source_operator, "source_operator", SOURCES)
        self.rate = Rate(rate, learn_rate)
        self.flow = Flow(
            width,
            attention=attention,
            operator=operator,
            kernel=kernel,
            conserving=conserving,
            sharing=sharing,
            heads=heads,
            attention_width=attention_width,
            generator=generator,
        )
        self.linear, self.learns_rate = attention == "none", learn_rate

    @property
    def source(self) -> float | Tensor:
        """The current b."""
        return self._fixed_source if self.learned_source is None else self.learned_source

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        adjacency = adjacency.to(initial.dtype)
        source = self._source(adjacency, initial)
        if self.linear:
            return _BoundMatrix(self, self.flow.matrix(adjacency), source)
        if self.flow.kind == "linear" and _stores_diagonal(adjacency):
            return _BoundWeights(self, adjacency, initial, source)
        return _BoundAttention(self, adjacency, initial, source)

    def _source(self, adjacency: SparseMatrix, initial: Tensor) -> Tensor | None:
        if self.learned_source is None and self.source == 0.0:
            return None
        if self.source_operator == "identity":
            return initial * self.source
        smooth = adjacency @ initial.reshape(initial.shape[0], -1)
        return smooth.mul(self.source * smoothing_scale(adjacency)).view(initial.shape)

    def coefficients(self) -> Tensor | None:
        """1 − a, for the flow without attention at rate 1."""
        plain = self.linear and not self.learns_rate and self.rate.fixed == 1.0 and self.flow.operator == "symmetric"
        return torch.full((self.width,), 1.0 - self.teleport) if plain else None

    def closed_kl(self, prior: Prior, diffusion: Diffusion) -> bool:
        """Whether the prior is the same flow, so that the source is the only difference, and it uses the channel
        of the noise."""
        matched = isinstance(prior, GraphOUPrior) and prior.teleport == self.teleport
        return self.coefficients() is not None and matched and self.source_operator == diffusion.channel

    def control(self, initial: Tensor) -> Tensor:
        return self.source * initial

    @classmethod
    def suited(cls, options: Mapping[str, Any], channel: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        own = {} if channel is None else {"source_operator": channel}
        return own, {"teleport": options["teleport"]} if options.get("teleport") is not None else {}

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """α (1 + (1 − a)‖A‖); for attention computed from the initial state, ‖A‖ as for any stochastic matrix there."""
        norm = self.flow.norm_bound(adjacency)
        flow = 0.0 if self.teleport == 1.0 else (1.0 - self.teleport) * norm
        return math.inf if math.isinf(norm) else self.rate.number() * (1.0 + flow)

    def relaxation(self, adjacency: SparseMatrix) -> tuple[float, float, bool] | None:
        if not self.linear:
            return None
        reach = (1.0 - self.teleport) * self.flow.norm_bound(adjacency)
        return self.rate.number(), reach, self.flow.matrix(adjacency).symmetric

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        """How much f at a fixed H changes with H(0); infinite if attention is computed from it."""
        if self.flow.kind == "linear":
            return math.inf
        smooth = self.source_operator == "smoothing"
        norm = smoothing_scale(adjacency) * operator_norm_bound(adjacency) if smooth else 1.0
        source = self._fixed_source if self.learned_source is None else float(self.learned_source.detach())
        return abs(source) * norm


def _stores_diagonal(adjacency: SparseMatrix) -> bool:
    return int(adjacency.on_diagonal().sum()) == adjacency.shape[0]


class _BoundMatrix:
    """One sparse product and one sum: rate, teleport and identity are folded into the matrix."""

    def __init__(self, drift: GraphHeatDrift, matrix: SparseMatrix, source: Tensor | None) -> None:
        rate = drift.rate.value()
        folded = rate if isinstance(rate, float) else 1.0
        self.matrix = scaled_plus_identity(matrix, folded * (1.0 - drift.teleport), -folded)
        self.rate = rate if isinstance(rate, Tensor) else None
        self.source = None if source is None else source.reshape(source.shape[0], -1)
        self.tensors: tuple[Tensor, ...] = tuple(x for x in (self.source, self.rate) if x is not None)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        flow = self.matrix @ h.reshape(h.shape[0], -1)
        return _with_source(flow if self.rate is None else flow * self.rate, self.source, h)


def _with_source(flow: Tensor, source: Tensor | None, h: Tensor) -> Tensor:
    if source is not None:
        flow = flow.add_(source)  # in place: the backward pass of a sum needs neither side
    return flow.view(h.shape)


class _BoundWeights:
    """Like :class:`_BoundMatrix`, for weights that gradients must reach."""

    def __init__(self, drift: GraphHeatDrift, adjacency: SparseMatrix, initial: Tensor, source: Tensor | None) -> None:
        weights, self.space = drift.flow.weights(adjacency, initial)
        self_loops = (self.space.row == self.space.col).to(weights.dtype)
        self.weights = (weights * (1.0 - drift.teleport) - self_loops) * drift.rate.value()
        self.source = None if source is None else source.reshape(self.space.size, -1)
        self.tensors: tuple[Tensor, ...] = tuple(x for x in (self.weights, self.source) if x is not None)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        flow = self.space.product(self.weights, h.reshape(self.space.size, -1))
        return _with_source(flow, self.source, h)


class _BoundAttention:
    def __init__(self, drift: GraphHeatDrift, adjacency: SparseMatrix, initial: Tensor, source: Tensor | None) -> None:
        self.flow_at, tensors = drift.flow.bind(adjacency, initial)
        self.rate, self.keep, self.source = drift.rate.value(), 1.0 - drift.teleport, source
        own = (x for x in (self.source, self.rate) if isinstance(x, Tensor))
        self.tensors: tuple[Tensor, ...] = (*tensors, *own)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        flow = (self.keep * self.flow_at(h)(h) - h) * self.rate
        return flow if self.source is None else flow + self.source
