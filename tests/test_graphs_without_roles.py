"""A graph that does not say what was trained on is neither fitted nor certified on, and the error names the way out.

A guarantee rests on labels that the model has never seen, so labels may not count as unseen because nobody said that
they were used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.datasets.splits.calibration import calibration_nodes
from graphsde.prediction.learned_from import LearnedFrom
from graphsde.uncertainty.calibration import fit_calibrator

from support import block_graph

BARE = block_graph(per_class=40).with_masks()
FIXED = gs.split(BARE)
SURE = np.eye(3)[BARE.labels] * 0.97 + 0.01


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 200)
    nodes = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(200)],
            "label": np.array(["toy", "book"])[kind],
            "x": kind + rng.normal(size=200),
        }
    )
    nodes.loc[150:, "label"] = None
    pairs = [(i, int(j)) for i in range(200) for j in rng.choice(np.flatnonzero(kind == kind[i]), 2)]
    edges = pd.DataFrame({"source": [f"n{i}" for i, _ in pairs], "target": [f"n{j}" for _, j in pairs]})
    return nodes, edges


# deciding


@pytest.mark.parametrize(
    "use",
    [
        lambda p, graph: gs.decide(p, graph, max_error=0.1),
        lambda p, graph: gs.decide(p, graph, max_error=0.1, guarantee="expected"),
        lambda p, graph: gs.certify(p, graph),
        lambda p, graph: gs.abstain(p, graph, max_error=0.1),
        lambda p, graph: gs.conformalize(p, graph),
    ],
)
def test_labels_of_a_graph_without_roles_are_not_calibrated_on(use: Callable[[Any, gs.Graph], Any]) -> None:
    own = gs.Prediction.from_probabilities(SURE, BARE)
    fitted = gs.LabelPropagation().fit(FIXED).predict(BARE)
    for prediction in (own, fitted):
        with pytest.raises(BadUsage, match="E-NO-MASKS") as caught:
            use(prediction, BARE)
        assert "gs.split(graph)" in str(caught.value) and "calibration=" in str(caught.value)


def test_nodes_named_for_calibration_are_used_without_roles() -> None:
    chosen = np.arange(0, 120, 2)
    found = gs.decide(gs.Prediction.from_probabilities(SURE, BARE), BARE, max_error=0.3, calibration=chosen)
    assert int(found.abstention.calibration.sum()) == 60


def test_without_training_nodes_test_nodes_are_used_and_no_others() -> None:
    """A node without a role may be one that was trained on; one of the test mask is not."""
    test = np.arange(120) % 3 == 0
    prediction = gs.Prediction.from_probabilities(SURE, BARE)
    found = gs.certify(prediction, BARE.with_masks(test=test))
    assert np.array_equal(found.calibration, test)
    few = calibration_nodes(BARE.with_masks(test=test), size=15)  # 80 nodes have no role
    assert few.origin == "test" and not (few.mask & ~test).any()


def test_another_split_of_the_graph_may_hold_training_nodes_among_its_test_nodes() -> None:
    prediction = gs.LabelPropagation().fit(FIXED).predict(FIXED)
    gs.decide(prediction, FIXED, max_error=0.3)
    other = gs.split(BARE, "fractions", seed=5)
    seen = int((other.role("calibration") & (FIXED.role("train") | FIXED.role("val"))).sum())
    assert seen
    with pytest.raises(BadUsage, match=f"E-CAL-USED: {seen} of the") as caught:
        gs.decide(prediction, other, max_error=0.3)
    assert "gs.as_graph(data)" in str(caught.value)


def test_nodes_of_the_fit_are_refused_even_if_they_are_named() -> None:
    prediction = gs.LabelPropagation().fit(FIXED).predict(BARE)
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        gs.decide(prediction, BARE, max_error=0.3, calibration=FIXED.role("train"))
    gs.decide(prediction, BARE, max_error=0.3, calibration=FIXED.role("test"))


def test_frames_that_a_fit_has_split_are_decided_on_with_the_same_split() -> None:
    nodes, edges = frames()
    graph = gs.as_graph((nodes, edges))
    prediction = gs.GCN(epochs=2).fit((nodes, edges)).predict(gs.from_pandas(nodes, edges))
    assert prediction.learned_from is not None
    assert np.array_equal(prediction.learned_from.used, graph.role("train") | graph.role("val"))
    gs.decide(prediction, graph, max_error=0.3)
    with pytest.raises(BadUsage, match="E-NO-MASKS"):
        gs.decide(prediction, gs.from_pandas(nodes, edges), max_error=0.3)


def test_a_prediction_of_another_graph_knows_nothing_of_its_nodes() -> None:
    """Ids of two graphs may be the same numbers; only the same edges and features make the nodes the same."""
    model = gs.LabelPropagation().fit(FIXED)
    other = block_graph(seed=1, per_class=40).with_masks(test=np.ones(120, dtype=bool))
    prediction = model.predict(other)
    assert prediction.learned_from is not None and not prediction.learned_from.among(other).any()
    gs.decide(prediction, other, max_error=0.3)
    assert LearnedFrom.of(gs.from_arrays(np.eye(3), np.zeros((2, 0), int), labels=[0, 1, 0])) is None
    later = FIXED.with_features(np.asarray(FIXED.features) + 1.0)  # another snapshot of the same network
    assert prediction.learned_from.among(FIXED).any() and not prediction.learned_from.among(later).any()


def test_nodes_that_a_calibrator_was_fitted_on_are_not_unseen() -> None:
    tested = FIXED.role("test")
    model = gs.GCN(epochs=2).fit(FIXED)
    gs.decide(model.predict(FIXED), FIXED, max_error=0.3)
    model.calibrate(FIXED, by="temperature", nodes=tested)
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        gs.decide(model.predict(FIXED), FIXED, max_error=0.3, calibration=tested)


def another_split() -> gs.Graph:
    """All nodes that the fit on ``FIXED`` has not trained on are in other roles, some of its training nodes in test."""
    return gs.split(BARE, "fractions", seed=5)


@pytest.mark.parametrize(
    "model", [gs.LabelPropagation(), gs.GCN(epochs=2), gs.Ensemble(members=2, base_settings={"epochs": 1})]
)
def test_a_model_read_from_a_file_knows_what_it_has_learned_from(model: gs.Model, tmp_path: Path) -> None:
    model.fit(FIXED).save(tmp_path)
    again = gs.load_model(tmp_path)
    prediction = again.predict(another_split())
    assert prediction.learned_from is not None
    assert np.array_equal(prediction.learned_from.used, FIXED.role("train") | FIXED.role("val"))
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        gs.decide(prediction, another_split(), max_error=0.3)
    gs.decide(again.predict(FIXED), FIXED, max_error=0.3)


def test_a_model_that_goes_on_with_other_roles_has_learned_from_both(tmp_path: Path) -> None:
    first = gs.GCN(epochs=2).fit(FIXED)
    second = gs.GCN(epochs=2).start_from(first).fit(another_split())
    used = second.predict(BARE).learned_from
    assert used is not None
    expected = np.any([g.role(role) for g in (FIXED, another_split()) for role in ("train", "val")], axis=0)
    assert np.array_equal(used.used, expected)
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        gs.decide(second.predict(another_split()), another_split(), max_error=0.3)


def test_a_run_made_with_other_roles_than_the_fit_certifies_nothing(tmp_path: Path) -> None:
    prediction = gs.GCN(epochs=2).fit(FIXED).predict(another_split())
    gs.save_run(prediction, another_split(), tmp_path / "other")
    opened = gs.open_run(tmp_path / "other")
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        gs.decide(opened.prediction(), opened.graph, max_error=0.3)
    gs.save_run(gs.GCN(epochs=2).fit(FIXED).predict(FIXED), FIXED, tmp_path / "same")
    opened = gs.open_run(tmp_path / "same")
    gs.decide(opened.prediction(), opened.graph, max_error=0.3)


@pytest.mark.parametrize("change", [{"used": "AAAA"}, {"used": "?"}, {"nodes": 7}, {"rows": "x"}, {"edges": None}])
def test_a_damaged_record_of_what_was_learned_from_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    gs.LabelPropagation().fit(FIXED).save(tmp_path)
    path = tmp_path / "model.json"
    described = json.loads(path.read_text())
    del described["sha256"]["model.json"]  # as if the digest had been made for the change
    described["learned_from"] |= change
    path.write_text(json.dumps(described))
    with pytest.raises(BadInput, match="damaged"):
        gs.load_model(tmp_path)


def test_calibrated_predictions_still_know_what_their_model_has_learned_from() -> None:
    prediction = gs.GCN(epochs=2, temperature=True).fit(FIXED).predict(BARE)
    scaled = fit_calibrator(prediction, FIXED, by="temperature").apply_to(prediction, FIXED)
    for one in (prediction.untempered(), scaled, scaled.untempered()):
        assert one.learned_from is prediction.learned_from is not None
        with pytest.raises(BadUsage, match="E-CAL-USED"):
            gs.decide(one, BARE, max_error=0.3, calibration=FIXED.role("train"))


def test_a_run_and_a_wrapped_module_know_their_training_nodes(tmp_path: Path) -> None:
    import torch

    model = gs.wrap(torch.nn.Linear(8, 3), FIXED)
    other = gs.split(BARE, "fractions", seed=5)
    run = gs.open_run(gs.save_run(model.predict(FIXED), FIXED, tmp_path / "run"))
    for prediction in (model.predict(FIXED), run.prediction()):
        with pytest.raises(BadUsage, match="E-CAL-USED"):
            gs.decide(prediction, other, max_error=0.3)


# fitting


@pytest.mark.parametrize("make", [gs.LGNSDE, gs.GCN, gs.LabelPropagation, gs.Logistic, gs.GPN, gs.GKDE, gs.GraphGP])
def test_a_graph_without_roles_is_not_fitted_and_the_error_says_what_to_do(make: type[gs.Model]) -> None:
    with pytest.raises(BadInput, match="E-NO-MASKS") as caught:
        make().fit(BARE)
    assert "gs.split(graph)" in str(caught.value)


@pytest.mark.parametrize("make", [gs.LGNSDE, gs.GCN])
def test_roles_without_training_nodes_are_told_apart_from_no_roles(make: type[gs.Model]) -> None:
    with pytest.raises(BadInput, match="E-SPLIT-EMPTY") as caught:
        make().fit(BARE.with_masks(val=FIXED.role("val")))
    assert "E-NO-MASKS" not in str(caught.value)


def test_the_readme_works_with_every_source_of_a_graph_that_it_names() -> None:
    line = next(one for one in Path("README.md").read_text().splitlines() if one.startswith("graph = gs.read("))
    assert line.count("gs.") == 4 and all(
        call in line for call in ("gs.load(", "gs.as_graph(data)", "gs.as_graph((nodes")
    )
    nodes, edges = frames()
    net = nx.Graph()
    net.add_nodes_from(
        (row.id, {"x": row.x} | ({"label": row.label} if row.label else {})) for row in nodes.itertuples()
    )
    net.add_edges_from(edges.itertuples(index=False))
    sources = [gs.load("digits"), gs.as_graph((nodes, edges)), gs.as_graph(net)]
    sources.append(gs.split(gs.from_pandas(nodes.rename(columns={"label": "kind"}), edges, label="kind")))
    if pyg := pytest.importorskip("torch_geometric.data", reason="PyG is not installed"):
        sources.append(gs.as_graph(pyg.Data(**_tensors(nodes, edges))))
    for graph in sources:
        model = gs.GCN(epochs=2).fit(graph)
        found = gs.decide(model.predict(graph), graph, max_error=0.05, model=model)
        assert not (found.abstention.calibration & graph.role("train")).any() and found.abstention.calibration.any()
        found.review().to_pandas()


def _tensors(nodes: pd.DataFrame, edges: pd.DataFrame) -> dict[str, Any]:
    import torch

    row = {name: place for place, name in enumerate(nodes["id"])}
    index = torch.tensor([[row[a] for a in edges["source"]], [row[b] for b in edges["target"]]])
    return {
        "x": torch.tensor(nodes[["x"]].to_numpy(), dtype=torch.float32),
        "edge_index": torch.cat([index, index.flip(0)], 1),
        "y": torch.tensor(pd.factorize(nodes["label"], sort=True)[0]),
    }
