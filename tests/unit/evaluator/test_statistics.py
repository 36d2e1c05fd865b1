"""Confidence intervals and standard errors, compared with SciPy."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from services.evaluator.statistics import proportion

COUNTS = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS)
def test_the_interval_is_the_wilson_score_interval(counts: tuple[int, int]) -> None:
    correct, samples = counts
    expected = stats.binomtest(correct, samples).proportion_ci(method="wilson")
    assert proportion(correct, samples).ci95 == pytest.approx(tuple(expected), abs=1e-12)


@given(COUNTS.filter(lambda counts: counts[1] > 1))
def test_standard_error_is_the_standard_error_of_the_mean(counts: tuple[int, int]) -> None:
    correct, samples = counts
    expected = stats.sem([1] * correct + [0] * (samples - correct))
    assert proportion(correct, samples).stderr == pytest.approx(expected, abs=1e-12)


@given(COUNTS)
def test_the_interval_contains_the_mean_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    share = proportion(*counts)
    low, high = share.ci95
    assert 0.0 <= low <= share.mean <= high <= 1.0


def test_the_interval_of_all_right_and_all_wrong_is_not_degenerate() -> None:
    assert proportion(20, 20).ci95[0] == pytest.approx(0.8389, abs=1e-4)
    assert proportion(20, 20).ci95[1] == 1.0
    assert proportion(0, 20).ci95[0] == 0.0


def test_a_single_sample_has_zero_standard_error() -> None:
    assert proportion(1, 1).stderr == 0.0
    assert math.isclose(proportion(1, 1).mean, 1.0)


@pytest.mark.parametrize(("correct", "samples"), [(0, 0), (2, 1), (-1, 3)])
def test_an_impossible_proportion_is_rejected(correct: int, samples: int) -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        proportion(correct, samples)
