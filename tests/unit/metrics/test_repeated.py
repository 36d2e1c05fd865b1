"""Several samples per item: avg@n, maj@n, pass@k and intervals over items."""

import math
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from services.metrics.repeated import RepeatedSamples, bounded_mean, pass_at_k, shown_k

COUNTS = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))
)


def counted(*items: str) -> RepeatedSamples:
    """Items as texts with a character per sample: 1 correct, ``-`` without an answer, else wrong.

    The character is the answer that votes."""
    found = RepeatedSamples(2)
    for item, samples in enumerate(items):
        for mark in samples:
            found.add(item, correct=mark == "1", answer=None if mark == "-" else mark)
    return found


@given(COUNTS)
def test_pass_at_k_is_the_share_of_all_subsets_with_a_correct_sample(
    counts: tuple[int, int, int],
) -> None:
    samples, correct, k = counts
    marks = [1] * correct + [0] * (samples - correct)
    subsets = list(combinations(marks, k))
    expected = sum(map(any, subsets)) / len(subsets)

    assert pass_at_k(samples, correct, k) == pytest.approx(expected)


def test_pass_at_k_of_many_samples_does_not_overflow() -> None:
    expected = 1 - math.comb(9_000, 100) / math.comb(10_000, 100)
    assert pass_at_k(10_000, 1_000, 100) == pytest.approx(expected)


@pytest.mark.parametrize(("samples", "correct", "k"), [(2, 3, 1), (2, 1, 3), (2, 1, 0)])
def test_an_undefined_pass_at_k_is_refused(samples: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match="undefined"):
        pass_at_k(samples, correct, k)


@pytest.mark.parametrize(
    ("samples", "expected"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])]
)
def test_pass_at_k_is_reported_for_powers_of_two_and_all_samples(
    samples: int, expected: list[int]
) -> None:
    assert shown_k(samples) == expected


@given(st.lists(st.booleans(), min_size=2, max_size=200))
def test_one_sample_per_item_has_the_wilson_interval(correct: list[bool]) -> None:
    found = RepeatedSamples()
    for item, each in enumerate(correct):
        found.add(item, correct=each, answer=None)
    result = stats.binomtest(sum(correct), len(correct))

    accuracy = found.accuracy()

    assert accuracy.ci95 == pytest.approx(tuple(result.proportion_ci(method="wilson")), abs=1e-9)
    assert accuracy.stderr == pytest.approx(stats.sem(correct), abs=1e-12)


def test_avg_at_n_and_its_error_are_over_items() -> None:
    # Item means 1, 0.5, 0: the standard error of the mean of three values.
    accuracy = counted("11", "12", "22").accuracy()

    assert accuracy.mean == 0.5
    assert accuracy.stderr == pytest.approx(stats.sem([1.0, 0.5, 0.0]))


def test_copies_of_a_sample_narrow_nothing() -> None:
    once = counted("1", "2", "1", "1", "2").accuracy()
    copied = counted(*("1" * 8, "2" * 8, "1" * 8, "1" * 8, "2" * 8)).accuracy()

    assert copied.ci95 == pytest.approx(once.ci95)
    assert copied.stderr == pytest.approx(once.stderr)


def test_all_correct_is_as_uncertain_as_the_number_of_items() -> None:
    low, high = counted(*["1" * 16] * 20).accuracy().ci95
    assert low == pytest.approx(0.8389, abs=1e-4)
    assert high == 1.0


def test_the_majority_vote_counts_the_most_frequent_answer() -> None:
    # Right 2:1; wrong 2:1; tied 1:1; no vote at all; only one of three votes.
    votes = counted("112", "122", "12-", "---", "1--").majority()

    assert votes is not None
    assert votes.mean == pytest.approx((1 + 0 + 0.5 + 0 + 1) / 5)


def test_an_answer_that_was_graded_differently_counts_by_its_share() -> None:
    found = RepeatedSamples(3)
    for correct in (True, False, True):
        found.add(0, correct=correct, answer="x")
    votes = found.majority()
    assert votes is not None
    assert votes.mean == pytest.approx(2 / 3)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
)
def test_united_answers_vote_as_one_in_any_order(
    samples: list[tuple[str, bool]], source: Random
) -> None:
    """The letters of each pair ab, cd and ef are equal answers."""
    classes = RepeatedSamples(len(samples))
    for letter, correct in samples:
        classes.add(0, correct=correct, answer="ace"["abcdef".index(letter) // 2])
    expected = classes.majority()

    source.shuffle(samples)
    united = RepeatedSamples(len(samples))
    for letter, correct in samples:
        united.add(0, correct=correct, answer=letter, compared=letter)
    present = {letter for letter, _ in samples}
    united.unite(0, [(one, other) for one, other in ("ab", "dc", "ef") if {one, other} <= present])

    assert expected is not None
    assert united.majority() == pytest.approx(expected)


def test_an_answer_that_equals_two_different_ones_gathers_the_votes_of_both() -> None:
    found = RepeatedSamples(5)
    for letter in "aabcc":
        found.add(0, correct=letter == "b", answer=letter, compared=letter)
    found.unite(0, [("a", "b"), ("b", "c")])
    votes = found.majority()
    assert votes is not None
    assert votes.mean == 1.0


def test_without_compared_texts_there_is_no_majority() -> None:
    assert counted("--").majority() is None


def test_pass_at_k_is_averaged_over_items() -> None:
    found = counted("122", "222", "111")
    assert found.pass_at(1).mean == pytest.approx(4 / 9)
    assert found.pass_at(2).mean == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert found.pass_at(3).mean == pytest.approx(2 / 3)
    assert found.pass_at(3).stderr == pytest.approx(stats.sem([1, 0, 1]))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=12))
def test_intervals_contain_the_mean_within_bounds(items: list[list[bool]]) -> None:
    sizes = [len(each) for each in items]
    found = bounded_mean([float(sum(each)) for each in items], sizes, sum(sizes))
    low, high = found.ci95
    assert 0.0 <= low <= found.mean <= high <= 1.0
    assert found.stderr >= 0.0


def test_no_cluster_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no mean"):
        bounded_mean([], [], 0)


@given(st.lists(st.text("12", min_size=1, max_size=6), min_size=1, max_size=8))
def test_pass_at_k_has_the_same_items_for_every_k_and_grows_with_it(items: list[str]) -> None:
    found = counted(*items)
    means = [found.pass_at(k).mean for k in range(1, found.most_samples + 1)]
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(means))
    assert means[-1] == pytest.approx(sum("1" in each for each in items) / len(items))
