"""What every drift, prior and diffusion guarantees, as checks for your own.

Example: ``gs.testing.check_drift(MyDrift)``, or one by one in a test file of yours::

    import pytest
    from graphsde.testing.parts import DRIFT_CHECKS, ComponentCase

    CASE = ComponentCase(lambda width, generator: MyDrift(width, generator=generator))

    @pytest.mark.parametrize("check", DRIFT_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(CASE)

A prior is made from ``lambda width, generator: MyPrior(width)``, and so is a diffusion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import numpy_stream, torch_stream
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.field import (
    DIFFUSIONS,
    DRIFTS,
    PRIORS,
    BoundDiffusion,
    BoundDrift,
    Component,
    Diffusion,
    Drift,
    ElementwiseDiffusion,
    Prior,
)
from graphsde.testing.contract import Broken, contract, expect, run_checks, untouched_randomness

NODES, PATHS, TIME = 7, 2, 0.3
ComponentT = TypeVar("ComponentT", bound=Component)
Check = Callable[["ComponentCase"], None]
DRIFT_CHECKS: list[Check] = []
PRIOR_CHECKS: list[Check] = []
DIFFUSION_CHECKS: list[Check] = []


class ComponentCase(Generic[ComponentT]):
    """A way to make the component, and small graphs and states to try it on.

    Args:
        make: from a width and a generator.
        width: a width that the component accepts.
    """

    def __init__(self, make: Callable[[int, torch.Generator], ComponentT], *, width: int = 4) -> None:
        self.make, self.width = make, width

    def fresh(self) -> ComponentT:
        return self.make(self.width, torch_stream(0, "contract", "weights"))

    def shaken(self, dtype: torch.dtype = torch.float64) -> ComponentT:
        """With every parameter changed, so that those that start at zero matter."""
        component = self.fresh().to(dtype)
        stream = torch_stream(0, "contract", "shake")
        with torch.no_grad():
            for parameter in component.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=stream).to(dtype), alpha=0.5)
        return component

    def state(self, seed: int = 0, paths: int = PATHS, *, nodes: int = NODES, scale: float = 1.0) -> Tensor:
        stream = torch_stream(seed, "contract", "state")
        return scale * torch.randn(nodes, paths, self.width, generator=stream, dtype=torch.float64)


def small_graph(order: Sequence[int] | None = None, *, edges: bool = True) -> SparseMatrix:
    """Seven nodes, the last without a neighbour; renumbered if asked.  # [7, 7]"""
    upper = np.triu(numpy_stream(0, "contract", "graph").random((NODES, NODES)) < 0.45, 1)
    upper[:, -1] = False
    dense = (upper | upper.T) & edges
    if order is not None:
        dense = dense[np.ix_(order, order)]
    return SparseMatrix.from_scipy(
        Adjacency(sp.csr_array(dense.astype(np.float32))).normalized, symmetric=True, dtype=torch.float64
    )


def close(one: Tensor, two: Tensor, words: str, *, within: float = 1e-9) -> None:
    expect(one.shape == two.shape, f"{words}: shapes {tuple(one.shape)} and {tuple(two.shape)}")
    one, two = one.detach(), two.detach()
    gap = float((one - two).abs().max()) if one.numel() else 0.0
    expect(gap <= within * (1.0 + float(two.abs().max())), f"{words}: differ by {gap:.2g}")


def bind_field(component: Component, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
    if not isinstance(component, Drift | Prior):
        raise Broken(f"{type(component).__name__} is neither a Drift nor a Prior")
    return component.bind(adjacency, initial)


def bind_diffusion(component: Component, adjacency: SparseMatrix) -> BoundDiffusion:
    if not isinstance(component, Diffusion):
        raise Broken(f"{type(component).__name__} is not a Diffusion")
    return component.bind(adjacency)


def gradcheck(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    """Gradients of ``inputs`` (parameters among them) against finite differences along random directions."""
    good = torch.autograd.gradcheck(function, inputs, fast_mode=True, raise_exception=False)
    expect(good, "gradients equal finite differences")


def gradients_agree(
    words: str, output: Tensor, tensors: tuple[Tensor, ...], sources: Sequence[Tensor], seed: int = 0
) -> None:
    """The gradient of ``sources`` is the same whether taken directly or gathered at ``tensors`` first."""
    if not output.requires_grad:
        return
    weight = torch.randn(output.shape, generator=torch_stream(seed, "contract", "weight"), dtype=output.dtype)
    direct = torch.autograd.grad(output, list(sources), weight, allow_unused=True, retain_graph=True)
    listed = [tensor for tensor in tensors if tensor.requires_grad]
    gathered: tuple[Tensor | None, ...] = (None,) * len(sources)
    if listed:
        at = torch.autograd.grad(output, listed, weight, allow_unused=True, retain_graph=True)
        reached = [(tensor, grad) for tensor, grad in zip(listed, at, strict=True) if grad is not None]
        if reached:
            outs, grads = zip(*reached, strict=True)
            gathered = torch.autograd.grad(outs, list(sources), grads, allow_unused=True, retain_graph=True)
    for source, one, two in zip(sources, direct, gathered, strict=True):
        zero = torch.zeros_like(source)
        close(zero if two is None else two, zero if one is None else one, words)


EVERYWHERE = (DRIFT_CHECKS, PRIOR_CHECKS, DIFFUSION_CHECKS)


@contract(*EVERYWHERE)
def has_name_summary_paper_and_year(case: ComponentCase[Component]) -> None:
    one = case.fresh()
    expect(one.name and one.summary and one.paper and 1700 < one.year < 2100, "name, summary, paper, year")
    expect("Paper:" in (type(one).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract(*EVERYWHERE)
def is_registered_under_its_name(case: ComponentCase[Component]) -> None:
    one = case.fresh()
    registry = DRIFTS if isinstance(one, Drift) else DIFFUSIONS if isinstance(one, Diffusion) else PRIORS
    expect(one.name in registry and registry.get(one.name) is type(one), "register it with @gs.register")


@contract(*EVERYWHERE)
def equal_generators_make_equal_weights(case: ComponentCase[Component]) -> None:
    one, two = case.fresh().state_dict(), case.fresh().state_dict()
    expect(one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one), "same seed, same weights")


@contract(*EVERYWHERE)
def making_it_does_not_touch_global_randomness(case: ComponentCase[Component]) -> None:
    with untouched_randomness():
        case.fresh()


@contract(*EVERYWHERE)
def can_be_measured_without_being_made(case: ComponentCase[Component]) -> None:
    with torch.device("meta"):
        ghost = case.fresh()
    sizes = {name: tensor.shape for name, tensor in ghost.state_dict().items()}
    expect(sizes == {name: t.shape for name, t in case.fresh().state_dict().items()}, "sizes on the meta device")


FIELDS = (DRIFT_CHECKS, PRIOR_CHECKS)


@contract(*FIELDS)
def keeps_shape_and_dtype(case: ComponentCase[Component]) -> None:
    for dtype in (torch.float32, torch.float64):
        component, adjacency = case.shaken(dtype), small_graph().to(dtype)
        for paths in (1, 3):
            h = case.state(paths=paths).to(dtype)
            value = bind_field(component, adjacency, h)(TIME, h)
            expect(value.shape == h.shape and value.dtype == dtype, f"[N, S, d] of {dtype} in, the same out")


@contract(*FIELDS)
def is_finite_on_every_small_graph(case: ComponentCase[Component]) -> None:
    for adjacency in (small_graph(), small_graph(edges=False)):
        for h in (case.state(), torch.zeros_like(case.state()), case.state(scale=30.0)):
            expect(torch.isfinite(bind_field(case.shaken(), adjacency, h)(TIME, h)).all(), "finite values")


@contract(*FIELDS)
def permuting_nodes_permutes_the_result(case: ComponentCase[Component]) -> None:
    component, h, start = case.shaken(), case.state(1), case.state(2)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    value = bind_field(component, small_graph(), start)(TIME, h)
    moved = bind_field(component, small_graph(order.tolist()), start[order])(TIME, h[order])
    close(moved, value[order], "a renumbered graph")


@contract(*FIELDS)
def paths_do_not_mix(case: ComponentCase[Component]) -> None:
    component, h, start = case.shaken(), case.state(1, 3), case.state(2, 3)
    together = bind_field(component, small_graph(), start)(TIME, h)
    for k in range(3):
        alone = bind_field(component, small_graph(), start[:, k : k + 1])(TIME, h[:, k : k + 1])
        close(alone, together[:, k : k + 1], f"path {k} alone and among others")


@contract(*FIELDS)
def binding_twice_gives_the_same_bits(case: ComponentCase[Component]) -> None:
    component, adjacency, h = case.shaken(), small_graph(), case.state()
    values = [bind_field(component, adjacency, h)(TIME, h) for _ in range(2)]
    expect(torch.equal(*values), "two bindings without a generator are equal")


@contract(*FIELDS)
def leaves_its_arguments_alone(case: ComponentCase[Component]) -> None:
    h, start, adjacency = case.state(1), case.state(2), small_graph()
    before = [x.clone() for x in (h, start, adjacency.values)]
    bound = bind_field(case.shaken(), adjacency, start)
    one, two = bound(TIME, h), bound(TIME, h)
    expect(torch.equal(one, two), "a second call gives the same bits")
    after = (h, start, adjacency.values)
    expect(all(torch.equal(x, y) for x, y in zip(before, after, strict=True)), "nothing is changed in place")


@contract(*FIELDS)
def strides_do_not_matter(case: ComponentCase[Component]) -> None:
    h = case.state(1)
    bound = bind_field(case.shaken(), small_graph(), case.state(2))
    close(bound(TIME, h.permute(2, 0, 1).contiguous().permute(1, 2, 0)), bound(TIME, h), "a state with other strides")


@contract(*FIELDS)
def gradients_are_right(case: ComponentCase[Component]) -> None:
    component, adjacency = case.shaken(), small_graph()
    parameters = tuple(component.parameters())

    def value(h: Tensor, start: Tensor, *_: Tensor) -> Tensor:
        return bind_field(component, adjacency, start)(TIME, h)

    gradcheck(value, (case.state(1, 1).requires_grad_(), case.state(2, 1).requires_grad_(), *parameters))


@contract(*FIELDS)
def tensors_lists_all_that_gradients_must_reach(case: ComponentCase[Component]) -> None:
    component, start, h = case.shaken(), case.state(2).requires_grad_(), case.state(1).requires_grad_()
    made = start * 1.0
    bound = bind_field(component, small_graph(), made)
    gradients_agree("gathered at 'tensors'", bound(TIME, h), bound.tensors, (start, *component.parameters()))


@contract(DRIFT_CHECKS)
def the_lipschitz_bound_holds(case: ComponentCase[Drift]) -> None:
    drift, adjacency, start = case.shaken(), small_graph(), case.state(2)
    bound = drift.lipschitz(adjacency)
    expect(bound >= 0, f"a bound, not {bound}")
    if math.isinf(bound):
        return
    field = drift.bind(adjacency, start)
    with torch.no_grad():
        for seed in range(20):
            one, two = case.state(seed, scale=3.0), case.state(seed + 100, scale=3.0 * 0.3**seed)
            moved = float((field(TIME, one + two) - field(TIME, one)).norm())
            limit = bound * float(two.norm()) * (1 + 1e-9) + 1e-12 * float(one.norm())
            expect(moved <= limit, f"two states {float(two.norm()):.3g} apart move apart by {moved:.3g} > {limit:.3g}")


@contract(DRIFT_CHECKS)
def the_lipschitz_bound_is_above_the_local_one(case: ComponentCase[Drift]) -> None:
    drift, adjacency, start = case.shaken(), small_graph(), case.state(2, 1)
    bound = drift.lipschitz(adjacency)
    if math.isinf(bound):
        return
    field = drift.bind(adjacency, start)
    for seed in range(2):
        h = case.state(seed, 1)
        jacobian = torch.autograd.functional.jacobian(lambda x: field(TIME, x), h).reshape(h.numel(), h.numel())
        local = float(torch.linalg.matrix_norm(jacobian, ord=2))
        expect(local <= bound * (1 + 1e-9), f"norm of the derivative {local:.6g}, bound {bound:.6g}")


@contract(DRIFT_CHECKS)
def a_linear_drift_is_linear(case: ComponentCase[Drift]) -> None:
    drift, one, two = case.shaken(), case.state(3), case.state(4)
    field = drift.bind(small_graph(), case.state(2))
    if not drift.linear:
        return
    zero = field(TIME, torch.zeros_like(one))
    close(field(TIME, one + two) - zero, field(TIME, one) + field(TIME, two) - 2 * zero, "f(a + b) and f(a) + f(b)")


@contract(DRIFT_CHECKS)
def the_bound_for_the_initial_state_holds(case: ComponentCase[Drift]) -> None:
    drift, adjacency, h = case.shaken(), small_graph(), case.state(1)
    bound = drift.source_lipschitz(adjacency)
    expect(bound >= 0, f"a bound, not {bound}")
    if math.isinf(bound):
        return
    with torch.no_grad():
        one, two = (drift.bind(adjacency, case.state(seed))(TIME, h) for seed in (2, 3))
    limit = bound * float((case.state(2) - case.state(3)).norm()) * (1 + 1e-9) + 1e-12
    expect(float((one - two).norm()) <= limit, f"two initial states move f apart by more than {limit:.3g}")


@contract(DRIFT_CHECKS)
def a_closed_kl_is_that_of_its_control(case: ComponentCase[Drift]) -> None:
    drift, adjacency, h, start = case.shaken(), small_graph(), case.state(1), case.state(2)
    for prior in (PRIORS.get(name)(case.width) for name in PRIORS):
        for diffusion in (DIFFUSIONS.get(name)(case.width) for name in DIFFUSIONS):
            if drift.closed_kl(prior, diffusion):
                caused = diffusion.bind(adjacency).apply(TIME, h, drift.control(start))
                gap = drift.bind(adjacency, start)(TIME, h) - prior.bind(adjacency, start)(TIME, h)
                close(gap, caused, f"f − p and the control, prior '{prior.name}', diffusion '{diffusion.name}'")


@contract(DRIFT_CHECKS)
def masks_are_drawn_once_per_solve(case: ComponentCase[Drift]) -> None:
    drift, adjacency, h = case.shaken(), small_graph(), case.state()
    before = torch.get_rng_state()
    fields = [drift.bind(adjacency, h, torch.Generator().manual_seed(5)) for _ in range(2)]
    values = [field(TIME, h) for field in (*fields, fields[0])]
    expect(all(torch.equal(values[0], value) for value in values[1:]), "one seed, one field, at every call")
    expect(torch.equal(before, torch.get_rng_state()), "the shared random generator is untouched")


NODE_KEYS = torch.arange(100, 100 + NODES)


def _noise(case: ComponentCase[Diffusion], bound: BoundDiffusion, seed: int = 9, paths: int = 2) -> Tensor:
    return case.state(seed, paths, nodes=bound.keys(NODE_KEYS).shape[0])


def _with_gain(case: ComponentCase[Diffusion], gain: float) -> Diffusion:
    diffusion = case.shaken()
    if not isinstance(getattr(diffusion, "gain", None), Tensor):
        raise Broken("a buffer 'gain' multiplies g")
    with torch.no_grad():
        diffusion.gain.fill_(gain)  # type: ignore[operator]
    return diffusion


def _whitened(bound: BoundDiffusion, h: Tensor, difference: Tensor) -> Tensor | None:
    """``None`` if the diffusion refuses, which it must do as agreed."""
    try:
        return bound.whiten(TIME, h, difference)
    except BadUsage as error:
        expect(error.code == "E-KL" and error.fix, "a refusal has code E-KL and a fix")
        return None


def _covariance(case: ComponentCase[Diffusion], order: Tensor) -> Tensor:
    """Covariance between nodes, per dimension, on the renumbered graph.  # [N, N, d]"""
    bound = bind_diffusion(case.shaken(), small_graph(order.tolist()))
    count = bound.keys(NODE_KEYS).shape[0]
    each = torch.eye(count, dtype=torch.float64)[:, :, None].expand(-1, -1, case.width).contiguous()
    response = bound.apply(TIME, case.state(1, 1)[order].expand(-1, count, -1).contiguous(), each)
    return torch.einsum("isd,jsd->ijd", response, response)


@contract(DIFFUSION_CHECKS)
def its_keys_name_its_noise(case: ComponentCase[Diffusion]) -> None:
    expect(case.fresh().noise in ("additive", "diagonal"), "noise is 'additive' or 'diagonal'")
    keys = bind_diffusion(case.shaken(), small_graph()).keys(NODE_KEYS)
    expect(keys.ndim == 1 and keys.dtype == torch.int64, "keys are a vector of int64")
    expect(keys.unique().numel() == keys.numel(), "each Brownian motion has its own key")


@contract(DIFFUSION_CHECKS)
def noise_keeps_shape_and_dtype(case: ComponentCase[Diffusion]) -> None:
    for dtype in (torch.float32, torch.float64):
        bound = bind_diffusion(case.shaken(dtype), small_graph().to(dtype))
        for paths in (1, 3):
            h, noise = case.state(1, paths).to(dtype), _noise(case, bound, paths=paths).to(dtype)
            value = bound.apply(TIME, h, noise)
            expect(value.shape == h.shape and value.dtype == dtype, f"noise of {dtype} in, a state of {dtype} out")


@contract(DIFFUSION_CHECKS)
def noise_enters_linearly(case: ComponentCase[Diffusion]) -> None:
    bound, h = bind_diffusion(case.shaken(), small_graph()), case.state(1)
    one, two = _noise(case, bound, 3), _noise(case, bound, 4)
    together = bound.apply(TIME, h, 2.0 * one - two)
    close(together, 2.0 * bound.apply(TIME, h, one) - bound.apply(TIME, h, two), "g(2a − b) and 2ga − gb")


@contract(DIFFUSION_CHECKS)
def additive_noise_does_not_see_the_state(case: ComponentCase[Diffusion]) -> None:
    diffusion = case.shaken()
    bound = bind_diffusion(diffusion, small_graph())
    noise = _noise(case, bound)
    if diffusion.noise == "additive":
        close(bound.apply(TIME, case.state(1), noise), bound.apply(TIME, case.state(2), noise), "two states", within=0)


@contract(DIFFUSION_CHECKS)
def noise_of_paths_does_not_mix(case: ComponentCase[Diffusion]) -> None:
    bound, h = bind_diffusion(case.shaken(), small_graph()), case.state(1, 3)
    noise = _noise(case, bound, paths=3)
    together = bound.apply(TIME, h, noise)
    for k in range(3):
        only = slice(k, k + 1)
        close(bound.apply(TIME, h[:, only], noise[:, only]), together[:, only], f"path {k} alone and among others")


@contract(DIFFUSION_CHECKS)
def permuting_nodes_permutes_the_law(case: ComponentCase[Diffusion]) -> None:
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    plain = _covariance(case, torch.arange(NODES))
    close(_covariance(case, order), plain[order][:, order], "covariance on a renumbered graph", within=1e-7)


@contract(DIFFUSION_CHECKS)
def whitening_undoes_applying_or_is_refused(case: ComponentCase[Diffusion]) -> None:
    bound, h = bind_diffusion(case.shaken(), small_graph()), case.state(1)
    noise = _noise(case, bound)
    push = bound.apply(TIME, h, noise)
    u = _whitened(bound, h, push)
    if u is not None:
        close(bound.apply(TIME, h, u), push, "g applied to the whitened push")
        expect((u.abs() <= noise.abs() + 1e-9).all(), "whitening finds the noise, or zero where there is none")


@contract(DIFFUSION_CHECKS)
def the_gain_multiplies(case: ComponentCase[Diffusion]) -> None:
    plain, louder = (bind_diffusion(_with_gain(case, gain), small_graph()) for gain in (1.0, 4.0))
    h, noise = case.state(1), _noise(case, plain)
    push = plain.apply(TIME, h, noise)
    close(louder.apply(TIME, h, noise), 4.0 * push, "gain 4 and gain 1")
    u, v = _whitened(plain, h, push), _whitened(louder, h, push)
    if u is not None and v is not None:
        close(4.0 * v, u, "whitening under gain 4 and gain 1")


@contract(DIFFUSION_CHECKS)
def no_gain_is_no_noise(case: ComponentCase[Diffusion]) -> None:
    diffusion = _with_gain(case, 0.0)
    bound, h = bind_diffusion(diffusion, small_graph()), case.state(1)
    expect(getattr(diffusion, "is_zero", None) is True, "'is_zero' is true")
    expect(getattr(case.shaken(), "is_zero", None) is False, "'is_zero' is false otherwise")
    expect(not bound.apply(TIME, h, _noise(case, bound)).any(), "zeros")
    expect(_whitened(bound, h, torch.ones_like(h)) is None, "whitening is refused")


@contract(DIFFUSION_CHECKS)
def elementwise_scale_and_slope_are_right(case: ComponentCase[Diffusion]) -> None:
    diffusion = case.shaken()
    if not isinstance(diffusion, ElementwiseDiffusion):
        return
    bound, h = bind_diffusion(diffusion, small_graph()), case.state(1).requires_grad_()
    noise = _noise(case, bound)
    for part in (diffusion, bound):
        scale = part.scale(TIME, h)  # type: ignore[union-attr]
        expect((scale > 0).all(), "g is positive")
        close(scale * noise, bound.apply(TIME, h, noise), "scale · noise and apply")
        slope = torch.autograd.grad(scale.sum(), h)[0]
        close(part.scale_slope(TIME, h), slope, "scale_slope and the derivative of scale")  # type: ignore[union-attr]


@contract(DIFFUSION_CHECKS)
def gradients_of_noise_are_right(case: ComponentCase[Diffusion]) -> None:
    diffusion, adjacency = case.shaken(), small_graph()
    parameters = tuple(diffusion.parameters())
    first = bind_diffusion(diffusion, adjacency)
    noise = _noise(case, first, paths=1).requires_grad_()
    difference = first.apply(TIME, case.state(1, 1), noise).detach()

    def value(h: Tensor, noise: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        bound = bind_diffusion(diffusion, adjacency)
        push, u = bound.apply(TIME, h, noise), _whitened(bound, h, difference)
        return (push,) if u is None else (push, u)

    gradcheck(value, (case.state(1, 1).requires_grad_(), noise, *parameters))


@contract(DIFFUSION_CHECKS)
def tensors_lists_all_that_gradients_of_noise_must_reach(case: ComponentCase[Diffusion]) -> None:
    diffusion, h = case.shaken(), case.state(1)
    bound = bind_diffusion(diffusion, small_graph())
    push = bound.apply(TIME, h, _noise(case, bound))
    parameters = tuple(diffusion.parameters())
    gradients_agree("apply, gathered at 'tensors'", push, bound.tensors, parameters)
    u = _whitened(bound, h, push.detach())
    if u is not None:
        gradients_agree("whiten, gathered at 'tensors'", u, bound.tensors, parameters)


def check_drift(make: Callable[..., Drift], *, width: int = 4, **settings: Any) -> int:
    """Check a drift against everything that drifts guarantee.

    Args:
        make: the drift's class, called as ``make(width, generator=generator, **settings)``.
        width: one that it accepts.
        settings: its own.

    Returns and raises as :func:`~graphsde.testing.models.check_model`.
    """
    return _check(DRIFT_CHECKS, lambda d, generator: make(d, generator=generator, **settings), width)


def check_prior(make: Callable[..., Prior], *, width: int = 4, **settings: Any) -> int:
    """Check a prior, made as ``make(width, **settings)``, like :func:`check_drift`."""
    return _check(PRIOR_CHECKS, lambda d, generator: make(d, **settings), width)


def check_diffusion(make: Callable[..., Diffusion], *, width: int = 4, **settings: Any) -> int:
    """Check a diffusion, made as ``make(width, **settings)``, like :func:`check_drift`."""
    return _check(DIFFUSION_CHECKS, lambda d, generator: make(d, **settings), width)


def _check(checks: list[Check], make: Callable[[int, torch.Generator], Component], width: int) -> int:
    case = ComponentCase(make, width=width)
    return run_checks(checks, lambda: (case,))
