"""Graph convolutions as drift."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, number
from graphsde.dynamics.drift.activations import ACTIVATIONS
from graphsde.dynamics.drift.convolutions import Stack
from graphsde.dynamics.drift.registry import register_drift
from graphsde.dynamics.drift.stack import StackedDrift
from graphsde.dynamics.field import BoundDrift
from graphsde.dynamics.gathering import Gathering, Kept
from graphsde.dynamics.lipschitz import (
    ACTIVATION_SLOPES,
    limit_spectral_norm,
    operator_norm_bound,
    spectral_norm_bound,
)


@register_drift
class GCNDrift(StackedDrift):
    r"""One to three graph convolutions, :math:`f(t, H) = \hat A\,\phi(\hat A [H, t] W_1 + b_1) W_2 + b_2`.

    Paper: Poli et al., "Graph neural ordinary differential equations", 2019.

    Args:
        width, layers, activation, time, dropout, dropout_last, generator: see :class:`StackedDrift`.
        spectral_bound: if given, the layers' weights are shrunk when the drift is bound, so that the product of their
            spectral norms, and with ‖Â‖ ≤ 1 the Lipschitz constant without dropout, is at most this.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = GCNDrift(8, generator=torch.Generator().manual_seed(0))
        >>> state = torch.zeros(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.5, state).shape
        torch.Size([1797, 2, 8])
    """

    name = "gcn"
    summary = "stacked graph convolutions with time as an input"
    paper = "Poli et al., Graph neural ordinary differential equations"
    year = 2019

    def __init__(
        self,
        width: int,
        *,
        layers: int = 2,
        activation: str = "softplus",
        time: bool = True,
        dropout: float = 0.0,
        dropout_last: bool = False,
        spectral_bound: float | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__(
            width,
            layers=layers,
            activation=activation,
            time=time,
            dropout=dropout,
            dropout_last=dropout_last,
            generator=generator,
        )
        self.spectral_bound = None if spectral_bound is None else number(spectral_bound, "spectral_bound", above=0.0)

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundGCN(self, adjacency.to(initial.dtype), initial.shape[1], self.draw_masks(initial, generator))

    def limited_weights(self) -> list[Tensor]:
        """The weights as they are used: shrunk to ``spectral_bound``.  # [d, d] each"""
        if self.spectral_bound is None:
            return list(self.weights)
        share = self.spectral_bound ** (1.0 / self.layers)
        return [limit_spectral_norm(weight, share) for weight in self.weights]

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """∏ ‖Â‖‖W_l‖ times the activations' slopes: valid without dropout; with it, times (1 − rate)^{-masks}."""
        bound = ACTIVATION_SLOPES[self.activation] ** (self.layers - 1)
        for weight in self.limited_weights():
            bound *= spectral_norm_bound(weight)
        return bound * operator_norm_bound(adjacency) ** self.layers


class _BoundGCN:
    def __init__(self, drift: GCNDrift, adjacency: SparseMatrix, paths: int, masks: list[Tensor | None]) -> None:
        self.masks = masks
        self.time_weight, self.weights = drift.time_weight, drift.limited_weights()
        # the first bias follows the sparse product, which sees the paths side by side
        self.biases = [drift.biases[0].repeat(paths), *drift.biases[1:]]
        self.stack = Stack(adjacency, ACTIVATIONS[drift.activation], tuple(masks), timed=self.time_weight is not None)
        self.tensors: tuple[Tensor, ...] = self._parameters()

    def _parameters(self) -> tuple[Tensor, ...]:
        time = () if self.time_weight is None else (self.time_weight,)
        return (*time, *self.weights, *self.biases)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.stack.value(t, h, *self._parameters())

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        kept: list[Tensor] = []
        with torch.no_grad():
            return self.stack.run(t, h, self.tensors, kept), tuple(kept)

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, into: Gathering) -> None:
        self.stack.pull(t, h, self.tensors, kept, grad, into)
