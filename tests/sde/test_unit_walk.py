"""The walk as one operation against the solver's own steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde import unit_walk
from graphsde.sde.drift.graph_filter import GraphFilterDrift
from graphsde.sde.integrate import integrate
from graphsde.sde.solvers.base import SolverDiverged
from graphsde.sde.unit_walk import walk_unit_steps

STEPS = 5


def operator(directed: bool) -> SparseMatrix:
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(9, 9, generator=generator, dtype=torch.float64)
    dense = dense * (dense > 0.5)
    dense = dense if directed else dense + dense.t()
    csr = (dense / dense.sum()).to_sparse_csr()
    return SparseMatrix(csr.crow_indices(), csr.col_indices(), csr.values(), (9, 9), symmetric=not directed)


def parts(learned: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    state, source = (torch.randn(9, 2, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    kappa = torch.tensor([0.9, -0.4, 0.2], dtype=torch.float64)
    return state.requires_grad_(), source.requires_grad_(), kappa.requires_grad_(learned)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_gradients(monkeypatch: pytest.MonkeyPatch, large: bool, directed: bool, learned: bool) -> None:
    monkeypatch.setattr(unit_walk, "LARGE_BYTES", 0 if large else 1 << 25)
    adjacency = operator(directed)
    assert torch.autograd.gradcheck(lambda *x: walk_unit_steps(adjacency, *x, STEPS), parts(learned))
    assert torch.autograd.gradgradcheck(lambda *x: walk_unit_steps(adjacency, *x, STEPS), parts(learned))


@pytest.mark.parametrize("directed", [False, True])
def test_it_is_the_power_series(directed: bool) -> None:
    adjacency = operator(directed)
    state, source, kappa = parts()
    dense = adjacency.csr().to_dense()
    expected = torch.empty_like(state)
    for channel in range(3):
        step = kappa[channel] * dense
        total, power = torch.zeros_like(dense), torch.eye(9, dtype=torch.float64)
        for _ in range(STEPS):
            total, power = total + power, power @ step
        expected[..., channel] = power @ state[..., channel] + total @ source[..., channel]
    torch.testing.assert_close(walk_unit_steps(adjacency, state, source, kappa, STEPS), expected)


@pytest.mark.parametrize("learn", [False, True])
def test_integrate_takes_it_and_steps_agree(blocks: Graph, learn: bool) -> None:
    adjacency = blocks.adjacency.operator.to(torch.float64)
    drift = GraphFilterDrift(4, kappas=(0.9, -0.5), learn=learn, generator=torch.Generator().manual_seed(0)).double()
    found = {}
    for save in ("last", "all"):  # all states are had step by step
        initial = torch.randn(
            blocks.num_nodes, 2, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64
        ).requires_grad_()
        path = integrate(
            drift.bind(adjacency, initial),
            initial,
            horizon=6.0,
            steps=6,
            solver="euler",
            save=save,  # type: ignore[arg-type]
        )
        asked = [initial, *drift.parameters()]
        found[save] = (path.final, *torch.autograd.grad(path.final.square().sum(), asked))
    for one, other in zip(found["last"], found["all"], strict=True):
        torch.testing.assert_close(one, other)


def test_a_state_that_diverges_says_in_which_step(blocks: Graph) -> None:
    adjacency = blocks.adjacency.operator
    drift = GraphFilterDrift(2, kappas=0.9, generator=torch.Generator().manual_seed(0))
    initial = torch.full((blocks.num_nodes, 1, 2), 3e38)
    with pytest.raises(SolverDiverged, match="in step"):
        integrate(drift.bind(adjacency, initial), initial, horizon=4.0, steps=4, solver="euler")
