"""Every registered drift, prior and diffusion keeps its contract; and the contract notices when one does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphsde.base.registry import Registry
from graphsde.sde.diffusion import DIFFUSIONS, StateDependentDiffusion
from graphsde.sde.drift import DRIFTS, GCNDrift, GraphHeatDrift
from graphsde.sde.prior import PRIORS
from graphsde.testing.contract import Broken
from graphsde.testing.parts import DIFFUSION_CHECKS, DRIFT_CHECKS, PRIOR_CHECKS, Check, ComponentCase

DRIFT_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "gcn": [
        {},
        {"layers": 1, "time": False},
        {"layers": 3, "activation": "tanh", "dropout": 0.4},
        {"spectral_bound": 0.8, "dropout": 0.3, "dropout_last": True},
    ],
    "gat": [{}, {"heads": 1, "layers": 1, "time": False}, {"heads": 2, "layers": 2, "dropout": 0.4}],
    "graph-heat": [
        {},
        {"teleport": 0.0, "rate": 0.4, "source": 0.3, "learn_rate": True},
        {"operator": "random-walk", "source_operator": "smoothing"},
        {"attention": "linear", "heads": 2},
        {"attention": "nonlinear", "heads": 2, "rate": 0.5, "learn_rate": True},
    ],
    "reaction": [
        {},
        {"strength": 0.7, "learn_strength": False, "operator": "random-walk"},
        {"reaction": "fisher", "rate": 0.6, "learn_rate": True},
        {"reaction": "allen-cahn"},
        {"reaction": "zeldovich"},
        {"reaction": "source", "attention": "linear"},
        {"attention": "nonlinear", "heads": 2},
    ],
    "second-order": [{}, {"force": "graph-heat"}, {"force": "gat", "settings": {"heads": 2}, "friction": 0.3}],
    "graph-filter": [
        {},
        {"kappas": [0.9, 0.0, -0.5], "learn": True},
        {"residual": "gcn", "residual_width": 3, "horizon": 4.0},
        {"residual": "gat", "heads": 2},
    ],
}
PRIOR_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "ou": [{}, {"theta": 0.3, "mu": -2.0}],
    "constant": [{"drift": -7.0}],
    "graph-ou": [{}, {"teleport": 0.0}],
    "underdamped": [{"friction": 0.4, "stiffness": 2.0}],
}
DIFFUSION_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "constant": [{"sigma": 0.7}],
    "learned": [{"sigma": 0.7}],
    "per-dimension": [{"sigma": [0.5, 1.0, 2.0, 0.1]}, {"sigma": 0.3, "learn": True}, {"sigma": [0.5, 0.0, 2.0, 0.0]}],
    "state-dependent": [{"sigma": 0.7}],
    "smoothed": [{"sigma": 0.7}],
    "q-wiener": [{"sigma": 0.7}, {"modes": 3, "spectrum": "heat"}],
    "velocity": [{"sigma": 0.7}],
}


def cases(
    registry: Registry[Any], settings: dict[str, list[dict[str, Any]]], checks: list[Check], *, generator: bool
) -> list[Any]:
    found = []
    for name in registry:
        if not registry.get(name).__module__.startswith("graphsde."):
            continue
        for position, own in enumerate(settings[name]):
            case = ComponentCase(_maker(registry.get(name), own, generator))
            found += [pytest.param(check, case, id=f"{name}-{position}-{check.__name__}") for check in checks]
    return found


def _maker(cls: type, own: dict[str, Any], generator: bool) -> Callable[[int, torch.Generator], Any]:
    if generator:
        return lambda width, stream: cls(width, generator=stream, **own)
    return lambda width, stream: cls(width, **own)


@pytest.mark.parametrize(("check", "case"), cases(DRIFTS, DRIFT_SETTINGS, DRIFT_CHECKS, generator=True))
def test_drift(check: Check, case: ComponentCase[Any]) -> None:
    check(case)


@pytest.mark.parametrize(("check", "case"), cases(PRIORS, PRIOR_SETTINGS, PRIOR_CHECKS, generator=False))
def test_prior(check: Check, case: ComponentCase[Any]) -> None:
    check(case)


@pytest.mark.parametrize(("check", "case"), cases(DIFFUSIONS, DIFFUSION_SETTINGS, DIFFUSION_CHECKS, generator=False))
def test_diffusion(check: Check, case: ComponentCase[Any]) -> None:
    check(case)


class _Wrapped:
    """A bound drift with one thing done wrong."""

    def __init__(self, bound: Any, call: Callable[[Any, float, Tensor], Tensor], tensors: tuple[Tensor, ...]) -> None:
        self.bound, self.call, self.tensors = bound, call, tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.call(self.bound, t, h)


def _spoil(call: Callable[[Any, float, Tensor], Tensor], *, hide_tensors: bool = False, **facts: Any) -> type:
    class Spoilt(GCNDrift):
        """Paper: none."""

        def bind(self, *args: Any, **kwargs: Any) -> Any:
            bound = super().bind(*args, **kwargs)
            bound.start = args[1]  # type: ignore[attr-defined]
            return _Wrapped(bound, call, () if hide_tensors else bound.tensors)

    for name, value in facts.items():
        setattr(Spoilt, name, value)
    return Spoilt


BROKEN_DRIFTS: dict[str, type] = {
    "paths_do_not_mix": _spoil(lambda f, t, h: f(t, h.mean(1, keepdim=True).expand_as(h))),
    "permuting_nodes_permutes_the_result": _spoil(lambda f, t, h: f(t, h) + torch.arange(7)[:, None, None]),
    "leaves_its_arguments_alone": _spoil(lambda f, t, h: f(t, h.mul_(0.5))),
    "gradients_are_right": _spoil(lambda f, t, h: f(t, h.detach())),
    "tensors_lists_all_that_gradients_must_reach": _spoil(lambda f, t, h: f(t, h), hide_tensors=True),
    "the_lipschitz_bound_holds": _spoil(lambda f, t, h: f(t, h), lipschitz=lambda self, adjacency: 1e-3),
    "the_lipschitz_bound_is_above_the_local_one": _spoil(lambda f, t, h: f(t, h), lipschitz=lambda s, a: 1e-3),
    "the_bound_for_the_initial_state_holds": _spoil(lambda f, t, h: f(t, h) + f.start),
    "a_closed_kl_is_that_of_its_control": _spoil(
        lambda f, t, h: f(t, h), closed_kl=lambda s, p, g: g.channel is not None, control=lambda s, initial: initial
    ),
    "a_linear_drift_is_linear": _spoil(lambda f, t, h: f(t, h), linear=True),
    "is_finite_on_every_small_graph": _spoil(lambda f, t, h: f(t, h) / h.abs().sum()),
    "keeps_shape_and_dtype": _spoil(lambda f, t, h: f(t, h).float()),
    "is_registered_under_its_name": _spoil(lambda f, t, h: f(t, h)),
    "has_name_summary_paper_and_year": _spoil(lambda f, t, h: f(t, h), paper=""),
}


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.__name__ == name)


@pytest.mark.parametrize("name", BROKEN_DRIFTS)
def test_the_contract_notices(name: str) -> None:
    cls = BROKEN_DRIFTS[name]
    with pytest.raises(Broken):
        named(DRIFT_CHECKS, name)(ComponentCase(lambda width, generator: cls(width, generator=generator)))


def test_masks_drawn_at_every_call_are_noticed() -> None:
    cls = _spoil(lambda f, t, h: nn.functional.dropout(f(t, h), 0.5))
    with pytest.raises(Broken):
        named(DRIFT_CHECKS, "masks_are_drawn_once_per_solve")(ComponentCase(lambda w, g: cls(w, generator=g)))


def test_a_wrong_gradient_of_a_parameter_is_noticed() -> None:
    def forget(f: Any, t: float, h: Tensor) -> Tensor:
        biases = len(f.split(f.tensors)[2])
        return f.value(t, h, *f.tensors[:-biases], *(bias.detach() for bias in f.tensors[-biases:]))

    cls = _spoil(forget)
    with pytest.raises(Broken):
        named(DRIFT_CHECKS, "gradients_are_right")(ComponentCase(lambda w, g: cls(w, generator=g)))


class _Wrong(StateDependentDiffusion):
    """A diffusion whose bound form can be spoilt."""

    def __init__(self, width: int, **spoilt: Callable[..., Tensor]) -> None:
        super().__init__(width)
        self.spoilt = spoilt

    def bind(self, adjacency: Any) -> Any:
        bound = super().bind(adjacency)
        for name, method in self.spoilt.items():
            setattr(bound, name, partial(method, bound))
        return bound


BROKEN_DIFFUSIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "noise_enters_linearly": {"apply": lambda g, t, h, noise: g.scale(t, h) * noise.abs()},
    "noise_of_paths_does_not_mix": {"apply": lambda g, t, h, noise: g.scale(t, h) * noise.sum(1, keepdim=True)},
    "whitening_undoes_applying_or_is_refused": {"whiten": lambda g, t, h, difference: difference * g.scale(t, h)},
    "the_gain_multiplies": {"whiten": lambda g, t, h, difference: difference},
    "no_gain_is_no_noise": {"whiten": lambda g, t, h, difference: difference},
    "elementwise_scale_and_slope_are_right": {"scale_slope": lambda g, t, h: torch.zeros_like(h)},
    "its_keys_name_its_noise": {"keys": lambda g, node_keys: torch.zeros_like(node_keys)},
    "permuting_nodes_permutes_the_law": {
        "apply": lambda g, t, h, n: g.scale(t, h) * n * torch.arange(7)[:, None, None]
    },
    "gradients_of_noise_are_right": {"apply": lambda g, t, h, noise: g.scale(t, h).detach() * noise},
    "noise_keeps_shape_and_dtype": {"apply": lambda g, t, h, noise: (g.scale(t, h) * noise).double()},
}


@pytest.mark.parametrize("name", BROKEN_DIFFUSIONS)
def test_the_contract_notices_a_wrong_diffusion(name: str) -> None:
    with pytest.raises(Broken):
        named(DIFFUSION_CHECKS, name)(ComponentCase(lambda w, g: _Wrong(w, **BROKEN_DIFFUSIONS[name])))


def test_a_component_of_another_kind_is_told_apart() -> None:
    case = ComponentCase(lambda width, generator: GraphHeatDrift(width, generator=generator))
    with pytest.raises(Broken):
        named(DIFFUSION_CHECKS, "noise_of_paths_does_not_mix")(case)
