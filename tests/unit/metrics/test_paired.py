"""Paired tests against values computed by hand and against enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.metrics.paired import EXACT_UP_TO, compare, holm, mcnemar_exact, sign_flip_test
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

    assert sign_flip_test(np.array(differences, np.float64)) == pytest.approx(expected)


def test_sampled_sign_flips_agree_with_the_binomial_test_and_repeat() -> None:
    differences = np.array([1.0] * 40 + [-1.0] * 24)
    assert len(differences) > EXACT_UP_TO

    sampled = sign_flip_test(differences)

    assert sampled == pytest.approx(mcnemar_exact(40, 24), abs=0.015)
    assert sign_flip_test(differences) == sampled


def test_the_normal_limit_agrees_with_the_binomial_test() -> None:
    assert sign_flip_test(np.array([1.0] * 5_100 + [-1.0] * 4_900)) == pytest.approx(
        mcnemar_exact(5_100, 4_900), abs=0.002
    )


def test_zero_and_one_are_compared_by_mcnemar_with_the_adjusted_wald_interval() -> None:
    baseline = [1.0] * 60 + [0.0] * 40
    candidate = [1.0] * 55 + [0.0] * 5 + [1.0] * 15 + [0.0] * 25

    found = compare(baseline, candidate)

    up, down = 16 / 102, 6 / 102
    half = 1.959964 * math.sqrt((up + down - (up - down) ** 2) / 102)
    assert found.test == "mcnemar_exact"
    assert (found.baseline_mean, found.candidate_mean) == (0.6, 0.7)
    assert found.difference == pytest.approx(0.1)
    assert found.p_value == pytest.approx(mcnemar_exact(15, 5))
    assert found.ci95 == pytest.approx((up - down - half, up - down + half), abs=1e-6)


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


def test_items_are_the_clusters_of_shares() -> None:
    """Samples that agree within items say nothing more; those that differ narrow the interval."""
    before, agree, differ = [0.0] * 10, [1.0] * 5 + [0.0] * 5, [0.5] * 10

    once = compare(before, agree)
    low, high = compare(before, differ, shares=True).ci95

    assert compare(before, agree, shares=True).ci95 == once.ci95
    assert high - low < once.ci95[1] - once.ci95[0]
    assert low > 0


def test_a_few_gained_shares_of_few_items_may_be_chance() -> None:
    gained = [1.0, 1.0, 0.9] + [0.0] * 7

    assert compare([0.0] * 10, gained).ci95[0] > 0, "the interval of arbitrary values is too narrow"
    assert compare([0.0] * 10, gained, shares=True).ci95[0] < 0
