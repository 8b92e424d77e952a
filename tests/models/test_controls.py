"""Controls: closed forms, what is left out and why, and how a prediction stands beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import entropy

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.controls import RIDGES, majority_class, mean_value, neighbour_mean, ridge
from graphsde.nn.encoding import FeatureEncoder

from support import block_graph

FACEBOOK = Path(__file__).parents[2] / ".." / "shared" / "data" / "more" / "facebook"


def test_the_majority_class_says_the_shares_of_training_nodes() -> None:
    graph = block_graph()
    assert graph.labels is not None and graph.train_mask is not None
    share = np.bincount(graph.labels[graph.train_mask], minlength=graph.num_classes) / graph.train_mask.sum()
    prediction = majority_class(graph)
    assert (prediction.mean == share).all()
    of_training = gs.metrics.nll(prediction.mean[graph.train_mask], graph.labels[graph.train_mask])
    assert of_training == pytest.approx(entropy(share))


def path_of_numbers() -> Graph:
    """0 - 1 - 2 - 3 - 4 with values 1, 5, 3, 7, 4; 0 and 2 are for training, 1 and 3 for validation."""
    roles = {
        name: np.isin(np.arange(5), nodes) for name, nodes in {"train": [0, 2], "val": [1, 3], "test": [4]}.items()
    }
    return gs.from_arrays(
        edges=np.array([[0, 1, 2, 3], [1, 2, 3, 4]]),
        features=np.arange(5.0)[:, None],
        labels=np.array([1.0, 5.0, 3.0, 7.0, 4.0]),
        target="regression",
    ).with_masks(**roles)


def test_means_by_hand() -> None:
    graph = path_of_numbers()
    whole = mean_value(graph)
    assert whole.mean.tolist() == [2.0] * 5 and whole.total.tolist() == [1.0] * 5
    near = neighbour_mean(graph)
    # training neighbours and, as one more, the mean 2: node 1 has 1 and 3, node 3 has 3, node 4 none
    assert near.mean[[1, 3, 4]].tolist() == [2.0, 2.5, 2.0]
    assert near.total[0] == pytest.approx(((2 - 5) ** 2 + (2.5 - 7) ** 2) / 2)


def test_the_ridge_solves_its_normal_equations_and_is_chosen_by_validation_nodes() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(150, 40))
    role = np.arange(150) % 3
    graph = gs.from_arrays(
        edges=np.array([np.arange(149), np.arange(1, 150)]),
        features=columns,
        labels=columns[:, 0] + 2 * rng.normal(size=150),  # most columns mislead, so that a strong ridge is best
        target="regression",
    ).with_masks(train=role == 0, val=role == 1, test=role == 2)
    assert graph.values is not None and graph.train_mask is not None and graph.val_mask is not None
    x, train = np.asarray(FeatureEncoder.fit(graph).transform(graph), dtype=np.float64), graph.train_mask
    middle = graph.values[train].mean()
    errors, means = [], []
    for strength in RIDGES:
        gram = x[train].T @ x[train] + strength * np.eye(x.shape[1])
        found = x @ np.linalg.solve(gram, x[train].T @ (graph.values[train] - middle)) + middle
        found += (graph.values[train] - found[train]).mean()
        means.append(found)
        errors.append(np.mean((found - graph.values)[graph.val_mask] ** 2))
    best = int(np.argmin(errors))
    assert best > 0
    prediction = ridge(graph)
    np.testing.assert_allclose(prediction.mean, means[best], rtol=1e-3)
    assert prediction.total[0] == pytest.approx(errors[best], rel=1e-3)


def test_a_control_that_takes_too_long_is_left_out_and_named() -> None:
    board = gs.controls(gs.load("digits"), seconds=0.0)
    assert {one.name for one in board.rows} == {"majority-class", "label-propagation"}
    assert board.left_out == {name: "it takes more than 0 s of CPU time" for name in ("logistic", "logistic-hops")}
    assert "logistic was left out: it takes more than 0 s of CPU time." in board.notes()


def test_controls_that_do_not_fit_into_a_limit_are_left_out_and_named() -> None:
    graph = gs.load("digits")
    with gs.within_memory("1M"):  # less than the process holds already
        board = gs.controls(graph)
    assert {one.name for one in board.rows} == {"majority-class", "label-propagation"}
    assert all("would need about" in board.left_out[name] for name in ("logistic", "logistic-hops"))


def test_a_control_that_can_not_be_fitted_is_left_out_and_named() -> None:
    graph = gs.load("digits")
    assert graph.train_mask is not None and graph.test_mask is not None
    board = gs.controls(graph.with_masks(train=graph.train_mask, test=graph.test_mask))
    assert (
        set(board.left_out) == {"logistic", "logistic-hops"} and board.left_out["logistic"] == "the val split is empty"
    )
    assert len(board.rows) == 2 and board.model is None


def test_a_prediction_of_ones_own_stands_among_them() -> None:
    graph = gs.load("digits")
    own = gs.Logistic().fit(graph).predict(graph)
    board = gs.controls(graph, own, name="logistic")
    assert sorted(one.name for one in board.rows) == [
        "label-propagation",
        "logistic",
        "logistic-hops",
        "majority-class",
    ]
    (mine,) = [one for one in board.rows if not one.control]
    assert mine.name == "logistic" and not mine.edges
    assert board.model is not None and (board.model.first, board.model.second) == ("logistic", "logistic-hops")
    assert board.model.verdict == "worse" and "Edges are worth it" in board.sentence
    found = {one.name: one.figures["nll"].value for one in board.rows}["logistic"]
    assert found == pytest.approx(gs.evaluate(own, graph)["nll"], rel=1e-12)  # sums in another order


def test_controls_of_numbers() -> None:
    board = gs.controls(gs.load("diabetes"))
    assert {one.name for one in board.rows} == {"mean", "neighbour-mean", "ridge"}
    assert board.rows[0].name == "ridge" and set(board.rows[0].figures) == {"rmse", "nll", "crps"}
    assert board.rows[-1].name == "mean" and board.model is None


@pytest.mark.slow
def test_controls_of_a_large_graph_cost_seconds() -> None:
    """22,470 pages with 4,714 words, all labels in use; who would take more than 20 s is left out with the reason."""
    if not FACEBOOK.is_dir():
        pytest.skip("the raw Facebook files are not here")
    graph = gs.read(str(FACEBOOK), label="page_type", node_name="page_name")
    board = gs.controls(graph)
    assert {one.name for one in board.rows} >= {"majority-class", "label-propagation", "logistic"}
    assert set(board.left_out) <= {"logistic-hops"} and all((one.seconds or 0) < 40 for one in board.rows)
