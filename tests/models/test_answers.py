"""Probabilities of samples, laid out for speed, against the plain formula."""

from __future__ import annotations

import pytest
import torch

from graphsde.models.answers import _of_samples


@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 300, 7), (3, 40, 1), (2, 0, 4)])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 4.0])
def test_they_are_a_softmax_in_double_precision(shape: tuple[int, ...], temperature: float) -> None:
    logits = 5.0 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    expected = torch.softmax(logits.double() / temperature, -1).float()
    found = _of_samples(logits, temperature)
    assert found.is_contiguous()
    torch.testing.assert_close(found, expected, rtol=2e-7, atol=0.0)
