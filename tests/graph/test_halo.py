"""Products part by part against the whole matrix: the same bits, whoever holds which rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.world import Wire, run_parts
from graphsde.graph.halo import Layout, PartMatrix
from graphsde.models.partitioned import Job, prepare


class Loop(Wire):
    """A wire on which every part of this process is far away from every other."""

    def __init__(self, parts: int) -> None:
        self.held, self.parts = range(parts), parts

    def everyone(self, mine):  # type: ignore[no-untyped-def]
        return dict(mine)

    def across(self, mine, rows):  # type: ignore[no-untyped-def]
        assert not mine and not rows, "all parts are here"
        return {}


def job(graph: gs.Graph, folder: Path, parts: int) -> Job:
    prepare(gs.LGNSDE(race=False, epochs=2, sigma=0.25), graph, folder, parts)
    return Job(folder)


@pytest.fixture(scope="module")
def graph() -> gs.Graph:
    return gs.split(gs.load("synthetic:300"), "fractions")


def test_a_layout_holds_every_node_once() -> None:
    layout = Layout.of(np.array([2, 0, 1, 0, 2, 2]), 4)
    assert layout.order.tolist() == [1, 3, 2, 0, 4, 5] and layout.starts.tolist() == [0, 2, 3, 6, 6]
    assert [layout.own(part).tolist() for part in range(4)] == [[1, 3], [2], [0, 4, 5], []]
    assert layout.places()[layout.order].tolist() == list(range(6))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_has_the_bits_of_the_whole_one(
    graph: gs.Graph, tmp_path: Path, shared: bool, dtype: torch.dtype
) -> None:
    made = job(graph, tmp_path, 3)
    operator = graph.adjacency.operator.to(dtype)
    dense = torch.randn(graph.num_nodes, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))

    def program(part: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = torch.from_numpy(np.asarray(made.layout.own(part)))
        matrix = made.part(part, shared=shared).adjacency.operator.to(dtype)
        x = dense[own].requires_grad_()
        product = matrix @ x
        product.backward(2.0 * dense[own])
        assert x.grad is not None
        return own, product.detach(), x.grad

    whole, back = operator.times(dense), operator.times(2.0 * dense)
    for own, product, grad in run_parts(program, range(3), None if shared else Loop(3)).values():
        assert torch.equal(product, whole[own]) and torch.equal(grad, back[own])


def test_a_directed_graph_has_its_transpose_part_by_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((40, 40), density=0.1, rng=rng, format="csr", dtype=np.float32)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    source, target = matrix.nonzero()
    directed = gs.from_arrays(
        rng.standard_normal((40, 4)).astype(np.float32),
        np.stack([source, target]),
        labels=[str(k % 2) for k in range(40)],
        directed=True,
    )
    directed = gs.split(directed, "fractions")
    made, dense = job(directed, tmp_path, 2), torch.randn(40, 3)

    def program(part: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = torch.from_numpy(np.asarray(made.layout.own(part)))
        matrix = made.part(part, shared=False).adjacency.operator
        return own, matrix.times(dense[own]), matrix.transposed().times(dense[own])

    operator = directed.adjacency.operator
    assert not operator.symmetric
    for own, product, turned in run_parts(program, range(2), Loop(2)).values():
        assert torch.equal(product, operator.times(dense)[own])
        assert torch.allclose(turned, operator.transposed().times(dense)[own], atol=1e-6)


def test_what_parts_do_not_know_is_refused_by_name(graph: gs.Graph, tmp_path: Path) -> None:
    matrix = job(graph, tmp_path, 2).part(0, shared=True).adjacency.operator
    assert isinstance(matrix, PartMatrix)
    with pytest.raises(BadUsage, match="E-PARTS"):
        _ = matrix.col
    with pytest.raises(BadUsage, match="E-PARTS"):
        matrix.like(matrix.values, symmetric=False)
