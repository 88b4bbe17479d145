"""Paired tests and intervals against scipy's, against enumeration, and on simulated data with a known answer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from lmk_experiments.statistics import holm, intervals, randomization_test
from lmk_experiments.statistics.queries import mean_of


def ndcg_like(rng: np.random.Generator, queries: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two systems' scores by query: correlated, in [0, 1], many zeros and ones; the second better by ``shift``."""
    ease = rng.normal(0.5, 0.35, queries)
    one, other = (np.clip(ease + extra + rng.normal(0, 0.2, queries), 0, 1) for extra in (0.0, shift))
    return one, other


def test_few_queries_are_tested_exactly_as_scipy_does():
    rng = np.random.default_rng(5)
    differences = rng.normal(0.3, 1, (3, 9))
    ours = randomization_test(differences)
    for row, p in zip(differences, ours, strict=True):
        theirs = stats.permutation_test((row,), np.sum, permutation_type="samples", n_resamples=np.inf)
        assert p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_many_queries_give_scipys_p_value_up_to_the_draws():
    rng = np.random.default_rng(6)
    differences = np.stack([np.subtract(*ndcg_like(rng, 300, shift)) for shift in (0.0, 0.03, 0.045)])
    ours = randomization_test(differences)
    for row, p in zip(differences, ours, strict=True):
        theirs = stats.permutation_test((row,), np.sum, permutation_type="samples", n_resamples=9_999, rng=7).pvalue
        # Both are counts of 9,999 draws: five standard deviations of their difference.
        assert abs(p - theirs) <= 5 * np.sqrt(2 * theirs * (1 - theirs) / 9_999)
        assert p == pytest.approx(stats.ttest_1samp(row, 0).pvalue, abs=0.03), "the t-test agrees at 300 queries"


def test_a_stratified_test_is_that_of_the_macro_average():
    """Two tasks of 4 and 8 queries: enumerate all 4,096 swaps and recompute the mean of the two tasks' means."""
    rng = np.random.default_rng(8)
    tasks = [rng.normal(0.4, 1, 4), rng.normal(0.1, 1, 8)]
    seen = np.mean([task.mean() for task in tasks])
    swapped = [
        np.mean([(task * signs).mean() for task, signs in zip(tasks, (s[:4], s[4:]), strict=True)])
        for s in map(np.array, itertools.product((1, -1), repeat=12))
    ]
    expected = np.mean(np.abs(swapped) >= abs(seen) - 1e-12)
    weighted = np.concatenate([task / (2 * len(task)) for task in tasks])
    assert randomization_test(weighted[None])[0] == pytest.approx(expected, abs=1e-12)
    pooled = randomization_test(np.concatenate(tasks)[None])[0]
    assert pooled != pytest.approx(expected, abs=0.01), "a test that ignores the tasks answers another question"


def test_without_a_difference_the_error_rate_is_the_level():
    rng = np.random.default_rng(9)
    p = np.array([randomization_test(np.subtract(*ndcg_like(rng, 60))[None], resamples=199)[0] for _ in range(2_000)])
    for level in (0.05, 0.2):
        # Four standard deviations of a share of 2,000.
        assert abs((p <= level).mean() - level) <= 4 * np.sqrt(level * (1 - level) / 2_000)


def test_a_true_difference_is_found_as_often_as_the_t_test_finds_it():
    rng = np.random.default_rng(10)
    differences = [np.subtract(*ndcg_like(rng, 100, 0.1)) for _ in range(300)]
    ours = np.mean([randomization_test(one[None], resamples=499)[0] <= 0.05 for one in differences])
    theirs = np.mean([stats.ttest_1samp(one, 0).pvalue <= 0.05 for one in differences])
    assert ours > 0.8
    assert ours == pytest.approx(theirs, abs=0.03)


def test_holm_keeps_the_chance_of_any_false_mark():
    rng = np.random.default_rng(11)
    base = rng.normal(size=(400, 1, 50))
    rows = rng.normal(size=(400, 6, 50))  # six rows as good as the baseline, which they share
    p = np.stack([randomization_test(one, resamples=199) for one in rows - base])
    corrected = np.array([min(holm(list(one))) for one in p])
    assert (p.min(axis=1) < 0.05).mean() > 0.1, "without correction some row is marked far too often"
    assert (corrected < 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize(
    ("p", "expected"),
    [([], []), ([0.3], [0.3]), ([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]), ([0.9, 0.8], [1.0, 1.0])],
)
def test_holm_against_hand_computed_values(p, expected):
    assert holm(p) == pytest.approx(expected)


def test_nothing_that_moves_is_never_significant():
    assert randomization_test(np.zeros((2, 30))).tolist() == [1.0, 1.0]
    one = np.zeros((1, 30))
    one[0, :4] = 1.0  # four queries moved, all one way: 2 of 16 assignments are as extreme
    assert randomization_test(one)[0] == 2 / 16


def test_the_same_scores_give_the_same_answers():
    differences = np.random.default_rng(12).normal(size=(2, 500))
    assert randomization_test(differences).tolist() == randomization_test(differences).tolist()
    assert intervals(differences, [500]).tolist() == intervals(differences, [500]).tolist()


def test_draws_in_pieces_count_all_of_them(monkeypatch):
    differences = np.random.default_rng(13).normal(0.05, 1, (1, 200))
    whole = randomization_test(differences)[0]
    monkeypatch.setattr("lmk_experiments.statistics.randomization._CHUNK", 200 * 999)
    pieces = randomization_test(differences)[0]
    assert pieces == pytest.approx(whole, abs=5 * np.sqrt(2 * whole * (1 - whole) / 9_999))
    assert (pieces * 10_000) % 1 == pytest.approx(0, abs=1e-6)


def test_an_interval_is_scipys():
    rng = np.random.default_rng(14)
    scores, _ = ndcg_like(rng, 200)
    theirs = stats.bootstrap((scores,), np.mean, method="percentile", n_resamples=4_000, rng=15).confidence_interval
    low, high = intervals(scores[None] / 200, [200], resamples=4_000)[0]
    width = theirs.high - theirs.low
    assert (low, high) == (pytest.approx(theirs.low, abs=0.05 * width), pytest.approx(theirs.high, abs=0.05 * width))


def test_an_interval_of_a_macro_average_draws_within_tasks():
    """Its width is that of the known variance: the mean of two tasks' means, each with its own spread."""
    rng = np.random.default_rng(16)
    tasks = [rng.normal(0, 1, 50), rng.normal(10, 3, 500)]
    error = np.sqrt(sum(task.var() / len(task) for task in tasks)) / 2
    values = np.concatenate([task / (2 * len(task)) for task in tasks])
    low, high = intervals(values[None], [50, 500], resamples=8_000)[0]
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.06)
    assert low < values.sum() < high


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(17)
    samples = rng.beta(2, 1, (300, 80))
    held = [low <= 2 / 3 <= high for low, high in intervals(samples / 80, [80], resamples=500)]
    assert 0.90 <= np.mean(held) <= 0.985


def test_strata_must_be_the_queries():
    with pytest.raises(ValueError, match="strata of 3 queries in all, but there are values of 4"):
        intervals(np.ones((1, 4)), [3])


def test_a_query_of_two_columns_is_one_query():
    merged = mean_of([{("arguana", "q"): 1.0, ("a", "x"): 1.0}, {("arguana", "q"): 3.0}])
    assert merged == {("arguana", "q"): 2.0, ("a", "x"): 0.5}
