"""The frontier: its guarantee by simulation, its thresholds, what is out of reach, second looks, real predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import graphsde as gs
from graphsde.acting.certified import certify
from graphsde.acting.ladder import (
    EARLIER,
    FOCUS_SHARE,
    LADDER,
    FocusSequence,
    Rung,
    choose_thresholds,
    judge_all,
    judge_ladder,
    keep_certified,
    run_ladder_test,
    with_focus,
)
from graphsde.acting.loosening import Loosened, loosen, thresholds_to_test
from graphsde.acting.needed_labels import further_labels
from graphsde.acting.ood import flag_ood, flag_per_node
from graphsde.base.errors import BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.prediction import ClassPrediction, RegressionPrediction
from graphsde.uncertainty.binomial import binomial_p_value, clopper_pearson_interval, clopper_pearson_upper
from graphsde.uncertainty.multiple_testing import fixed_sequence

from support import needs_real_data

DRAWS, DELTA = 1000, 0.1


def draw(rng: np.random.Generator, nodes: int, risk: float) -> tuple[np.ndarray, np.ndarray]:
    """A node of doubt u is wrong with probability ``risk · u``: up to a threshold t, a share ``risk · t / 2`` is."""
    doubt = rng.random(nodes)
    return doubt, rng.random(nodes) < risk * doubt


def true_error(thresholds: np.ndarray, risk: float) -> np.ndarray:
    return risk * np.clip(thresholds, 0, 1) / 2


def broken_draws(thresholds: np.ndarray, limits: tuple[float, ...], risk: float, delta: float, seed: int) -> int:
    """Draws in which a limit is certified that does not hold."""
    rng, broken = np.random.default_rng(seed), 0
    false = true_error(thresholds, risk) > np.array(limits)
    for _ in range(DRAWS):
        broken += bool((run_ladder_test(*draw(rng, 600, risk), limits, thresholds, delta).passed & false).any())
    return broken


def test_all_certified_limits_hold_together() -> None:
    """Every limit is a little too strict for its threshold: any certificate is false, and there are few."""
    limits = (0.2, 0.15, 0.1, 0.05)
    thresholds = 2 * 1.0001 * np.array(limits) / 0.5
    broken = broken_draws(thresholds, limits, risk=0.5, delta=DELTA, seed=0)
    low, high = clopper_pearson_interval(broken, DRAWS, 0.001)
    assert low <= DELTA and high > 0.05, (low, high)
    careless = broken_draws(thresholds, limits, risk=0.5, delta=2.5 * DELTA, seed=0)
    assert clopper_pearson_interval(careless, DRAWS, 0.001)[0] > DELTA


def test_the_first_limit_that_does_not_hold_is_what_counts() -> None:
    limits = (0.2, 0.15, 0.1, 0.05)
    thresholds = np.array([0.5, 0.38, 2 * 1.0001 * 0.1 / 0.5, 0.3])  # the first two hold, the others do not
    broken = broken_draws(thresholds, limits, risk=0.5, delta=DELTA, seed=1)
    assert clopper_pearson_interval(broken, DRAWS, 0.001)[0] <= DELTA and broken > 0


def test_without_a_sequence_the_limits_would_not_hold_together() -> None:
    """Thresholds far apart, tested one by one: some false limit passes in more than δ of the draws."""
    rng, limits = np.random.default_rng(2), (0.25, 0.15, 0.05)
    doubts = np.repeat([0.1, 0.3, 0.5], 150)
    rates = np.repeat([0.05, 0.25, 0.45], 150)  # cumulative error 5 %, 15 %, 25 %
    alone = together = 0
    for _ in range(DRAWS):
        found = run_ladder_test(doubts, rng.random(450) < rates, limits, np.array([0.5, 0.3, 0.1]), DELTA)
        alone += bool((found.p_values <= DELTA).any())
        together += bool(found.passed.any())
        assert np.array_equal(found.passed, fixed_sequence(found.p_values, DELTA))
    assert clopper_pearson_interval(together, DRAWS, 0.001)[0] <= DELTA < clopper_pearson_interval(alone, DRAWS)[0]


def test_thresholds_from_validation_nodes_keep_the_guarantee_and_are_certified_where_they_can_be() -> None:
    rng, broken, certified = np.random.default_rng(3), 0, np.zeros(len(LADDER))
    for _ in range(40):
        thresholds = choose_thresholds(*draw(rng, 400, 0.5), LADDER, DELTA, 500)
        assert np.all(np.diff(thresholds) <= 0)
        false = true_error(thresholds, 0.5) > np.array(LADDER)
        for _ in range(25):
            passed = run_ladder_test(*draw(rng, 500, 0.5), LADDER, thresholds, DELTA).passed
            broken += bool((passed & false).any())
            certified += passed
    assert clopper_pearson_interval(broken, DRAWS, 0.001)[0] <= DELTA
    shares = dict(zip(LADDER, certified / DRAWS, strict=True))
    assert shares[0.30] > 0.85 and shares[0.15] > 0.5 and shares[0.01] < 0.1


def test_a_threshold_accepts_as_much_as_should_pass() -> None:
    """No errors below 0.6, nothing but errors above: the threshold is at the edge for every limit in reach."""
    values = (np.arange(1000) + 0.5) / 1000
    thresholds = choose_thresholds(values, values > 0.6, (0.2, 0.1, 0.05), 0.05, 1000)
    assert np.all(thresholds >= 0.57) and np.all(true_share(values, thresholds, 0.6) < [0.2, 0.1, 0.05])
    assert choose_thresholds(np.full(5, np.inf), np.ones(5, dtype=bool), (0.1,), 0.05, 100).tolist() == [-np.inf]


def true_share(values: np.ndarray, thresholds: np.ndarray, edge: float) -> np.ndarray:
    return np.array([(values[values <= one] > edge).mean() for one in thresholds])


def test_a_rung_says_what_was_counted() -> None:
    values, wrong = draw(np.random.default_rng(4), 300, 0.2)
    rungs = judge_ladder(values, wrong, (0.2, 0.15, 0.001), np.array([1.0, 0.7, 0.5]), 0.05)
    for one in rungs:
        inside = values <= one.threshold
        assert (one.accepted, one.wrong) == (inside.sum(), wrong[inside].sum())
        assert one.upper_bound == clopper_pearson_upper(one.wrong, one.accepted, 0.05)
        assert one.p_value == binomial_p_value(one.wrong, one.accepted, one.limit)
        assert one.certified == (one.upper_bound <= one.limit)
        assert json.loads(json.dumps(one.as_dict()))["observed_error"] == one.observed_error
    assert [one.status for one in rungs] == ["certified", "certified", "failed"]


def test_further_labels_are_enough_as_often_as_stated() -> None:
    """Observed errors as large as the true rate: with the labels at the upper end, 80 % of the tests pass."""
    labels, words = further_labels(7, 240, 300, 0.05, 0.05)
    assert labels is not None and labels[1] is not None
    low, high = labels
    assert low < 300 < high < 4000 and words == f"{low:,} to {high:,} further calibration labels"
    rng = np.random.default_rng(5)
    accepted = rng.binomial(300 + high, 0.8, size=2000)
    passed = binomial_p_value(rng.binomial(accepted, 7 / 240), accepted, 0.05) <= 0.05
    assert passed.mean() > 0.8
    enough = rng.binomial(300 + low, 0.8, size=2000)
    optimistic = clopper_pearson_interval(7, 240, 0.5)[0]
    assert 0.7 < (binomial_p_value(rng.binomial(enough, optimistic), enough, 0.05) <= 0.05).mean() < 0.9


def test_what_more_labels_do_not_help_is_said() -> None:
    assert "not reachable" in further_labels(20, 100, 200, 0.1, 0.05)[1]
    labels, words = further_labels(9, 100, 200, 0.1, 0.05)
    assert labels is not None and labels[1] is None and words.startswith("at least")
    assert further_labels(0, 0, 200, 0.1, 0.05)[0] is None


def test_a_limit_is_out_of_reach_only_if_the_error_is_surely_above_it() -> None:
    """4 of 233 are more than 1 %, but an error of 0.9 % shows as many one time in seven."""
    assert stats.binom.sf(3, 233, 0.009) > 0.1 and stats.binom.sf(9, 100, 0.05) < 0.05
    labels, words = further_labels(4, 233, 500, 0.01, 0.05)
    assert labels is not None and labels[1] is None and "given the observed error, possibly no number" in words
    fewest = next(n for n in range(233, 5000) if binomial_p_value(4, n, 0.01) <= 0.05)  # if no more of them are wrong
    assert labels[0] == int(np.ceil(fewest * 500 / 233)) - 500
    assert further_labels(10, 100, 200, 0.05, 0.05)[0] is None
    for errors in range(1, 30):
        told = further_labels(errors, 100, 200, 0.05, 0.05)[1]
        assert ("not reachable" in told) == bool(stats.binom.sf(errors - 1, 100, 0.05) < 0.05)


def test_with_too_few_labels_or_no_errors_nothing_is_said_of_the_error() -> None:
    assert further_labels(0, 1, 3, 0.05, 0.05) == ((56, None), "at least 59 calibration labels are needed; there are 3")
    assert further_labels(1, 1, 1, 0.05, 0.05)[1] == "at least 59 calibration labels are needed; there is 1"
    assert further_labels(0, 0, 0, 0.05, 0.05)[1].endswith("there are none yet")
    labels, words = further_labels(0, 20, 60, 0.05, 0.05)
    assert labels is not None and words == f"at least {labels[0]:,} further calibration labels"
    few = np.linspace(0, 1, 7)
    rungs = judge_ladder(few, np.zeros(7, bool), (0.3, 0.1, 0.05), np.array([0.5] * 3), 0.05)
    assert [one.outlook for one in rungs] == [
        f"at least {needed} calibration labels are needed; there are 7" for needed in (9, 29, 59)
    ]
    focused = with_focus(rungs, None, 0.05, 0.04, 7)[2]  # tested with a larger share of δ than the ladder
    assert focused.outlook == "at least 63 calibration labels are needed; there are 7"


def test_a_limit_that_is_not_tested_needs_what_those_before_it_need() -> None:
    values = np.linspace(0, 1, 400)
    rungs = judge_ladder(values, np.arange(400) % 20 == 0, (0.06, 0.055), np.array([1.0, 0.02]), 0.05)
    assert [one.status for one in rungs] == ["failed", "not tested"]
    assert rungs[0].further_labels is not None
    first, second = rungs[0].further_labels, rungs[1].further_labels
    assert second is None or second[0] >= first[0]
    out = judge_ladder(values, np.arange(400) > 200, (0.2, 0.1), np.array([1.0, 0.3]), 0.05)
    assert "not reachable" in out[0].outlook and out[1].outlook == "out of reach, because the looser limit 20% is"


def population(nodes: int = 3000, seed: int = 6, risk: float = 0.15) -> tuple[Graph, ClassPrediction]:
    rng = np.random.default_rng(seed)
    doubt, wrong = draw(rng, nodes, risk)
    role = np.arange(nodes)
    graph = from_arrays(
        np.ones((nodes, 1)), np.stack([role, (role + 1) % nodes]), labels=wrong.astype(np.int64),
        class_names=["right", "wrong"], train_mask=role < 20, val_mask=(role >= 20) & (role < 600),
        test_mask=(role >= 600) & (role < 2000), name="population",
    )  # fmt: skip
    probs = np.stack([1 - doubt / 2, doubt / 2], axis=1)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_a_limit_between_two_gets_the_stricter_one() -> None:
    graph, prediction = population()
    found = certify(prediction, graph)
    assert [one.limit for one in found.certified] == list(LADDER[: len(found.certified)]) and len(found.certified) >= 4
    assert found.at(0.12) is found.at(0.10) and found.at(0.10).limit == 0.10  # type: ignore[union-attr]
    assert found.at(0.001) is None and not found.accepted(0.001).any()
    accepted = found.accepted(0.12)
    assert np.array_equal(accepted, found.values <= found.at(0.10).threshold)  # type: ignore[union-attr]
    assert np.all(found.accepted(0.05) <= accepted)
    assert np.array_equal(found.calibration, graph.test_mask) and found.decided.sum() == 1000
    assert found.at(0.10).accepted_share == accepted[2000:].mean()  # type: ignore[union-attr]
    assert [row["limit"] for row in found.rows()] == list(LADDER)
    assert json.loads(json.dumps(found.as_dict()))["guarantee"]["name"] == "certified"


def test_thresholds_do_not_depend_on_calibration_labels() -> None:
    graph, prediction = population()
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[600:2000] = 1 - labels[600:2000]
    one, two = (certify(prediction, given, focus=None) for given in (graph, graph.with_labels(labels)))
    assert [rung.threshold for rung in one.rungs] == [rung.threshold for rung in two.rungs]
    assert not two.certified


def loosened(values: np.ndarray, wrong: np.ndarray, others: np.ndarray, limit: float, delta: float) -> Loosened | None:
    """The focus alone, with thresholds from other nodes."""
    return loosen(values, wrong, thresholds_to_test(others, len(values), limit, delta), limit, delta)


def test_the_focus_goes_on_for_as_long_as_it_passes() -> None:
    """Right up to a doubt of 0.7, wrong beyond: the error rate below t is 1 − 0.7 / t."""
    values = (np.arange(1000) + 0.5) / 1000
    found = loosened(values, values > 0.7, values, 0.05, 0.05)
    assert found is not None and found.passed
    shares = np.arange(1, 51) / 50
    accepted = np.rint(1000 * shares).astype(int)
    p_values = binomial_p_value(np.maximum(accepted - 700, 0), accepted, np.full(50, 0.05))
    assert found.accepted == accepted[p_values <= 0.05].max() == 720 and found.wrong == 20
    nothing = loosened(values, np.ones(1000, dtype=bool), values, 0.05, 0.05)
    assert nothing is not None and not nothing.passed and nothing.accepted < 500
    assert loosened(values, values > 0.7, np.full(9, np.inf), 0.05, 0.05) is None


@pytest.mark.parametrize(("nodes", "forgiven"), [(150, 0), (250, 1), (500, 5), (2000, 10)])
def test_the_focus_begins_where_errors_are_forgiven_and_few(nodes: int, forgiven: int) -> None:
    """The first threshold accepts enough nodes for as many errors as half of the nodes can forgive, ten at most: by
    brute force over the binomial distribution."""
    values = (np.arange(nodes) + 0.5) / nodes
    found = loosened(values, np.ones(nodes, dtype=bool), values, 0.05, 0.04)
    assert found is not None and not found.passed  # so that it is the first one
    can = max(k for k in range(found.accepted) if stats.binom.cdf(k, found.accepted, 0.05) <= 0.04)
    assert can >= forgiven
    share = found.accepted / nodes
    assert share <= 0.5 or (forgiven == 0 and share < 0.7)


def test_ladder_and_focus_hold_together() -> None:
    """1,000 draws; everything that is certified is compared with the true error at its threshold."""
    rng, limits, risk = np.random.default_rng(11), (0.2, 0.1, 0.05, 0.03), 0.15
    others, broken, gained = rng.random(2000), 0, 0
    thresholds = 1.0001 * 2 * np.array(limits) / risk  # the two loosest hold, the others hardly don't
    false = true_error(thresholds, risk) > np.array(limits)
    for _ in range(DRAWS):
        values, wrong = draw(rng, 400, risk)
        passed = run_ladder_test(values, wrong, limits, thresholds, (1 - FOCUS_SHARE) * DELTA).passed
        found = loosened(values, wrong, others, 0.05, FOCUS_SHARE * DELTA)
        assert found is not None
        too_loose = found.passed and true_error(np.array(found.threshold), risk) > 0.05
        broken += bool((passed & false).any() or too_loose)
        gained += found.passed and not too_loose
    low, high = clopper_pearson_interval(broken, DRAWS, 0.001)
    assert low <= DELTA and high > 0.05 and gained > 0.2 * DRAWS, (low, high, gained)


def test_what_holds_at_the_focus_holds_at_looser_limits() -> None:
    rungs = judge_ladder(np.linspace(0, 1, 400), np.zeros(400, dtype=bool), (0.1, 0.05, 0.01), np.full(3, 0.05), 0.01)
    assert not any(one.certified for one in rungs)
    found = Loosened(0.5, 200, 1, 1e-4, True)
    assert [one.threshold for one in with_focus(rungs, found, 0.05, 0.04, 400)] == [0.5, 0.5, 0.05]
    assert [one.status for one in with_focus(rungs, found, 0.05, 0.04, 400)] == ["certified"] * 2 + ["not tested"]
    assert "looser limit" not in with_focus(rungs, found, 0.05, 0.04, 400)[2].outlook
    failed = with_focus(rungs, Loosened(0.5, 200, 9, 0.4, False), 0.05, 0.04, 400)
    assert failed[1].status == "failed" and failed[1].further_labels is not None and failed[0] == rungs[0]


def test_flagged_nodes_are_neither_accepted_nor_counted() -> None:
    graph, prediction = population()
    flag = flag_per_node(prediction, graph, false_alarm=0.4, by="entropy")
    found = certify(prediction, graph, ood=flag)
    assert not (found.accepted(0.3) & flag.flagged).any()
    inside = graph.role("test") & flag.cleared
    assert found.rungs[0].accepted == (inside & (found.values <= found.rungs[0].threshold)).sum()
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        certify(prediction, graph, ood=flag_ood(prediction, graph, by="entropy", calibration=np.arange(600, 800)))


def test_a_second_look_needs_a_frontier_that_was_made_for_it() -> None:
    graph, prediction = population()
    once = certify(prediction, graph, calibration=np.arange(600, 700))
    with pytest.raises(BadUsage, match="second test"):
        once.again(prediction, graph, np.arange(600, 900))
    first = certify(prediction, graph, calibration=np.arange(600, 700), anytime=True)
    with pytest.raises(BadUsage, match="100 of the earlier calibration nodes"):
        first.again(prediction, graph, np.arange(700, 900))
    later = first.again(prediction, graph, np.arange(600, 2000))
    assert len(later.certified) > len(first.certified)
    assert [one.threshold for one in later.rungs] == [one.threshold for one in first.rungs]
    assert "however often" in later.guarantee.meaning


def test_looks_at_every_fifty_labels_keep_delta_over_the_whole_ladder() -> None:
    """1,000 runs; the loosest limits hold, the others are a little too strict."""
    rng, limits = np.random.default_rng(7), (0.2, 0.1, 0.05)
    thresholds = np.array([0.5, 1.0001 * 0.4, 1.0001 * 0.2])
    false = true_error(thresholds, 0.5) > np.array(limits)
    broken = peeked = 0
    for _ in range(DRAWS):
        values, wrong = draw(rng, 800, 0.5)
        looks = [(values[:n], wrong[:n], limits, thresholds, DELTA) for n in range(50, 801, 50)]
        broken += any((run_ladder_test(*look, anytime=True).passed & false).any() for look in looks)
        peeked += any((run_ladder_test(*look).passed & false).any() for look in looks)
    assert clopper_pearson_interval(broken, DRAWS, 0.001)[0] <= DELTA
    assert clopper_pearson_interval(peeked, DRAWS, 0.001)[0] > DELTA


def test_repeated_looks_at_ladder_and_focus_keep_delta_and_a_first_look_that_is_kept_costs_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thresholds at which limits hardly don't hold; what an ordinary first look certified is kept at all later ones."""
    monkeypatch.setattr(
        "graphsde.acting.ladder.further_labels", lambda *args, **options: (None, "")
    )  # slow, and of no interest here
    monkeypatch.setattr("graphsde.acting.ladder.anytime_upper", lambda wrong, accepted, delta: np.ones(np.shape(wrong)))
    rng, limits, risk, draws = np.random.default_rng(12), (0.2, 0.1, 0.05), 0.3, 400
    thresholds = np.minimum(1.0001 * 2 * np.array(limits) / risk, 1.0)
    sequence = FocusSequence(0.05, np.array([1.0001 * 0.1 / risk, 0.5]), FOCUS_SHARE * DELTA)

    def false(rungs: tuple[Rung, ...]) -> bool:
        return any(one.certified and true_error(np.array(one.threshold), risk) > one.limit for one in rungs)

    repeated = kept = peeked = 0
    for _ in range(draws):
        values, wrong = draw(rng, 900, risk)
        looks = [(values[:n], wrong[:n]) for n in range(100, 901, 100)]
        once = [judge_all(*look, limits, thresholds, DELTA, sequence, anytime=False) for look in looks]
        found = [judge_all(*look, limits, thresholds, DELTA, sequence, anytime=True) for look in looks]
        with_first = [keep_certified(rungs, once[0], *look) for rungs, look in zip(found, looks, strict=True)]
        for rungs, more in zip(found, with_first, strict=True):
            strict = [one.limit for one in rungs if one.certified]
            assert set(strict) <= {one.limit for one in more if one.certified}, "nothing is lost by keeping"
        repeated += any(map(false, found))
        kept += any(map(false, with_first))
        peeked += any(map(false, once))
    assert clopper_pearson_interval(repeated, draws, 0.001)[0] <= DELTA
    assert clopper_pearson_interval(kept, draws, 0.001)[0] <= 2 * DELTA
    assert clopper_pearson_interval(peeked, draws, 0.001)[0] > DELTA, "looking as often at an ordinary test is too much"


def test_a_limit_of_an_earlier_look_is_kept_unless_the_labels_speak_against_it() -> None:
    values = (np.arange(400) + 0.5) / 400
    none = np.zeros(400, dtype=bool)
    (old,) = judge_ladder(values, none, (0.05,), np.array([0.5]), 0.05)
    (new,) = judge_ladder(values, none, (0.05,), np.array([0.01]), 0.05)
    assert old.certified and not new.certified
    (kept,) = keep_certified((new,), (old,), values, none)
    assert kept.certified and kept.threshold == 0.5 and kept.outlook == EARLIER
    assert keep_certified((new,), (old,), values, np.arange(400) < 11)[0] == new, "11 of 200 are more than 5 %"
    assert keep_certified((new,), (old,), values, np.arange(400) < 10)[0].wrong == 10
    (looser,) = judge_ladder(values, none, (0.1,), np.array([0.01]), 0.05)
    assert keep_certified((looser,), (old,), values, none)[0].limit == 0.1, "5 % holds, so 10 % does"


@pytest.mark.parametrize("first", [0, 20])
def test_a_repeated_test_that_begins_with_few_labels_is_planned_for_those_to_come(first: int) -> None:
    graph, prediction = population(3000)
    begun, whole = (
        certify(prediction, graph, calibration=mask_of(np.arange(2000, 2000 + many), 3000), anytime=True)
        for many in (first, 300)
    )
    assert begun.sequence is not None and whole.sequence is not None and len(begun.sequence.thresholds)
    assert begun.sequence.thresholds[0] == pytest.approx(whole.sequence.thresholds[0], rel=0.1)
    assert np.array_equal(begun.thresholds, whole.thresholds)
    assert begun.again(prediction, graph, np.arange(2000, 2800)).certified


def test_what_is_labelled_later_is_not_decided_any_more() -> None:
    graph, prediction = population()
    first = certify(prediction, graph, calibration=np.arange(600, 700), anytime=True)
    later = first.again(prediction, graph, np.arange(600, 900))
    assert int(first.decided.sum()) - int(later.decided.sum()) == 200 and not later.decided[600:900].any()
    everything = first.again(prediction, graph, np.flatnonzero(first.decided | first.calibration))
    assert np.array_equal(everything.decided, first.decided), "a share of no nodes would say nothing"


@pytest.mark.parametrize("ladder", [(), (0.1, 0.2), (0.1, 0.1), (0.2, 0.0)])
def test_a_ladder_goes_down(ladder: tuple[float, ...]) -> None:
    graph, prediction = population(700)
    with pytest.raises(BadUsage):
        certify(prediction, graph, ladder=ladder)


def test_numbers_are_certified_within_a_tolerance() -> None:
    rng, nodes = np.random.default_rng(8), 1200
    spread, role = rng.uniform(0.5, 2.0, nodes), np.arange(nodes) % 3
    graph = from_arrays(
        np.ones((nodes, 1)), [[0], [1]], labels=spread * rng.normal(size=nodes), target="regression",
        train_mask=role == 0, val_mask=role == 1, test_mask=role == 2,
    )  # fmt: skip
    prediction = RegressionPrediction(np.zeros((1, nodes)), (spread**2)[None], graph.node_ids, "deterministic")
    found = certify(prediction, graph, tolerance=2.0)
    assert found.at(0.2) is not None and found.tolerance == 2.0
    assert spread[found.accepted(0.1)].max() < spread[found.accepted(0.2)].max()


def test_digits_have_a_frontier() -> None:
    graph = gs.load("digits")
    found = certify(gs.LabelPropagation().fit(graph).predict(graph), graph)
    assert found.at(0.05) is not None and found.at(0.05).accepted_share > 0.8  # type: ignore[union-attr]


@needs_real_data
@pytest.mark.usefixtures("own_cache")
def test_cora_has_a_frontier() -> None:
    graph = gs.load("cora")
    prediction = gs.GCN(epochs=60).fit(graph).predict(graph)
    flag = flag_per_node(prediction, graph, by="entropy")
    found = certify(prediction, graph, ood=flag)
    wrong = prediction.index != graph.labels
    for rung in found.certified:
        assert wrong[graph.role("test") & found.accepted(rung.limit)].mean() <= rung.limit
    assert found.at(0.10) is not None and found.at(0.10).accepted_share > 0.2  # type: ignore[union-attr]


def test_the_document_counts_nodes() -> None:
    graph, prediction = population()
    found = certify(prediction, graph)
    told = found.as_dict()
    assert told["calibration"]["nodes"] == int(graph.role("test").sum()) and told["delta"] == 0.05
    assert LADDER == (0.3, 0.2, 0.15, 0.1, 0.075, 0.05, 0.03, 0.02, 0.01)
    assert [row["limit"] for row in told["rungs"]] == list(LADDER) and told["uncertainty"] == found.by


def test_a_limit_behind_the_focus_needs_what_the_one_before_it_needs() -> None:
    """3 % is out of reach by the errors seen, and so is 1 %, although none are seen at its own threshold."""
    wrong = (np.arange(400) >= 100) & (np.arange(400) < 113)
    thresholds = np.array([0.5, 0.5, 0.5, 0.1])
    rungs = judge_ladder(np.linspace(0, 1, 400), wrong, (0.1, 0.05, 0.03, 0.01), thresholds, 0.01)
    found = with_focus(rungs, Loosened(0.5, 200, 1, 1e-4, True), 0.05, 0.04, 400)
    assert [one.status for one in found] == ["certified", "certified", "not tested", "not tested"]
    assert found[2].further_labels is None and "not reachable" in found[2].outlook
    assert found[3].further_labels is None and found[3].outlook == "out of reach, because the looser limit 3% is"
