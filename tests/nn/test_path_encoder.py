"""The encoder of all paths against the same formula left to autograd, with the same masks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.graph.sparse import SparseMatrix
from graphsde.nn import path_encoder
from graphsde.nn.mask_stream import MaskStream, bit
from graphsde.nn.path_encoder import perceptron, projected

NODES, COLUMNS, HIDDEN, WIDTH = 23, 11, 6, 3


def features(kind: str) -> SparseMatrix | Tensor:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(NODES, COLUMNS)) * (rng.random((NODES, COLUMNS)) < 0.4)
    if kind == "dense":
        return torch.from_numpy(dense)
    return SparseMatrix.from_scipy(sp.csr_array(dense), dtype=torch.float64)


def weights() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((COLUMNS, HIDDEN), (HIDDEN,), (HIDDEN, WIDTH), (WIDTH,))
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes)


def dense_copies(x: SparseMatrix | Tensor, rate: float, masks: MaskStream, paths: int) -> list[Tensor]:
    """Features of every path as autograd would have them, from the next masks of the stream."""
    if rate == 0:
        return [x if isinstance(x, Tensor) else x.csr().to_dense()] * paths
    size = x.numel() if isinstance(x, Tensor) else x.nnz
    bits = masks.bits(size, rate, paths)
    found = []
    for path in range(paths):
        keep = bit(bits, path, torch.float64) / (1 - rate)
        found.append(
            x * keep.view(x.shape) if isinstance(x, Tensor) else x.with_values(x.values * keep).csr().to_dense()
        )
    return found


def plain(x: SparseMatrix | Tensor, w: tuple[Tensor, ...], rates: tuple[float, float], paths: int) -> Tensor:
    masks = MaskStream(0, "test")
    copies = dense_copies(x, rates[0], masks, paths)
    hidden = [torch.relu(copy @ w[0] + w[1]) for copy in copies]
    if rates[1]:
        bits = masks.bits(hidden[0].numel(), rates[1], paths)
        hidden = [h * bit(bits, s, h.dtype).view(h.shape) / (1 - rates[1]) for s, h in enumerate(hidden)]
    return torch.stack([h @ w[2] + w[3] for h in hidden], dim=1)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.0), (0.0, 0.4), (0.2, 0.7)])
def test_states_and_gradients_are_those_of_autograd(kind: str, rates: tuple[float, float]) -> None:
    x, w = features(kind), weights()
    made = perceptron(x, w[:2], w[2:], rates, MaskStream(0, "test"), 3)  # type: ignore[arg-type]
    expected = plain(x, w, rates, 3)
    torch.testing.assert_close(made, expected)
    ahead = torch.randn(made.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ours, theirs = torch.autograd.grad(made, w, ahead), torch.autograd.grad(expected, w, ahead)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.0, 0.4), (0.3, 0.0), (0.0, 0.0)])
def test_blocks_of_nodes_have_the_right_gradient(
    monkeypatch: pytest.MonkeyPatch, kind: str, rates: tuple[float, float]
) -> None:
    monkeypatch.setattr(path_encoder, "LARGE_BYTES", 0)
    monkeypatch.setattr(path_encoder, "BLOCK_BYTES", 2 * HIDDEN * 8 * 5)  # five nodes with two paths
    x, w = features(kind), weights()

    def encoded(*given: Tensor) -> Tensor:
        return perceptron(x, given[:2], given[2:], rates, MaskStream(0, "test"), 2)  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(encoded, w)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_without_dropout_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    x, w = features(kind), weights()
    whole = perceptron(x, w[:2], w[2:], (0.5, 0.5), None, 4)  # type: ignore[arg-type]
    assert whole.shape == (NODES, 1, WIDTH)
    torch.testing.assert_close(whole, plain(x, w, (0.0, 0.0), 1))
    monkeypatch.setattr(path_encoder, "LARGE_BYTES", 0)
    monkeypatch.setattr(path_encoder, "BLOCK_BYTES", HIDDEN * 8 * 4)
    torch.testing.assert_close(perceptron(x, w[:2], w[2:], (0.5, 0.5), None, 4), whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("paths", [1, 11])
def test_more_paths_than_bits_of_a_byte(paths: int) -> None:
    x, w = features("sparse"), weights()
    made = perceptron(x, w[:2], w[2:], (0.5, 0.5), MaskStream(0, "test"), paths)  # type: ignore[arg-type]
    assert made.shape == (NODES, paths, WIDTH)
    assert len({tuple(one.flatten().tolist()) for one in made.detach().unbind(1)}) == paths
    product = projected(x, w[0], 0.5, MaskStream(0, "test"), paths)
    assert product.shape == (paths, NODES, HIDDEN)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
def test_products_of_a_linear_encoder(kind: str, rate: float) -> None:
    x, w = features(kind), weights()[:1]
    made = projected(x, w[0], rate, MaskStream(0, "test"), 3)
    copies = dense_copies(x, rate, MaskStream(0, "test"), 3 if rate else 1)
    expected = torch.stack([copy @ w[0] for copy in copies])
    torch.testing.assert_close(made, expected)
    ahead = torch.randn(made.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad(one, w, ahead)[0] for one in (made, expected)))
