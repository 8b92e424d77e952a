"""Layers against torch's own."""

from __future__ import annotations

import torch

from graphsde.nn.layers import BatchNorm


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
