"""Reaction and diffusion as drift."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, choice, number, whole
from graphsde.dynamics.drift.flow import Flow, Rate
from graphsde.dynamics.drift.registry import register_drift
from graphsde.dynamics.field import BoundDrift, Drift

POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "fisher": lambda h: h * (1.0 - h),
    "allen-cahn": lambda h: h * (1.0 - h * h),
    "zeldovich": lambda h: h * (h - h * h),
}
REACTIONS = ("blurring-sharpening", *POINTWISE, "source")


@register_drift
class ReactionDrift(Drift):
    r"""Diffusion plus a reaction that works against over-smoothing: :math:`f(H) = -\alpha (I - A) H + \beta\, r(H)`.

    Paper: Choi et al., "GREAD: graph neural reaction-diffusion networks", ICML 2023.

    Args:
        width: d of the state.
        reaction: r. ``blurring-sharpening`` (A − A²)H; ``fisher`` H(1 − H), ``allen-cahn`` H(1 − H²) and ``zeldovich``
            H(H − H²), entry by entry; ``source`` H(0). The three in the middle grow without bound: they need small
            steps and a state of moderate size.
        rate: α > 0; with ``learn_rate`` the sigmoid of a learned scalar that starts there (then below 1).
        strength: β; with ``learn_strength`` a learned number per dimension that starts there.
        attention, operator, heads, attention_width: what A is, see :class:`Flow`.
        generator: for the attention's weights.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = ReactionDrift(8, generator=torch.Generator().manual_seed(0))
        >>> state = torch.ones(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.0, state).shape
        torch.Size([1797, 2, 8])
    """

    name = "reaction"
    summary = "graph diffusion with a reaction term"
    paper = "Choi et al., GREAD: graph neural reaction-diffusion networks"
    year = 2023

    def __init__(
        self,
        width: int,
        *,
        reaction: str = "blurring-sharpening",
        rate: float = 1.0,
        learn_rate: bool = False,
        strength: float = 1.0,
        learn_strength: bool = True,
        attention: str = "none",
        operator: str = "symmetric",
        heads: int = 1,
        attention_width: int | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.reaction = choice(reaction, "reaction", REACTIONS)
        self.rate = Rate(rate, learn_rate)
        start = torch.full((width,), number(strength, "strength"))
        self.strength: Tensor
        if learn_strength:
            self.strength = nn.Parameter(start)
        else:
            self.register_buffer("strength", start)
        self.flow = Flow(
            width,
            attention=attention,
            operator=operator,
            heads=heads,
            attention_width=attention_width,
            generator=generator,
        )
        self.linear = attention == "none" and reaction not in POINTWISE

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundReaction(self, adjacency.to(initial.dtype), initial)

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """From ‖A‖; for a symmetric A from its whole spectrum. Infinite for reactions that grow faster than H."""
        rate, norm = self.rate.number(), self.flow.norm_bound(adjacency)
        strengths = sorted({float(value) for value in self.strength.detach().double()})
        if math.isinf(norm):
            return math.inf
        if self.reaction == "source" or strengths == [0.0]:
            return rate * (1.0 + norm)
        if self.reaction in POINTWISE:
            return math.inf
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
        self.rate, self.strength = drift.rate.value(), drift.strength
        self.pointwise = POINTWISE.get(drift.reaction)
        # a node of its own in the graph of gradients, so that attention made from the same state is not made from it
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
        else:
            reaction = average(rough)  # (A − A²)H = A(H − AH)
        return reaction * self.strength - rough * self.rate
