"""Paired tests against values computed by hand and against enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from services.metrics.paired import (
    EXACT_UP_TO,
    Values,
    _student_quantile,
    compare,
    holm,
    mcnemar_exact,
    sign_flip_test,
    student_tails,
)
from services.metrics.sample_size import independent_discordance, items_needed


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [
        (0, 0, 1.0),
        (5, 0, 2 / 32),
        (0, 5, 2 / 32),
        (1, 5, 2 * (1 + 6) / 64),
        (2, 6, 2 * (1 + 8 + 28) / 256),
        (4, 4, 1.0),
    ],
)
def test_mcnemar_is_the_binomial_test_of_the_discordant_items(
    gained: int, lost: int, expected: float
) -> None:
    assert mcnemar_exact(gained, lost) == pytest.approx(expected)


def test_mcnemar_of_many_items_does_not_overflow() -> None:
    assert mcnemar_exact(50_000, 50_000) == pytest.approx(1.0)
    assert 0.0 <= mcnemar_exact(60_000, 40_000) < 1e-300


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_few_differences_are_tested_by_all_sign_flips(differences: list[int]) -> None:
    observed = abs(sum(differences))
    flips = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    expected = sum(each >= observed for each in flips) / len(flips)

    assert sign_flip_test(np.array(differences, np.float64))[0] == pytest.approx(expected)


def test_sampled_sign_flips_agree_with_the_binomial_test_and_repeat() -> None:
    differences = np.array([1.0] * 40 + [-1.0] * 24)
    assert len(differences) > EXACT_UP_TO

    sampled, _ = sign_flip_test(differences)

    assert sampled == pytest.approx(mcnemar_exact(40, 24), abs=0.015)
    assert sign_flip_test(differences)[0] == sampled


def test_the_normal_limit_agrees_with_the_binomial_test() -> None:
    p_value, (low, high) = sign_flip_test(np.array([1.0] * 5_100 + [-1.0] * 4_900))

    assert p_value == pytest.approx(mcnemar_exact(5_100, 4_900), abs=0.002)
    assert (low, high) == pytest.approx((0.02 - 0.0196, 0.02 + 0.0196), abs=1e-4)


def test_zero_and_one_are_compared_by_mcnemar_with_students_interval() -> None:
    baseline = [1.0] * 60 + [0.0] * 40
    candidate = [1.0] * 55 + [0.0] * 5 + [1.0] * 15 + [0.0] * 25

    found = compare(baseline, candidate)

    half = 1.984217 * math.sqrt((0.2 - 0.1**2) / 99)
    assert found.test == "mcnemar_exact"
    assert (found.baseline_mean, found.candidate_mean) == (0.6, 0.7)
    assert found.difference == pytest.approx(0.1)
    assert found.p_value == pytest.approx(mcnemar_exact(15, 5))
    assert found.ci95 == pytest.approx((0.1 - half, 0.1 + half), abs=1e-6)


def test_equal_runs_do_not_differ_but_keep_an_interval() -> None:
    found = compare([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])

    low, high = found.ci95
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert low < 0.0 < high


def test_scores_are_compared_by_sign_flips() -> None:
    found = compare([0.0, 0.5, 0.25], [0.5, 1.0, 0.5])

    assert found.test == "paired_permutation"
    assert found.p_value == pytest.approx(2 / 8)
    assert found.difference == pytest.approx(1.25 / 3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10))
def test_the_order_of_items_does_not_matter_and_swapping_the_runs_changes_the_sign_only(
    pairs: list[tuple[int, int]],
) -> None:
    forward = compare([a for a, _ in pairs], [b for _, b in pairs])
    backward = compare([b for _, b in reversed(pairs)], [a for a, _ in reversed(pairs)])

    assert forward.difference == pytest.approx(-backward.difference)
    assert forward.p_value == pytest.approx(backward.p_value)
    assert 0.0 < forward.p_value <= 1.0


def test_unpaired_values_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1 values"):
        compare([1.0, 0.0], [1.0])


def test_holm_multiplies_by_the_remaining_hypotheses_and_stays_monotonic() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_items_that_a_difference_needs_follow_connor() -> None:
    # (1.959964 * sqrt(0.2) + 0.841621 * sqrt(0.2 - 0.0025))**2 / 0.0025 = 625.7
    assert items_needed(0.05, 0.2) == 626
    assert items_needed(-0.05, 0.2) == 626
    assert items_needed(0.05, 0.2, power=0.9) > 626
    assert independent_discordance(0.6, 0.1) == pytest.approx(0.6 * 0.3 + 0.7 * 0.4)


@pytest.mark.parametrize(("difference", "discordant"), [(0.0, 0.2), (0.3, 0.2), (0.1, 1.5)])
def test_an_impossible_plan_is_refused(difference: float, discordant: float) -> None:
    with pytest.raises(ValueError, match="the difference must be nonzero"):
        items_needed(difference, discordant)


def test_the_interval_of_shares_of_one_sample_is_that_of_0_and_1() -> None:
    before, after = [0.0] * 10 + [1.0] * 10, [1.0] * 6 + [0.0] * 12 + [1.0] * 2

    assert compare(before, after, shares=True) == compare(before, after)


def test_shares_are_compared_as_student_compares_pairs() -> None:
    before = [0.0, 0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    after = [0.25, 0.5, 0.5, 1.0, 1.0, 0.75, 0.0]

    found = compare(before, after, shares=True)

    expected = stats.ttest_rel(after, before)
    low, high = expected.confidence_interval(0.95)
    assert found.test == "paired_t"
    assert (found.p_value, *found.ci95) == pytest.approx((expected.pvalue, low, high), abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 3, 14, 29, 1_000, 10_000])
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, 9.0])
def test_students_distribution_is_that_of_scipy(freedom: int, t: float) -> None:
    assert student_tails(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-4)
    expected = stats.t.ppf(0.975, freedom)
    assert _student_quantile(freedom) == pytest.approx(expected, abs=3e-4)


@pytest.mark.parametrize("items", [1, 5, 6, 12, 40])
def test_the_interval_of_scores_leaves_out_0_where_the_test_rejects_it(items: int) -> None:
    rng = np.random.default_rng(items)
    rejected = 0
    for _ in range(30):
        differences = rng.normal(0.4, 1.0, items)
        p_value, (low, high) = sign_flip_test(differences)
        assert (p_value < 0.05) == (low > 0 or high < 0)
        assert low <= differences.mean() <= high
        rejected += p_value < 0.05
    assert (rejected > 0) == (items >= 6)


def test_items_that_all_differ_alike_keep_an_interval() -> None:
    low, high = compare([0.0] * 10, [0.5] * 10, shares=True).ci95

    assert 0 < low < 0.5 < high


SIMULATED = 8_000
SHOWN = 40


@pytest.mark.parametrize("samples", [1, 4, 16])
@pytest.mark.parametrize("items", [15, 30, 300])
def test_shares_of_simulated_runs_are_told_apart_as_often_as_they_should(
    items: int, samples: int
) -> None:
    """Equal models: 2 to 3 % to each side. Others: 94 to 96 % of intervals hold the difference,
    and the gains found are those that Student's interval finds."""
    rng = np.random.default_rng(samples)
    runs = SIMULATED if items < 300 else SIMULATED // 4
    difficulty = rng.beta(2, 2, (runs, items))
    first, equal, better = (
        rng.binomial(samples, chance) / samples
        for chance in (difficulty, difficulty, difficulty + 0.2 * (1 - difficulty))
    )
    student = stats.t.ppf(0.975, items - 1) / math.sqrt(items)

    def lows(runs: Values) -> tuple[Values, Values]:
        differences = runs - first
        half = student * differences.std(axis=1, ddof=1)
        for number in range(SHOWN):
            found = compare(first[number].tolist(), runs[number].tolist(), shares=True)
            if np.ptp(differences[number]):
                assert found.ci95[0] == pytest.approx(
                    max(-1.0, float((differences.mean(axis=1) - half)[number])), abs=1e-6
                )
            if found.test == "paired_t":
                assert (found.p_value < 0.05) == (found.ci95[0] > 0 or found.ci95[1] < 0)
        return differences.mean(axis=1), half

    mean, half = lows(equal)
    assert 0.019 <= (mean > half).mean() <= 0.031
    assert 0.019 <= (mean < -half).mean() <= 0.031
    mean, half = lows(better)
    assert 0.94 <= (np.abs(mean - 0.1) <= half).mean() <= 0.96
