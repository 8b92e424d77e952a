"""The basic layers, with explicit randomness, and how modules move to a device.

torch's own dropout and initialisers draw from a global generator. Here every draw has its generator, so that two
models in one process can't disturb each other and a run can be repeated to the bit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphsde.base.device import widest_type
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.mask_stream import MaskStream
from graphsde.nn.operators import rows_of
from graphsde.nn.over_parts import node_mean, total

Features = Tensor | SparseMatrix

PIECE = 1 << 15
"""Uniforms that are drawn at a time: they stay in the processor's cache until they are compared."""


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard normals; on the device ``meta`` only the size is wanted, and nothing is allocated or drawn."""
    if torch.get_default_device().type == "meta":
        return torch.empty(shape)
    return torch.randn(shape, generator=generator)


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Like :func:`normal`, between 0 and 1."""
    if torch.get_default_device().type == "meta":
        return torch.empty(shape)
    return torch.rand(shape, generator=generator)


def glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Glorot and Bengio's uniform initialisation.  # [rows, columns]"""
    if torch.get_default_device().type == "meta":  # arithmetic on that device imports torch's compiler
        return torch.empty(rows, columns)
    return (uniform((rows, columns), generator) * 2 - 1) * math.sqrt(6.0 / (rows + columns))


Randomness = torch.Generator | KeyedMasks | None
"""Where masks come from: a stream (training), the nodes themselves (samples at prediction), or nowhere (the mean)."""


def dropout(x: Features, rate: float, randomness: Randomness | MaskStream) -> Features:
    """Zero entries with probability ``rate`` and rescale the rest; without randomness, the identity.

    Sparse features stay sparse: only stored entries are dropped, which is the same in law.
    """
    if randomness is None or rate == 0.0:
        return x
    if isinstance(randomness, KeyedMasks):
        drawn = randomness.entries(x) if isinstance(x, SparseMatrix) else randomness.rows(x.shape[1])
        keep = (drawn >= rate).to(torch.float32).div_(1.0 - rate)
        return x.with_values(x.values * keep) if isinstance(x, SparseMatrix) else x * keep
    if isinstance(x, SparseMatrix):
        return x.with_values(_drop(x.values, rate, randomness))
    return _drop(x, rate, randomness)


def drop_nodes(x: Features, rate: float, randomness: Randomness) -> Features:
    """Zero whole rows with probability ``rate`` and rescale the rest: DropNode (Feng et al., NeurIPS 2020)."""
    if randomness is None or rate == 0.0:
        return x
    if isinstance(randomness, KeyedMasks):
        keep = (randomness.rows(1)[:, 0] >= rate).to(torch.float32)
    else:
        device = x.values.device if isinstance(x, SparseMatrix) else x.device
        keep = bernoulli_like(torch.empty(x.shape[0], device=device), 1.0 - rate, randomness)
    keep = keep / (1.0 - rate)
    return x.with_values(x.values * keep[rows_of(x)]) if isinstance(x, SparseMatrix) else x * keep[:, None]


def _drop(x: Tensor, rate: float, randomness: torch.Generator | MaskStream) -> Tensor:
    if isinstance(randomness, MaskStream):
        return x * randomness.keep(x.shape, rate, x.dtype).to(x.device)
    return x * bernoulli_like(x, 1.0 - rate, randomness).div_(1.0 - rate)


def bernoulli_like(x: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Ones with ``probability``, else zeros; drawn on the stream's device, so that every device has the same masks."""
    drawn = torch.empty_like(x, device=generator.device, requires_grad=False)
    if generator.device.type != "cpu":
        return drawn.bernoulli_(probability, generator=generator).to(x.device)
    # bernoulli_ compares the same uniforms in the same order, one by one and in twice the time; some processors have
    # another generator for it
    entries = drawn.as_strided((drawn.numel(),), (1,))
    uniforms = drawn.new_empty(min(drawn.numel(), PIECE), dtype=torch.float64)
    for piece in entries.split(PIECE):
        torch.lt(uniforms[: piece.numel()].uniform_(generator=generator), probability, out=piece)
    return drawn.to(x.device)


class Linear(nn.Module):
    """``x W + b`` for dense or sparse ``x``, Glorot weights, zero bias.  # [N, d] -> [N, h]"""

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(inputs, outputs, generator))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Features) -> Tensor:
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class GraphConv(Linear):
    r"""Graph convolution :math:`\hat A X W + b` (Kipf and Welling, ICLR 2017).

    Shapes: ``x`` [N, inputs], ``adjacency`` [N, N] normalised with self loops -> [N, outputs].
    """

    def forward(self, x: Features, adjacency: SparseMatrix) -> Tensor:  # type: ignore[override]
        # the narrower side is propagated: Â(XW) and (ÂX)W are equal, their cost is not
        if isinstance(x, Tensor) and x.shape[1] < self.weight.shape[1]:
            product = (adjacency @ x) @ self.weight
        else:
            product = adjacency @ (x @ self.weight)
        return product if self.bias is None else product + self.bias


class BatchNorm(nn.Module):
    """Every column with mean 0 and variance 1 over the nodes, then scaled and shifted (Ioffe and Szegedy, 2015).

    torch's own sums in an order that depends on the number of threads, and so do its last bits; here each column is
    summed by one thread.

    Args:
        width: columns.
        momentum: weight of the last batch in the running statistics, which are used at prediction.
        epsilon: added to the variance.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, *, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.momentum, self.epsilon = momentum, epsilon
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mean = node_mean(x)
            centred = x - mean
            variance, nodes = node_mean(centred.square()), total(x.shape[0])
            with torch.no_grad():
                unbiased = variance * (nodes / max(nodes - 1, 1))
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(unbiased, self.momentum)
        else:
            centred, variance = x - self.running_mean, self.running_var
        return centred * torch.rsqrt(variance + self.epsilon) * self.weight + self.bias


def features_on(device: torch.device, features: Features) -> Features:
    return features.on(device) if isinstance(features, SparseMatrix) else features.to(device)


def place(module: nn.Module, device: torch.device) -> dict[str, Tensor]:
    """Move ``module`` to ``device``; returns what lost precision there: float64 tensors, if it has no float64."""
    widest = widest_type(device)
    if widest is torch.float64:
        module.to(device)
        return {}
    narrowed = {name: one.detach().clone() for name, one in _named(module).items() if one.dtype is torch.float64}
    module._apply(lambda one: one.to(device, widest if one.dtype is torch.float64 else one.dtype))
    return narrowed


def bring_home(module: nn.Module, narrowed: dict[str, Tensor]) -> None:
    """Move ``module`` to the CPU; what has not changed since :func:`place` regains its full precision."""
    module.cpu()
    tensors = _named(module)
    for name, before in narrowed.items():
        now = tensors[name].detach()
        tensors[name].data = torch.where(before.to(now.dtype) == now, before, now.to(before.dtype))


def _named(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.state_dict(keep_vars=True))
