"""Trained modules of other people: called as they want to be, left as they were, used like any model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import graphsde as gs
from graphsde.base.errors import BadUsage, GraphsdeError

from support import block_graph


class Averaging(nn.Module):
    """Two layers with the mean over incoming edges in between; dropout as in most examples of PyG."""

    def __init__(self, features: int, classes: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(features, 6), nn.BatchNorm1d(6), nn.Linear(6, classes)
        self.dropout = dropout
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def hidden(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.first(x)))
        gathered = torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])
        return torch.nn.functional.dropout(h + gathered, self.dropout, training=self.training)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.last(self.hidden(x, edge_index))
        return found


def pyg(graph: gs.Graph) -> Any:
    pytest.importorskip("torch_geometric")
    return gs.to_pyg(graph)


def direct(module: nn.Module, data: Any) -> Tensor:
    module.eval()
    with torch.no_grad():
        found: Tensor = module(data.x, data.edge_index)
    return found


def test_it_says_what_the_module_says() -> None:
    data = pyg(block_graph())
    module = Averaging(8, 3)
    model = gs.wrap(module, data)
    found = model.predict(model.graph)
    assert isinstance(found, gs.ClassPrediction)
    np.testing.assert_array_equal(found.logits[0], direct(module, data).numpy())
    np.testing.assert_allclose(found.mean, torch.softmax(direct(module, data), -1).numpy(), atol=1e-6)
    assert found.embedding is not None
    module.eval()
    with torch.no_grad():
        np.testing.assert_array_equal(found.embedding, module.hidden(data.x, data.edge_index).numpy())


def test_the_module_reads_its_own_data_not_a_cleaned_copy() -> None:
    data = pyg(block_graph())
    loops = torch.arange(30).repeat(2, 1)
    data.edge_index = torch.cat([data.edge_index, loops, loops[:, :5]], 1)  # self loops, some of them twice
    module = Averaging(8, 3)
    model = gs.wrap(module, data)
    found = model.predict(data)  # a PyG graph is taken as well
    assert isinstance(found, gs.ClassPrediction)
    np.testing.assert_array_equal(found.logits[0], direct(module, data).numpy())


def test_another_graph_is_predicted_in_the_same_form() -> None:
    graph = block_graph()
    module = Averaging(8, 3)
    model = gs.wrap(module, pyg(graph))
    other = block_graph(seed=1, per_class=7)
    found = model.predict(other)
    assert isinstance(found, gs.ClassPrediction)
    np.testing.assert_array_equal(found.logits[0], direct(module, pyg(other)).numpy())


def test_mode_weights_and_the_global_random_state_stay() -> None:
    module = Averaging(8, 3)
    module.train()
    module.last.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    model = gs.wrap(module, pyg(block_graph()), dropout=True)
    model.predict(model.graph, samples=3)
    assert module.training and module.norm.training and not module.last.training
    assert all(bool((value == before[name]).all()) for name, value in module.state_dict().items())
    assert bool((torch.get_rng_state() == state).all())
    assert not module.last._forward_hooks and not module.last._forward_pre_hooks


def test_dropout_gives_samples_that_a_seed_repeats() -> None:
    data = pyg(block_graph())
    module = Averaging(8, 3)
    model = gs.wrap(module, data, dropout=True)
    first, again, other = (model.predict(model.graph, samples=400, seed=seed) for seed in (1, 1, 2))
    assert isinstance(first, gs.ClassPrediction) and isinstance(again, gs.ClassPrediction)
    assert isinstance(other, gs.ClassPrediction) and first.logits is not None
    assert first.kind == "samples" and first.num_samples == 400 and (first.epistemic > 0).any()
    np.testing.assert_array_equal(first.probs, again.probs)
    assert not np.array_equal(first.probs, other.probs)
    # dropout keeps the mean of a linear layer's input, and statistics of the norm are those of evaluation mode
    exact = direct(module, data).numpy()
    error = first.logits.std(axis=0) / np.sqrt(400)
    assert np.all(np.abs(first.logits.mean(axis=0) - exact) < 5 * error + 1e-5)


def test_dropout_that_does_nothing_is_told() -> None:
    model = gs.wrap(nn.Linear(8, 3), block_graph(), dropout=True)
    with pytest.raises(BadUsage, match="leave out dropout=True"):
        model.predict(model.graph, samples=2)


class OfWhole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Averaging(8, 3)

    def forward(self, data: Any) -> Tensor:
        found: Tensor = torch.softmax(self.inner(data.x, data.edge_index), -1)
        return found


class OfOddName(nn.Module):
    def forward(self, x: Tensor, laplacian: Tensor) -> Tensor:
        return laplacian @ x


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, :3], x


def test_a_module_may_take_the_whole_graph_and_return_probabilities() -> None:
    data = pyg(block_graph())
    module = OfWhole()
    model = gs.wrap(module, data)
    found = model.predict(model.graph)
    assert isinstance(found, gs.ClassPrediction)
    assert found.logits is None
    np.testing.assert_allclose(found.mean, torch.softmax(direct(module.inner, data), -1).numpy(), atol=1e-6)


def test_a_graph_of_this_package_is_enough() -> None:
    graph = block_graph()
    module = nn.Linear(8, 3)
    found = gs.wrap(module, graph).predict(graph)
    assert isinstance(found, gs.ClassPrediction)
    with torch.no_grad():
        np.testing.assert_array_equal(found.logits[0], module(torch.tensor(graph.features)).numpy())


def test_a_call_of_ones_own_and_a_layer_by_name() -> None:
    graph = block_graph()
    model = gs.wrap(Pair(), graph, call=lambda module, data: module(data.x)[0], embedding=None)
    assert model.predict(graph).embedding is None
    module = Averaging(8, 3)
    found = gs.wrap(module, graph, embedding="norm").predict(graph)
    module.eval()
    with torch.no_grad():
        expected = module.norm(module.first(torch.tensor(graph.features))).numpy()
    assert found.embedding is not None
    np.testing.assert_array_equal(found.embedding, expected)


def roles_missing() -> gs.Graph:
    return block_graph().with_masks()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gs.wrap(nn.Linear(8, 3), roles_missing()), "data.train_mask"),
        (lambda: gs.wrap(object(), block_graph()), "from_probabilities"),  # type: ignore[arg-type]
        (lambda: gs.wrap(nn.Linear(8, 3), block_graph(), output="logit"), "did you mean 'logits'"),  # type: ignore[arg-type]
        (lambda: gs.wrap(Averaging(8, 3), block_graph(), embedding="fist"), "did you mean 'first'"),
        (lambda: gs.wrap(nn.Linear(8, 3), gs.load("diabetes")), "from_mean_std"),
        (lambda: gs.wrap(OfOddName(), g := block_graph()).predict(g), "forward needs 'laplacian'"),
        (lambda: gs.wrap(Pair(), g := block_graph()).predict(g), "returns a tuple"),
        (lambda: gs.wrap(nn.Linear(7, 3), g := block_graph()).predict(g), "calling Linear failed"),
        (lambda: gs.wrap(nn.Linear(8, 4), g := block_graph()).predict(g), "4 classes, the graph 3"),
        (lambda: gs.wrap(nn.Sequential(nn.Linear(8, 3), nn.Sigmoid()), g := block_graph()).predict(g), "output='"),
        (lambda: gs.wrap(nn.Flatten(0), g := block_graph()).predict(g), "a row for every node"),
        (lambda: gs.wrap(nn.Linear(8, 3), g := block_graph()).fit(g), "trained elsewhere"),
        (lambda: gs.wrap(nn.Linear(8, 3), block_graph()).save("nowhere"), "gs.save_run"),
    ],
)
def test_what_cannot_be_is_told_with_the_way_out(call: Any, words: str) -> None:
    with pytest.raises(GraphsdeError) as caught:
        call()
    assert words in str(caught.value)


def test_everything_after_a_fit_works_around_it() -> None:
    graph = block_graph(per_class=60)
    fitted = gs.GCN(hidden=8, epochs=30, seed=0).fit(graph).predict(graph)
    assert isinstance(fitted, gs.ClassPrediction) and fitted.logits is not None
    kept = torch.tensor(fitted.logits[0] * 4)

    class Answers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return kept

    model = gs.wrap(Answers(), graph).calibrate(graph)
    prediction = model.predict(graph)
    assert isinstance(prediction, gs.ClassPrediction) and prediction.temperature > 1
    sets = gs.conformalize(prediction, graph, confidence_level=0.9)
    assert sets is not None
    decisions = gs.decide(prediction, graph, max_error=0.3, guarantee="certified", model=model)
    assert set(decisions.actions) <= {"accept", "review", "ood"}
    assert len(gs.ask(prediction, graph, 3)) == 3
    assert gs.evaluate(prediction, graph, model=model)["accuracy"] > 0.8
