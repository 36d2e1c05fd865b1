"""One-sided p-values of gains, against scipy, and at the small levels that they are for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from services.metrics.gains import gain_p_value
from services.metrics.missing_scores import (
    PartialScore,
    Score,
    ScoredItems,
    compare_scores,
    gain_of_scores,
    mean_of,
    mean_score,
    score_of,
    stored_scores,
)

LEVEL = 0.0025


def test_zero_and_one_are_compared_by_the_exact_test() -> None:
    before = [0.0] * 9 + [1.0] * 21
    after = [1.0] * 8 + [0.0] * 2 + [1.0] * 20

    expected = stats.binomtest(8, 9, alternative="greater").pvalue
    assert gain_p_value(before, after) == pytest.approx(expected)
    assert gain_p_value(after, before) == 1.0


def test_differences_that_lean_to_no_loss_have_the_p_value_of_student() -> None:
    before = [0.5] * 8
    after = [0.4, 0.9, 0.5, 0.8, 0.6, 0.7, 0.5, 0.8]
    expected = stats.ttest_rel(after, before, alternative="greater").pvalue

    assert gain_p_value(before, after) == pytest.approx(expected)


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=30))
def test_a_p_value_is_never_smaller_than_that_of_student(eighths: list[int]) -> None:
    differences = np.array(eighths) / 8
    p_value = gain_p_value([0.0] * len(eighths), differences.tolist())

    assert 0.0 <= p_value <= 1.0
    if differences.mean() <= 0:
        assert p_value == 1.0
    elif float(np.ptp(differences)) == 0.0:
        assert p_value == 0.5 ** len(eighths)
    elif not np.isin(differences, (0.0, 1.0)).all():
        student = stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue
        assert p_value >= student * (1 - 1e-6)


def test_differences_that_are_alike_but_for_rounding_are_a_toss_of_coins() -> None:
    before = [number / 10 for number in range(7)]
    after = [value + 0.3 for value in before]

    assert gain_p_value(before, after) == pytest.approx(0.5**7)


def test_a_few_items_that_lose_all_do_not_make_a_gain_of_the_others() -> None:
    """Nine of ten items are always solved by the candidate and one never, as 90 % of each are by
    the baseline: the means are equal, and Student's test rejects ten times too often."""
    rng, runs, items = np.random.default_rng(1), 2_000, 100
    before = rng.binomial(8, 0.9, (runs, items)) / 8
    after = (rng.random((runs, items)) < 0.9).astype(float)
    differences = after - before
    t = differences.mean(1) / differences.std(1, ddof=1) * math.sqrt(items)
    by_student = t > stats.t.ppf(1 - LEVEL, items - 1)
    found = [gain_p_value(before[run], after[run]) <= LEVEL for run in np.flatnonzero(by_student)]

    assert by_student.mean() > 5 * LEVEL
    assert sum(found) / runs <= 1.5 * LEVEL


def test_a_gain_of_lower_scores_is_one_where_lower_is_better() -> None:
    before = ScoredItems({0: 0.9, 1: 0.7, 2: 0.8, 3: score_of([None, None])})
    after = ScoredItems({0: 0.2, 1: 0.3, 2: 0.1, 3: 0.2})

    assert gain_of_scores(before, after, range(4), higher_is_better=False) < 0.05
    assert gain_of_scores(before, after, range(4), higher_is_better=True) == 1.0


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_no_item_has_no_mean(higher_is_better: bool) -> None:
    assert mean_score(ScoredItems({}), higher_is_better=higher_is_better) is None


SAMPLES = st.lists(st.none() | st.floats(-5, 5), min_size=1, max_size=4)


@given(st.lists(st.tuples(SAMPLES, SAMPLES), min_size=1, max_size=6), st.booleans())
def test_a_missing_sample_is_the_worst_sample_of_both_runs(
    items: list[tuple[list[float | None], list[float | None]]], higher_is_better: bool
) -> None:
    given = [score for item in items for run in item for score in run if score is not None]
    worst = min([0.0, *given]) if higher_is_better else max([0.0, *given])
    filled = [
        [
            math.fsum(worst if score is None else score for score in item[run]) / len(item[run])
            for item in items
        ]
        for run in (0, 1)
    ]

    before, after = (
        ScoredItems({at: score_of(item[run]) for at, item in enumerate(items)}, worst)
        for run in (0, 1)
    )
    found = compare_scores(before, after, range(len(items)), higher_is_better=higher_is_better)

    assert found.baseline_mean == pytest.approx(np.mean(filled[0]), abs=1e-9)
    assert found.candidate_mean == pytest.approx(np.mean(filled[1]), abs=1e-9)


@given(SAMPLES, SAMPLES, st.floats(-5, 5))
def test_the_mean_of_runs_has_their_missing_samples(
    one: list[float | None], other: list[float | None], worst: float
) -> None:
    def value(score: Score) -> float:
        assert score is not None
        if isinstance(score, PartialScore):
            return score.given + score.missing * worst
        return score

    pooled = mean_of([score_of(one), score_of(other)])

    expected = (value(score_of(one)) + value(score_of(other))) / 2
    assert value(pooled) == pytest.approx(expected, abs=1e-9)
    assert isinstance(pooled, PartialScore) is (None in one or None in other)


def test_stored_scores_of_earlier_versions_say_what_they_can() -> None:
    stored = {"0": 0.5, "1": None, "2": {"given": 0.25, "missing": 0.5}}

    assert stored_scores(stored, 4) == {0: 0.5, 1: None, 2: PartialScore(0.25, 0.5)}
    assert stored_scores(stored, 1)[1] == PartialScore(given=0.0, missing=1.0)
    assert mean_of([None, 1.0]) is None
