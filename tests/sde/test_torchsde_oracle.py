"""The same equation on the same Brownian path, by us and by torchsde."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise, motion
from torch import Tensor

from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.integrate import integrate
from graphsde.testing.solvers import ConstantNoise, GrowingNoise, ornstein_uhlenbeck

torchsde = pytest.importorskip("torchsde", reason="torchsde, the oracle, is not installed")

SHAPE = (12, 3, 4)
START = torch.randn(SHAPE, dtype=DOUBLE, generator=torch.Generator().manual_seed(3))
STEPS = 16


class Replayed(torchsde.BaseBrownian):
    """Our noise in torchsde's clothes, nodes and paths flattened into its batch."""

    def __init__(self, draws: BrownianMotion) -> None:
        super().__init__()
        self.draws = draws

    def __call__(self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False) -> Any:
        first, last = (round(float(t) * self.draws.cells / self.draws.horizon) for t in (ta, tb))
        step = self.draws.increment(first, last, area=True)
        w = step.dw.reshape(self.shape)
        u = step.dt * (0.5 * step.dw + step.levy()).reshape(self.shape)
        return (w, u) if return_U else w

    def __repr__(self) -> str:
        return "Replayed"

    @property
    def dtype(self) -> torch.dtype:
        return DOUBLE

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def shape(self) -> tuple[int, int]:
        return SHAPE[0] * SHAPE[1], SHAPE[2]

    @property
    def levy_area_approximation(self) -> str:
        return "space-time"


class Equation(torch.nn.Module):
    def __init__(self, diffusion: Any, noise_type: str, sde_type: str) -> None:
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        self.drift, self.diffusion = GCNField(), diffusion
        self.prior = ornstein_uhlenbeck(0.7, 0.2)

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        return self.drift(float(t), y.view(SHAPE)).reshape(y.shape)

    def h(self, t: Tensor, y: Tensor) -> Tensor:
        return self.prior(float(t), y)

    def g(self, t: Tensor, y: Tensor) -> Tensor:
        h = y.view(SHAPE)
        scale = self.diffusion.apply(float(t), h, torch.ones_like(h)).reshape(y.shape)
        return torch.diag_embed(scale) if self.noise_type == "additive" else scale


CASES = [
    ("euler", "euler", "diagonal", "ito", WavyNoise(0.7, 0.6)),
    ("euler", "euler", "diagonal", "ito", ConstantNoise(0.7)),
    ("milstein", "milstein", "diagonal", "ito", WavyNoise(0.7, 0.6)),
    ("srk", "srk", "diagonal", "ito", WavyNoise(0.7, 0.6)),
    ("srk", "srk", "diagonal", "ito", ConstantNoise(0.7)),
    ("srk", "srk", "diagonal", "ito", GrowingNoise(0.7)),
    ("sra1", "srk", "additive", "ito", ConstantNoise(0.7)),
    ("sra1", "srk", "additive", "ito", GrowingNoise(0.7)),
    ("heun", "heun", "diagonal", "stratonovich", WavyNoise(0.7, 0.6)),
    ("reversible-heun", "reversible_heun", "diagonal", "stratonovich", WavyNoise(0.7, 0.6)),
]


@pytest.mark.parametrize(("ours", "theirs", "noise_type", "sde_type", "diffusion"), CASES)
@pytest.mark.parametrize("cells_per_step", [1, 4])
def test_same_path_same_state(
    ours: str, theirs: str, noise_type: str, sde_type: str, diffusion: Any, cells_per_step: int
) -> None:
    draws = motion(SHAPE, STEPS * cells_per_step)
    equation = Equation(diffusion, noise_type, sde_type)
    with torch.no_grad():
        want = torchsde.sdeint(
            equation, START.reshape(-1, SHAPE[2]), torch.tensor([0.0, 1.0], dtype=DOUBLE), dt=1.0 / STEPS,
            bm=Replayed(draws), method=theirs, options={"grad_free": False} if theirs == "milstein" else {},
        )[-1].view(SHAPE)  # fmt: skip
    kind = "diagonal" if isinstance(diffusion, WavyNoise) else "additive"
    got = integrate(
        equation.drift, START, horizon=1.0, steps=STEPS, solver=ours, diffusion=diffusion, noise_kind=kind,
        brownian=draws,
    ).final  # fmt: skip
    assert ((got - want).abs() / want.abs().clamp(min=1e-3)).max() <= 1e-10


def test_same_path_same_kl() -> None:
    """torchsde carries ½‖(f − h)/g‖² as one more state, which for Euler is our left-point sum."""
    draws = motion(SHAPE, STEPS)
    equation = Equation(WavyNoise(0.7, 0.6), "diagonal", "ito")

    class Wide(Replayed):
        """With a column for the KL, which has no noise of its own."""

        @property
        def shape(self) -> tuple[int, int]:
            return SHAPE[0] * SHAPE[1], SHAPE[2] + 1

        def __call__(self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False) -> Any:
            first, last = (round(float(t) * STEPS) for t in (ta, tb))
            dw = self.draws.increment(first, last).dw.reshape(-1, SHAPE[2])
            return torch.cat([dw, torch.zeros_like(dw[:, :1])], 1)

    with torch.no_grad():
        _, log_ratio = torchsde.sdeint(
            equation, START.reshape(-1, SHAPE[2]), torch.tensor([0.0, 1.0], dtype=DOUBLE), dt=1.0 / STEPS,
            bm=Wide(draws), method="euler", logqp=True,
        )  # fmt: skip
    got = integrate(
        equation.drift, START, horizon=1.0, steps=STEPS, solver="euler", diffusion=equation.diffusion,
        noise_kind="diagonal", brownian=draws, prior=equation.prior,
    ).kl  # fmt: skip
    want = log_ratio.view(SHAPE[:2]).sum(0)
    assert torch.allclose(got, want, rtol=1e-10)
