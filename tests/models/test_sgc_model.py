"""Simple graph convolution against PyG, against logistic regression, and its features computed beforehand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.base.errors import NotEnoughMemory
from graphsde.graph.graph import Graph
from graphsde.models.neural import Inputs
from graphsde.models.sgc import SGC, SGCModule, SGCSettings, averaged_features


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_computed_beforehand_are_those_of_the_powers(steps: int, sparse: bool) -> None:
    graph = gs.synthetic(60, degree=4)
    x = np.random.default_rng(0).random((60, 40), dtype=np.float32) * (np.random.default_rng(1).random((60, 40)) < 0.03)
    rows = np.array([5, 0, 17])
    expected = np.linalg.matrix_power(graph.adjacency.normalized.toarray(), steps) @ x
    result = averaged_features(sp.csr_array(x) if sparse else x, graph.adjacency.normalized, steps, rows)
    assert sp.issparse(result) == (sparse and steps < 2)  # sparse while it is worth it
    np.testing.assert_allclose(result.toarray() if sp.issparse(result) else result, expected[rows], atol=1e-6)


def test_averaging_that_does_not_fit_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gs.synthetic(300)
    monkeypatch.setenv("GRAPHSDE_MEMORY_LIMIT", "0.01")
    with pytest.raises(NotEnoughMemory, match="averaging 300 × 50 features"):
        averaged_features(np.ones((300, 50), dtype=np.float32), graph.adjacency.normalized, 2, np.arange(3))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_module_equals_pyg(blocks: Graph, steps: int) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    ours = SGCModule(8, 3, SGCSettings(steps=steps), torch.Generator().manual_seed(0))
    theirs = pyg.SGConv(8, 3, K=steps)
    with torch.no_grad():
        ours.bias += torch.linspace(-1, 1, 3)
        theirs.lin.weight.copy_(ours.weight.T)
        theirs.lin.bias.copy_(ours.bias)
    x, edges = torch.tensor(blocks.features), torch.from_numpy(blocks.adjacency.edge_index())
    result, expected = ours(Inputs(x, blocks.adjacency.operator)).logits, theirs(x, edges)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    result.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.lin.weight.grad.T, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_training_and_prediction_see_the_same_model(blocks: Graph, sparse: bool) -> None:
    graph = blocks.with_features(sp.csr_array(np.maximum(blocks.features - 1, 0))) if sparse else blocks
    model = SGC()
    learner = model.learner(graph)
    logits = learner.module(learner.inputs).logits
    torch.testing.assert_close(learner.classify(learner.train_features), logits[learner.train], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(learner.classify(learner.val_features), logits[learner.val], atol=1e-5, rtol=1e-5)


def test_it_finds_the_optimum_of_logistic_regression(blocks: Graph) -> None:
    """The loss is convex: sklearn's solver, on features made by hand, ends at the same probabilities."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    decay = 0.05
    model = SGC(scaling="none", epochs=600, lr=0.05, weight_decay=decay, early_stop=False, temperature=False)
    model.fit(blocks)
    smooth = np.linalg.matrix_power(blocks.adjacency.normalized.toarray(), 2) @ blocks.features
    # the bias is penalised here too: sklearn sees it as one more column
    smooth = np.hstack([smooth, np.ones((blocks.num_nodes, 1))])
    strength = 1 / (decay * blocks.train_mask.sum())
    oracle = linear_model.LogisticRegression(C=strength, fit_intercept=False, tol=1e-10, max_iter=10_000)
    oracle.fit(smooth[blocks.train_mask], blocks.labels[blocks.train_mask])
    np.testing.assert_allclose(model.predict(blocks).probs[0], oracle.predict_proba(smooth), atol=2e-3)
