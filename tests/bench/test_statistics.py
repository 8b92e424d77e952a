"""The comparison machinery: closed forms, oracles, and how often it is wrong on tables where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from graphsde.base.seeds import numpy_stream
from graphsde.bench.statistics import (
    against,
    average_ranks,
    bootstrap_interval,
    compare_pairs,
    critical_difference,
    holm,
    paired_ranks,
    paired_t,
    sign_flip,
    verdicts,
)


def as_runs(table: np.ndarray) -> dict[str, dict[str, float]]:
    return {f"m{j}": {str(i): float(v) for i, v in enumerate(column)} for j, column in enumerate(table.T)}


def test_paired_t_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 5, 20):
        a, b = rng.normal(size=(2, n))
        assert paired_t(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


def test_nadeau_bengio_by_hand() -> None:
    d = np.array([1.0, 2.0, 3.0, 2.0])
    t = d.mean() / (d.std(ddof=1) * np.sqrt(1 / 4 + 0.5))
    assert paired_t(d, extra=0.5) == pytest.approx(2 * stats.t.sf(t, 3))


def test_sign_flip_is_scipys_permutation_test() -> None:
    d = np.random.default_rng(1).normal(0.4, 1, size=10)
    exact = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip(d) == pytest.approx(exact, abs=1e-12)
    longer = np.random.default_rng(2).normal(0.3, 1, size=30)
    assert sign_flip(longer) == pytest.approx(paired_t(longer), abs=0.02)
    assert sign_flip(longer) == sign_flip(longer)


def test_holm_against_a_brute_force() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        p = rng.random(5) ** 3
        ordered = np.sort(p)
        expected = np.maximum.accumulate(np.minimum(1, ordered * (5 - np.arange(5))))
        assert sorted(holm({str(i): v for i, v in enumerate(p)}).values()) == pytest.approx(expected)


def test_differences_without_spread() -> None:
    same = compare_pairs([0.5, 0.6], [0.5, 0.6])
    assert same.p_t == 1.0 and same.p_wilcoxon is None
    assert compare_pairs([0.6, 0.7, 0.8], [0.5, 0.6, 0.7]).p_t == 0.25
    assert compare_pairs([0.6], [0.5]).p_t is None


def test_bootstrap_interval_covers_the_mean() -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(size=20).tolist())
        hits += low <= 0 <= high
    assert 0.86 <= hits / 200 <= 0.99
    assert bootstrap_interval([0.3]) == (0.3, 0.3)


@pytest.mark.parametrize(("n", "least"), [(2, 0.90), (3, 0.92), (5, 0.93), (10, 0.93)])
def test_an_interval_of_few_runs_is_as_wide_as_it_says(n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    hits = 0
    for _ in range(1000):
        low, high = bootstrap_interval(rng.normal(size=n).tolist())
        hits += low <= 0 <= high
    assert least <= hits / 1000 <= 0.985


def test_verdict_words() -> None:
    base = np.random.default_rng(5).normal(size=12)
    noise = np.random.default_rng(6).normal(size=(12, 3)) * 0.05
    table = np.stack([base + 1, base + 1.001, base], axis=1) + noise - noise.mean(axis=0)
    assert verdicts(as_runs(table), higher_is_better=True) == {"m0": "tied", "m1": "tied", "m2": "behind"}
    assert verdicts(as_runs(table[:, 1:]), higher_is_better=True) == {"m0": "best", "m1": "behind"}
    assert verdicts(as_runs(table[:, 1:]), higher_is_better=False) == {"m0": "behind", "m1": "best"}
    assert verdicts(as_runs(table[:, :1]), higher_is_better=True) == {"m0": "only"}
    assert set(verdicts(as_runs(table[:1]), higher_is_better=True).values()) == {"too few"}


def test_a_model_against_each_of_its_rivals() -> None:
    """Paired t-tests on common pairs with Holm over the rivals, as by scipy and by hand."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=12)
    runs = as_runs(np.stack([base, base - 1 + 0.1 * rng.normal(size=12), base + 0.5 + 0.1 * rng.normal(size=12)], 1))
    runs["even"] = {pair: value + 0.3 * float(rng.normal()) for pair, value in runs["m0"].items()}
    runs["once"] = {"0": -9.0}
    said = against(runs, "m0", higher_is_better=True)
    assert said == {"m1": "ahead", "m2": "behind", "even": "tied", "once": "too few"}
    turned = against(runs, "m0", higher_is_better=False)
    assert turned == {"m1": "behind", "m2": "ahead", "even": "tied", "once": "too few"}
    # a p of .03 alone is a lead; beside three others that tie, it is none
    d = np.array([0.3, 1.0, 2.0, 1.0, 0.2])
    assert 0.0125 < (paired_t(d) or 0.0) < 0.05
    zero = {str(i): 0.0 for i in range(5)}
    near = {name: {str(i): float(v) for i, v in enumerate(rng.normal(size=5))} for name in "xyz"}
    low = {str(i): -float(v) for i, v in enumerate(d)}
    assert against({"own": zero, "low": low}, "own", higher_is_better=True) == {"low": "ahead"}
    assert against({"own": zero, "low": low, **near}, "own", higher_is_better=True)["low"] == "tied"


def test_a_model_whose_runs_failed_keeps_the_others_from_being_best() -> None:
    table = np.stack([np.arange(6) + 5.0, np.arange(6.0)], axis=1) + np.random.default_rng(0).normal(size=(6, 2)) * 0.1
    runs = as_runs(table) | {"broken": {}}
    assert verdicts(runs, higher_is_better=True) == {"m0": "tied", "m1": "behind", "broken": "too few"}


def test_pairs_are_matched_by_name_not_by_position() -> None:
    first = {"0": 1.0, "1": 2.0, "2": 3.1, "9": 100.0}
    second = {"2": 2.0, "1": 1.0, "0": 0.1}
    assert verdicts({"a": first, "b": second}, higher_is_better=True)["b"] == "behind"


def test_a_model_that_has_its_easy_seeds_alone_does_not_lead() -> None:
    easy = {str(seed): 0.80 + 0.001 * seed for seed in range(5)}
    whole = {str(seed): 0.82 + 0.0011 * seed for seed in range(5)} | {str(s): 0.70 + 0.002 * s for s in range(5, 10)}
    assert np.mean(list(easy.values())) > np.mean(list(whole.values()))
    assert verdicts({"easy": easy, "whole": whole}, higher_is_better=True) == {"easy": "behind", "whole": "best"}
    assert paired_ranks({"easy": easy, "whole": whole}, higher_is_better=True) == {"easy": 2.0, "whole": 1.0}
    turned = {name: {k: -v for k, v in values.items()} for name, values in {"easy": easy, "whole": whole}.items()}
    assert verdicts(turned, higher_is_better=False) == {"easy": "behind", "whole": "best"}


def test_where_everybody_is_beaten_by_somebody_nobody_is_best() -> None:
    a = {"0": 0.9, "1": 0.9001, "2": 0.5, "3": 0.5}
    b = {"2": 0.6, "3": 0.6001, "4": 0.7, "5": 0.7}
    c = {"4": 0.8, "5": 0.8001, "0": 0.8, "1": 0.8}
    assert "best" not in verdicts({"a": a, "b": b, "c": c}, higher_is_better=True).values()


def test_ranks_of_a_complete_table_are_those_of_the_means() -> None:
    rng = np.random.default_rng(11)
    for _ in range(50):
        table = rng.integers(0, 4, size=(3, 5)) / 4
        found = paired_ranks(as_runs(table), higher_is_better=False)
        assert [found[f"m{k}"] for k in range(5)] == stats.rankdata(table.mean(axis=0).round(9)).tolist()


def test_the_same_difference_in_few_runs_is_no_certainty() -> None:
    assert paired_t(np.array([0.001, 0.001])) == 0.5 and paired_t(np.full(8, 0.001)) == 2**-7
    assert paired_t(np.zeros(5)) == 1.0
    rng = np.random.default_rng(12)
    false = 0
    for _ in range(1000):
        table = rng.binomial(100, 0.8, size=(2, 2)) / 100
        false += "best" in verdicts(as_runs(table), higher_is_better=True).values()
    assert false <= 50


@pytest.mark.parametrize("models", [3, 6])
def test_false_best_in_at_most_five_percent_where_nobody_differs(models: int) -> None:
    rng = np.random.default_rng(7)
    false = 0
    for _ in range(1000):
        table = rng.normal(size=(10, 1)) + rng.normal(size=(10, models))
        false += "best" in verdicts(as_runs(table), higher_is_better=True).values()
    assert false <= 50


def test_two_equal_models_are_told_apart_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(9)
    tables = (rng.normal(size=(10, 1)) + rng.normal(size=(10, 2)) for _ in range(1000))
    false = sum("best" in verdicts(as_runs(table), higher_is_better=True).values() for table in tables)
    assert abs(false - 50) <= 4 * np.sqrt(1000 * 0.05 * 0.95)


def test_a_planted_point_is_found() -> None:
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(1000):
        common = rng.normal(0, 3, size=20)
        difference = 1.0 + rng.normal(0, 1.5, size=20)
        found += verdicts(as_runs(np.stack([common + difference, common], 1)), higher_is_better=True)["m0"] == "best"
    assert found >= 800


def test_critical_difference_is_demsars() -> None:
    # Demšar 2006, section 3.2.2: four classifiers on 14 data sets, q = 2.569
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    assert average_ranks(np.array([[3.0, 1.0, 2.0], [3.0, 3.0, 1.0]]), higher_is_better=True).tolist() == [
        1.25,
        2.25,
        2.5,
    ]


def test_a_drawn_permutation_p_is_never_zero() -> None:
    """Twenty differences of one sign: no random signs reach the observed mean, and the observed ones count as one."""
    assert sign_flip(np.ones(20)) == pytest.approx(1 / 20_001, rel=1e-12)
    # all signs of ten: only all plus and all minus do
    assert sign_flip(np.ones(10)) == pytest.approx(2 / 2**10, rel=1e-12)


def test_the_bootstrap_interval_as_it_is_written() -> None:
    """2.5 % and 97.5 % of the means of 10,000 resamples, their distance from the mean times √(12/11) t/z at n = 12."""
    values = np.sqrt([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37])
    picked = numpy_stream(0, "bootstrap", 12).integers(12, size=(10_000, 12))
    means = np.sort([values[row].mean() for row in picked])
    # the 2.5 % point lies between the 250th and the 251st of 10,000, at 249.975 steps from the first
    ends = [means[249] + 0.975 * (means[250] - means[249]), means[9749] + 0.025 * (means[9750] - means[9749])]
    wider = (12 / 11) ** 0.5 * 2.200985160082949 / 1.959963984540054
    by_hand = [values.mean() + wider * (end - values.mean()) for end in ends]
    assert bootstrap_interval(list(values)) == pytest.approx(by_hand, rel=1e-10)
