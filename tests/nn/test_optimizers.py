"""Adam and Adamax against torch's own, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphsde.nn.checkpoint import optimizer_tensors, restore_optimizer
from graphsde.nn.optimizers import OPTIMIZERS, Optimizer

REFERENCE: dict[str, Any] = {"adam": torch.optim.Adam, "adamax": torch.optim.Adamax}
SHAPES = ((33, 17), (17,), (1,), (5, 1, 3), (400, 64))
STEPS = 50

each = pytest.mark.parametrize("name", list(OPTIMIZERS))
both = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def parameters(dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in SHAPES]


def groups(params: list[Tensor]) -> list[dict[str, Any]]:
    return [
        {"params": params[:2], "weight_decay": 5e-3},
        {"params": iter(params[2:4]), "weight_decay": 0.0, "lr": 0.3, "betas": (0.8, 0.99), "eps": 1e-4},
        {"params": params[4:]},
    ]


def give_gradients(params: list[Tensor], step: int) -> None:
    """Of all sizes; the third parameter has none now and then, and none at first."""
    for place, param in enumerate(params):
        generator = torch.Generator().manual_seed(1000 * step + place)
        grad = torch.randn(param.shape, generator=generator, dtype=param.dtype)
        param.grad = None if place == 2 and step % 7 < 2 else grad * 10.0 ** (step % 9 - 6)


def same(mine: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


@each
@both
def test_steps_are_those_of_torch_to_the_bit(name: str, dtype: torch.dtype) -> None:
    mine, theirs = parameters(dtype), parameters(dtype)
    own, reference = OPTIMIZERS[name](groups(mine), lr=0.01), REFERENCE[name](groups(theirs), lr=0.01)
    for step in range(STEPS):
        for params, optimizer in ((mine, own), (theirs, reference)):
            give_gradients(params, step)
            optimizer.step()
        assert same(mine, theirs), step
    kept, expected = optimizer_tensors(own), optimizer_tensors(reference)
    assert list(kept) == list(expected)
    for key, tensor in expected.items():
        assert torch.equal(kept[key], tensor) and kept[key].dtype == tensor.dtype, key


@each
@both
def test_either_goes_on_from_what_the_other_has_saved(name: str, dtype: torch.dtype) -> None:
    whole = parameters(dtype)
    reference = REFERENCE[name](groups(whole), lr=0.01)
    for step in range(STEPS):
        give_gradients(whole, step)
        reference.step()
    for first, then in ((REFERENCE, OPTIMIZERS), (OPTIMIZERS, REFERENCE), (OPTIMIZERS, OPTIMIZERS)):
        params = parameters(dtype)
        optimizer = first[name](groups(params), lr=0.01)
        for step in range(STEPS):
            if step == 20:
                saved = {key: tensor.clone() for key, tensor in optimizer_tensors(optimizer).items()}
                before = {key: tensor.clone() for key, tensor in saved.items()}
                optimizer = then[name](groups(params), lr=0.01)
                restore_optimizer(optimizer, saved)
            give_gradients(params, step)
            optimizer.step()
        assert same(params, whole)
        if then is OPTIMIZERS:  # what was given is not written into
            assert all(torch.equal(saved[key], before[key]) for key in before)


def test_a_state_also_brings_its_groups() -> None:
    params = parameters(torch.float32)
    other = OPTIMIZERS["adam"](groups(params), lr=0.25)
    fresh = OPTIMIZERS["adam"](groups(params), lr=0.01)
    fresh.load_state_dict(other.state_dict())
    assert [group["lr"] for group in fresh.param_groups] == [0.25, 0.3, 0.25]


@each
def test_a_state_of_other_parameters_is_refused(name: str) -> None:
    params = parameters(torch.float32)
    optimizer = OPTIMIZERS[name](groups(params), lr=0.01)
    give_gradients(params, 3)
    optimizer.step()
    state = optimizer.state_dict()
    fewer = OPTIMIZERS[name]([{"params": params}], lr=0.01)
    with pytest.raises(ValueError, match="groups"):
        fewer.load_state_dict(state)
    swapped = OPTIMIZERS[name](groups([params[1], params[0], *params[2:]]), lr=0.01)
    with pytest.raises(ValueError, match="shape"):
        swapped.load_state_dict(state)


@each
def test_gradients_are_forgotten(name: str) -> None:
    params = parameters(torch.float32)
    optimizer: Optimizer = OPTIMIZERS[name](groups(params), lr=0.01)
    give_gradients(params, 3)
    optimizer.zero_grad()
    assert all(param.grad is None for param in params)
    before = [param.detach().clone() for param in params]
    optimizer.step()
    assert same([param.detach() for param in params], before) and not optimizer.state
