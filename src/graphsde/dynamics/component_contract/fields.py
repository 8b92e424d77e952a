"""What a bound drift or prior does with a state."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.dynamics.component_contract.case import (
    DRIFT_CHECKS,
    NODES,
    PRIOR_CHECKS,
    TIME,
    ComponentCase,
    bind_field,
    close,
    contract,
    gradcheck,
    gradients_agree,
    promise,
    small_graph,
)
from graphsde.dynamics.field import Component

FIELDS = (DRIFT_CHECKS, PRIOR_CHECKS)


@contract(*FIELDS)
def keeps_shape_and_dtype(case: ComponentCase[Component]) -> None:
    for dtype in (torch.float32, torch.float64):
        component, adjacency = case.shaken(dtype), small_graph().to(dtype)
        for paths in (1, 3):
            h = case.state(paths=paths).to(dtype)
            value = bind_field(component, adjacency, h)(TIME, h)
            promise(value.shape == h.shape and value.dtype == dtype, f"[N, S, d] of {dtype} in, the same out")


@contract(*FIELDS)
def is_finite_on_every_small_graph(case: ComponentCase[Component]) -> None:
    for adjacency in (small_graph(), small_graph(edges=False)):
        for h in (case.state(), torch.zeros_like(case.state()), case.state(scale=30.0)):
            promise(torch.isfinite(bind_field(case.shaken(), adjacency, h)(TIME, h)).all(), "finite values")


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
    promise(torch.equal(*values), "two bindings without a generator are equal")


@contract(*FIELDS)
def leaves_its_arguments_alone(case: ComponentCase[Component]) -> None:
    h, start, adjacency = case.state(1), case.state(2), small_graph()
    before = [x.clone() for x in (h, start, adjacency.values)]
    bound = bind_field(case.shaken(), adjacency, start)
    one, two = bound(TIME, h), bound(TIME, h)
    promise(torch.equal(one, two), "a second call gives the same bits")
    after = (h, start, adjacency.values)
    promise(all(torch.equal(x, y) for x, y in zip(before, after, strict=True)), "nothing is changed in place")


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
