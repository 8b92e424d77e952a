"""The gradient by one node's features, and predictions of which only the total is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.acting.explain import explain, without_edges
from graphsde.base.errors import BadInput
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import encode
from graphsde.models.neural import Inputs, NeuralModel
from graphsde.models.perturbation import OneRow, _gradient, entropy_gradient

from support import block_graph


def sparse_blocks() -> gs.Graph:
    graph = block_graph(features=12)
    return graph.with_features(sp.csr_array(np.where(graph.features > 0, graph.features, 0.0).astype(np.float32)))


MODELS = [
    gs.LGNSDE(epochs=4, race=False),
    gs.LGNSDE(preset="universal", epochs=3, hidden=4),
    gs.LGNSDE(epochs=3, race=False, state="wide", hidden=4),
    gs.GCN(epochs=4, hidden=4),
    gs.GAT(epochs=3),
    gs.APPNP(epochs=3),
]


def test_a_row_can_be_differentiated_by() -> None:
    """f(r) = sum of squares of X W with row 1 of X being r: its gradient is 2 W Wᵀ r."""
    matrix = SparseMatrix.from_scipy(sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]), dtype=torch.float64)
    weight = torch.tensor([[1.0, -1.0], [0.5, 2.0], [3.0, 0.0]], dtype=torch.float64)
    one = OneRow(matrix, 1)
    product = one @ weight
    torch.testing.assert_close(product, matrix.csr().to_dense() @ weight)
    (found,) = torch.autograd.grad(product.square().sum(), one.row)
    torch.testing.assert_close(found, 2 * weight @ weight.T @ torch.tensor([0.0, 3.0, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_gradient_of_one_row_is_that_of_all_of_them(model: NeuralModel) -> None:
    graph = sparse_blocks()
    model.fit(graph)
    assert model.encoder is not None
    inputs = Inputs(encode(model.encoder, graph), graph.adjacency.operator)
    if not isinstance(inputs.features, SparseMatrix):
        inputs = Inputs(SparseMatrix.from_scipy(sp.csr_array(inputs.features)), inputs.adjacency)

    def entropy(logits: torch.Tensor) -> torch.Tensor:
        log_probs = torch.log_softmax(logits[7].double() / model.temperature_of_logits(), -1)
        return -(log_probs.exp() * log_probs).sum()

    whole = _gradient(model, graph, inputs, entropy)[1][7]
    assert whole.abs().max() > 0
    torch.testing.assert_close(entropy_gradient(model, graph, inputs, 7), whole, rtol=1e-4, atol=1e-6)


def test_of_an_encoder_nothing_is_kept_for_other_nodes() -> None:
    """A graph of a million nodes has no room for the hidden layer of all of them."""
    graph = block_graph(features=12)
    model = gs.LGNSDE(epochs=2, race=False, encoder_width=200).fit(graph)
    assert model.encoder is not None
    inputs = Inputs(encode(model.encoder, graph), graph.adjacency.operator)
    assert isinstance(inputs.features, torch.Tensor)
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = entropy_gradient(model, graph, inputs, 3)
    assert max(kept) < 4 * 200 * graph.num_nodes

    def entropy(logits: torch.Tensor) -> torch.Tensor:
        log_probs = torch.log_softmax(logits[3].double() / model.temperature_of_logits(), -1)
        return -(log_probs.exp() * log_probs).sum()

    torch.testing.assert_close(found, _gradient(model, graph, inputs, entropy)[1][3], rtol=1e-4, atol=1e-6)


def test_a_model_that_wants_constants_gets_the_dense_way() -> None:
    class Transposing(gs.GCN):
        name = "transposing"

        def central_logits(self, inputs: Inputs, graph: gs.Graph) -> torch.Tensor:
            if isinstance(inputs.features, SparseMatrix):
                inputs.features.csr()
            return super().central_logits(inputs, graph)

    graph = sparse_blocks()
    plain, other = gs.GCN(epochs=3, hidden=4).fit(graph), Transposing(epochs=3, hidden=4).fit(graph)
    assert plain.encoder is not None
    features = SparseMatrix.from_scipy(sp.csr_array(plain.encoder.transform(graph)))
    inputs = Inputs(features, graph.adjacency.operator)
    torch.testing.assert_close(
        entropy_gradient(other, graph, inputs, 3), entropy_gradient(plain, graph, inputs, 3), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("by", [None, "temperature", "diffusion"])
@pytest.mark.parametrize("model", [*MODELS, gs.MCDropout(epochs=3), gs.LabelPropagation()], ids=repr)
def test_the_total_is_the_same_bits_without_its_parts(model: gs.Model, by: str | None) -> None:
    graph = sparse_blocks()
    model.fit(graph).calibrate(graph, by=by, samples=8)
    changed = without_edges(graph, 5, graph.adjacency.neighbours(5)[:2])
    whole, total = model.predict(changed, samples=8), model.predict_total(changed, samples=8)
    np.testing.assert_array_equal(total.mean, whole.mean)
    np.testing.assert_array_equal(total.total, whole.total)


def test_a_subclass_with_a_prediction_of_its_own_is_asked_for_it() -> None:
    class Flat(gs.GCN):
        name = "flat"

        def predict(self, graph: gs.Graph, **options: object) -> gs.ClassPrediction:  # type: ignore[override]
            count = graph.num_classes
            probs = np.full((1, graph.num_nodes, count), 1 / count)
            return gs.ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic")

    model = Flat(epochs=2, hidden=4).fit(block_graph())
    np.testing.assert_allclose(model.predict_total(block_graph()).mean, 1 / 3)


def test_an_explanation_takes_the_prediction_that_is_at_hand() -> None:
    graph = block_graph()
    model = gs.LGNSDE(epochs=4, race=False, calibrator=None).fit(graph)  # one would hold its noise in a copy of it
    given = model.predict(graph, samples=8)
    assert given.kind == "gaussian"  # of a kind whose parts are dear
    asked = explain(model, graph, 3, samples=8)
    assert explain(model, graph, 3, samples=8, prediction=given) == asked
    whole = type(model).predict
    model.predict_total = lambda of, **drawn: whole(model, of, **drawn)  # type: ignore[method-assign, assignment]
    assert explain(model, graph, 3, samples=8) == asked
    with pytest.raises(BadInput, match="does not match a graph"):
        explain(model, graph, 3, prediction=given.subset(np.arange(4)))
