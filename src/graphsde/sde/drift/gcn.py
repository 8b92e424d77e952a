"""Graph convolutions as drift, with an explicit gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from graphsde.base.arguments import number
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.drift.stack import ACTIVATIONS, StackedDrift
from graphsde.sde.field import BoundDrift, check_state, register_drift
from graphsde.sde.lipschitz import ACTIVATION_SLOPES, limit_spectral_norm, operator_norm_bound, spectral_norm_bound
from graphsde.sde.solvers.adjoint import Gathering, Kept

Item = TypeVar("Item")


class Scratch:
    """Scratch memory for a sparse product: reused, it stays in a cache."""

    def __init__(self) -> None:
        self.memory: Tensor | None = None

    def like(self, x: Tensor) -> Tensor | None:
        """Of the shape of ``x``; ``None`` if a graph is recorded, which may keep references."""
        if torch.is_grad_enabled():
            return None
        if self.memory is None or self.memory.shape != x.shape or self.memory.dtype != x.dtype:
            self.memory = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        return self.memory


class _BoundGCN:
    """A stack of convolutions at work; its tensors are w [d] where time is an input, then all weights [d, d], then the
    biases: the first one [S·d], as it follows a sparse product, which sees the paths side by side, the others [d]."""

    def __init__(self, drift: GCNDrift, adjacency: SparseMatrix, paths: int, masks: list[Tensor | None]) -> None:
        self.adjacency, self.activation, self.masks = adjacency, ACTIVATIONS[drift.activation], masks  # [N, S, d] each
        self.timed, self.scratch = drift.time_weight is not None, Scratch()
        time = () if drift.time_weight is None else (drift.time_weight,)
        biases = (drift.biases[0].repeat(paths), *drift.biases[1:])
        self.tensors: tuple[Tensor, ...] = (*time, *drift.limited_weights(), *biases)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.value(t, h, *self.tensors)

    def value(self, t: float, h: Tensor, *parameters: Tensor) -> Tensor:
        """At (t, h), with these instead of the tensors.  # [N, S, d] -> [N, S, d]"""
        if torch.is_grad_enabled():
            return _Evaluation.apply(self, t, h, *parameters)
        return self.run(t, h, parameters, None)

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        kept: list[Tensor] = []
        with torch.no_grad():
            return self.run(t, h, self.tensors, kept), tuple(kept)

    def split(self, parameters: Sequence[Item]) -> tuple[Item | None, Sequence[Item], Sequence[Item]]:
        """w, the weights, the biases, or anything in the same order."""
        rest = parameters[self.timed :]
        half = len(rest) // 2
        return (parameters[0] if self.timed else None), rest[:half], rest[half:]

    def run(self, t: float, h: Tensor, parameters: tuple[Tensor, ...], kept: list[Tensor] | None) -> Tensor:
        """Differentiable by autograd; what the explicit gradient needs is put into ``kept``."""
        n, s, d = h.shape
        tall, wide = (n * s, d), (n, s * d)
        time_weight, weights, biases = self.split(parameters)
        multiply = self.adjacency.__matmul__ if torch.is_grad_enabled() else self.adjacency.times
        flat = h.reshape(tall)
        room = self.scratch.like(flat)
        if time_weight is None:
            sent = torch.mm(flat, weights[0], out=room)
        else:
            sent = torch.addmm(time_weight * t, flat, weights[0], out=room)
        # in place: the backward pass of a sum needs neither side
        z = multiply(sent.view(wide)).add_(biases[0]).view(tall)
        for mask, weight, bias in zip(self.masks, weights[1:], biases[1:], strict=False):
            y = self.activation(z, room if kept is None or self.activation.keeps_input else None)
            x = y if mask is None else y * mask.view(tall)
            heard = multiply(x.view(wide)).view(tall)
            if kept is not None:
                kept += [z if self.activation.keeps_input else y, heard]
            z = torch.addmm(bias, heard, weight)
        last = self.masks[-1]
        return (z if last is None else z * last.view(tall)).view(h.shape)

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, into: Gathering, *parameters: Tensor) -> None:
        """Add the gradients of h and the parameters to what ``into`` holds."""
        n, s, d = h.shape
        tall, wide = (n * s, d), (n, s * d)
        _, weights, _ = self.split(parameters or self.tensors)
        time_total, weight_totals, bias_totals = self.split(into.tensors)
        back, share = self.adjacency.transposed(), into.share
        last = self.masks[-1]
        g = (grad if last is None else grad * last).contiguous().view(tall)
        for layer in range(len(weights) - 1, 0, -1):
            held, heard = kept[2 * layer - 2 : 2 * layer]
            _add_product(weight_totals[layer], heard, g, share)
            _add_sum(bias_totals[layer], g, share)
            sent = torch.mm(g, weights[layer].t(), out=self.scratch.like(g))
            g = back.times(sent.view(wide)).view(tall)
            mask = self.masks[layer - 1]
            if mask is not None:
                g.mul_(mask.view(tall))
            g = self.activation.pullback(g, held)
        g = g.view(wide)
        _add_sum(bias_totals[0], g, share)
        g = back.times(g).view(tall)
        _add_product(weight_totals[0], h.reshape(tall), g, share)
        _add_sum(time_total, g, share * t)
        if into.state is not None:
            into.state.view(tall).addmm_(g, weights[0].t(), beta=0.0 if into.fresh else 1.0, alpha=into.factor)


def _add_product(total: Tensor | None, left: Tensor, right: Tensor, factor: float) -> None:
    if total is not None:
        total.addmm_(left.t(), right, alpha=factor)


def _add_sum(total: Tensor | None, rows: Tensor, factor: float) -> None:
    if total is not None:
        total.add_(rows.sum(0), alpha=factor)


class _Evaluation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bound: _BoundGCN, t: float, h: Tensor, *parameters: Tensor) -> Tensor:
        kept: list[Tensor] = []
        value = bound.run(t, h, parameters, kept)
        ctx.bound, ctx.t, ctx.count = bound, t, 1 + len(parameters)
        ctx.save_for_backward(h, *parameters, *kept)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        inputs, kept = saved[: ctx.count], saved[ctx.count :]
        h, *parameters = inputs
        wanted = list(ctx.needs_input_grad[2:])
        if not torch.is_grad_enabled():
            sums = [torch.zeros_like(x) if want else None for x, want in zip(parameters, wanted[1:], strict=True)]
            state = torch.empty(h.shape, dtype=h.dtype, device=h.device) if wanted[0] else None
            into = Gathering(sums, 1.0, state, fresh=True)
            ctx.bound.pull(ctx.t, h, kept, grads[0], into, *parameters)
            return None, None, state, *sums
        # a second derivative is requested: leave both to autograd
        value = ctx.bound.run(ctx.t, h, tuple(parameters), None)
        asked = [x for x, want in zip(inputs, wanted, strict=True) if want]
        found = iter(torch.autograd.grad(value, asked, grads[0], create_graph=True))
        return None, None, *(next(found) if want else None for want in wanted)


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
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> drift = GCNDrift(8, generator=torch.Generator().manual_seed(0))
        >>> state = torch.zeros(adjacency.shape[0], 2, 8)
        >>> drift.bind(adjacency, state)(0.5, state).shape
        torch.Size([1797, 2, 8])
    """

    name = "gcn"
    summary = "stacked graph convolutions with time as an input"
    paper, year = "Poli et al., Graph neural ordinary differential equations", 2019
    kept_states = 4

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
        """The weights in use: shrunk to ``spectral_bound``.  # [d, d] each"""
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
