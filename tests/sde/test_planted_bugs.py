"""Bugs of the kind that numerics suffers from, planted one at a time: the named check must notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamics_checks as checks
import pytest
from torch import Tensor

from graphsde.sde import brownian as brownian_module
from graphsde.sde import plan as plan_module
from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.plan import Plan
from graphsde.sde.solvers import Euler, System
from graphsde.sde.solvers import base as path_kl
from graphsde.sde.solvers import one_step as euler
from graphsde.sde.solvers import one_step as heun
from graphsde.sde.solvers import one_step as reversible_heun
from graphsde.sde.solvers import roessler as sra1
from graphsde.sde.solvers import roessler as srk

Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[], None]

cell_increment, cell_area = BrownianMotion.cell_increment, BrownianMotion.cell_area
normals_of_cells, kl_rate, euler_step, time, steps_for = (
    brownian_module.normals_of_cells, path_kl.kl_rate, Euler.step, Plan.time, plan_module.steps_for
)  # fmt: skip


def no_half_in_the_kl(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(path_kl, "half_square_sum", lambda u: (u * u).sum((0, 2)))


def no_root_of_dt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrownianMotion, "cell_increment", lambda self, cell: self._normals(self._increment_stream, cell, 1.0))


def sigma_not_squared_in_the_kl(patch: pytest.MonkeyPatch) -> None:
    def once(system: System, t: float, h: Tensor, f: Tensor) -> Tensor | None:
        if system.prior is None or system.diffusion is None:
            return None
        difference = f - system.prior(t, h)
        return 0.5 * (difference * system.diffusion.whiten(t, h, difference)).sum((0, 2))

    for module in (euler, sra1, srk, heun, reversible_heun):
        patch.setattr(module, "kl_rate", once)


def same_noise_every_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrownianMotion, "cell_increment", lambda self, cell: cell_increment(self, 0))


def noise_shared_between_paths(patch: pytest.MonkeyPatch) -> None:
    def shared(stream: int, keys: Tensor, paths: Any, *rest: Any, **scale: float) -> list[Tensor]:
        return normals_of_cells(stream, keys, [paths[0]] * len(paths), *rest, **scale)

    patch.setattr(brownian_module, "normals_of_cells", shared)


def noise_shared_between_nodes(patch: pytest.MonkeyPatch) -> None:
    def shared(stream: int, keys: Tensor, *rest: Any, **scale: float) -> list[Tensor]:
        return normals_of_cells(stream, keys[:1].expand_as(keys).contiguous(), *rest, **scale)

    patch.setattr(brownian_module, "normals_of_cells", shared)


def area_ignored_in_sra1(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sra1, "mean_height", lambda noise: 0.5 * noise.dw)


def wrong_weights_in_sra1(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sra1, "SRA1_WEIGHTS", (1 / 2, 1 / 2))


def kl_at_the_wrong_end(patch: pytest.MonkeyPatch) -> None:
    def step(self: Euler, system: System, t: float, dt: float, carry: Any, noise: Any) -> Any:
        after, _ = euler_step(self, system, t, dt, carry, noise)
        rate = kl_rate(system, t + dt, after[0], system.drift(t + dt, after[0]))
        return after, path_kl.weighted(dt, (1.0, rate))

    patch.setattr(Euler, "step", step)


def one_step_too_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_module, "steps_for", lambda horizon, dt: steps_for(horizon, dt) + 1)


def area_with_the_variance_of_the_unconditional_integral(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrownianMotion, "cell_area", lambda self, cell: cell_area(self, cell) * 2)  # h/3 instead of h/12


def drift_at_the_wrong_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Plan, "time", lambda self, step: time(self, step + 1))


BUGS: list[tuple[Plant, Check]] = [
    (no_half_in_the_kl, lambda: checks.check_kl_of_a_constant_difference("sra1")),
    (no_root_of_dt, lambda: checks.check_ou_moments("euler")),
    (sigma_not_squared_in_the_kl, lambda: checks.check_kl_of_a_constant_difference("euler")),
    (same_noise_every_step, checks.check_noise_is_independent),
    (noise_shared_between_paths, checks.check_noise_is_independent),
    (noise_shared_between_nodes, checks.check_noise_is_independent),
    (area_ignored_in_sra1, lambda: checks.check_strong_order("sra1", 1.5, 0.15)),
    (wrong_weights_in_sra1, checks.check_ralston),
    (kl_at_the_wrong_end, checks.check_euler_kl_is_the_chains_own),
    (one_step_too_many, checks.check_steps_for),
    (area_with_the_variance_of_the_unconditional_integral, checks.check_increment_variances),
    (drift_at_the_wrong_time, checks.check_drift_sees_the_right_times),
]

# the same bug from the other side: what a user would see of it
SEEN_ELSEWHERE: list[tuple[Plant, Check]] = [
    (no_root_of_dt, checks.check_increment_variances),
    (same_noise_every_step, lambda: checks.check_ou_moments("sra1")),
    (area_ignored_in_sra1, lambda: checks.check_ou_moments("sra1", steps=2)),
    (area_with_the_variance_of_the_unconditional_integral, lambda: checks.check_ou_moments("sra1", steps=2)),
]


def test_there_are_twelve() -> None:
    assert len({plant for plant, _ in BUGS}) == 12


@pytest.mark.parametrize(("plant", "check"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_noticed(plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("check", [check for _, check in BUGS], ids=[plant.__name__ for plant, _ in BUGS])
def test_the_same_check_passes_without_the_bug(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), SEEN_ELSEWHERE, ids=[plant.__name__ for plant, _ in SEEN_ELSEWHERE])
def test_it_is_noticed_elsewhere_too(plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()
