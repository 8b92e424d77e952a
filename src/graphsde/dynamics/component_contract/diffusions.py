"""What a bound diffusion does with noise."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.dynamics.component_contract.case import (
    DIFFUSION_CHECKS,
    NODES,
    TIME,
    Broken,
    ComponentCase,
    bind_diffusion,
    close,
    contract,
    gradcheck,
    gradients_agree,
    promise,
    small_graph,
)
from graphsde.dynamics.field import BoundDiffusion, Diffusion, ElementwiseDiffusion
from graphsde.errors import BadUsage

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
    """``None`` where the diffusion refuses, which it must do in the agreed way."""
    try:
        return bound.whiten(TIME, h, difference)
    except BadUsage as error:
        promise(error.code == "E-KL" and error.fix, "a refusal has code E-KL and a fix")
        return None


def _covariance(case: ComponentCase[Diffusion], order: Tensor) -> Tensor:
    """Covariance between nodes, per dimension, on the renumbered graph.  # [N, N, d]"""
    bound = bind_diffusion(case.shaken(), small_graph(order.tolist()))
    count = bound.keys(NODE_KEYS).shape[0]
    each = torch.eye(count, dtype=torch.float64)[:, :, None].expand(-1, -1, case.width).contiguous()
    h = case.state(1, 1)[order].expand(-1, count, -1).contiguous()
    response = bound.apply(TIME, h, each)
    return torch.einsum("isd,jsd->ijd", response, response)


@contract(DIFFUSION_CHECKS)
def its_keys_name_its_noise(case: ComponentCase[Diffusion]) -> None:
    promise(case.fresh().noise in ("additive", "diagonal"), "noise is 'additive' or 'diagonal'")
    keys = bind_diffusion(case.shaken(), small_graph()).keys(NODE_KEYS)
    promise(keys.ndim == 1 and keys.dtype == torch.int64, "keys are a vector of int64")
    promise(keys.unique().numel() == keys.numel(), "each Brownian motion has a key of its own")


@contract(DIFFUSION_CHECKS)
def keeps_shape_and_dtype(case: ComponentCase[Diffusion]) -> None:
    for dtype in (torch.float32, torch.float64):
        bound = bind_diffusion(case.shaken(dtype), small_graph().to(dtype))
        for paths in (1, 3):
            h, noise = case.state(1, paths).to(dtype), _noise(case, bound, paths=paths).to(dtype)
            value = bound.apply(TIME, h, noise)
            promise(value.shape == h.shape and value.dtype == dtype, f"noise of {dtype} in, a state of {dtype} out")


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
def paths_do_not_mix(case: ComponentCase[Diffusion]) -> None:
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
        promise((u.abs() <= noise.abs() + 1e-9).all(), "whitening finds the noise, or zero where there is none")


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
    promise(getattr(diffusion, "is_zero", None) is True, "'is_zero' tells it")
    promise(getattr(case.shaken(), "is_zero", None) is False, "'is_zero' is false otherwise")
    promise(not bound.apply(TIME, h, _noise(case, bound)).any(), "zeros")
    promise(_whitened(bound, h, torch.ones_like(h)) is None, "whitening is refused")


@contract(DIFFUSION_CHECKS)
def elementwise_scale_and_slope_are_right(case: ComponentCase[Diffusion]) -> None:
    diffusion = case.shaken()
    if not isinstance(diffusion, ElementwiseDiffusion):
        return
    bound, h = bind_diffusion(diffusion, small_graph()), case.state(1).requires_grad_()
    noise = _noise(case, bound)
    for part in (diffusion, bound):
        scale = part.scale(TIME, h)  # type: ignore[union-attr]
        promise((scale > 0).all(), "g is positive")
        close(scale * noise, bound.apply(TIME, h, noise), "scale · noise and apply")
        slope = torch.autograd.grad(scale.sum(), h)[0]
        close(part.scale_slope(TIME, h), slope, "scale_slope and the derivative of scale")  # type: ignore[union-attr]


@contract(DIFFUSION_CHECKS)
def gradients_are_right(case: ComponentCase[Diffusion]) -> None:
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
def tensors_lists_all_that_gradients_must_reach(case: ComponentCase[Diffusion]) -> None:
    diffusion, h = case.shaken(), case.state(1)
    bound = bind_diffusion(diffusion, small_graph())
    push = bound.apply(TIME, h, _noise(case, bound))
    parameters = tuple(diffusion.parameters())
    gradients_agree("apply, gathered at 'tensors'", push, bound.tensors, parameters)
    u = _whitened(bound, h, push.detach())
    if u is not None:
        gradients_agree("whiten, gathered at 'tensors'", u, bound.tensors, parameters)
