r"""The encoder of all paths at once, :math:`H_s(0) = \mathrm{relu}(X_s W_1 + b_1)_s W_2 + b_2` with dropout at both s.

Paths differ only by their masks. Without dropout on features their product is computed once; with it, one byte
per entry holds the masks of eight paths, and is brought into the order of the transpose once for all of them. The
gradient is written out: it needs the hidden layer, which tells by its zeros what was dropped or cut off, and no mask.
On a large graph not even that is kept: nodes come in cache-sized blocks, and a block's hidden layer is computed
again in the backward pass, with its masks redrawn from the saved stream state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphsde.base.scratch import scratch_tensor
from graphsde.base.world import world
from graphsde.graph.sparse import BLOCK_BYTES, LARGE_BYTES, SparseMatrix
from graphsde.nn.mask_stream import COPIES, MaskStream, bit

Features = Tensor | SparseMatrix


class DroppedCopies:
    """Copies of features, one per path, each with its own dropped entries; one copy if nothing is dropped.

    Args:
        x: the features.  # [n, F]
        rate: of dropout.
        masks: source of masks; ``None`` drops nothing.
        paths: how many copies, at most :data:`COPIES`.
    """

    def __init__(self, x: Features, rate: float, masks: MaskStream | None, paths: int) -> None:
        self.x, self.scale, self.bits = x, 1.0, None
        self.count = 1
        if masks is not None and rate > 0.0:
            size = x.nnz if isinstance(x, SparseMatrix) else x.numel()
            values = x.values if isinstance(x, SparseMatrix) else x
            self.bits = masks.bits(size, rate, paths).to(values.device)
            self.scale, self.count = 1.0 / (1.0 - rate), paths

    def times(self, weight: Tensor) -> Iterator[Tensor]:
        """Each copy times ``weight``.  # [F, h] -> [n, h] each"""
        scaled = weight if self.bits is None else weight * self.scale
        if isinstance(self.x, SparseMatrix):
            for one in self._sparse(self.x, self.bits):
                yield one.times(scaled)
        else:
            for dense in self._dense(self.x):
                yield dense @ scaled

    def pulled(self, grads: Tensor) -> Tensor:
        """Σ_s copyₛᵀ gₛ, the gradient of ``weight``.  # [S, n, h] -> [F, h]"""
        if isinstance(self.x, SparseMatrix):
            turned = self.x.transposed()
            bits = None if self.bits is None else self.bits.index_select(0, self.x.transposed_order())
            parts = [one.times(grad) for one, grad in zip(self._sparse(turned, bits), grads, strict=True)]
        else:
            parts = [dense.t() @ grad for dense, grad in zip(self._dense(self.x), grads, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total if self.bits is None else total.mul_(self.scale)

    def _sparse(self, x: SparseMatrix, bits: Tensor | None) -> Iterator[SparseMatrix]:
        if bits is None:
            yield x
            return
        for copy in range(self.count):
            yield SparseMatrix(x.crow, x.col, bit(bits, copy, x.values.dtype).mul_(x.values), x.shape)

    def _dense(self, x: Tensor) -> Iterator[Tensor]:
        if self.bits is None:
            yield x
            return
        for copy in range(self.count):
            yield bit(self.bits, copy, x.dtype).view(x.shape).mul_(x)


class _Projected(torch.autograd.Function):
    """Copies times one weight.  # [S, N, h], or [1, N, h] where nothing is dropped"""

    @staticmethod
    def forward(ctx: Any, x: Features, rate: float, masks: MaskStream | None, paths: int, weight: Tensor) -> Tensor:
        ctx.x, ctx.rate, ctx.masks, ctx.paths = x, rate, masks, paths
        ctx.state = None if masks is None else masks.get_state()
        return torch.stack(list(DroppedCopies(x, rate, masks, paths).times(weight)))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None, None, Tensor]:
        copies = DroppedCopies(ctx.x, ctx.rate, _again(ctx.masks, ctx.state), ctx.paths)
        return None, None, None, None, copies.pulled(grads[0].contiguous())


class _Perceptron(torch.autograd.Function):
    """The whole encoder, block by block.  # [N, S, w], or [N, 1, w] where nothing is dropped"""

    @staticmethod
    def forward(
        ctx: Any, x: Features, rates: tuple[float, float], masks: MaskStream | None, paths: int, *weights: Tensor
    ) -> Tensor:
        second, bias = weights[2:]
        dropped = masks is not None and any(rates)
        ctx.x, ctx.rates, ctx.masks, ctx.paths = x, rates, masks, paths if dropped else 1
        ctx.states, kept = [], []
        blocks = _blocks(x, ctx.paths * weights[0].shape[1] * weights[0].element_size())
        wide = _even(second, _scale(rates[1], masks))
        shape = (x.shape[0], ctx.paths, second.shape[1])
        on_cpu = second.device.type == "cpu"
        out = scratch_tensor(shape, second.dtype, parts=world().parts) if on_cpu else second.new_empty(shape)
        for start, stop, part in blocks:
            ctx.states.append(None if masks is None else masks.get_state())
            _, hidden = _hidden(part, rates, masks, ctx.paths, weights)
            kept.append(hidden)
            # few columns: the transposed product is several times faster
            made = wide.t() @ hidden.flatten(0, 1).t()  # [w, S·n]
            made = made[: second.shape[1]].view(-1, ctx.paths, stop - start)
            torch.add(made.permute(2, 1, 0), bias, out=out[start:stop])
            if len(blocks) > 1:
                kept.clear()
        ctx.save_for_backward(*weights, *kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        weights, kept = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        first, _, second, _ = weights
        wide, width = _even(second, _scale(ctx.rates[1], ctx.masks)), second.shape[1]
        sums = [weight.new_zeros(weight.shape) for weight in (*weights[:2], wide.t(), weights[3])]
        row = ctx.paths * first.shape[1] * first.element_size()
        for (start, stop, part), state in zip(_blocks(ctx.x, row), ctx.states, strict=True):
            masks = _again(ctx.masks, state)
            if kept:
                copies, hidden = DroppedCopies(part, ctx.rates[0], masks, ctx.paths), kept[0]
            else:
                copies, hidden = _hidden(part, ctx.rates, masks, ctx.paths, weights)
            grad = wide.new_zeros(ctx.paths * (stop - start), wide.shape[1])  # [S·n, w]
            grad[:, :width].view(ctx.paths, -1, width).copy_(grads[0][start:stop].transpose(0, 1))
            sums[2] = torch.addmm(sums[2], grad.t(), hidden.flatten(0, 1))
            sums[3] += grad.sum(0)[:width]
            back = (grad @ wide.t()).view(hidden.shape)
            torch.ops.aten.threshold_backward.grad_input(back, hidden, 0, grad_input=back)
            sums[1] += back.flatten(0, 1).sum(0)
            sums[0] += copies.pulled(back if copies.count == len(back) else back.sum(0, keepdim=True))
        of_second = sums[2][:width].t() * _scale(ctx.rates[1], ctx.masks)
        return None, None, None, None, *sums[:2], of_second, sums[3]


def _hidden(
    x: Features, rates: tuple[float, float], masks: MaskStream | None, paths: int, weights: tuple[Tensor, ...]
) -> tuple[DroppedCopies, Tensor]:
    """The hidden layer, zero where dropped, without rescaling.  # [S, n, h]"""
    first, bias = weights[:2]
    copies = DroppedCopies(x, rates[0], masks, paths)
    hidden = first.new_empty(paths, x.shape[0], first.shape[1])
    for path, made in enumerate(copies.times(first)):
        torch.add(made, bias, out=hidden[path])
    if copies.count == 1:
        hidden[1:] = hidden[0]
    hidden.relu_()
    if masks is not None and rates[1] > 0.0:
        bits = masks.bits(hidden[0].numel(), rates[1], paths).to(hidden.device)
        for path in range(paths):
            hidden[path].mul_(bit(bits, path, hidden.dtype).view(hidden[path].shape))
    return copies, hidden


def _even(weight: Tensor, scale: float) -> Tensor:
    """The weight times ``scale``, with columns of zeros up to a multiple of four: for other numbers of columns BLAS has
    kernels whose sums depend on the number of threads.  # [h, w] -> [h, ⌈w/4⌉·4]"""
    even = weight.new_zeros(weight.shape[0], -(-weight.shape[1] // 4) * 4)
    torch.mul(weight, scale, out=even[:, : weight.shape[1]])
    return even


def _scale(rate: float, masks: MaskStream | None) -> float:
    return 1.0 if masks is None else 1.0 / (1.0 - rate)


def _blocks(x: Features, row_bytes: int) -> list[tuple[int, int, Features]]:
    """Ranges of nodes and their features; one range if the hidden layer of all can be kept."""
    nodes = x.shape[0]
    if nodes * row_bytes <= LARGE_BYTES:
        return [(0, nodes, x)]
    size = max(1, BLOCK_BYTES // row_bytes)
    if isinstance(x, SparseMatrix):
        return [(block.start, block.stop, part) for block, part in x.row_blocks(size)]
    return [(first, min(first + size, nodes), x[first : first + size]) for first in range(0, nodes, size)]


def _again(masks: MaskStream | None, state: Tensor | None) -> MaskStream | None:
    """A stream that repeats what ``masks`` drew from ``state`` on."""
    if masks is None or state is None:
        return None
    return masks.at(state)


def _groups(paths: int, dropped: bool) -> list[int]:
    """How many paths are computed at once, as many as a byte has masks for; one if nothing is dropped."""
    return [min(COPIES, paths - first) for first in range(0, paths, COPIES)] if dropped else [1]


def projected(x: Features, weight: Tensor, rate: float, masks: MaskStream | None, paths: int) -> Tensor:
    """Features of every path times ``weight``; differentiable in ``weight``, once.

    # [N, F] @ [F, h] -> [S, N, h], or [1, N, h] where nothing is dropped
    """
    groups = _groups(paths, masks is not None and rate > 0.0)
    parts = [_Projected.apply(x, rate, masks, group, weight) for group in groups]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def perceptron(
    x: Features,
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
    rates: tuple[float, float],
    masks: MaskStream | None,
    paths: int,
) -> Tensor:
    """The encoder with one hidden layer; differentiable in its weights, once.

    Args:
        x: the features.  # [N, F]
        first, second: weight and bias of both layers.
        rates: of dropout, of the features and of the hidden layer.
        masks: source of masks; ``None`` drops nothing.
        paths: number of initial states.

    Returns:
        One initial state per path, or a single one if nothing is dropped.  # [N, S, w] or [N, 1, w]
    """
    groups = _groups(paths, masks is not None and any(rates))
    parts = [_Perceptron.apply(x, rates, masks, group, *first, *second) for group in groups]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
