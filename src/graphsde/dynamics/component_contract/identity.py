"""What a component is before it is bound."""

from __future__ import annotations

import numpy as np
import torch

from graphsde.dynamics.component_contract.case import (
    DIFFUSION_CHECKS,
    DRIFT_CHECKS,
    PRIOR_CHECKS,
    ComponentCase,
    contract,
    promise,
)
from graphsde.dynamics.diffusion.registry import DIFFUSIONS
from graphsde.dynamics.drift.registry import DRIFTS
from graphsde.dynamics.field import Component, Diffusion, Drift
from graphsde.dynamics.prior.registry import PRIORS

EVERYWHERE = (DRIFT_CHECKS, PRIOR_CHECKS, DIFFUSION_CHECKS)


@contract(*EVERYWHERE)
def has_name_summary_paper_and_year(case: ComponentCase[Component]) -> None:
    one = case.fresh()
    promise(one.name and one.summary and one.paper and 1700 < one.year < 2100, "name, summary, paper, year")
    promise("Paper:" in (type(one).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract(*EVERYWHERE)
def is_registered_under_its_name(case: ComponentCase[Component]) -> None:
    one = case.fresh()
    registry = DRIFTS if isinstance(one, Drift) else DIFFUSIONS if isinstance(one, Diffusion) else PRIORS
    promise(one.name in registry and registry.get(one.name) is type(one), f"register it as a {registry.kind}")


@contract(*EVERYWHERE)
def equal_generators_make_equal_weights(case: ComponentCase[Component]) -> None:
    one, two = case.fresh().state_dict(), case.fresh().state_dict()
    promise(one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one), "same seed, same weights")


@contract(*EVERYWHERE)
def making_it_does_not_touch_global_randomness(case: ComponentCase[Component]) -> None:
    def shared() -> list[np.ndarray]:
        key = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002 (only looked at)
        return [torch.get_rng_state().numpy().copy(), np.array(key)]

    before = shared()
    case.fresh()
    unchanged = all(np.array_equal(then, now) for then, now in zip(before, shared(), strict=True))
    promise(unchanged, "the shared random generators are untouched")


@contract(*EVERYWHERE)
def can_be_measured_without_being_made(case: ComponentCase[Component]) -> None:
    with torch.device("meta"):
        ghost = case.fresh()
    sizes = {name: tensor.shape for name, tensor in ghost.state_dict().items()}
    promise(sizes == {name: t.shape for name, t in case.fresh().state_dict().items()}, "sizes on the meta device")
