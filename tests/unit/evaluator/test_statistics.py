"""Accuracy's uncertainty, compared with SciPy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from services.evaluator.statistics import proportion

COUNTS = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS)
def test_interval_is_wilsons(counts: tuple[int, int]) -> None:
    correct, samples = counts
    expected = stats.binomtest(correct, samples).proportion_ci(method="wilson")
    assert proportion(correct, samples).ci95 == pytest.approx(tuple(expected), abs=1e-12)


@given(COUNTS.filter(lambda counts: counts[1] > 1))
def test_standard_error_is_that_of_the_mean(counts: tuple[int, int]) -> None:
    correct, samples = counts
    expected = stats.sem([1] * correct + [0] * (samples - correct))
    assert proportion(correct, samples).stderr == pytest.approx(expected, abs=1e-12)


@given(COUNTS)
def test_interval_holds_the_mean_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    share = proportion(*counts)
    low, high = share.ci95
    assert 0.0 <= low <= share.mean <= high <= 1.0


def test_all_right_and_all_wrong_keep_a_width() -> None:
    assert proportion(20, 20).ci95[0] == pytest.approx(0.8389, abs=1e-4)
    assert proportion(20, 20).ci95[1] == 1.0
    assert proportion(0, 20).ci95[0] == 0.0


def test_one_sample_has_no_standard_error() -> None:
    assert proportion(1, 1).stderr == 0.0
    assert math.isclose(proportion(1, 1).mean, 1.0)


@pytest.mark.parametrize(("correct", "samples"), [(0, 0), (2, 1), (-1, 3)])
def test_an_impossible_proportion_is_rejected(correct: int, samples: int) -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        proportion(correct, samples)
