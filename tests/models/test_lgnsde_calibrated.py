"""The default model ends with a distance-aware calibrator: what it changes, what it leaves alone, what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import graphsde as gs
from graphsde.acting.explain import without_edges
from graphsde.base.errors import GraphsdeError
from graphsde.datasets.splits import make_split
from graphsde.graph.graph import Graph
from graphsde.models.files import load_model
from graphsde.prediction import ClassPrediction
from graphsde.runs.kept_prediction import pack_prediction, unpack_prediction
from graphsde.uncertainty.evidence import Evidence

from support import needs_real_data


def fitted(graph: Graph, **settings: Any) -> gs.LGNSDE:
    return gs.LGNSDE(**{"race": False, "epochs": 4, "seed": 0, **settings}).fit(graph)


def answer(model: gs.Model, graph: Graph, **options: Any) -> ClassPrediction:
    prediction = model.predict(graph, samples=8, **options)
    assert isinstance(prediction, ClassPrediction)
    return prediction


def test_the_default_has_it_and_no_other_preset(blocks: Graph) -> None:
    model = fitted(blocks)
    assert model.settings.calibrator == "distance-aware" and model.calibrator is not None
    assert model.calibrator.name == "distance-aware"
    for preset in ("universal", "paper"):
        assert gs.LGNSDE(preset=preset, epochs=2).fit(blocks).calibrator is None
    assert gs.GNODE(preset="auto", race=False, epochs=2).fit(blocks).calibrator is None


def test_it_is_what_calibrate_would_fit(blocks: Graph) -> None:
    own, other = fitted(blocks), fitted(blocks, calibrator=None)
    assert other.calibrator is None
    plain = answer(other, blocks)
    found = answer(own, blocks)
    assert found.uncalibrated is not None and np.array_equal(found.uncalibrated.probs, plain.probs)
    assert np.array_equal(found.index, plain.index)  # classes stay
    assert np.array_equal(answer(other.calibrate(blocks, by="distance-aware"), blocks).probs, found.probs)


def test_another_calibrator_can_be_asked_for(blocks: Graph) -> None:
    assert fitted(blocks, calibrator="vector").calibrator.name == "vector"
    with pytest.raises(GraphsdeError, match="distnce"):
        fitted(blocks, calibrator="distnce")


def test_nothing_to_fit_on_means_none(blocks: Graph) -> None:
    masks = {name: mask for name, mask in blocks.masks.items() if name != "val"}
    assert fitted(blocks.with_masks(**masks), early_stop=False).calibrator is None


def test_numbers_have_none() -> None:
    assert gs.LGNSDE(epochs=2).fit(gs.load("diabetes")).calibrator is None


def test_it_is_saved_and_kept(blocks: Graph, tmp_path: Path) -> None:
    model = fitted(blocks)
    found = answer(model, blocks)
    again = load_model(model.save(tmp_path / "model"))
    assert np.array_equal(answer(again, blocks).probs, found.probs)
    bundle = pack_prediction(found, samples=8, seed=0)
    assert bundle is not None
    kept = unpack_prediction(bundle, blocks.node_ids, tmp_path)
    assert isinstance(kept, ClassPrediction) and kept.distance_aware and kept.for_detection() is kept
    assert np.array_equal(kept.epistemic, found.epistemic)


def test_detection_reads_it_and_other_calibration_is_undone(blocks: Graph) -> None:
    found = answer(fitted(blocks), blocks)
    assert found.for_detection() is found and found.untempered() is not found
    assert found.subset(np.arange(3)).distance_aware
    tempered = answer(fitted(blocks, calibrator="temperature"), blocks)
    assert np.array_equal(tempered.for_detection().probs, tempered.untempered().probs)


def test_sums_over_samples_agree_with_samples(blocks: Graph) -> None:
    model = fitted(blocks, sigma=0.25)
    whole, sums = answer(model, blocks, keep_samples=True), answer(model, blocks, keep_samples=False)
    assert sums.distance_aware and sums.for_detection() is sums and sums.subset(np.arange(3)).distance_aware
    for name in ("mean", "total", "epistemic"):
        assert np.allclose(getattr(whole, name), getattr(sums, name), atol=1e-5)


def test_the_evidence_is_fitted_once_for_training_calibration_and_prediction(
    blocks: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = blocks.with_masks(**blocks.masks)  # nobody has asked for its evidence yet
    calls = []
    original = Evidence.fit.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Evidence], *args: Any, **options: Any) -> Evidence:
        calls.append(1)
        return original(cls, *args, **options)

    monkeypatch.setattr(Evidence, "fit", classmethod(counted))
    model = fitted(graph, preset="auto", consistency={"kind": "confident", "by_evidence": True})
    prediction = answer(model, graph)
    gs.score("ood", prediction.for_detection(), graph, model)
    assert len(calls) == 1


def test_members_of_an_ensemble_have_none(blocks: Graph, tmp_path: Path) -> None:
    base = {"race": False, "epochs": 2}
    model = gs.Ensemble(base="lgnsde", members=2, base_settings=base).fit(blocks)
    assert all(member.calibrator is None for member in model.members)
    assert np.array_equal(answer(load_model(model.save(tmp_path)), blocks).probs, answer(model, blocks).probs)
    with pytest.raises(GraphsdeError, match="one by one"):
        gs.Ensemble(base="lgnsde", base_settings={**base, "calibrator": "vector"}).fit(blocks)


def test_an_explanation_keeps_the_noise_of_the_graph(blocks: Graph) -> None:
    """Nothing is fitted again for a removed edge; where nothing is removed, nothing changes."""
    model, row = fitted(blocks), 3
    assert model.calibrator is not None
    held = model.calibrator.for_changes_at(blocks, row)
    before, after = (one.surroundings(blocks).variance for one in (model.calibrator, held))  # type: ignore[attr-defined]
    assert np.allclose(before, after, rtol=1e-5)
    alone = without_edges(blocks, row, blocks.adjacency.neighbours(row))
    changed = held.surroundings(alone).variance  # type: ignore[attr-defined]
    assert changed[row] != before[row]
    # no neighbour is left: every step keeps the node's own noise
    kappa, steps = model.linear_filter() or (0.9, 10)
    assert held.held is not None  # type: ignore[attr-defined]
    noise = float(held.held.noise[row])  # type: ignore[attr-defined]
    assert float(changed[row]) == pytest.approx(noise * sum(kappa ** (2 * k) for k in range(steps)), rel=1e-5)
    others = np.arange(blocks.num_nodes) != row
    assert np.array_equal(changed[others], before[others])


@needs_real_data
def test_entropy_finds_unknown_classes_better() -> None:
    graph = gs.load("cora")
    graph = make_split(graph, "label-leave-out").apply(graph)
    found = answer(fitted(graph, epochs=60), graph)
    known, unknown = graph.role("test"), graph.role("ood")

    def ranked(doubt: np.ndarray) -> float:
        return float(
            roc_auc_score(np.repeat([0, 1], [known.sum(), unknown.sum()]), np.r_[doubt[known], doubt[unknown]])
        )

    assert ranked(found.total) > ranked(found.untempered().total) + 0.01
    assert gs.evaluate(found, graph)["ood_auroc"] == pytest.approx(ranked(found.total))
