"""Reaction and diffusion as drift."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from graphsde.base.arguments import choice, number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import uniform
from graphsde.sde.drift.graph_heat import Flow, Rate
from graphsde.sde.field import BoundDrift, Drift, check_state, register_drift

POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "fisher": lambda h: h * (1.0 - h),
    "allen-cahn": lambda h: h * (1.0 - h * h),
    "zeldovich": lambda h: h * (h - h * h),
}
FILTERS = {"filter-bank": 0.0, "filter-bank-identity": 1.0}
"""How much of H itself is added to its high-pass part (I − A)H."""
REACTIONS = ("blurring-sharpening", *POINTWISE, "source", *FILTERS)


@register_drift
class ReactionDrift(Drift):
    r"""Diffusion plus a reaction that works against over-smoothing: :math:`f(H) = -\alpha (I - A) H + \beta\, r(H)`.

    Paper: Choi et al., "GREAD: graph neural reaction-diffusion networks", ICML 2023.

    Args:
        width: d of the state.
        reaction: r. ``blurring-sharpening`` (A − A²)H; ``fisher`` H(1 − H), ``allen-cahn`` H(1 − H²) and ``zeldovich``
            H(H − H²), entry by entry; ``source`` H(0); ``filter-bank`` (I − A)H and ``filter-bank-identity``
            (I − A)H + H, which with the diffusion are a low pass and a high pass. The three that act entry by entry
            grow without bound: they need small steps and a state of moderate size.
        rate: α > 0; with ``learn_rate`` the sigmoid of a learned scalar that starts there (then below 1).
        strength: β; with ``learn_strength`` a learned number per dimension that starts there.
        strength_spread: the starts are drawn uniformly from β ± this.
        bounded_strength: β is the sigmoid of what is learned (saved under ``strength``), so that it stays in (0, 1):
            a cubic reaction of negative strength diverges in finite time.
        attention, operator, kernel, heads, attention_width: what A is, see :class:`Flow`.
        generator: for the attention's weights.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = ReactionDrift(8, generator=torch.Generator().manual_seed(0))
        >>> state = torch.ones(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.0, state).shape
        torch.Size([1797, 2, 8])
    """

    name = "reaction"
    summary = "graph diffusion with a reaction term"
    paper, year = "Choi et al., GREAD: graph neural reaction-diffusion networks", 2023
    pulls_back = True

    def __init__(
        self,
        width: int,
        *,
        reaction: str = "blurring-sharpening",
        rate: float = 1.0,
        learn_rate: bool = False,
        strength: float = 1.0,
        learn_strength: bool = True,
        strength_spread: float = 0.0,
        bounded_strength: bool = False,
        attention: str = "none",
        operator: str = "symmetric",
        kernel: str = "scaled-dot",
        heads: int = 1,
        attention_width: int | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.reaction = choice(reaction, "reaction", REACTIONS)
        self.rate = Rate(rate, learn_rate)
        start = torch.full((width,), number(strength, "strength"))
        if number(strength_spread, "strength_spread", at_least=0.0) > 0.0:
            start = start + strength_spread * (uniform((width,), generator) * 2 - 1)
        self.bounded_strength = bounded_strength
        if bounded_strength:
            number(strength - strength_spread, "strength", above=0.0)
            number(strength + strength_spread, "strength", below=1.0)
            start = torch.logit(start)
        self.strength: Tensor
        if learn_strength:
            self.strength = nn.Parameter(start)
        else:
            self.register_buffer("strength", start)
        self.flow = Flow(
            width,
            attention=attention,
            operator=operator,
            kernel=kernel,
            heads=heads,
            attention_width=attention_width,
            generator=generator,
        )
        self.linear, self.learns_rate = attention == "none" and reaction not in POINTWISE, learn_rate

    def current_strength(self) -> Tensor:
        """The current β.  # [d]"""
        return torch.sigmoid(self.strength) if self.bounded_strength else self.strength

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        """How much f at a fixed H changes with H(0); infinite if attention is computed from it."""
        if self.flow.kind == "linear":
            return math.inf
        return float(self.current_strength().detach().abs().max()) if self.reaction == "source" else 0.0

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundReaction(self, adjacency.to(initial.dtype), initial)

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """From ‖A‖; for a symmetric A from its whole spectrum. Infinite for reactions that grow faster than H."""
        rate, norm = self.rate.number(), self.flow.norm_bound(adjacency)
        strengths = sorted({float(value) for value in self.current_strength().detach().cpu().double()})
        if math.isinf(norm):
            return math.inf
        if self.reaction == "source" or strengths == [0.0]:
            return rate * (1.0 + norm)
        if self.reaction in POINTWISE:
            return math.inf
        if self.reaction in FILTERS:
            own = FILTERS[self.reaction]
            return max(abs(rate - strength) * (1.0 + norm) + own * abs(strength) for strength in strengths)
        matrix_is_symmetric = self.linear and self.flow.matrix(adjacency).symmetric
        bound = _bound_on_spectrum if matrix_is_symmetric else _bound_of_sum
        return max(bound(rate, strength, norm) for strength in strengths)


def _bound_of_sum(rate: float, strength: float, norm: float) -> float:
    return rate * (1.0 + norm) + abs(strength) * (norm + norm * norm)


def _bound_on_spectrum(rate: float, strength: float, norm: float) -> float:
    """max |α(λ − 1) + β(λ − λ²)| over |λ| ≤ norm: at the ends or where the parabola turns."""
    places = [-norm, norm]
    if strength != 0.0 and abs(turn := (rate + strength) / (2.0 * strength)) < norm:
        places.append(turn)
    return max(abs((x - 1.0) * (rate - strength * x)) for x in places)


class _BoundReaction:
    def __init__(self, drift: ReactionDrift, adjacency: SparseMatrix, initial: Tensor) -> None:
        self.flow_at, tensors = drift.flow.bind(adjacency, initial)
        self.rate, self.strength = drift.rate.value(), drift.current_strength()
        self.pointwise, self.own = POINTWISE.get(drift.reaction), FILTERS.get(drift.reaction)
        # a separate node in the autograd graph, so that attention computed from the same state does not depend on it
        self.source = initial.view(initial.shape) if drift.reaction == "source" else None
        own = (x for x in (self.rate, self.strength, self.source) if isinstance(x, Tensor))
        self.tensors: tuple[Tensor, ...] = (*tensors, *own)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        average = self.flow_at(h)
        rough = h - average(h)
        if self.source is not None:
            reaction = self.source
        elif self.pointwise is not None:
            reaction = self.pointwise(h)
        elif self.own is not None:
            reaction = rough + h if self.own else rough
        else:
            reaction = average(rough)  # (A − A²)H = A(H − AH)
        return reaction * self.strength - rough * self.rate
