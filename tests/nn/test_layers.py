"""Layers against torch's own."""

from __future__ import annotations

import pytest
import torch

from graphsde.nn.layers import PIECE, BatchNorm, bernoulli_like


def test_batch_normalisation_is_torchs() -> None:
    x = torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    ours, theirs = BatchNorm(5).double(), torch.nn.BatchNorm1d(5).double()
    weights = torch.linspace(-1, 1, 200, dtype=torch.float64).view(40, 5)
    for _ in range(3):
        mine, reference = ours(x), theirs(x)
        torch.testing.assert_close(mine, reference)
        one, two = (torch.autograd.grad((y * weights).sum(), x)[0] for y in (mine, reference))
        torch.testing.assert_close(one, two)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    assert torch.autograd.gradcheck(BatchNorm(5).double(), x)


def test_one_row_has_no_spread() -> None:
    norm = BatchNorm(3)
    assert torch.isfinite(norm(torch.ones(1, 3))).all() and torch.isfinite(norm.running_var).all()


def drawn_at_once(x: torch.Tensor, probability: float, generator: torch.Generator) -> torch.Tensor:
    """In the order of memory, as torch's bernoulli_ does where it has no generator of its own."""
    uniforms = torch.rand(x.numel(), dtype=torch.float64, generator=generator)
    return (uniforms < probability).to(x.dtype).as_strided(x.shape, x.stride())


@pytest.mark.parametrize("size", [1, 17, PIECE, PIECE + 1])
@pytest.mark.parametrize("probability", [0.4, 0.5, 0.9])
def test_masks_do_not_depend_on_pieces_and_leave_the_stream_where_it_would_be(size: int, probability: float) -> None:
    ours, theirs = (torch.Generator().manual_seed(3) for _ in range(2))
    strided = torch.zeros(3, 5).T  # its memory is not in the order of its entries
    for x in (torch.zeros(size), torch.zeros(size, dtype=torch.float64), strided):
        found = bernoulli_like(x, probability, ours)
        assert found.dtype == x.dtype and torch.equal(found, drawn_at_once(x, probability, theirs))
    assert torch.equal(ours.get_state(), theirs.get_state())
