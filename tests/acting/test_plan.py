"""How many labels: against brute force and against the tests that the plan is for."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.plan import _expected_labels, _largest_error, plan, plan_for_graph
from graphsde.base.errors import BadUsage
from graphsde.uncertainty.binomial import MOST_NODES, binomial_p_value, nodes_to_certify, power_of_test


def test_without_errors_it_is_the_closed_form() -> None:
    for limit in (0.2, 0.05, 0.01):
        found = plan(limit, 0.05)
        assert found.fewest == nodes_to_certify(limit, 0.05) == int(np.ceil(np.log(0.05) / np.log(1 - limit)))
        assert plan(limit, accepted_share=0.5).fewest == 2 * found.fewest


def test_the_table_has_every_assumption() -> None:
    found = plan(0.1)
    rows = found.rows()
    assert [(row["guarantee"], row["assumed error"]) for row in rows] == [
        (name, pytest.approx(error)) for name in ("certified", "expected") for error in (0.025, 0.05, 0.075)
    ]
    assert [row["labels for 80%"] for row in rows if row["guarantee"] == "certified"] == [76, 203, 869]
    labels = np.array([[row[f"labels for {power}%"] for power in (50, 80, 95)] for row in rows])
    assert np.all(np.diff(labels, axis=1) > 0)
    assert np.all(labels[3:] < labels[:3])  # what holds on average needs less
    assert json.loads(json.dumps(found.as_dict()))["fewest"] == 29


def test_so_many_labels_pass_as_often_as_planned() -> None:
    rng = np.random.default_rng(0)
    needs = [one for one in plan(0.1, accepted_share=0.6).needs if one.power == 0.8]
    for one in needs:
        assert one.labels is not None
        accepted = rng.binomial(one.labels, 0.6, size=4000)
        wrong = rng.binomial(accepted, one.assumed_error)
        if one.guarantee == "certified":
            passed = binomial_p_value(wrong, accepted, 0.1) <= 0.05
        else:
            passed = (1 + wrong) / (one.labels + 1) <= 0.1 * 0.6 + 1e-9
        assert 0.72 < passed.mean() < 0.95, one


@pytest.mark.parametrize(
    "wrong", [{"max_error": 0.0}, {"max_error": 0.1, "delta": 1.0}, {"max_error": 0.1, "accepted_share": 0.0}]
)
def test_what_is_no_share_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadUsage):
        plan(**wrong)


@pytest.mark.parametrize("nodes", [100, 500, 5000])
def test_the_largest_error_is_where_the_power_is_eighty_percent(nodes: int) -> None:
    found = _largest_error(nodes, 0.05, 0.05)
    assert found is not None and 0 < found < 0.05
    assert float(power_of_test(nodes, found, 0.05, 0.05)) == pytest.approx(0.8, abs=1e-6)
    assert _largest_error(58, 0.05, 0.05) is None


def test_more_labels_than_anybody_has_are_not_looked_for() -> None:
    some, many = (_expected_labels(0.05, error, 0.05, 0.8, 1.0) for error in (0.0495, 0.0496))
    assert some is not None and 131_072 < some < MOST_NODES and many is None
    assert _expected_labels(0.05, 0.0, 0.05, 0.8, 1.0) == 19  # 1 / (n + 1) is 5 % from then on


@pytest.mark.parametrize(("accuracy", "accepted"), [(0.76, 0.8), (0.97, 1.0)])
def test_who_is_wrong_too_often_can_accept_a_share_only(accuracy: float, accepted: float) -> None:
    """Accepting a share s with errors of 5 % takes 95 % of s right, and no more than the accuracy is."""
    graph = gs.synthetic(400, classes=2)
    found = plan_for_graph(graph, 0.05, accuracy=accuracy)
    assert found.plan.accepted_share == pytest.approx(accepted)


def test_labels_are_whole_ones() -> None:
    """59 accepted ones at least, four of five of which are accepted: 73.75 labels."""
    assert plan(0.05, accepted_share=0.8).fewest == 74
