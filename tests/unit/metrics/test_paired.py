"""Paired tests against values computed by hand and against enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from services.metrics.paired import (
    EXACT_UP_TO,
    Values,
    _student_quantile,
    compare,
    holm,
    mcnemar_exact,
    score_test,
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


def test_zero_and_one_are_compared_by_the_score_test() -> None:
    baseline = [1.0] * 60 + [0.0] * 40
    candidate = [1.0] * 55 + [0.0] * 5 + [1.0] * 15 + [0.0] * 25

    found = compare(baseline, candidate)

    assert found.test == "mcnemar"
    assert (found.baseline_mean, found.candidate_mean) == (0.6, 0.7)
    assert found.difference == pytest.approx(0.1)
    assert found.p_value == pytest.approx(stats.chi2.sf((15 - 5) ** 2 / 20, 1))
    assert found.exact_p_value == pytest.approx(mcnemar_exact(15, 5))
    assert (found.p_value, found.ci95) == score_test(15, 5, 100)


Z2 = stats.norm.ppf(0.975) ** 2


@pytest.mark.parametrize(
    ("gained", "lost", "items", "interval"),
    [
        (0, 0, 50, (-(Z2 / (50 + Z2)), Z2 / (50 + Z2))),
        (50, 0, 50, (1 - 2 * Z2 / (50 + Z2), 1.0)),
    ],
)
def test_the_interval_of_items_that_all_agree_or_all_differ_has_a_closed_form(
    gained: int, lost: int, items: int, interval: tuple[float, float]
) -> None:
    assert score_test(gained, lost, items)[1] == pytest.approx(interval, abs=1e-6)


@pytest.mark.parametrize(("gained", "lost", "items"), [(7, 1, 32), (15, 5, 100), (2, 3, 9)])
def test_a_bound_is_where_the_score_under_the_likeliest_shares_is_that_of_the_level(
    gained: int, lost: int, items: int
) -> None:
    for bound, expected in zip(score_test(gained, lost, items)[1], (1.0, -1.0), strict=True):

        def unlikelihood(share_lost: float, bound: float = bound) -> float:
            shares = (share_lost + bound, share_lost, 1 - 2 * share_lost - bound)
            counts = (gained, lost, items - gained - lost)
            return -sum(n * math.log(p) for n, p in zip(counts, shares, strict=True))

        within = (max(0.0, -bound) + 1e-9, (1 - bound) / 2 - 1e-9)
        likeliest = optimize.minimize_scalar(
            unlikelihood, bounds=within, method="bounded", options={"xatol": 1e-10}
        ).x
        variance = items * (2 * likeliest + bound - bound**2)
        z = (gained - lost - items * bound) / math.sqrt(variance)
        assert z == pytest.approx(expected * math.sqrt(Z2), abs=1e-4)


def test_p_and_interval_of_0_and_1_always_agree() -> None:
    for items in (1, 2, 6, 15, 40):
        for gained in range(items + 1):
            for lost in range(items + 1 - gained):
                p_value, (low, high) = score_test(gained, lost, items)
                assert (p_value < 0.05) == (low > 0 or high < 0)
                assert -1 <= low <= (gained - lost) / items <= high <= 1


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


@pytest.mark.parametrize(("items", "is_clear"), [(10, True), (2, False), (1, False)])
def test_items_that_all_differ_alike_keep_an_interval(items: int, is_clear: bool) -> None:
    found = compare([0.0] * items, [0.5] * items, shares=True)

    low, high = found.ci95
    assert low < 0.5 < high
    assert (found.p_value < 0.05) == (low > 0) == is_clear


SIMULATED = 8_000
SHOWN = 40


@pytest.mark.drill
@pytest.mark.parametrize("samples", [1, 4, 16])
@pytest.mark.parametrize("items", [15, 30, 300])
def test_simulated_runs_are_told_apart_as_often_as_they_should(items: int, samples: int) -> None:
    """Equal models: 2 to 3 % to each side. Others: 94 to 96 % of intervals hold the difference,
    and gains are found within 5 points of how often Student's interval finds them."""
    rng = np.random.default_rng(samples)
    runs = (SIMULATED if items < 300 else SIMULATED // 4) * (4 if samples == 1 else 1)
    difficulty = rng.beta(2, 2, (runs, items))
    first, equal, better = (
        rng.binomial(samples, chance) / samples
        for chance in (difficulty, difficulty, difficulty + 0.2 * (1 - difficulty))
    )
    low, high = intervals(first, equal)
    assert 0.019 <= (low > 0).mean() <= 0.031
    assert 0.019 <= (high < 0).mean() <= 0.031
    low, high = intervals(first, better)
    assert 0.94 <= ((low <= 0.1) & (high >= 0.1)).mean() <= 0.96
    differences = better - first
    half = stats.t.ppf(0.975, items - 1) * differences.std(axis=1, ddof=1) / math.sqrt(items)
    assert (low > 0).mean() == pytest.approx((differences.mean(axis=1) > half).mean(), abs=0.05)


def intervals(baseline: Values, candidate: Values) -> tuple[Values, Values]:
    """The interval of each row's runs; those of shares, Student's, are compared with ours in the
    first rows."""
    differences = candidate - baseline
    if np.isin(differences, (-1, 0, 1)).all():
        counts = np.stack([(differences > 0).sum(axis=1), (differences < 0).sum(axis=1)], axis=1)
        kinds, places = np.unique(counts, axis=0, return_inverse=True)
        items = differences.shape[1]
        found = [score_test(int(gained), int(lost), items)[1] for gained, lost in kinds]
    else:
        mean, places = differences.mean(axis=1), np.arange(len(differences))
        half = stats.t.ppf(0.975, differences.shape[1] - 1) * stats.sem(differences, axis=1)
        found = list(zip(mean - half, mean + half, strict=True))
    for place, before, after in zip(places[:SHOWN], baseline, candidate, strict=False):
        result = compare(before.tolist(), after.tolist(), shares=True)
        assert (result.p_value < 0.05) == (result.ci95[0] > 0 or result.ci95[1] < 0)
        assert result.ci95 == pytest.approx(found[place], abs=1e-3)
    low, high = np.array([found[place] for place in places]).T
    return low, high
