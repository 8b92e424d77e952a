"""The GNSD against PyG's attention layers, steps by hand, and the laws of its noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.bench.tasks import TASKS
from graphsde.graph.graph import Graph
from graphsde.graph.spectrum import laplacian_modes
from graphsde.models.gnsd import GNSD, AttentionFlow, GNSDModule, Noise
from graphsde.models.neural import Inputs
from graphsde.prediction import Perturb
from graphsde.sde.brownian import BrownianMotion, node_keys

from support import block_graph, needs_real_data

QUICK: dict[str, Any] = {"epochs": 4, "hidden": 6, "steps": 5}


def module_of(graph: Graph, **settings: Any) -> GNSDModule:
    """Freshly built, its biases and batch norm moved so that they play a part."""
    module = GNSD(**{**QUICK, **settings}).build(graph.num_features, graph.num_classes, stream(0))
    assert isinstance(module, GNSDModule)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name or "norm" in name:
                torch.nn.init.normal_(parameter, std=0.3, generator=stream(1))
    return module.eval()


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs_of(graph: Graph) -> Inputs:
    return Inputs(torch.tensor(graph.features), graph.adjacency.operator)


def noise_of(graph: Graph, paths: int = 1) -> Noise:
    return Noise(3, node_keys(graph.node_ids), range(paths))


def pyg_layer(flow: AttentionFlow, width: int) -> torch.nn.Module:
    nn = pytest.importorskip("torch_geometric.nn")
    conv = nn.GATConv(width, width, heads=1)
    layer = flow.layer
    with torch.no_grad():
        conv.lin.weight.copy_(layer.weights[0].T)
        conv.att_src.copy_(layer.senders[0][None])
        conv.att_dst.copy_(layer.receivers[0][None])
        conv.bias.copy_(layer.biases[0])
    return conv


def silence(module: GNSDModule) -> None:
    """g = 0: no weights of the forcing network give every state back, so the noise itself is taken away."""
    module.forcing.bind = lambda adjacency, initial: _Silent()  # type: ignore[assignment,method-assign]


class _Silent:
    tensors: tuple[Tensor, ...] = ()
    is_zero = True

    def keys(self, node_keys: Tensor) -> Tensor:
        return node_keys


def test_without_noise_it_is_a_residual_flow_of_attention(blocks: Graph) -> None:
    module, inputs = module_of(blocks), inputs_of(blocks)
    silence(module)
    conv, edges = pyg_layer(module.drift, 6), torch.from_numpy(blocks.adjacency.edge_index())
    with torch.no_grad():
        start = module.initial(inputs)
        h, dt = start, 1.0 / 5
        for _ in range(5):
            h = h + dt * (conv(h, edges) - h)
        state = module.evolve(inputs, start, noise_of(blocks))[:, 0]
        torch.testing.assert_close(state, h, atol=1e-5, rtol=1e-5)
        logits = torch.tanh(h) @ module.decoder.weight + module.decoder.bias  # type: ignore[operator]
        torch.testing.assert_close(module.decode(state[:, None])[:, 0], logits, atol=1e-5, rtol=1e-5)


def test_one_step_of_euler_and_maruyama_by_hand(blocks: Graph) -> None:
    module, inputs, noise = module_of(blocks, steps=1, horizon=0.1), inputs_of(blocks), noise_of(blocks, 2)
    f, g = pyg_layer(module.drift, 6), pyg_layer(module.forcing.flow, 6)
    edges = torch.from_numpy(blocks.adjacency.edge_index())
    dw = BrownianMotion(noise.seed, noise.keys, noise.paths, 6, 0.1, 1).increment(0, 1).dw
    with torch.no_grad():
        h = module.initial(inputs)
        by_hand = torch.stack([h + 0.1 * (f(h, edges) - h) + (h - g(h, edges)) * dw[:, k] for k in range(2)], 1)
        torch.testing.assert_close(module.evolve(inputs, h, noise), by_hand, atol=1e-5, rtol=1e-5)
    assert float((dw[:, 0] - dw[:, 1]).abs().max()) > 0.1


def test_the_initial_state_is_normalised_over_nodes_in_training(blocks: Graph) -> None:
    module, inputs = module_of(blocks), inputs_of(blocks)
    with torch.no_grad():
        module.norm.weight.fill_(1.0)
        module.norm.bias.zero_()
        module.train()
        start = module.initial(inputs)
        torch.testing.assert_close(start.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
        torch.testing.assert_close(start.var(0, correction=0), torch.ones(6), atol=1e-3, rtol=0)
        raw = module.encoder(inputs.features)
        torch.testing.assert_close(module.norm.running_mean, 0.1 * raw.mean(0), atol=1e-5, rtol=1e-5)
        module.eval()
        scale = torch.sqrt(module.norm.running_var + module.norm.eps)  # type: ignore[operator]
        torch.testing.assert_close(module.initial(inputs), (raw - module.norm.running_mean) / scale)  # type: ignore[operator]


def test_diagonal_noise_is_independent_and_in_proportion_to_g(blocks: Graph) -> None:
    module, inputs = module_of(blocks, steps=1, horizon=0.25), inputs_of(blocks)
    with torch.no_grad():
        h = module.initial(inputs)
        g = -module.forcing.flow.bind(inputs.adjacency, h[:, None])(0.0, h[:, None])[:, 0]
        states = module.evolve(inputs, h, noise_of(blocks, 4000))
    spread = states.std(1) / (g.abs() * 0.5)
    assert float((spread - 1).abs().max()) < 0.06  # 180 entries, each within 1/√8000 about
    jumps = (states - states.mean(1, keepdim=True))[:, :, 0]
    correlation = np.corrcoef(jumps.numpy())
    assert np.abs(correlation - np.eye(len(correlation))).max() < 0.07


def test_q_wiener_noise_has_the_modes_covariance(blocks: Graph) -> None:
    """Cov = g gᵀ ∘ U diag(q) Uᵀ · T, with q the Matérn spectrum scaled to mean variance one."""
    module, inputs = module_of(blocks, noise="q-wiener", modes=8, steps=1, horizon=0.25), inputs_of(blocks)
    with torch.no_grad():
        h = module.initial(inputs)
        g = -module.forcing.flow.bind(inputs.adjacency, h[:, None])(0.0, h[:, None])[:, 0, 0].numpy()
        states = module.evolve(inputs, h, noise_of(blocks, 6000))[:, :, 0].numpy()
    modes = laplacian_modes(blocks.adjacency.operator, 8)
    power = (2 * 1.5 / 16 + modes.values) ** -1.5
    power *= blocks.num_nodes / power.sum()
    expected = 0.25 * np.outer(g, g) * ((modes.vectors * power) @ modes.vectors.T)
    found = np.cov(states)
    assert np.abs(found - expected).max() < 0.06 * np.abs(expected).max()
    assert np.linalg.matrix_rank(found, tol=1e-6) == 8


@pytest.mark.parametrize("noise", ["diagonal", "q-wiener"])
def test_more_samples_leave_the_first_ones_alone(blocks: Graph, noise: str) -> None:
    model = GNSD(**QUICK, noise=noise, modes=8).fit(blocks)
    few, many = model.predict(blocks, samples=2), model.predict(blocks, samples=5)
    assert few.kind == "samples" and many.num_samples == 5
    np.testing.assert_array_equal(few.probs, many.probs[:2])
    assert not np.array_equal(few.probs, model.predict(blocks, samples=2, seed=9).probs)
    assert len({sample.tobytes() for sample in many.probs}) == 5
    assert float(many.epistemic.max()) > 1e-4


@pytest.mark.parametrize("gradients", ["store", "checkpoint"])
def test_gradients_equal_finite_differences(gradients: str) -> None:
    graph = block_graph(per_class=3, features=3)
    module = module_of(graph, hidden=2, steps=3, gradients=gradients).double()
    inputs = Inputs(torch.tensor(graph.features, dtype=torch.float64), graph.adjacency.operator.to(torch.float64))
    noise, labels = noise_of(graph, 2), torch.from_numpy(graph.labels.copy())

    def loss() -> Tensor:
        return torch.nn.functional.cross_entropy(module(inputs, noise).flatten(0, 1), labels.repeat_interleave(2))

    loss().backward()
    step = 1e-6
    for name, parameter in module.named_parameters():
        flat, slope = parameter.data.view(-1), torch.zeros(parameter.numel(), dtype=torch.float64)
        for i in range(parameter.numel()):
            with torch.no_grad():
                flat[i] += step
                above = loss()
                flat[i] -= 2 * step
                slope[i] = (above - loss()) / (2 * step)
                flat[i] += step
        torch.testing.assert_close(parameter.grad.view(-1), slope, rtol=1e-5, atol=1e-8, msg=name)


def test_it_learns_with_several_paths_and_dropout(blocks: Graph) -> None:
    model = GNSD(epochs=40, hidden=8, paths=2, dropout=0.2).fit(blocks)
    prediction = model.predict(blocks, samples=8)
    assert gs.evaluate(prediction, blocks)["accuracy"] >= 0.85
    assert model.best_epoch is not None and model.history[0].val_nll is not None


def test_it_is_trained_as_its_authors_do_on_every_graph(blocks: Graph) -> None:
    """All 200 epochs, the one of the best validation accuracy kept, whatever a graph is called."""
    for name in (None, "cora", "computers", "photo", "pubmed"):
        model = GNSD()
        model.resolve(dataclasses.replace(blocks, benchmark=name))
        s = model.settings
        assert (s.epochs, s.select, s.evaluate_every, s.validation_paths) == (200, "accuracy", 1, 1)
        assert (s.weight_decay, s.hidden) == (0.01, 64)
        assert s.patience >= s.epochs and s.scaling == ("none" if name in ("cora", "pubmed") else "auto")
    fitted = GNSD(**QUICK | {"epochs": 15}).fit(blocks)
    seen = [(-(one.val_accuracy or 0), one.val_nll or 0, one.epoch) for one in fitted.history]
    assert len(seen) == 15 and fitted.best_epoch == min(seen)[2]


def test_the_ood_task_measures_its_own_score(blocks: Graph) -> None:
    task = TASKS.get("ood")(leave="last", base="given", scores=())
    graph = task.prepare(blocks, 0)
    found = {name: task.measure(made, graph, 0).metrics for name, made in MAKERS.items()}
    assert "ood_auroc[gnsd]" in found["gnsd"] and "ood_auroc[vacuity]" in found["gkde"]
    assert not any("[" in name for name in found["gcn"])


MAKERS: dict[str, Any] = {
    "gnsd": lambda **more: GNSD(**QUICK, **more),
    "gkde": lambda **more: gs.GKDE(epochs=2, **more),
    "gcn": lambda **more: gs.GCN(epochs=2, **more),
}


def test_it_can_be_asked_about_moved_features(blocks: Graph) -> None:
    model = GNSD(**QUICK).fit(blocks)
    moved = model.predict(blocks, samples=2, perturb=Perturb(0.1))
    assert not np.allclose(moved.probs, model.predict(blocks, samples=2).probs)


def test_a_kind_of_noise_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadUsage, match="noise"):
        GNSD(noise="additive")


@needs_real_data
def test_foreign_classes_of_cora_are_told_as_published() -> None:
    """Lin et al. print an AUROC of 94.76 for label leave-out; a short fit stands guard."""
    from sklearn.metrics import roc_auc_score

    graph = gs.load("cora")
    graph = gs.make_split(graph, "label-leave-out").apply(graph)
    prediction = GNSD(epochs=16, evaluate_every=4).fit(graph).predict(graph, samples=3)
    scores = gs.score("gnnsafe", prediction, graph, alpha=0.3, steps=4)
    ood = np.concatenate([scores[graph.ood_mask], scores[graph.test_mask]])
    truth = np.arange(len(ood)) < np.count_nonzero(graph.ood_mask)
    assert roc_auc_score(truth, ood) > 0.92
