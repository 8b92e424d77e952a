"""Every way back is the exact derivative of the same discrete computation."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise, motion
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from graphsde.base.errors import BadUsage
from graphsde.sde import gradients
from graphsde.sde.gradients import segment_starts
from graphsde.sde.integrate import Path, integrate
from graphsde.testing.solvers import ConstantNoise, Field, ornstein_uhlenbeck

MODES = [
    ("sra1", "additive", "store"),
    ("sra1", "additive", "checkpoint"),
    ("sra1", "none", "checkpoint"),
    ("euler", "diagonal", "checkpoint"),
    ("milstein", "diagonal", "checkpoint"),
    ("srk", "diagonal", "checkpoint"),
    ("heun", "diagonal", "checkpoint"),
    ("rk4", "none", "checkpoint"),
    ("reversible-heun", "additive", "checkpoint"),
    ("reversible-heun", "additive", "reversible"),
    ("reversible-heun", "diagonal", "reversible"),
    ("reversible-heun", "none", "reversible"),
]


class Model:
    """Encoder, graph drift with the initial state as a source, learned noise, learned prior, decoder."""

    def __init__(self, nodes: int = 5, width: int = 2, paths: int = 2) -> None:
        generator = torch.Generator().manual_seed(0)
        self.shape = (nodes, paths, width)
        self.features = torch.randn(nodes, 3, generator=generator, dtype=DOUBLE)
        self.encoder = torch.randn(3, width, generator=generator, dtype=DOUBLE).requires_grad_()
        self.drift = GCNField(width, nodes, grad=True)
        self.size = torch.tensor(0.6, dtype=DOUBLE, requires_grad=True)
        self.pull = torch.tensor(0.8, dtype=DOUBLE, requires_grad=True)
        self.decoder = torch.randn(width, 2, generator=generator, dtype=DOUBLE).requires_grad_()
        self.parameters = [self.encoder, self.drift.first, self.drift.second, self.drift.bias, self.size, self.pull,
                           self.decoder]  # fmt: skip

    def solve(self, solver: str, kind: str, mode: str, steps: int = 7, save: object = "last") -> Path:
        start = torch.tanh(self.features @ self.encoder)[:, None].expand(self.shape)
        drift = copy.copy(self.drift)  # bound anew for every solve
        drift.initial = start
        drift.tensors = (drift.first, drift.second, drift.bias, start)
        noise = {"none": None, "additive": ConstantNoise(self.size), "diagonal": WavyNoise(self.size)}[kind]
        return integrate(
            drift, start, horizon=1.0, steps=steps, solver=solver, diffusion=noise, noise_kind=kind, save=save,
            brownian=motion(self.shape, steps), prior=ornstein_uhlenbeck(self.pull, 0.1), gradients=mode,
        )  # fmt: skip

    def loss(self, solver: str, kind: str, mode: str, **options: object) -> Tensor:
        path = self.solve(solver, kind, mode, **options)
        fit = torch.log_softmax(path.final @ self.decoder, -1)[..., 0].mean()
        extra = sum((state.sin().sum() for state in path.saved[:-1]), torch.zeros((), dtype=DOUBLE))
        return extra - fit + (0.0 if path.kl is None else 0.1 * path.kl.mean())

    def gradients(self, *arguments: str, **options: object) -> list[Tensor | None]:
        return list(torch.autograd.grad(self.loss(*arguments, **options), self.parameters, allow_unused=True))


def assert_same(want: list[Tensor | None], got: list[Tensor | None], rtol: float = 1e-10) -> None:
    for one, two in zip(want, got, strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            assert one.abs().max() > 1e-4  # a gradient that is zero would agree with anything
            assert torch.allclose(one, two, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(("solver", "kind", "mode"), MODES)
def test_gradcheck_through_encoder_drift_kl_and_decoder(solver: str, kind: str, mode: str) -> None:
    model = Model()
    used = [p for p in model.parameters if kind != "none" or (p is not model.size and p is not model.pull)]

    def loss(*values: Tensor) -> Tensor:
        # gradcheck perturbs its inputs in place, which are the model's own parameters
        return model.loss(solver, kind, mode, steps=3)

    assert torch.autograd.gradcheck(loss, used, eps=1e-6, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize(("solver", "kind", "mode"), MODES[1:])
@pytest.mark.parametrize("steps", [1, 2, 7, 16, 17])
def test_equal_to_stored(solver: str, kind: str, mode: str, steps: int) -> None:
    model = Model()
    stored = model.gradients(solver, kind, "store", steps=steps)
    assert_same(stored, model.gradients(solver, kind, mode, steps=steps), rtol=1e-6 if mode == "reversible" else 1e-10)
    assert torch.equal(model.solve(solver, kind, mode, steps).final, model.solve(solver, kind, "store", steps).final)


@pytest.mark.parametrize("solver", ["sra1", "euler", "reversible-heun"])
@pytest.mark.parametrize("steps", [1, 2, 5, 10, 23])
def test_large_states_are_kept_more_rarely(monkeypatch: pytest.MonkeyPatch, solver: str, steps: int) -> None:
    model = Model()
    stored = model.gradients(solver, "additive", "store", steps=steps)
    monkeypatch.setattr(gradients, "LARGE_BYTES", 0)
    assert_same(stored, model.gradients(solver, "additive", "checkpoint", steps=steps))
    kept = gradients.segment_starts(steps, gradients.FEWEST_OF_LARGE)
    assert len(kept) <= min(steps, len(gradients.segment_starts(steps))) and (steps < 10 or len(kept) < steps)


@pytest.mark.parametrize(("solver", "mode"), [("sra1", "checkpoint"), ("reversible-heun", "reversible")])
@pytest.mark.parametrize("save", ["all", 3])
def test_gradients_through_saved_states(solver: str, mode: str, save: object) -> None:
    model = Model()
    stored, other = (model.gradients(solver, "additive", m, steps=8, save=save) for m in ("store", mode))
    assert_same(stored, other, rtol=1e-8)


@pytest.mark.parametrize(("solver", "mode"), [("sra1", "checkpoint"), ("reversible-heun", "reversible")])
@pytest.mark.parametrize("part", ["kl alone", "state alone", "first state alone"])
def test_gradients_of_a_single_output(solver: str, mode: str, part: str) -> None:
    model = Model()

    def gradient(way: str) -> list[Tensor]:
        path = model.solve(solver, "additive", way, 6, save=3)
        chosen = {"kl alone": path.kl, "state alone": path.final, "first state alone": path.saved[1]}[part]
        return list(torch.autograd.grad(chosen.sum(), model.parameters[:6], materialize_grads=True, allow_unused=True))

    for want, got in zip(gradient("store"), gradient(mode), strict=True):
        assert torch.allclose(want, got, rtol=1e-9, atol=1e-12)


def test_only_what_asks_gets_a_gradient() -> None:
    drift = GCNField(2, 5, grad=True)
    drift.first.requires_grad_(False)
    path = integrate(drift, torch.ones(5, 1, 2, dtype=DOUBLE), horizon=1.0, steps=4, gradients="checkpoint")
    path.final.sum().backward()
    assert drift.first.grad is None
    assert drift.second.grad is not None


def test_a_tensor_beside_what_it_was_made_of_counts_once() -> None:
    raw = torch.tensor(0.3, dtype=DOUBLE, requires_grad=True)

    class Listed(ConstantNoise):
        def __init__(self) -> None:
            super().__init__(raw.exp())
            self.inverse = 1 / self.size
            self.tensors = (self.size, self.inverse)

        def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
            return difference * self.inverse

    grads = []
    for mode in ("store", "checkpoint"):
        path = integrate(
            Field(lambda t, h: torch.cos(h)), torch.ones(3, 2, 2, dtype=DOUBLE), horizon=1.0, steps=5,
            diffusion=Listed(), noise_kind="additive", brownian=motion((3, 2, 2), 5), gradients=mode,
            prior=ornstein_uhlenbeck(1.0, 0.0),
        )  # fmt: skip
        grads.append(torch.autograd.grad(path.final.sum() + path.kl.sum(), raw)[0])
    assert torch.allclose(grads[0], grads[1], rtol=1e-12)


def test_a_parameter_behind_a_derived_weight() -> None:
    """The drift uses a normalised weight and lists the raw one: its making belongs to every step's graph."""
    raw = torch.randn(2, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    grads = []
    for mode in ("store", "checkpoint"):
        weight = raw / raw.norm()
        drift = Field(lambda t, h, weight=weight: torch.tanh(h @ weight), (raw,))
        path = integrate(drift, torch.ones(3, 1, 2, dtype=DOUBLE), horizon=1.0, steps=5, gradients=mode)
        grads.append(torch.autograd.grad(path.final.sum(), raw)[0])
    assert torch.allclose(grads[0], grads[1], rtol=1e-12)


def test_tensors_that_would_be_counted_twice_are_refused() -> None:
    """A weight that is listed also made the initial state, together with one that is not listed."""
    shared, other = (torch.eye(2, dtype=DOUBLE).requires_grad_() for _ in range(2))
    start = (torch.ones(3, 1, 2, dtype=DOUBLE) @ shared) @ other
    drift = Field(lambda t, h: torch.tanh(h @ shared) + start, (shared, start))
    with pytest.raises(BadUsage, match="E-GRADIENTS"):
        integrate(drift, start, horizon=1.0, steps=4, gradients="checkpoint")


def test_parameters_changed_before_the_way_back_are_noticed() -> None:
    drift = GCNField(2, 5, grad=True)
    path = integrate(drift, torch.ones(5, 1, 2, dtype=DOUBLE), horizon=1.0, steps=4, gradients="checkpoint")
    with torch.no_grad():
        drift.first.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        path.final.sum().backward()


@pytest.mark.parametrize(("steps", "alive"), [(1, 10), (9, 10), (32, 10), (33, 11), (100, 21), (1000, 74)])
def test_starts_kept_and_states_of_a_segment_are_few_together(steps: int, alive: int) -> None:
    starts = segment_starts(steps)
    lengths = [end - start for start, end in pairwise([*starts, steps])]
    assert starts[0] == 0 and min(lengths) >= 1
    assert len(starts) == min(steps, alive)  # the more there are, the fewer steps are computed again
    assert max(before + length for before, length in enumerate(lengths)) <= alive + 1


def test_a_second_way_back_finds_the_same() -> None:
    start = torch.ones(5, 1, 2, dtype=DOUBLE, requires_grad=True)
    path = integrate(GCNField(2, 5, grad=True), start, horizon=1.0, steps=7, gradients="checkpoint")
    once, twice = (torch.autograd.grad(path.final.sum(), start, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, twice)


def test_states_changed_before_the_way_back_are_noticed() -> None:
    path = integrate(GCNField(2, 5, grad=True), torch.ones(5, 1, 2, dtype=DOUBLE), horizon=1.0, steps=4,
                     gradients="checkpoint", save="all")  # fmt: skip
    with torch.no_grad():
        path.saved[3].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        path.final.sum().backward()


class PeakMemory(TorchDispatchMode):
    """The largest amount of tensor memory that was alive at once, of what was made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                storage = x.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {key: kept for key, kept in self.alive.items() if not kept[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return out


def test_memory_grows_as_claimed() -> None:
    weight = torch.eye(16, requires_grad=True)
    start = torch.ones(200, 1, 16)

    def run(solver: str, mode: str, steps: int) -> float:
        drift = Field(lambda t, h: torch.tanh(torch.tanh(h @ weight) @ weight), (weight,))
        with PeakMemory() as memory:
            integrate(drift, start, horizon=1.0, steps=steps, solver=solver, gradients=mode).final.sum().backward()
        return memory.peak / (start.numel() * 4)

    stored = {steps: run("sra1", "store", steps) for steps in (9, 64)}
    kept = {steps: run("sra1", "checkpoint", steps) for steps in (9, 64)}
    undone = {steps: run("reversible-heun", "reversible", steps) for steps in (9, 64)}
    assert stored[64] > 5 * stored[9]
    assert kept[64] <= 16 + 14  # as many states as there are segments, and one step's graph
    assert kept[64] - kept[9] <= 16 - 9 + 1
    assert undone[64] == undone[9]
