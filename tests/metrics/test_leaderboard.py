"""The leaderboard: ordered by validation NLL, judged in pairs on the same test nodes."""

from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.metrics.leaderboard import HOW_TO_CHOOSE, Contender, Leaderboard, _plain, leaderboard
from graphsde.prediction import ClassPrediction

from support import block_graph


def some_graph() -> Graph:
    graph = block_graph()
    assert graph.labels is not None
    rng = np.random.default_rng(0)
    role = rng.permutation(graph.num_nodes) % 3
    return graph.with_masks(train=role == 0, val=role == 1, test=role == 2)


def guess(graph: Graph, share: np.ndarray | float) -> ClassPrediction:
    """The true class gets ``share``, the others the rest."""
    assert graph.labels is not None
    share = np.broadcast_to(share, graph.num_nodes)
    probs = np.repeat(((1 - share) / (graph.num_classes - 1))[:, None], graph.num_classes, axis=1)
    probs[np.arange(graph.num_nodes), graph.labels] = share
    return ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def board(graph: Graph, own: np.ndarray | float, **controls: np.ndarray | float) -> Leaderboard:
    contenders = [Contender("mine", guess(graph, own), control=False, edges=True)]
    contenders += [
        Contender(name, guess(graph, share), control=True, edges=name != "plain") for name, share in controls.items()
    ]
    return leaderboard(contenders, graph)


def test_a_constant_gain_is_known_without_doubt() -> None:
    """NLL is 0.9 against 0.6 at every node: the difference is ln(0.6/0.9) in every draw."""
    found = board(some_graph(), 0.9, plain=0.6)
    assert found.model is not None and found.model.verdict == "worth it"
    difference = found.model.differences["nll"]
    assert (difference.value, difference.low, difference.high) == pytest.approx((np.log(0.6 / 0.9),) * 3)
    assert found.rows[0].figures["nll"].value == pytest.approx(-np.log(0.9))
    worse = board(some_graph(), 0.6, plain=0.9)
    assert worse.model is not None and worse.model.verdict == "worse" and "mine is worse than plain" in worse.sentence


def test_differences_are_paired() -> None:
    """Both vary much between nodes, and together: the difference has the interval of its own mean."""
    graph = some_graph()
    rng = np.random.default_rng(1)
    base, gain = rng.uniform(0.3, 0.8, graph.num_nodes), rng.uniform(0.9, 1.2, graph.num_nodes)
    found = board(graph, base * gain, plain=base)
    test = graph.test_mask
    assert found.model is not None and test is not None
    by_node = -np.log(gain[test])
    one, reach = found.model.differences["nll"], 1.96 * by_node.std() / np.sqrt(test.sum())
    assert one.value == pytest.approx(by_node.mean())
    assert (one.low, one.high) == pytest.approx((by_node.mean() - reach, by_node.mean() + reach), abs=0.25 * reach)
    apart = found.rows[0].figures["nll"]
    assert one.high - one.low < (apart.high - apart.low) / 2


def test_no_difference_is_a_tie() -> None:
    found = board(some_graph(), 0.7, plain=0.7)
    assert found.model is not None and found.model.verdict == "statistically tied"
    assert "statistically tied with plain" in found.sentence


def test_validation_nodes_alone_choose_whom_to_compare_with() -> None:
    graph = some_graph()
    assert graph.val_mask is not None
    flattering = np.where(graph.val_mask, 0.55, 0.95)  # the best on test nodes, the worst on validation nodes
    found = board(graph, 0.8, plain=flattering, sound=0.7)
    assert [one.name for one in found.rows] == ["mine", "sound", "plain"]
    assert found.model is not None and found.model.second == "sound" and found.model.verdict == "worth it"
    assert found.graph is not None and (found.graph.first, found.graph.second) == ("mine", "plain")
    assert found.graph.verdict == "worse" and found.sentence.startswith("Edges do harm here")


def test_what_is_missing_is_said() -> None:
    graph = some_graph()
    assert graph.train_mask is not None and graph.val_mask is not None and graph.test_mask is not None
    untested = board(graph.with_masks(train=graph.train_mask, val=graph.val_mask), 0.8, plain=0.7)
    assert untested.test_nodes == 0 and untested.model is None and "No test node" in untested.sentence
    assert untested.table()[0]["validation NLL"] == "0.223"
    unchosen = board(graph.with_masks(train=graph.train_mask, test=graph.test_mask), 0.8, plain=0.7)
    assert unchosen.model is None and unchosen.rows[0].val_nll is None and unchosen.table()[0]["validation NLL"] == "—"
    assert leaderboard([], graph, left_out={"slow": "it takes too long"}).notes() == [
        "slow was left out: it takes too long."
    ]


def test_a_board_survives_its_file_and_warns() -> None:
    found = board(some_graph(), 0.8, plain=0.7)
    again = Leaderboard.model_validate(found.model_dump())
    assert again == found and again.table() == found.table() and again.sentence == found.sentence
    assert found.notes() == [HOW_TO_CHOOSE] and "voids the guarantees" in HOW_TO_CHOOSE
    assert [row["model"] for row in found.table()] == ["mine (this model)", "plain"]


def test_figures_are_those_of_evaluate_with_the_intervals_of_intervals() -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    (row,) = leaderboard([Contender("spread", prediction, control=True, edges=True)], graph).rows
    figures, ends = gs.evaluate(prediction, graph), gs.intervals(prediction, graph)
    for name, one in row.figures.items():
        assert one.value == pytest.approx(figures[name], abs=1e-12)
        assert (one.low, one.high) == pytest.approx(ends[name], abs=1e-12)


def test_figures_have_as_many_digits_as_matter() -> None:
    assert [_plain(value) for value in (0.12345, -9.99949, 10.0, 1234.56)] == ["0.123", "-9.999", "10", "1235"]
