"""Knowledge passed between the members of an ensemble, and whole nodes dropped: against hand and definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.citing import citation
from graphsde.models.neural import GraphLearner
from graphsde.models.passing import taught
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import drop_nodes
from graphsde.sde.brownian import node_keys

BASE: dict[str, Any] = {"hidden": 8, "epochs": 12, "dropout": 0.2}
SMALL: dict[str, Any] = {"members": 3, "base_settings": BASE, "temperature": False, "seed": 2}


class Said:
    """A member before, of which only the prediction matters."""

    name = "said"

    def __init__(self, probs: np.ndarray) -> None:
        self.probs = probs

    def predict(self, graph: Graph) -> gs.ClassPrediction:
        return gs.ClassPrediction(self.probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_the_loss_is_cross_entropy_and_the_divergence_from_the_mean_of_those_before(blocks: Graph) -> None:
    """Equal probabilities, and two members before whose mean is (½, ½, 0): KL = ln 3 − ln 2."""
    sure = [np.tile(row, (blocks.num_nodes, 1)) for row in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])]
    model = gs.GCN(**BASE)
    with taught(model, [Said(one) for one in sure], 0.7, blocks):  # type: ignore[misc]
        learner = model.learner(blocks)
    assert type(model.learner(blocks)) is GraphLearner
    with torch.no_grad():
        learner.module.second.weight.zero_()  # type: ignore[union-attr, operator]
        learner.module.second.bias.zero_()  # type: ignore[union-attr, operator]
        assert float(learner.loss(1)) == pytest.approx(np.log(3) + 0.7 * np.log(1.5), rel=1e-6)


def test_members_learn_from_those_before_them_and_the_first_from_nobody(blocks: Graph) -> None:
    passed, alone = gs.Ensemble(**SMALL, passing="knowledge").fit(blocks), gs.Ensemble(**SMALL).fit(blocks)
    ours, theirs = passed.predict(blocks), alone.predict(blocks)
    np.testing.assert_array_equal(ours.probs[0], theirs.probs[0])
    assert not np.array_equal(ours.probs[1], theirs.probs[1])
    without = gs.Ensemble(**SMALL, passing="knowledge", knowledge_weight=0.0).fit(blocks).predict(blocks)
    np.testing.assert_allclose(without.probs, theirs.probs, atol=1e-5)
    heavy = gs.Ensemble(**SMALL, passing="knowledge", knowledge_weight=20.0).fit(blocks).predict(blocks)
    assert heavy.epistemic.mean() < theirs.epistemic.mean()
    third = gs.GCN(**passed.settings.base_settings, seed=passed.members[2].settings.seed)
    with taught(third, passed.members[:2], 1.0, blocks):
        third.fit(blocks)
    np.testing.assert_array_equal(third.predict(blocks).probs[0], ours.probs[2])


class StopAfter(Callback):
    def __init__(self, guard: InterruptGuard, epochs: int) -> None:
        self.guard, self.left = guard, epochs

    def on_epoch(self, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            self.guard.received = 2


def test_an_interrupted_ensemble_passes_the_same_knowledge(blocks: Graph, tmp_path: Any) -> None:
    whole = gs.Ensemble(**SMALL, passing="knowledge").fit(blocks).predict(blocks)
    guard, checkpoint = InterruptGuard(), Checkpoint(tmp_path / "state.safetensors")
    with pytest.raises(Interrupted):
        gs.Ensemble(**SMALL, passing="knowledge").fit(
            blocks, checkpoint=checkpoint, interrupt=guard, callbacks=[StopAfter(guard, 17)]
        )
    again = gs.Ensemble(**SMALL, passing="knowledge").fit(blocks, checkpoint=checkpoint)
    np.testing.assert_array_equal(again.predict(blocks).probs, whole.probs)
    again.save(tmp_path / "kept")
    np.testing.assert_array_equal(gs.load_model(tmp_path / "kept").predict(blocks).probs, whole.probs)


def test_who_can_be_taught_and_whom_to_cite(blocks: Graph) -> None:
    for base in ("gkde", "graph-gp", "label-propagation", "lgnsde"):
        with pytest.raises(BadUsage, match="E-SETTING"):
            gs.Ensemble(base=base, passing="knowledge")
    with pytest.raises(BadUsage, match="race"):
        gs.Ensemble(base_settings={"race": True}, passing="knowledge")
    with pytest.raises(BadUsage, match="E-TARGET"):
        gs.Ensemble(passing="knowledge", members=2).fit(gs.split(gs.synthetic_regression(60)))
    assert any("Lin et al." in one for one in citation(gs.Ensemble(passing="knowledge")))
    assert not any("Lin et al." in one for one in citation(gs.Ensemble()))


@pytest.mark.parametrize("source", ["stream", "keyed"])
@pytest.mark.parametrize("sparse", [False, True])
def test_whole_rows_are_dropped_and_the_others_scaled(sparse: bool, source: str) -> None:
    dense = torch.rand(400, 5, generator=torch.Generator().manual_seed(1)) + 0.5
    x = SparseMatrix.from_scipy(sp.csr_array(dense.numpy())) if sparse else dense
    keyed = KeyedMasks(0, 0, node_keys(np.arange(400)))
    found = drop_nodes(x, 0.25, keyed if source == "keyed" else torch.Generator().manual_seed(0))
    ratio = (found.csr().to_dense() if isinstance(found, SparseMatrix) else found) / dense
    kept = ratio[:, 0] > 0
    torch.testing.assert_close(ratio, torch.where(kept[:, None], 1 / 0.75, 0.0).expand(400, 5))
    assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.07)
    assert drop_nodes(x, 0.25, None) is x and drop_nodes(x, 0.0, keyed) is x


def test_a_gcn_drops_nodes_before_every_propagation_in_training_only(blocks: Graph) -> None:
    fitted = gs.GCN(**BASE, node_dropout=0.5).fit(blocks)
    plain = gs.GCN(**BASE).fit(blocks)
    assert not np.array_equal(fitted.predict(blocks).probs, plain.predict(blocks).probs)
    np.testing.assert_array_equal(
        gs.GCN(**BASE, node_dropout=0.0).fit(blocks).predict(blocks).probs, plain.predict(blocks).probs
    )
    learner = gs.GCN(hidden=4, dropout=0.0, node_dropout=0.5).learner(blocks)
    module, inputs = learner.module, learner.inputs
    found = module(inputs, torch.Generator().manual_seed(5)).logits
    masks = torch.Generator().manual_seed(5)
    rows = [torch.empty(blocks.num_nodes).bernoulli_(0.5, generator=masks)[:, None] * 2 for _ in range(2)]
    hidden = torch.relu(module.first(inputs.features * rows[0], inputs.adjacency))  # type: ignore[operator]
    torch.testing.assert_close(found, module.second(hidden * rows[1], inputs.adjacency))  # type: ignore[operator]
